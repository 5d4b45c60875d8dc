"""Before-images of rows of a database on a server: one file among the backups of a run.

It holds the rows before and after the change, so it is as private as any backup. Its content is used only if it has the
hash that the ledger recorded.
"""

import os
from contextlib import suppress
from typing import Final

from remit.contracts.plans.rollback import RowsCheckpoint
from remit.core.errors import EnvironmentFailureError, Reason
from remit.core.faultpoints import reach
from remit.effects.file_copy import sha256_of
from remit.effects.plans.steps import State
from remit.fs.atomic_write import write_all
from remit.fs.openat import failure
from remit.plans.storage.backups import verified_backup
from remit.plans.storage.run_folder import BACKUPS, ReportFolder

NAME: Final = "rows.bak"

_CHUNK: Final = 1 << 20
_NEW_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def back_up_rows(folder: ReportFolder, source: int, expected: State) -> str:
    """Copy the file durably, and return its location relative to the root. Raises if the copy has another hash.

    Replaces the copy of an attempt whose process was killed. Nothing refers to that one: a reference is noted later.
    """
    where = folder.location(f"{BACKUPS}/{NAME}")
    try:
        with suppress(FileNotFoundError):
            os.unlink(NAME, dir_fd=folder.backups)
        copy = os.open(NAME, _NEW_FILE, 0o600, dir_fd=folder.backups)
    except OSError as problem:
        raise failure(problem, where, "could not be created") from None
    try:
        offset = 0
        while offset < expected.size and (chunk := os.pread(source, min(_CHUNK, expected.size - offset), offset)):
            write_all(copy, chunk)
            offset += len(chunk)
        os.fsync(copy)
        os.fsync(folder.backups)
        digest = sha256_of(copy)
    except OSError as problem:
        raise failure(problem, where, "could not be written to the disk for good") from None
    finally:
        os.close(copy)
    if digest != expected.sha256:
        raise EnvironmentFailureError(
            Reason.HASH_MISMATCH,
            "the stored before-images of rows differ from those that were read",
            where=where,
            next_step="Nothing was changed. Check the disk, then approve the plan again.",
        )
    reach("elsewhere.rows_kept")
    return where


def open_rows(folder: ReportFolder, rows: RowsCheckpoint) -> int:
    """Open the before-images and verify their hash. The caller closes the descriptor."""
    return verified_backup(folder, rows)
