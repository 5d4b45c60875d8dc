"""A cache for immutable values, bounded in number and in time.

A key is always the digest of all that the value was made from. So a value can never be out of date. The time limit only
saves memory: no result depends on it.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TTLCache(Generic[K, V]):
    """At most `most` values, each for `seconds` after it was made. The least recently used value is removed first."""

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
        made = make()  # outside the lock: two callers may both make it, and get equal values
        with self._lock:
            self._held[key] = (now, made)
            self._held.move_to_end(key)
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return made
