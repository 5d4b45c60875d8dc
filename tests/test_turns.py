"""Turns are about speed only: few at once, in order, and never in anybody's way for good."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from remit.turns import Turns, aside


class Crowd:
    """Threads that want a turn one after the other, and who had one, in which order."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.had: list[int] = []
        self.at_once = 0
        self.most_at_once = 0
        self.lock = threading.Lock()
        self.go = threading.Event()
        self.threads: list[threading.Thread] = []

    def want(self, number: int, work: Callable[[], None] | None = None) -> None:
        thread = threading.Thread(target=self._want, args=(number, work))
        self.threads.append(thread)
        thread.start()
        wait_for(lambda: number in self.had or len(self.turns._line) == self._waiting())  # noqa: SLF001

    def _waiting(self) -> int:
        return len(self.threads) - len(self.had)

    def _want(self, number: int, work: Callable[[], None] | None) -> None:
        with self.turns.taken():
            with self.lock:
                self.had.append(number)
                self.at_once += 1
                self.most_at_once = max(self.most_at_once, self.at_once)
            (work or self.go.wait)()
            with self.lock:
                self.at_once -= 1

    def end(self) -> None:
        self.go.set()
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()


def wait_for(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.001)


@contextmanager
def crowd(turns: Turns) -> Iterator[Crowd]:
    made = Crowd(turns)
    try:
        yield made
    finally:
        made.end()


@pytest.mark.parametrize("most", [1, 2])
def test_only_so_many_at_once_and_in_the_order_they_came(most: int) -> None:
    with crowd(Turns(most)) as people:
        for number in range(8):
            people.want(number)
        assert people.had == list(range(most))
        people.end()
        assert sorted(people.had) == list(range(8))
        assert most > 1 or people.had == list(range(8)), "of two who are called at once, either may be faster"
        assert people.most_at_once == most
    assert people.turns._busy == 0  # noqa: SLF001 - nothing is left over


def test_whoever_steps_aside_lets_others_in_and_comes_back_without_waiting() -> None:
    """Else two who wait for what a third holds would keep that one out for good."""
    came_back, others_had = threading.Event(), threading.Event()

    def step_aside() -> None:
        with aside():
            assert others_had.wait(10)
        came_back.set()

    with crowd(Turns(1)) as people:
        people.want(0, step_aside)
        people.want(1)  # has the one turn, and keeps it
        others_had.set()
        assert came_back.wait(10)
        assert people.had == [0, 1]
    assert people.turns._busy == 0  # noqa: SLF001


def test_stepping_aside_without_a_turn_does_nothing() -> None:
    turns = Turns(1)
    with aside():
        assert turns._busy == 0  # noqa: SLF001
    with turns.taken(), turns.taken():
        assert turns._busy == 1, "whoever has a turn keeps it"  # noqa: SLF001


def test_whoever_waited_for_long_goes_ahead() -> None:
    with crowd(Turns(1, patience=0.01)) as people:
        people.want(0)
        people.want(1)
        wait_for(lambda: people.had == [0, 1])
        assert people.at_once == 2
    assert people.turns._busy == 0  # noqa: SLF001


def test_whoever_is_interrupted_while_waiting_leaves_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(1)

    class Struck:
        def __init__(self) -> None:
            self.held = False

        def acquire(self, timeout: float = -1) -> bool:  # noqa: ARG002 - a lock's
            if self.held:
                raise KeyboardInterrupt
            self.held = True
            return True

    with crowd(turns) as people:
        people.want(0)
        with monkeypatch.context() as patched:
            patched.setattr("remit.turns.threading.Lock", Struck)
            with pytest.raises(KeyboardInterrupt), turns.taken():
                pass
        assert len(turns._line) == 0  # noqa: SLF001
    assert turns._busy == 0  # noqa: SLF001
