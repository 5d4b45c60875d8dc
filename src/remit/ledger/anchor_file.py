"""The file of one anchor, with two slots. A write replaces the older slot, so a crash can damage only that one.

The file is mapped into memory. A write by a system call would make the next commit's fsync slower (bench/README.md).
A slot begins with its number. A write removes the number first and sets it last. Therefore a slot that a kill left
half-written has no number, and is not read.
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
    """An open anchor. Refuses a file that is not private or not ours, and content that Remit did not write.

    `is_head` tells whether a slot holds a head of this anchor's tenant with the slot's number. Raises OSError if the
    file cannot be opened or the disk is full.
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
            self.require_sound()  # before its length is corrected: a shorter file is not an anchor
            # On a full disk, a write into a hole of the mapped file would kill the process.
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
        """Refuse content that Remit did not write. The next head would overwrite this evidence of an attack."""
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
                "the anchor holds no readable head of its tenant: another program changed it",
                where=str(self._path),
                next_step="Run `remit ledger verify`. To continue without this anchor, move it away and keep it.",
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
        """Return the number of a slot. A number that would prevent a write is accepted only with a valid head."""
        number = slot_number(self._slots[start : start + SEQ_WIDTH])
        return number if number < seq or self._is_head(self._slots[start : start + SLOT]) else 0


def is_unused(raw: bytes) -> bool:
    """Whether no slot was ever finished. The file was made for a commit that a crash may have prevented."""
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
            next_step="Find out who put it there. To continue, move it away. The next entry makes a new one.",
        )
