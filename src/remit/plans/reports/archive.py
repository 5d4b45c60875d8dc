"""`agent_outputs/archive/<run>.json`: all reports of a successful run in one file, for record keeping.

It is a copy; the reports stay where they are. It is derived and not synced. The ledger is authoritative.
"""

import contextlib
import os
from typing import Final

from remit.contracts.plans.outcome import PlanOutcome
from remit.fs.atomic_write import write_all
from remit.fs.openat import failure
from remit.plans.storage.run_folder import OUTPUTS, REPORT_MODE, make_folders

PLACE: Final = (OUTPUTS, "archive")
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def archive(root: str, outcome: PlanOutcome) -> str | None:
    """Write the archive file. Return its path below the root, or None if the run was not successful.

    Raises `EnvironmentFailureError` if it cannot be written.
    """
    if outcome.status.status != "SUCCESS":
        return None
    name = outcome.status.folder.rpartition("/")[2] + ".json"
    content = outcome.model_dump_json(by_alias=True, include={"status", "report", "change_log", "manifest"})
    folder, unsynced = make_folders(root, PLACE)
    with contextlib.ExitStack() as stack:
        for descriptor in (folder, *unsynced):
            stack.callback(os.close, descriptor)
        temporary = f".{os.urandom(8).hex()}.tmp"
        try:
            file = os.open(temporary, _NEW_FILE, REPORT_MODE, dir_fd=folder)
            try:
                write_all(file, content.encode() + b"\n")
            finally:
                os.close(file)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as problem:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise failure(problem, "/".join((*PLACE, name)), "could not be written") from None
    return "/".join((*PLACE, name))
