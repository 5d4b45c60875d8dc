"""How often somebody may ask: token buckets, in memory, for a bounded number of credentials and addresses.

A bucket fills steadily and is emptied by requests. Limit: each server process counts for itself, and begins anew
when it is started.
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

MOST_BUCKETS: Final = 10_000
"""Beyond that the one that was used longest ago is forgotten: it is the fullest."""


class Buckets:
    """One bucket for each key. `per_minute` drops come in, and at most `burst` are kept."""

    def __init__(
        self, per_minute: float, burst: float | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = per_minute / 60
        self._burst = max(1.0, per_minute if burst is None else burst)
        self._now = now
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: str) -> float:
        """One drop. 0 if there was one; else in how many seconds there will be."""
        return self._check(key, taking=True)

    def wait(self, key: str) -> float:
        """The same answer, and nothing is taken."""
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
    """The value of that header: whole seconds, at least one."""
    return str(max(1, math.ceil(seconds)))
