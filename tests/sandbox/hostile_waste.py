"""Attempts to use up the machine, and breaches of a quota whose moment is told to the test.

A breach is told by a note with the time of the machine's monotonic clock, which all its processes share.
"""

import contextlib
import ctypes
import mmap
import os
import resource
import signal
import time
from collections.abc import Callable
from typing import Any, Final

from remit.effects.context import EffectContext

MIB: Final = 1024 * 1024


def _make(work: EffectContext, name: str) -> int:
    return os.open(name, os.O_RDWR | os.O_CREAT, 0o600, dir_fd=work.spots["target"].folder)


def _print(work: EffectContext) -> dict[str, Any]:
    """Text on both outputs, as much as asked for or as they take."""
    written = 0
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            while written < work.inputs["bytes"]:
                written += os.write(descriptor, b"free text\n" * 100)
    return {"written": written}


def _open_many(work: EffectContext) -> dict[str, Any]:
    opened = 0
    try:
        while opened < work.inputs["count"]:
            os.dup(0)
            opened += 1
    except OSError as problem:
        return {"opened": opened, "errno": problem.errno}
    return {"opened": opened}


def _make_files(work: EffectContext) -> dict[str, Any]:
    for number in range(work.inputs["count"]):
        os.close(_make(work, f"file-{number}"))
    return {"made": work.inputs["count"]}


def _allocate(work: EffectContext) -> dict[str, Any]:
    """All at once, or piece by piece until it is refused; then every page is written."""
    held = []
    for _ in range(work.inputs["count"]):
        piece = bytearray(work.inputs["bytes"])
        piece[:: mmap.PAGESIZE] = b"x" * len(range(0, len(piece), mmap.PAGESIZE))
        held.append(piece)
    return {"held": sum(len(piece) for piece in held)}


def _insist(work: EffectContext) -> dict[str, Any]:
    """Take every "no memory" for an invitation to try again."""
    held: list[mmap.mmap] = []
    while True:
        with contextlib.suppress(OSError, MemoryError):
            held.append(mmap.mmap(-1, MIB))
            held[-1].write(b"x" * MIB)


def _write_files(work: EffectContext) -> dict[str, Any]:
    """So many files of so many bytes, in a way that may not look like writing."""
    size, way = work.inputs["bytes"], work.inputs["way"]
    for number in range(work.inputs["count"]):
        file = _make(work, f"file-{number}")
        _FILLING[way](work, file, size)
        os.close(file)
    return {"made": work.inputs["count"]}


def _fill_plainly(_work: EffectContext, file: int, size: int) -> None:
    for _ in range(size // MIB):
        os.write(file, b"x" * MIB)


def _fill_far(_work: EffectContext, file: int, size: int) -> None:
    os.pwrite(file, b"x", size - 1)


def _fill_by_length(_work: EffectContext, file: int, size: int) -> None:
    os.ftruncate(file, size)


def _fill_by_reserving(_work: EffectContext, file: int, size: int) -> None:
    os.posix_fallocate(file, 0, size)


def _fill_by_mapping(_work: EffectContext, file: int, size: int) -> None:
    os.ftruncate(file, size)
    with mmap.mmap(file, size) as view:
        for start in range(0, size, mmap.PAGESIZE):
            view[start] = 120


def _fill_by_copying(work: EffectContext, file: int, size: int) -> None:
    source = os.open(work.spots["source"].name, os.O_RDONLY, dir_fd=work.spots["source"].folder)
    while size > 0:
        size -= os.copy_file_range(source, file, size, offset_src=0)
    os.close(source)


def _fill_by_sending(work: EffectContext, file: int, size: int) -> None:
    source = os.open(work.spots["source"].name, os.O_RDONLY, dir_fd=work.spots["source"].folder)
    while size > 0:
        size -= os.sendfile(file, source, 0, size)
    os.close(source)


def _fill_through_a_pipe(work: EffectContext, file: int, size: int) -> None:
    source = os.open(work.spots["source"].name, os.O_RDONLY, dir_fd=work.spots["source"].folder)
    out, into = os.pipe()
    while size > 0:
        moved = os.splice(source, into, 65536, offset_src=0)
        size -= os.splice(out, file, moved)


_FILLING: Final[dict[str, Callable[[EffectContext, int, int], None]]] = {
    "writing": _fill_plainly,
    "one far byte": _fill_far,
    "length": _fill_by_length,
    "reserving": _fill_by_reserving,
    "mapping": _fill_by_mapping,
    "copying": _fill_by_copying,
    "sending": _fill_by_sending,
    "pipe": _fill_through_a_pipe,
}


def _ignore_everything() -> None:
    for number in range(1, signal.NSIG):
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)


