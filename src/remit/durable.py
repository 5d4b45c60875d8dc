"""Write, fsync, rename, fsync the directory: the one way a file of Remit's own comes into being.

After `write_durably` returns, the file holds the new bytes even after a power cut. If it raises or the machine dies
inside it, the file holds either the old bytes (or does not exist) or the new ones, whole; only a machine that dies can
leave a `.tmp` file behind.
"""

import contextlib
import ctypes
import errno
import os
import secrets
from pathlib import Path
from typing import Final

from remit.errors import EnvironmentFailed, Reason
from remit.faultpoints import reach

PRIVATE_FILE: Final = 0o600
PRIVATE_DIRECTORY: Final = 0o700
_AT_FDCWD: Final = -100
_RENAME_NOREPLACE: Final = 1


def write_durably(path: Path, data: bytes, *, mode: int = PRIVATE_FILE, replace: bool = True) -> None:
    """Atomically give `path` these bytes and this mode. With `replace=False` an existing file is refused."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(temporary, flags, mode)
        try:
            os.fchmod(descriptor, mode)
            write_all(descriptor, data)
            reach("durable.written")
            os.fsync(descriptor)
            reach("durable.synced")
        finally:
            os.close(descriptor)
        if replace:
            os.replace(temporary, path)
        else:
            _rename_if_free(temporary, path)
        reach("durable.renamed")
        sync_directory(path.parent)
        reach("durable.directory_synced")
    except OSError as problem:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise disk_failure(problem, path) from problem


def _rename_if_free(old: Path, new: Path) -> None:
    """A rename that fails when the name is taken, also when it is taken this instant; in one step, so that a crash
    leaves one name of the file and never two. Where the system has no such call: a link, then its old name removed.
    """
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is not None:
        if renameat2(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), _RENAME_NOREPLACE) == 0:
            return
        number = ctypes.get_errno()
        if number not in {errno.EINVAL, errno.ENOSYS}:
            raise OSError(number, os.strerror(number), str(new))
    os.link(old, new)
    os.unlink(old)


def write_all(descriptor: int, data: bytes) -> None:
    """`os.write` may write less than asked on a full disk without an error: go on until it is all there."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private_directory(path: Path) -> None:
    """Create `path` and its missing parents with mode 0700, each one durable in its parent."""
    missing = []
    current = path
    try:
        while not current.exists():
            missing.append(current)
            current = current.parent
        for directory in reversed(missing):
            with contextlib.suppress(FileExistsError):  # somebody else was faster: just as good
                directory.mkdir(mode=PRIVATE_DIRECTORY)
            sync_directory(directory.parent)
    except OSError as problem:
        raise disk_failure(problem, path) from problem


def disk_failure(problem: OSError, path: Path) -> EnvironmentFailed:
    full = problem.errno in {errno.ENOSPC, errno.EDQUOT}
    elsewhere = "Check that this folder exists and that you may write there; REMIT_STATE can name another place."
    advice = "Free some space and try again." if full else elsewhere
    return EnvironmentFailed(
        Reason.DISK_FULL if full else Reason.STATE_UNSAFE,
        f"could not write a file: {os.strerror(problem.errno) if problem.errno else problem}",
        where=str(path),
        next_step=advice,
    )
