"""Turns: of many threads that want to compute, only a few do at a time, first come first served.

The interpreter runs one thread at a time anyway. Sixteen that wake each other for every statement of a database spend
half of their time on that, and none of them ends soon. So only a few are begun, and of those one computes while others
wait for a disk or a sandbox. Turns are about speed and nothing else: whoever waited for long goes ahead, and takes over
a place that an interrupt may have lost, so no fault of theirs can hold anybody up for good.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PATIENCE_SECONDS: Final = 2.0
BACK_SECONDS: Final = 0.03
"""Whoever comes back may hold a lock that the one who computes is waiting for; and has a sandbox to look after."""


class _Held(threading.local):
    turns: "ConcurrencyLimiter | None" = None


_HELD: Final = _Held()


class _Places:
    """So many places, for whoever came first; before those, for whoever had one and comes back."""

    def __init__(self, most: int, patience: float, back_patience: float) -> None:
        self._most = most
        self._patience = patience, back_patience
        self._lock = threading.Lock()  # guards the rest
        self.taken = 0
        self.coming_back: deque[threading.Lock] = deque()
        self.line: deque[threading.Lock] = deque()

    def take(self, *, back: bool = False) -> None:
        with self._lock:
            if self.taken < self._most and not self.coming_back and (back or not self.line):
                self.taken += 1
                return
            called = threading.Lock()
            called.acquire()
            (self.coming_back if back else self.line).append(called)
        try:
            was_called = called.acquire(timeout=self._patience[back])
        except BaseException:
            if not self._leave_line(called):
                self.give()
            raise
        if not was_called and self._leave_line(called) and back:
            self.take_at_once()
        # Else a place counts as lost, and this one has it now.

    def take_at_once(self) -> None:
        with self._lock:
            self.taken += 1

    def give(self) -> None:
        with self._lock:
            self.taken = max(0, self.taken - 1)
            while self.taken < self._most and (line := self.coming_back or self.line):
                self.taken += 1
                line.popleft().release()

    def _leave_line(self, called: threading.Lock) -> bool:
        """False if it has been called meanwhile: then it has its place."""
        with self._lock:
            for line in (self.coming_back, self.line):
                if called in line:
                    line.remove(called)
                    return True
            return False


class ConcurrencyLimiter:
    """At most `begun` threads have begun, and at most `computing` of them compute."""

    def __init__(
        self, begun: int, computing: int, patience: float = PATIENCE_SECONDS, back_patience: float = BACK_SECONDS
    ) -> None:
        self.begun = _Places(begun, patience, back_patience)
        self.computing = _Places(computing, patience, back_patience)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """With a turn of one's own. Whoever has one already keeps it."""
        if _HELD.turns is not None:
            yield
            return
        self.begun.take()
        try:
            self.computing.take()
            _HELD.turns = self
            try:
                yield
            finally:
                _HELD.turns = None
                self.computing.give()
        finally:
            self.begun.give()


@contextmanager
def aside() -> Iterator[None]:
    """While waiting for a moment, for a disk or a sandbox: another that has begun may compute."""
    turns = _HELD.turns
    if turns is None:
        yield
        return
    _HELD.turns = None
    turns.computing.give()
    try:
        yield
    finally:
        turns.computing.take(back=True)
        _HELD.turns = turns


@contextmanager
def away() -> Iterator[None]:
    """While waiting for who knows how long, for a person, a browser or another caller: others may begin.

    Whoever comes back has begun already, and does not wait in line for that: others may be waiting for what it holds.
    """
    turns = _HELD.turns
    if turns is None:
        yield
        return
    with aside():
        turns.begun.give()
        try:
            yield
        finally:
            turns.begun.take_at_once()
