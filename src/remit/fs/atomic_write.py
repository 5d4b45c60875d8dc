"""Durable, atomic writes of Remit's own files: write, fsync, rename, and fsync of the directory.

After `write_durably` returns, the file holds the new bytes even after a power cut. If it raises or the machine dies
inside it, the file holds either all old bytes (or does not exist) or all new bytes. Only a crash of the machine can
leave a `.tmp` file. `write_together` in `overlapped.py` does the same for several files, at about the cost of one.

The sandboxed process loads this module too, so it imports only the standard library and two modules of `remit.core`.
"""

import contextlib
import ctypes
import errno
import os
from typing import TYPE_CHECKING, Final

from remit.core.errors import EnvironmentFailureError, Reason
from remit.core.faultpoints import reach

if TYPE_CHECKING:  # each fork of the sandbox pays for what is loaded there
    from pathlib import Path

PRIVATE_FILE: Final = 0o600
PRIVATE_DIRECTORY: Final = 0o700
_AT_FDCWD: Final = -100
_RENAME_NOREPLACE: Final = 1
_SYNC_FILE_RANGE_WRITE: Final = 2
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_libc: Final = ctypes.CDLL(None, use_errno=True)
_sync_file_range: Final = getattr(_libc, "sync_file_range", None)
if _sync_file_range is not None:
    _sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]


def write_durably(path: "Path", data: bytes, *, mode: int = PRIVATE_FILE, replace: bool = True) -> None:
    """Write these bytes to `path` atomically, with this mode. With `replace=False`, refuse an existing file."""
    temporary = path.with_name(temporary_name(path.name))
    try:
        descriptor = new_file(temporary, mode)
        try:
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


def new_file(path: "Path | str", mode: int, folder: int | None = None) -> int:
    """Create an empty file with this mode, whatever the umask is, and return it open. Raises OSError."""
    descriptor = os.open(path, _NEW_FILE, mode, dir_fd=folder)
    try:
        os.fchmod(descriptor, mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def start_writing(descriptor: int) -> None:
    """Ask the kernel to start writing this file to the disk, so that a later fsync is quicker. Guarantees nothing."""
    if _sync_file_range is not None:
        _sync_file_range(descriptor, 0, 0, _SYNC_FILE_RANGE_WRITE)  # the result is ignored: fsync reports any error


def temporary_name(name: str) -> str:
    return f".{name}.{os.urandom(8).hex()}.tmp"


def _rename_if_free(old: "Path", new: "Path") -> None:
    """Rename a file, and fail if the new name exists, even if another process makes it at the same moment.

    It is one step, so that a crash leaves one name of the file and never two. A system without such a call makes a link
    and then removes the old name.
    """
    renameat2 = getattr(_libc, "renameat2", None)
    if renameat2 is not None:
        if renameat2(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), _RENAME_NOREPLACE) == 0:
            return
        number = ctypes.get_errno()
        if number not in {errno.EINVAL, errno.ENOSYS}:
            raise OSError(number, os.strerror(number), str(new))
    os.link(old, new)
    os.unlink(old)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes. One `os.write` may write fewer, for example on a full disk, without an error."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(path: "Path") -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private_directory(path: "Path") -> None:
    """Create `path` and its missing parents with mode 0700, each one durable in its parent."""
    missing = []
    current = path
    try:
        while not current.exists():
            missing.append(current)
            current = current.parent
        for directory in reversed(missing):
            with contextlib.suppress(FileExistsError):  # another process made it first, which is as good
                directory.mkdir(mode=PRIVATE_DIRECTORY)
            sync_directory(directory.parent)
    except OSError as problem:
        raise disk_failure(problem, path) from problem


_CHECK_FOLDER: Final = "Check that this folder exists and that you may write there; REMIT_STATE can name another place."


def disk_failure(problem: OSError, path: "Path | str", advice: str = _CHECK_FOLDER) -> EnvironmentFailureError:
    """Return the error for a failed write. `advice` is used unless the disk is full."""
    full = problem.errno in {errno.ENOSPC, errno.EDQUOT}
    why = "the disk, or a quota on it, is full" if full else os.strerror(problem.errno) if problem.errno else problem
    return EnvironmentFailureError(
        Reason.DISK_FULL if full else Reason.STATE_UNSAFE,
        f"could not write a file: {why}",
        where=str(path),
        next_step="Free some space and try again." if full else advice,
    )
