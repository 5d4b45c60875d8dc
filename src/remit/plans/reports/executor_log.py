"""`agent_logs/executor/<day>.jsonl`: one line of JSON for each event of a plan.

Every text in it is masked. The log is for diagnosis. A failure to write it does not stop a plan, and is reported once
to Python's own logging. Limit: lines are not synced, so the last ones may be missing after a power cut.
"""

import contextlib
import json
import logging
import os
import stat
from typing import Any, Final

from remit.core.errors import RemitError
from remit.core.ids import Clock, render_time, system_clock
from remit.fs.atomic_write import write_all
from remit.masking import mask_json
from remit.plans.storage.run_folder import make_folders

PLACE: Final = ("agent_logs", "executor")
MAX_LINE: Final = 64 << 10
# Does not wait for a FIFO and does not follow a link.
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_logger: Final = logging.getLogger("remit.reports.executor_log")


class ExecutorLog:
    """The log of one workspace."""

    def __init__(self, root: str, clock: Clock = system_clock) -> None:
        self._root = root
        self._clock = clock
        self._complained = False

    def write(self, event: str, *, level: str = "info", **fields: Any) -> None:
        """Append one line. Never raises, so that the plan continues."""
        try:
            at = render_time(self._clock())
            self._append(f"{at[:10]}.jsonl", _line({"ts": at, "level": level, "event": event, **fields}))
        except (OSError, RemitError, ValueError, TypeError) as problem:
            if not self._complained:
                self._complained = True
                _logger.warning("the executor's log could not be written", extra={"why": str(problem)})

    def _append(self, name: str, line: bytes) -> None:
        folder, unsynced = make_folders(self._root, PLACE)
        with contextlib.ExitStack() as stack:
            for descriptor in (folder, *unsynced):
                stack.callback(os.close, descriptor)
            file = os.open(name, _APPEND, 0o600, dir_fd=folder)
            stack.callback(os.close, file)
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
                raise OSError(f"{name} is not a plain file")
            write_all(file, line)


def _line(document: dict[str, Any]) -> bytes:
    """Render one line. JSON escapes newlines, and ASCII has no other character that ends a line."""
    masked = mask_json(document)
    line = json.dumps(masked, allow_nan=False)
    if len(line) > MAX_LINE:
        line = json.dumps({name: document[name] for name in ("ts", "level", "event")} | {"truncated": True})
    return line.encode("ascii") + b"\n"
