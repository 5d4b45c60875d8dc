"""The two slots of one anchor. The older one is overwritten, so a crash or power cut can spoil only that one.

The file is mapped into memory: written with a system call, it makes the next commit's fsync dearer (bench/README.md).
A slot begins with its number, which is taken away first and put back last: a slot that a kill left half-written has
none, and is not read.
"""

import fcntl
import mmap
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from remit.core.errors import EnvironmentFailureError, Reason
from remit.fs.state_dir import privacy_problem, require_private

SLOT: Final = 4096
SEQ_WIDTH: Final = 20
BLANK: Final = b"\n" * (2 * SLOT)
_NO_NUMBER: Final = BLANK[:SEQ_WIDTH]


class AnchorFile:
    """An open anchor. Refuses what is not a private file of our own, and one whose content Remit did not write.

    `is_head` tells whether a slot holds a head of this anchor's tenant with the slot's number. OSError if the file
    cannot be opened or has no room on the disk.
    """

    def __init__(self, path: Path, is_head: Callable[[bytes], bool]) -> None:
        _require_plain(path, require_private(path, what="the anchor"))
        self._path = path
        self._is_head = is_head
        self._last_read: bytes | None = None
        self._descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(self._descriptor)
            _require_plain(path, found)
            self._identity = found.st_dev, found.st_ino
            self.require_sound()  # before its length is mended: a shorter file is no anchor
            # A store into a hole, on a full disk, would kill the process.
            os.posix_fallocate(self._descriptor, 0, 2 * SLOT)
            self._slots = mmap.mmap(self._descriptor, 2 * SLOT)
        except BaseException:
            os.close(self._descriptor)
            raise

    def is_at(self, path: Path) -> bool:
        """Whether the file at `path` is still this one, whole and private."""
        try:
            found = os.lstat(path)
        except OSError:
            return False
        same = (found.st_dev, found.st_ino) == self._identity and found.st_size >= 2 * SLOT
        return same and not privacy_problem(found)

    def require_sound(self) -> None:
        """Refuse to go on with garbage: the next head would overwrite the trace of whoever put it there."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            raw = os.pread(self._descriptor, 2 * SLOT, 0)
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        if (
            raw != self._last_read
            and not is_unused(raw)
            and not (self._is_head(raw[:SLOT]) or self._is_head(raw[SLOT:]))
        ):
            raise EnvironmentFailureError(
                Reason.EVIDENCE_INVALID,
                "the anchor holds no readable head of its tenant: somebody else changed it",
                where=str(self._path),
                next_step="Run `remit ledger verify`. To go on without this anchor, move it away and keep it.",
            )
        self._last_read = raw

    def record(self, seq: int, text: bytes) -> None:
        """Overwrite the older slot, unless a newer head is already there."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            slots = self._slots
            first, second = (self._number(start, seq) for start in (0, SLOT))
            if seq > max(first, second):
                start = 0 if first < second else SLOT
                body = start + SEQ_WIDTH
                slots[start:body] = _NO_NUMBER
                slots[body : start + SLOT] = (b" " + text).ljust(SLOT - SEQ_WIDTH - 1) + b"\n"
                slots[start:body] = f"{seq:0{SEQ_WIDTH}d}".encode()
            self._last_read = slots[:]
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        if not self._slots.closed:
            self._slots.close()
            os.close(self._descriptor)

    def _number(self, start: int, seq: int) -> int:
        """A slot's number. One that would keep us from writing is believed only together with its head."""
        number = slot_number(self._slots[start : start + SEQ_WIDTH])
        return number if number < seq or self._is_head(self._slots[start : start + SLOT]) else 0


def is_unused(raw: bytes) -> bool:
    """Made for a commit that a crash may have prevented: no slot was ever finished."""
    return len(raw) == 2 * SLOT and raw[:SEQ_WIDTH] == raw[SLOT : SLOT + SEQ_WIDTH] == _NO_NUMBER


def slot_number(raw: bytes) -> int:
    return int(raw) if raw.isdigit() else 0


def _require_plain(path: Path, found: os.stat_result) -> None:
    why = privacy_problem(found)
    if not stat.S_ISREG(found.st_mode):
        why = "is not a regular file"
    elif found.st_nlink != 1:
        why = "has a second name (a hard link)"
    if why:
        raise EnvironmentFailureError(
            Reason.STATE_UNSAFE,
            f"the anchor {why}",
            where=str(path),
            next_step="Find out who put it there. To go on, move it away: the next entry makes a new one.",
        )
