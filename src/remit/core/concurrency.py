"""Concurrency limiter: of many threads that want to compute, only a few do so at a time, in the order of arrival.

The interpreter runs one thread at a time anyway. If sixteen threads wake each other for every statement of a database,
they spend half of their time on that, and none of them ends soon. So only a few threads start, and of those one
computes while the others wait for a disk or a sandbox. The limiter serves speed only. A thread that has waited too long
goes ahead, and takes over a slot that an interrupt may have lost. So a fault of the limiter cannot block a thread
permanently.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PATIENCE_SECONDS: Final = 2.0
RETURN_SECONDS: Final = 0.03
"""A returning thread may hold a lock that the computing thread waits for, and it has a sandbox to look after."""


class _ThreadState(threading.local):
    limiter: "ConcurrencyLimiter | None" = None


_THREAD: Final = _ThreadState()


class _Slots:
    """A number of slots, given out in the order of arrival. A thread that returns to its slot goes first."""

    def __init__(self, most: int, patience: float, return_patience: float) -> None:
        self._most = most
        self._patience = patience, return_patience
        self._lock = threading.Lock()  # guards the rest
        self.in_use = 0
        self.returning: deque[threading.Lock] = deque()
        self.queue: deque[threading.Lock] = deque()

    def acquire(self, *, returning: bool = False) -> None:
        with self._lock:
            if self.in_use < self._most and not self.returning and (returning or not self.queue):
                self.in_use += 1
                return
            called = threading.Lock()
            called.acquire()
            (self.returning if returning else self.queue).append(called)
        try:
            was_called = called.acquire(timeout=self._patience[returning])
        except BaseException:
            if not self._leave_queue(called):
                self.release()
            raise
        if not was_called and self._leave_queue(called) and returning:
            self.acquire_now()
        # Otherwise a slot is considered lost, and this thread has it now.

    def acquire_now(self) -> None:
        with self._lock:
            self.in_use += 1

    def release(self) -> None:
        with self._lock:
            self.in_use = max(0, self.in_use - 1)
            while self.in_use < self._most and (queue := self.returning or self.queue):
                self.in_use += 1
                queue.popleft().release()

    def _leave_queue(self, called: threading.Lock) -> bool:
        """Leave the queue. False if this thread was called meanwhile: then it has its slot."""
        with self._lock:
            for queue in (self.returning, self.queue):
                if called in queue:
                    queue.remove(called)
                    return True
            return False


class ConcurrencyLimiter:
    """At most `started` threads have started, and at most `computing` of them compute."""

    def __init__(
        self, started: int, computing: int, patience: float = PATIENCE_SECONDS, return_patience: float = RETURN_SECONDS
    ) -> None:
        self.started = _Slots(started, patience, return_patience)
        self.computing = _Slots(computing, patience, return_patience)

    @contextmanager
    def acquired(self) -> Iterator[None]:
        """Hold a slot. A thread that has one already keeps it."""
        if _THREAD.limiter is not None:
            yield
            return
        self.started.acquire()
        try:
            self.computing.acquire()
            _THREAD.limiter = self
            try:
                yield
            finally:
                _THREAD.limiter = None
                self.computing.release()
        finally:
            self.started.release()


@contextmanager
def yielding() -> Iterator[None]:
    """Release the computing slot during a short wait, for a disk or a sandbox. Another started thread may compute."""
    limiter = _THREAD.limiter
    if limiter is None:
        yield
        return
    _THREAD.limiter = None
    limiter.computing.release()
    try:
        yield
    finally:
        limiter.computing.acquire(returning=True)
        _THREAD.limiter = limiter


@contextmanager
def released() -> Iterator[None]:
    """Release both slots during an unbounded wait, for a person, a browser or another caller. Other threads may start.

    A returning thread has started already and does not queue for that slot, since others may wait for what it holds.
    """
    limiter = _THREAD.limiter
    if limiter is None:
        yield
        return
    with yielding():
        limiter.started.release()
        try:
            yield
        finally:
            limiter.started.acquire_now()
