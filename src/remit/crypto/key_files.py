"""Key files on disk: a lock for changes, and a read that refuses files which other users could read or replace."""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from remit.core.errors import EnvironmentFailureError, Reason
from remit.fs.atomic_write import sync_directory
from remit.fs.state_dir import privacy_problem, require_private, unreadable

MAX_KEY_FILE: Final = 512 * 1024
"""Large enough for every key that a keyring may hold."""


@contextlib.contextmanager
def changing_keys(folder: Path) -> Iterator[None]:
    """Lock the key folder while inside, so that no other process changes keys.

    The operating system releases the lock with the process, so a crash leaves no lock.
    """
    require_private(folder, what="the key folder")
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def destroy_key_file(path: Path) -> None:
    if os.path.lexists(path):
        path.unlink()
        sync_directory(path.parent)


def read_private(path: Path, *, what: str) -> bytes:
    """Return the content of a private file. The checks and the read use one descriptor, so they see the same file.

    Raises EnvironmentFailureError if the file is missing, is accessible to other users, or is not a plain key file.
    """
    require_private(path, what=what)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:  # removed after the check above
        raise EnvironmentFailureError(Reason.STATE_MISSING, f"{what} is missing", where=str(path)) from None
    except OSError as problem:
        raise unreadable(what, path, problem) from None
    try:
        found = os.fstat(descriptor)
        why = privacy_problem(found) or _shape_problem(found)
        if why:
            raise EnvironmentFailureError(
                Reason.STATE_UNSAFE, f"{what} {why}", where=str(path), next_step="Find out who changed the file."
            )
        return os.read(descriptor, MAX_KEY_FILE)
    finally:
        os.close(descriptor)


def _shape_problem(found: os.stat_result) -> str:
    if not stat.S_ISREG(found.st_mode):
        return "is not a regular file"
    if found.st_nlink > 1:  # 0 is fine: another process replaced the file just now, and this is its last valid content
        return "has a second name (a hard link)"
    return "is too large to be a key file" if found.st_size > MAX_KEY_FILE else ""
