"""Rate limits: token buckets in memory, for a bounded number of credentials and addresses.

A bucket fills steadily, and each request takes one unit. Limit: each server process counts alone, and starts with full
buckets.
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

MOST_BUCKETS: Final = 10_000
"""The limit of buckets. Beyond it the least recently used one is dropped, which is the fullest."""


class Buckets:
    """One bucket for each key. A bucket gains `per_minute` units a minute and holds at most `burst`."""

    def __init__(
        self, per_minute: float, burst: float | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = per_minute / 60
        self._burst = max(1.0, per_minute if burst is None else burst)
        self._now = now
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: str) -> float:
        """Take one unit. Returns 0, or the seconds until a unit is available."""
        return self._check(key, taking=True)

    def wait(self, key: str) -> float:
        """Return the seconds until a unit is available, without taking one."""
        return self._check(key, taking=False)

    def __len__(self) -> int:
        return len(self._levels)

    def _check(self, key: str, *, taking: bool) -> float:
        with self._lock:
            now = self._now()
            level, at = self._levels.get(key, (self._burst, now))
            level = min(self._burst, level + (now - at) * self._rate)
            if level < 1:
                self._store(key, level, now)
                return (1 - level) / self._rate
            if taking:
                self._store(key, level - 1, now)
            return 0.0

    def _store(self, key: str, level: float, now: float) -> None:
        self._levels[key] = level, now
        self._levels.move_to_end(key)
        if len(self._levels) > MOST_BUCKETS:
            self._levels.popitem(last=False)


def retry_after(seconds: float) -> str:
    """Return the value of the header Retry-After: whole seconds, at least one."""
    return str(max(1, math.ceil(seconds)))
