"""Copies the bytes of one open file into another, and renames, removes and syncs files safely.

A copy is written under the task's part name, which is created with O_EXCL. It gets its real name when it is complete,
verified and on the disk. Works on descriptors only. Memory does not grow with the file.
"""

import errno
import os
from collections.abc import Callable, Iterator
from typing import Final

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.fs.openat import FileIdentity, failure, identify, inspect_file, peek, rename_noreplace

try:  # the one function: the module around it loads others, which every fork pays for
    from _hashlib import openssl_sha256 as sha256
except ImportError:  # a Python without OpenSSL
    from hashlib import sha256

CHUNK: Final = 1 << 20
SLICE: Final = 8 << 20

# Not every pair of filesystems can copy inside the kernel, and a sandbox may forbid it. Then the copy uses our memory.
_NO_KERNEL_COPY: Final = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})

Progress = Callable[[int, int], None]


def create_part(folder: int, part_name: str, mode: int, *, where: str) -> int:
    """Create a new, empty file that certainly belongs to this task. Its mode is final at once, if the umask is 0."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(part_name, flags, mode & 0o777, dir_fd=folder)
    except FileExistsError:
        raise RefusedError(
            Reason.FILE_CONFLICT,
            f"a file named {part_name} exists already, and the task needs this name for its unfinished bytes",
            where=where,
            next_step="Find out which program created it, remove it, and send a new task.",
        ) from None
    except OSError as problem:
        raise failure(problem, where, "could not be created") from None


def copy_content(source: int, target: int, size: int, progress: Progress = lambda _done, _total: None) -> None:
    """Copy the first `size` bytes. A hole stays a hole. Refuses a source that became shorter.

    Reports progress about 50 times at most.
    """
    step = max(SLICE, size // 50)
    due = step
    for at in copy_pieces(source, target, size):
        if at >= due:
            progress(at, size)
            due = at + step


def copy_pieces(source: int, target: int, size: int) -> Iterator[int]:
    """Copy like `copy_content`, and yield after each piece the offset up to which the target is complete.

    Uses explicit offsets and not the shared file offset, because other processes may have the source open as well.
    """
    os.ftruncate(target, size)
    in_kernel = True
    for start, end in _data_ranges(source, size):
        at = start
        while at < end:
            wanted = min(SLICE, end - at)
            copied = _copy_in_kernel(source, target, at, wanted) if in_kernel else 0
            if copied == 0:
                in_kernel = False
                copied = _copy_through_memory(source, target, at, min(CHUNK, wanted))
            at += copied
            yield at


def sha256_of(descriptor: int) -> str:
    """Return `sha256:<hex>` of the whole file, holes included."""
    digest = sha256()
    offset = 0
    while chunk := os.pread(descriptor, CHUNK, offset):
        digest.update(chunk)
        offset += len(chunk)
    return "sha256:" + digest.hexdigest()


def rename_checked(
    old: tuple[int, str], new: tuple[int, str], expected: FileIdentity, *, where: str, where_new: str
) -> None:
    """Rename the file if it is the expected one. If another file is in its place, that file gets its name again.

    Raises `RefusedError` if the other file got its name again, so that nothing is changed. If that name is in use by
    then, `EnvironmentFailureError` says where the file is.
    """
    rename_noreplace(*old, *new, where=where, where_new=where_new)
    try:
        found = inspect_file(*new, where=where_new)
    except RemitError:
        found = None
    if found is not None and found.has_content_of(expected) and found.mode == expected.mode:
        return
    restore_name(new, old, where=where_new, where_new=where)
    raise changed(where)


def restore_name(old: tuple[int, str], new: tuple[int, str], *, where: str, where_new: str) -> None:
    """Undo a rename. A failure is never `RefusedError`, because it leaves the file under a name that is not its own."""
    try:
        rename_noreplace(*old, *new, where=where, where_new=where_new)
    except RemitError as problem:
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            f"Remit renamed a file to this name and could not undo the rename: {problem.what}",
            where=where,
            next_step=f"Compare the file with the one at {where_new}, and rename it to the right name.",
        ) from None


def changed(where: str) -> RefusedError:
    return RefusedError(
        Reason.FILE_CONFLICT,
        "another program has changed or replaced the file since the task was checked",
        where=where,
        next_step="Look at the file, and send a new task if it is still wanted.",
    )


def remove_if_same(folder: int, name: str, expected: FileIdentity, *, where: str) -> bool:
    """Remove the file durably if the name still belongs to it. Return whether it was removed."""
    found = peek(folder, name, where=where)
    if found is None or not found.is_file(expected):
        return False
    try:
        os.unlink(name, dir_fd=folder)
    except OSError as problem:
        raise failure(problem, where, "could not be removed") from None
    sync(folder, where=where)
    return True


def sync(descriptor: int, *, where: str) -> None:
    try:
        os.fsync(descriptor)
    except OSError as problem:
        raise failure(problem, where, "could not be written to the disk for good") from None


def require_equal(source: int, target: int, before: FileIdentity, *, where: str) -> str:
    """Return the digest of both files. Raise if the source has changed meanwhile or the copy has other bytes."""
    wanted = sha256_of(source)
    if identify(source) != before:
        raise changed(where)
    if sha256_of(target) != wanted:
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            "the copy does not have the bytes of its source",
            where=where,
            next_step="Check the disk and the memory of this machine.",
        )
    return wanted


def _data_ranges(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """The ranges of the file that hold data. One range for all of it where the filesystem does not report holes."""
    offset = 0
    while offset < size:
        try:
            start = os.lseek(descriptor, offset, os.SEEK_DATA)
        except OSError as problem:
            if problem.errno == errno.ENXIO:  # only a hole from here on
                return
            if problem.errno != errno.EINVAL:
                raise
            yield offset, size
            return
        end = min(os.lseek(descriptor, start, os.SEEK_HOLE), size)
        yield start, end
        offset = max(end, offset + 1)


def _copy_in_kernel(source: int, target: int, at: int, wanted: int) -> int:
    """Return how many bytes were copied, and 0 where the kernel cannot copy."""
    try:
        return os.copy_file_range(source, target, wanted, at, at)
    except OSError as problem:
        if problem.errno in _NO_KERNEL_COPY:
            return 0
        raise


def _copy_through_memory(source: int, target: int, at: int, wanted: int) -> int:
    chunk = os.pread(source, wanted, at)
    if not chunk:
        raise RefusedError(
            Reason.FILE_CONFLICT,
            "the file became shorter while it was being copied",
            next_step="Find out which program writes to it, then send a new task.",
        )
    view = memoryview(chunk)
    written = 0
    while written < len(chunk):  # a full disk may accept fewer bytes without an error
        written += os.pwrite(target, view[written:], at + written)
    return len(chunk)
