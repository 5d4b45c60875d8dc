"""The bytes of one open file into another, on their way to a name that nobody else has.

A duplicate grows under the task's part name, which is taken with O_EXCL, and is not given its real name before it is
whole, verified and on the disk. Works on descriptors only. Memory does not grow with the file.
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

# Not every pair of filesystems can copy inside the kernel, and a sandbox may forbid it: then through our memory.
_NO_KERNEL_COPY: Final = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})

Progress = Callable[[int, int], None]


def create_part(folder: int, part_name: str, mode: int, *, where: str) -> int:
    """A new, empty file that is certainly ours. Its mode is final at once, provided the umask is 0."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(part_name, flags, mode & 0o777, dir_fd=folder)
    except FileExistsError:
        raise RefusedError(
            Reason.FILE_CONFLICT,
            f"a file named {part_name}, which is this task's own name for unfinished bytes, is in the way",
            where=where,
            next_step="Find out who put it there, remove it, and send a new task.",
        ) from None
    except OSError as problem:
        raise failure(problem, where, "could not be created") from None


def copy_content(source: int, target: int, size: int, progress: Progress = lambda _done, _total: None) -> None:
    """The first `size` bytes; a hole stays a hole. Refuses a source that became shorter. At most some 50 reports."""
    step = max(SLICE, size // 50)
    due = step
    for at in copy_pieces(source, target, size):
        if at >= due:
            progress(at, size)
            due = at + step


def copy_pieces(source: int, target: int, size: int) -> Iterator[int]:
    """The same, piece by piece: after each one, up to where the target has its bytes.

    Goes by places in the files, not by the one that `read` goes on from: other processes may have the source as well.
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
    """`sha256:<hex>` of the whole file, holes included."""
    digest = sha256()
    offset = 0
    while chunk := os.pread(descriptor, CHUNK, offset):
        digest.update(chunk)
        offset += len(chunk)
    return "sha256:" + digest.hexdigest()


def rename_checked(
    old: tuple[int, str], new: tuple[int, str], expected: FileIdentity, *, where: str, where_new: str
) -> None:
    """Rename, provided that it is this very file. If another was put in its place, that one gets its name back.

    `RefusedError` if it did, so that nothing was touched; if its name was taken meanwhile, `EnvironmentFailureError`
    says where.
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
    """Take a rename back. A failure is never `RefusedError`: the file is left under a name that is not its own."""
    try:
        rename_noreplace(*old, *new, where=where, where_new=where_new)
    except RemitError as problem:
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            f"a file that was renamed to this could not be given its name back: {problem.what}",
            where=where,
            next_step=f"Compare it with what is at {where_new} now, and give it the name that is right.",
        ) from None


def changed(where: str) -> RefusedError:
    return RefusedError(
        Reason.FILE_CONFLICT,
        "the file is not as it was when the task was looked at: somebody else has changed or replaced it",
        where=where,
        next_step="Look at it again, and send a new task if the file shall still be acted on.",
    )


def remove_if_same(folder: int, name: str, expected: FileIdentity, *, where: str) -> bool:
    """Remove the file if the name still stands for it, durably; say whether it did."""
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
    """The digest of both, or a refusal: the source changed meanwhile, or the copy is not what was written."""
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
    """Where the file has bytes. One range for all of it where the filesystem does not tell."""
    offset = 0
    while offset < size:
        try:
            start = os.lseek(descriptor, offset, os.SEEK_DATA)
        except OSError as problem:
            if problem.errno == errno.ENXIO:  # nothing but a hole from here on
                return
            if problem.errno != errno.EINVAL:
                raise
            yield offset, size
            return
        end = min(os.lseek(descriptor, start, os.SEEK_HOLE), size)
        yield start, end
        offset = max(end, offset + 1)


def _copy_in_kernel(source: int, target: int, at: int, wanted: int) -> int:
    """How many bytes were copied; 0 where the kernel does not do it."""
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
            next_step="Find out who else writes to it, then send a new task.",
        )
    view = memoryview(chunk)
    written = 0
    while written < len(chunk):  # a full disk may take less than it was given, without an error
        written += os.pwrite(target, view[written:], at + written)
    return len(chunk)
