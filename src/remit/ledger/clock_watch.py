"""Notices that this machine's clock was set, by comparing it with the time since boot.

The time since boot cannot be set, and it continues in suspend. The pair of both times is kept in memory, and in a small
file of the state directory for the next process. The file is a hint and not evidence: it is written without a sync. A
file that cannot be read, or that an earlier boot wrote, is ignored. Limit: a clock that was wrong when the machine
booted is not noticed, and neither is a slow drift.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

from remit.core.ids import CLOCK_TOLERANCE, Clock, parse_time, render_time, system_clock
from remit.ledger.clock import Jump

Steady = Callable[[], float]
"""Returns the seconds since some moment, by a clock that no program can set."""

SAVE_EVERY: Final = 60.0
"""Seconds between two writes of the file, which is for later processes."""
MOST_BYTES: Final = 512
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class ClockPair(NamedTuple):
    """One moment by the clock and by the steady clock."""

    shown: str
    steady: float


class ClockReading(NamedTuple):
    """The current pair, and the jump since the previous pair, if there was one."""

    pair: ClockPair
    jump: Jump | None


class ClockWatch:
    """Watches the clock in one process. Without a steady clock (`steady` is None) it notices nothing."""

    def __init__(self, clock: Clock, steady: Steady | None, file: Path | None = None) -> None:
        self._clock = clock
        self._steady = steady
        self._file = file
        self._before: ClockPair | None = None
        self._saved_at: float | None = None
        self._is_read = False

    @classmethod
    def of(cls, clock: Clock, file: Path) -> "ClockWatch":
        """Return the watch of the system clock, or of a clock with its own steady clock, as in tests."""
        steady: Steady | None = getattr(clock, "steady", None)
        return cls(clock, since_boot if clock is system_clock else steady, file)

    def read(self) -> ClockReading | None:
        if self._steady is None:
            return None
        if not self._is_read:
            self._is_read = True
            self._before = self._load()
            self._saved_at = self._before.steady if self._before is not None else None
        shown, steady = self._clock(), self._steady()
        jump = None
        if self._before is not None:
            expected = parse_time(self._before.shown) + timedelta(seconds=steady - self._before.steady)
            if abs(shown - expected) > CLOCK_TOLERANCE:
                jump = Jump(shown, expected)
        return ClockReading(ClockPair(render_time(shown), steady), jump)

    def save(self, reading: ClockReading) -> None:
        """Compare the next reading with this one. Call it after what was noticed is durable."""
        self._before = reading.pair
        if reading.jump is not None or self._saved_at is None or reading.pair.steady - self._saved_at >= SAVE_EVERY:
            self._saved_at = reading.pair.steady
            self._store(reading.pair)

    def _load(self) -> ClockPair | None:
        if self._file is None:
            return None
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            descriptor = os.open(self._file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                saved = json.loads(os.pread(descriptor, MOST_BYTES, 0))
            finally:
                os.close(descriptor)
            if saved["boot"] == boot_id():
                parse_time(saved["shown"])
                return ClockPair(saved["shown"], float(saved["steady"]))
        return None

    def _store(self, pair: ClockPair) -> None:
        if self._file is None:
            return
        saved = json.dumps({"boot": boot_id(), "shown": pair.shown, "steady": pair.steady}).ljust(MOST_BYTES - 1)
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(self._file, flags, 0o600)
            try:
                os.pwrite(descriptor, f"{saved}\n".encode(), 0)
            finally:
                os.close(descriptor)


def since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""
