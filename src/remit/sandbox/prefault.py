"""Copies the memory pages that every child writes to, with one call at the start and not with a page fault for each.

A fork shares memory until it is written to, and every task writes to the same few hundred pages. The zygote finds those
pages with a first child that runs a test order. A fault costs three microseconds, and most faults would come while a
caller waits for the task. With one call, before there is an order, a page costs half of that. This only saves time: a
kernel without the call (before 6.13) works as well. Standard library only.
"""

import ctypes
import os
from typing import Final

from remit.core.syscalls import number_of, prepared

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_POPULATE_WRITE: Final = 23
_MOST_RANGES: Final = 1_024
"""IOV_MAX."""
# In /proc/<pid>/pagemap: the page is present, and no other process maps it.
_PRIVATE: Final = 1 << 63 | 1 << 56

Range = tuple[int, int]


def find_private_pages(pid: int) -> list[Range]:
    """Return address and length of the writable memory that the process shares with no other. Raises OSError."""
    found: list[Range] = []
    with open(f"/proc/{pid}/maps", "rb") as maps, open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        for line in maps:
            addresses, rights, _ = line.split(None, 2)
            if rights == b"rw-p":
                first, end = (int(address, 16) // _PAGE for address in addresses.split(b"-"))
                entries = memoryview(os.pread(pagemap.fileno(), (end - first) * 8, first * 8)).cast("Q")
                found += join_pages(
                    [first + place for place, entry in enumerate(entries) if entry & _PRIVATE == _PRIVATE]
                )
    return found


def join_pages(numbers: list[int]) -> list[Range]:
    """Return page numbers in rising order as ranges of addresses. Pure."""
    ranges: list[Range] = []
    for number in numbers:
        address = number * _PAGE
        if ranges and sum(ranges[-1]) == address:
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + _PAGE)
        else:
            ranges.append((address, _PAGE))
    return ranges


class HotPages:
    """The pages to copy in each child. Prepared once in the zygote."""

    def __init__(self, ranges: list[Range]) -> None:
        numbers = [number for one in ranges[:_MOST_RANGES] for number in one]
        self._count = len(numbers) // 2
        self._ranges = (ctypes.c_uint64 * len(numbers))(*numbers)  # an array of `struct iovec`
        self._address = ctypes.addressof(self._ranges)
        self._call = prepared(ctypes.c_long, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_long, ctypes.c_ulong)
        self._number = number_of("process_madvise") or 0

    def copy_pages(self) -> bool:
        """Copy the pages for the calling process. Returns whether the kernel did it."""
        this = os.pidfd_open(os.getpid())
        done: int = self._call(self._number, this, self._address, self._count, _POPULATE_WRITE, 0)
        os.close(this)
        return done > 0
