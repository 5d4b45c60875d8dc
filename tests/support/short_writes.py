"""Write half of what a stopped call wanted to write, in its place: what a disk that is nearly full may do to any write.

The supervisor borrows the caller's descriptor, so that the place in the file moves on as if the caller had written.
"""

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator
from typing import Final

from tests.support.seccomp_notify import Report, libc, read_memory, write_memory

WRITES: Final = frozenset({"write", "pwrite64", "writev", "pwritev", "copy_file_range"})

_PIDFD_GETFD: Final = 438


def can_be_halved(report: Report) -> bool:
    """Whether `write_half` has something to do. A write of one byte, as to the WAL index, is all or nothing."""
    length = {"write": 2, "pwrite64": 2, "copy_file_range": 4}.get(report.name)
    return report.name in WRITES and (length is None or report.arguments[length] > 1)


def write_half(report: Report) -> int | None:
    """How many bytes were written; None if the call cannot be cut in two, and nothing was."""
    descriptor, arguments = report.arguments[0], report.arguments
    match report.name:
        case "write" | "pwrite64":
            data = read_memory(report.thread, arguments[1], arguments[2])
        case "writev" | "pwritev":
            data = _gathered(report.thread, arguments[1], arguments[2])
        case "copy_file_range":
            return _copy_half(report)
        case _:
            return None
    half = data[: len(data) // 2]
    if not half:
        return None
    with _borrowed(report.thread, descriptor) as file:
        return os.pwrite(file, half, arguments[3]) if report.name.startswith("p") else os.write(file, half)


def _copy_half(report: Report) -> int | None:
    source, source_offset, destination, destination_offset, length, _ = report.arguments
    with _borrowed(report.thread, source) as reading, _borrowed(report.thread, destination) as writing:
        offsets = [_offset(report.thread, pointer) for pointer in (source_offset, destination_offset)]
        begin = os.lseek(reading, 0, os.SEEK_CUR) if offsets[0] is None else offsets[0]
        half = min(length, os.fstat(reading).st_size - begin) // 2
        if half <= 0:
            return None
        try:
            copied = os.copy_file_range(reading, writing, half, offsets[0], offsets[1])
        except OSError:  # not between these two: the caller will find out by itself
            return None
        for pointer, offset in zip((source_offset, destination_offset), offsets, strict=True):
            if offset is not None:
                write_memory(report.thread, pointer, struct.pack("=q", offset + copied))
        return copied


def _offset(thread: int, pointer: int) -> int | None:
    return struct.unpack("=q", read_memory(thread, pointer, 8))[0] if pointer else None


def _gathered(thread: int, vector: int, count: int) -> bytes:
    raw = read_memory(thread, vector, 16 * count)
    return b"".join(read_memory(thread, base, length) for base, length in struct.iter_unpack("=QQ", raw))


@contextlib.contextmanager
def _borrowed(thread: int, descriptor: int) -> Iterator[int]:
    """The caller's own open file, shared, place and all."""
    process = os.pidfd_open(_process_of(thread))
    try:
        borrowed: int = libc.syscall(_PIDFD_GETFD, process, descriptor & 0xFFFFFFFF, 0)
        if borrowed < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
    finally:
        os.close(process)
    try:
        yield borrowed
    finally:
        os.close(borrowed)


def _process_of(thread: int) -> int:
    with open(f"/proc/{thread}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("Tgid:"))
