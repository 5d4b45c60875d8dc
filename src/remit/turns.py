"""Turns: of many threads that want to compute, only a few do at a time, first come first served.

The interpreter runs one thread at a time anyway. Sixteen that wake each other for every statement of a database spend a
third of their time on that, and none of them ends soon. Turns are about speed and nothing else: whoever waited for long
goes ahead, so no fault of theirs can hold anybody up for good.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PATIENCE_SECONDS: Final = 5.0


class _Held(threading.local):
    turns: "Turns | None" = None


_HELD: Final = _Held()


class Turns:
    def __init__(self, most: int, patience: float = PATIENCE_SECONDS) -> None:
        self._most = most
        self._patience = patience
        self._lock = threading.Lock()  # guards the next two
        self._busy = 0
        self._line: deque[threading.Lock] = deque()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """With a turn of one's own. Whoever has one already keeps it."""
        if _HELD.turns is not None:
            yield
            return
        self._take()
        _HELD.turns = self
        try:
            yield
        finally:
            _HELD.turns = None
            self._give()

    def _take(self) -> None:
        with self._lock:
            if self._busy < self._most and not self._line:
                self._busy += 1
                return
            called = threading.Lock()
            called.acquire()
            self._line.append(called)
        try:
            was_called = called.acquire(timeout=self._patience)
        except BaseException:
            if self._leave_line(called):
                raise
            self._give()
            raise
        if not was_called and self._leave_line(called):
            self._come_back()

    def _leave_line(self, called: threading.Lock) -> bool:
        """False if it has been called meanwhile: then it has its turn."""
        with self._lock:
            if called not in self._line:
                return False
            self._line.remove(called)
            return True

    def _give(self) -> None:
        with self._lock:
            self._busy -= 1
            while self._line and self._busy < self._most:
                self._busy += 1
                self._line.popleft().release()

    def _come_back(self) -> None:
        """Without waiting in line: others may be waiting for what this one holds."""
        with self._lock:
            self._busy += 1


@contextmanager
def aside() -> Iterator[None]:
    """While waiting for a person, a process or another caller: whoever has a turn lets others have it."""
    turns = _HELD.turns
    if turns is None:
        yield
        return
    _HELD.turns = None
    turns._give()  # noqa: SLF001 - the other half of one thing
    try:
        yield
    finally:
        turns._come_back()  # noqa: SLF001
        _HELD.turns = turns
