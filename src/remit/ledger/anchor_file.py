"""The two slots of one anchor. The older one is overwritten, so a crash or power cut can spoil only that one.

The file is mapped into memory: written with a system call, it makes the next commit's fsync dearer (bench/README.md).
A slot begins with its number, which is taken away first and put back last: a slot that a kill left half-written has
none, and is not read.
"""

import fcntl
import mmap
import os
from pathlib import Path
from typing import Final

SLOT: Final = 4096
SEQ_WIDTH: Final = 20
BLANK: Final = b"\n" * (2 * SLOT)
_NO_NUMBER: Final = BLANK[:SEQ_WIDTH]


class AnchorFile:
    """An open anchor. OSError if it cannot be opened or has no room on the disk."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            # Whatever length somebody gave it: a store beyond the end would kill the process.
            os.posix_fallocate(self._descriptor, 0, 2 * SLOT)
            self._slots = mmap.mmap(self._descriptor, 2 * SLOT)
        except BaseException:
            os.close(self._descriptor)
            raise
        found = os.fstat(self._descriptor)
        self._identity = found.st_dev, found.st_ino

    def is_at(self, path: Path) -> bool:
        """Whether the file at `path` is still this one, and whole."""
        try:
            found = os.lstat(path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity and found.st_size >= 2 * SLOT

    def record(self, seq: int, text: bytes) -> None:
        """Overwrite the older slot, unless a newer number is already there."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            slots = self._slots
            first, second = slot_number(slots[:SEQ_WIDTH]), slot_number(slots[SLOT : SLOT + SEQ_WIDTH])
            if seq > max(first, second):
                start = 0 if first < second else SLOT
                body = start + SEQ_WIDTH
                slots[start:body] = _NO_NUMBER
                slots[body : start + SLOT] = (b" " + text).ljust(SLOT - SEQ_WIDTH - 1) + b"\n"
                slots[start:body] = f"{seq:0{SEQ_WIDTH}d}".encode()
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        if not self._slots.closed:
            self._slots.close()
            os.close(self._descriptor)


def is_unused(raw: bytes) -> bool:
    """Made for a commit that a crash may have prevented: no slot was ever finished."""
    return len(raw) == 2 * SLOT and raw[:SEQ_WIDTH] == raw[SLOT : SLOT + SEQ_WIDTH] == _NO_NUMBER


def slot_number(raw: bytes) -> int:
    return int(raw) if raw.isdigit() else 0
