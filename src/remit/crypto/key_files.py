"""Key files on disk: who may change them, and reading what nobody else could have read or planted."""

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
"""Room for every key that a ring may hold."""


@contextlib.contextmanager
def changing_keys(folder: Path) -> Iterator[None]:
    """Nobody else changes keys meanwhile. The lock goes away with its holder, so a crash leaves none behind."""
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
    """Read through one descriptor: what was checked is what is read."""
    require_private(path, what=what)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:  # since the line above
        raise EnvironmentFailureError(Reason.STATE_MISSING, f"{what} is missing", where=str(path)) from None
    except OSError as problem:
        raise unreadable(what, path, problem) from None
    try:
        found = os.fstat(descriptor)
        why = privacy_problem(found) or _shape_problem(found)
        if why:
            raise EnvironmentFailureError(
                Reason.STATE_UNSAFE, f"{what} {why}", where=str(path), next_step="Find out who changed it."
            )
        return os.read(descriptor, MAX_KEY_FILE)
    finally:
        os.close(descriptor)


def _shape_problem(found: os.stat_result) -> str:
    if not stat.S_ISREG(found.st_mode):
        return "is not a regular file"
    if found.st_nlink > 1:  # none at all: it was replaced this instant, and is what we would have read a moment ago
        return "has a second name (a hard link)"
    return "is too large to be a key file" if found.st_size > MAX_KEY_FILE else ""