def _stay(work: EffectContext) -> dict[str, Any]:
    """For ever: asleep, or at work in Python, or at work outside of it with every signal ignored."""
    if work.inputs["how"] == "asleep":
        while True:
            time.sleep(3600)
    if work.inputs["how"] == "deaf":
        _ignore_everything()
    if work.inputs["how"] == "blocked":
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, signal.NSIG))
    while True:
        pass


class _Tally:
    """How much was used, in a file that outlives this process: what a quota let through is known to the byte."""

    def __init__(self, work: EffectContext) -> None:
        self._work, self._file, self._told = work, work.given["tally"], False
        self._quota: int = work.inputs["quota"]

    def says(self, used: int) -> None:
        os.pwrite(self._file, used.to_bytes(8, "big"), 0)
        if used > self._quota:
            self.tell()

    def tell(self) -> None:
        """The moment of the breach, once."""
        if not self._told:
            self._told = True
            self._work.note({"breach": time.monotonic()})


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _breach_memory(work: EffectContext) -> dict[str, Any]:
    """Grow in small steps until there is no more to be had."""
    held, tally, before = [], _Tally(work), _resident()
    try:
        while True:
            held.append(b"x" * (MIB // 4))
            tally.says(max(_resident() - before, 0))
    except MemoryError:
        del held[-4:]
        tally.tell()
        raise


def _breach_read(work: EffectContext) -> dict[str, Any]:
    spot, tally = work.spots["source"], _Tally(work)
    file, done = os.open(spot.name, os.O_RDONLY, dir_fd=spot.folder), 0
    while True:
        done += len(os.pread(file, MIB // 4, 0))
        tally.says(done)


def _read_at_one_go(work: EffectContext) -> dict[str, Any]:
    """A gigabyte in one call: the kernel counts its bytes when it is over."""
    spot, total = work.spots["source"], 1024 * MIB
    source = os.open(spot.name, os.O_RDONLY, dir_fd=spot.folder)
    match work.inputs["way"]:
        case "into the same memory":
            return {"read": os.readv(source, [bytearray(2 * MIB)] * 512)}
        case "into much memory":
            return {"read": len(os.pread(source, total, 0))}
        case _:
            target = _make(work, work.spots["target"].name)
            return {"read": os.copy_file_range(source, target, total, offset_src=0, offset_dst=0)}


def _breach_write(work: EffectContext) -> dict[str, Any]:
    """The same place again and again: the file stays small, so no limit on its size helps."""
    file, piece, tally, done = _make(work, work.spots["target"].name), b"x" * (MIB // 4), _Tally(work), 0
    while True:
        done += os.pwrite(file, piece, 0)
        tally.says(done)


def _die(work: EffectContext) -> dict[str, Any]:
    """By a bug of the worst kind."""
    ctypes.string_at(0)
    return {}


WASTE_ATTEMPTS: Final[dict[str, Callable[[EffectContext], dict[str, Any]]]] = {
    "print": _print,
    "open_many": _open_many,
    "make_files": _make_files,
    "allocate": _allocate,
    "insist": _insist,
    "write_files": _write_files,
    "stay": _stay,
    "die": _die,
    "breach_memory": _breach_memory,
    "breach_read": _breach_read,
    "breach_write": _breach_write,
    "breach_time": _stay,
    "read_at_one_go": _read_at_one_go,
}
