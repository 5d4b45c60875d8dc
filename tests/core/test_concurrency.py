"""The concurrency limiter lets few threads compute at once, in order, and never blocks one permanently."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from remit.core.concurrency import ConcurrencyLimiter, released, yielding


class Crowd:
    """Threads that want a slot one after the other. Records in which order they got one."""

    def __init__(self, limiter: ConcurrencyLimiter) -> None:
        self.limiter = limiter
        self.had: list[int] = []
        self.at_once = 0
        self.most_at_once = 0
        self.lock = threading.Lock()
        self.go = threading.Event()
        self.threads: list[threading.Thread] = []

    def want(self, number: int, work: Callable[[], object] | None = None) -> None:
        """Start a thread. Returns once it has its slot or waits for one."""
        thread = threading.Thread(target=self._want, args=(number, work))
        self.threads.append(thread)
        thread.start()
        wait_for(lambda: number in self.had or self._waiting() == len(self.threads) - len(self.had))

    def _waiting(self) -> int:
        return len(self.limiter.started.queue) + len(self.limiter.computing.queue)

    def _want(self, number: int, work: Callable[[], object] | None) -> None:
        with self.limiter.acquired():
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
def crowd(limiter: ConcurrencyLimiter) -> Iterator[Crowd]:
    """A crowd whose threads have all ended at the end of the test."""
    made = Crowd(limiter)
    try:
        yield made
    finally:
        made.end()
    for places in (limiter.started, limiter.computing):
        assert (places.in_use, len(places.queue), len(places.returning)) == (0, 0, 0)


@pytest.mark.parametrize("started, computing", [(1, 1), (4, 1), (4, 2)])
def test_at_most_the_limit_computes_at_once_and_in_the_order_of_arrival(started: int, computing: int) -> None:
    with crowd(ConcurrencyLimiter(started, computing)) as people:
        for number in range(8):
            people.want(number)
        assert people.had == list(range(computing))
        people.end()
        assert sorted(people.had) == list(range(8))
        assert started > 1 or people.had == list(range(8)), "of two started threads, either may be faster"
        assert people.most_at_once == computing


def test_a_yielding_thread_lets_a_started_one_compute_and_returns_before_others_start() -> None:
    on, back = threading.Event(), threading.Event()

    def step_aside() -> None:
        with yielding():
            assert on.wait(10)
        back.set()

    with crowd(ConcurrencyLimiter(started=2, computing=1)) as people:
        people.want(0, step_aside)
        people.want(1)  # has started too, and computes
        people.want(2)  # may not start: two have started
        assert people.had == [0, 1]
        on.set()
        wait_for(lambda: len(people.limiter.computing.returning) == 1)
        assert not back.is_set(), "one thread computes at a time"
        people.go.set()
        assert back.wait(10)
        people.end()
        assert people.had == [0, 1, 2]


def test_a_released_thread_lets_others_start_and_does_not_queue_to_continue() -> None:
    """Otherwise threads that wait for a lock it holds would keep it out."""
    on, back = threading.Event(), threading.Event()

    def go_away() -> None:
        with released():
            assert on.wait(10)
        back.set()

    def wait_for_the_first() -> None:
        with released():
            assert back.wait(10)

    with crowd(ConcurrencyLimiter(started=1, computing=1)) as people:
        people.want(0, go_away)
        people.want(1, wait_for_the_first)
        people.want(2, wait_for_the_first)
        assert people.had == [0, 1, 2]
        on.set()
        assert back.wait(10)


def test_a_thread_without_a_slot_releases_nothing() -> None:
    limiter = ConcurrencyLimiter(1, 1)
    with yielding(), released():
        assert (limiter.started.in_use, limiter.computing.in_use) == (0, 0)
    with limiter.acquired(), limiter.acquired():
        assert (limiter.started.in_use, limiter.computing.in_use) == (1, 1), "a thread that has a slot keeps it"
        with yielding(), yielding():
            assert (limiter.started.in_use, limiter.computing.in_use) == (1, 0)
        with released():
            assert (limiter.started.in_use, limiter.computing.in_use) == (0, 0)
    assert (limiter.started.in_use, limiter.computing.in_use) == (0, 0)


def test_a_failure_releases_the_slot() -> None:
    limiter = ConcurrencyLimiter(1, 1)
    for wait in (yielding, released):
        with pytest.raises(ZeroDivisionError), limiter.acquired(), wait():
            raise ZeroDivisionError
        assert (limiter.started.in_use, limiter.computing.in_use) == (0, 0)


def test_a_thread_that_waited_too_long_goes_ahead() -> None:
    with crowd(ConcurrencyLimiter(1, 1, patience=0.01)) as people:
        people.want(0)
        people.want(1)
        wait_for(lambda: people.had == [0, 1])
        assert people.at_once == 2


def test_a_waiting_thread_takes_over_a_lost_slot() -> None:
    """An interrupt between the acquisition and the `try` can lose a slot."""
    limiter = ConcurrencyLimiter(1, 1, patience=0.01)
    for places in (limiter.started, limiter.computing):
        places.acquire_now()
        with limiter.acquired():
            pass
        assert (limiter.started.in_use, limiter.computing.in_use) == (0, 0)
        places.release()  # one too many
        assert places.in_use == 0


def test_a_returning_thread_with_a_lock_that_the_computing_one_wants_does_not_wait_long() -> None:
    lock, has_it, back = threading.Lock(), threading.Event(), threading.Event()

    def wait_with_the_lock() -> None:
        with lock:
            has_it.set()
            with yielding():
                wait_for(lambda: 1 in people.had)
        back.set()

    def want_the_lock() -> None:
        with lock:
            assert back.wait(10)

    with crowd(ConcurrencyLimiter(started=2, computing=1, patience=100)) as people:
        people.want(0, wait_with_the_lock)
        assert has_it.wait(10)
        people.want(1, want_the_lock)
        assert back.wait(10)


@pytest.mark.parametrize("started", [1, 2])
def test_a_thread_interrupted_while_waiting_leaves_the_queue(started: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limiter = ConcurrencyLimiter(started, 1)

    class Struck:
        def __init__(self) -> None:
            self.held = False

        def acquire(self, timeout: float = -1) -> bool:  # noqa: ARG002 - a lock's
            if self.held:
                raise KeyboardInterrupt
            self.held = True
            return True

    with crowd(limiter) as people:
        people.want(0)
        with monkeypatch.context() as patched:
            patched.setattr("remit.core.concurrency.threading.Lock", Struck)
            with pytest.raises(KeyboardInterrupt), limiter.acquired():
                pass
        assert (len(limiter.started.queue), len(limiter.computing.queue)) == (0, 0)
        assert (limiter.started.in_use, limiter.computing.in_use) == (1, 1)
