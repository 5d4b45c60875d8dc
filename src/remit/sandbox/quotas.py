"""Measures the resources of a running process from the kernel's data, and compares them with the quotas.

Bytes are the larger of two counts: `rchar` and `wchar` include all system calls, and `read_bytes` and `write_bytes`
include all traffic to a disk. Limit: between two checks a process can exceed a quota by the amount that it moves in
that time. Neither count includes mapped files, so the sandbox does not allow them.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from remit.core.errors import Reason
from remit.sandbox.orders import Quotas, Usage

FIRST_CHECK_SECONDS: Final = 0.010
FAR_SECONDS: Final = 0.020
NEAR_SECONDS: Final = 0.005
"""The time between two checks: far from every quota, and past half of one."""

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_LONGEST: Final = 4_096
_NOTHING: Final = b"0 "


@dataclass(frozen=True, slots=True)
class Breach:
    """The quota that was exceeded, as a message."""

    what: str
    next_step: str
    reason: Reason = Reason.RESOURCE_EXHAUSTED


def decide_breach(quotas: Quotas, used: Usage) -> Breach | None:
    """Return the first quota that is exceeded, or None. Pure."""
    if used.seconds > quotas.seconds:
        return Breach(f"the task took longer than {quotas.seconds:g} seconds", _raise("timeouts.file_operation"))
    if used.memory_bytes > quotas.memory_bytes:
        return memory_breach(quotas)
    if used.read_bytes > quotas.read_bytes:
        return Breach(f"the task read more than {quotas.read_bytes:,} bytes", _raise("limits.max_io_bytes"))
    if used.write_bytes > quotas.write_bytes:
        return write_breach(quotas)
    if quotas.threads is not None and used.threads > quotas.threads:
        return Breach(f"the task had more than {quotas.threads:,} threads at a time", "Start fewer threads.")
    return None


def memory_breach(quotas: Quotas) -> Breach:
    return Breach(
        f"the task needed more than {quotas.memory_bytes:,} bytes of memory", _raise("limits.max_memory_bytes")
    )


def time_breach(seconds: float) -> Breach:
    """Return the breach of the time limit that the order itself has."""
    return Breach(
        f"it took longer than {seconds:g} seconds in all",
        "Reduce the work, or raise the time limit: `timeout_seconds` of the plan, or timeouts.task in remit.yaml.",
        Reason.TIMED_OUT,
    )


def write_breach(quotas: Quotas) -> Breach:
    return Breach(f"the task wrote more than {quotas.write_bytes:,} bytes", _raise("limits.max_io_bytes"))


def next_check(quotas: Quotas, used: Usage) -> float:
    """Return the seconds until the next check, at most until the time limit. Pure."""
    shares = (
        used.memory_bytes / max(quotas.memory_bytes, 1),
        used.read_bytes / max(quotas.read_bytes, 1),
        used.write_bytes / max(quotas.write_bytes, 1),
    )
    pause = NEAR_SECONDS if max(shares) > 0.5 else FAR_SECONDS
    return min(pause, max(quotas.seconds - used.seconds, 0.0) + 0.001)


def _raise(setting: str) -> str:
    return f"Reduce the work, or raise {setting} in remit.yaml."


def _find_thread_statm(tasks: int) -> bytes:
    """Return `statm` of a thread that still has the memory. For a first thread that has ended, the kernel shows none.

    The result is empty if no thread has it. `tasks` is the open folder of the process's threads.
    """
    for thread in os.listdir(tasks):
        with suppress(OSError):  # this thread has ended
            file = os.open(f"{thread}/statm", os.O_RDONLY | os.O_CLOEXEC, dir_fd=tasks)
            try:
                statm = os.pread(file, _LONGEST, 0)
            finally:
                os.close(file)
            if not statm.startswith(_NOTHING):
                return statm
    return b""


class WatchError(Exception):
    """Raised if the kernel does not show the resources of a process, so that no quota can be enforced."""


class Meter:
    """Measures one process. `resident` is the memory that it shared with the zygote at its start.

    The descriptors belong to the process itself, so its id may be reused. The caller makes sure that it was alive after
    the first measurement. The descriptors are added to `descriptors`, which the owner of the process closes.
    """

    def __init__(self, pid: int, resident: int, descriptors: list[int], *, counts_threads: bool = False) -> None:
        self._paths = [f"/proc/{pid}/io", f"/proc/{pid}/statm", *([f"/proc/{pid}/task"] if counts_threads else ())]
        self._most_threads = 1
        self._resident = resident
        self._descriptors = descriptors
        self._opened = False
        self._peak = 0
        self._last = (0, 0)

    def open(self) -> None:
        """Open the files before the first measurement, to save time. A failure is tried again at that measurement."""
        with suppress(OSError):
            self._open()

    def read(self, seconds: float) -> Usage:
        """Return the present usage, or for a dead process the last one that was seen."""
        try:
            if not self._opened:
                self._open()
            one, two, *tasks = self._descriptors[-len(self._paths) :]
            io, statm = os.pread(one, _LONGEST, 0), os.pread(two, _LONGEST, 0)
            for task in tasks:  # a folder with one folder for each thread
                self._most_threads = max(self._most_threads, os.fstat(task).st_nlink - 2)
                if statm.startswith(_NOTHING):
                    statm = _find_thread_statm(task)
        except (FileNotFoundError, ProcessLookupError):
            return self.last(seconds)
        except OSError as problem:
            raise WatchError(f"{self._paths[0]}: {problem.strerror}") from None
        if io:
            self._last = parse_io(io)
        if statm:
            self._peak = max(self._peak, int(statm.split()[1]) * _PAGE - self._resident)
        return self.last(seconds)

    def _open(self) -> None:
        # One call in C, so that no interrupt can come between the open and the list.
        self._descriptors.extend(map(os.open, self._paths, repeat(os.O_RDONLY | os.O_CLOEXEC)))
        self._opened = True

    def last(self, seconds: float) -> Usage:
        return Usage(seconds, self._peak, self._last[0], self._last[1], self._most_threads)


def parse_io(text: bytes) -> tuple[int, int]:
    """Return the bytes read and written, from the text of /proc/<pid>/io."""
    numbers = dict(line.split(b": ") for line in text.splitlines())
    count = {name: int(number) for name, number in numbers.items()}
    return max(count[b"rchar"], count[b"read_bytes"]), max(count[b"wchar"], count[b"write_bytes"])
