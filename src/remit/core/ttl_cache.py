"""What was worked out once, kept for a while: read-only, bounded in number and in time.

A key is always the digest of all that the kept thing was made from. So what is kept can never be out of date, and the
time limit is for memory only: no answer depends on it.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TTLCache(Generic[K, V]):
    """At most `most` things, each for `seconds` since it was made; the one used longest ago goes first."""

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._held: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: K, make: Callable[[], V]) -> V:
        now = self._clock()
        with self._lock:
            found = self._held.get(key)
            if found is not None and now - found[0] < self._seconds:
                self._held.move_to_end(key)
                return found[1]
        made = make()  # outside of the lock: two callers may both make it, and get the same
        with self._lock:
            self._held[key] = (now, made)
            self._held.move_to_end(key)
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return made
