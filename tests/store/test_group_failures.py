"""When the database fails, or somebody presses Ctrl-C, in the middle of a group: no lie, no loss, no deadlock."""

import contextlib
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from remit.ledger.entry import Entry
from remit.ledger.writer import Batch
from remit.store import group_commit as group
from remit.store.connection import Connection, DatabaseFailureError
from tests.store.one_group import Gate, event, run_as_one_group
from tests.support.store_fixtures import World

Works = list[Callable[[Batch], Any]]


def appends(count: int) -> Works:
    return [lambda batch: batch.append(event()) for _ in range(count)]


def break_the_database(world: World, batch: Batch) -> None:
    """Really: the file may not grow any more, or the server ends our session."""
    if batch.store.dialect == "sqlite":
        pages = batch.store.one("PRAGMA page_count")
        assert pages is not None
        batch.store.execute(f"PRAGMA max_page_count={pages[0]}")
        batch.append(event(text="x" * 1_000_000))
    else:
        session = batch.store.one("SELECT pg_backend_pid()")
        assert session is not None
        world.attacker.run("SELECT pg_terminate_backend(?)", session)
        batch.append(event())


def assert_writable_again(world: World, entries: int) -> None:
    world.ledger.append(event())
    verdict = world.verify()
    assert verdict.findings == []
    assert verdict.entries == entries + 1


def test_a_database_failure_fails_the_whole_group_and_the_next_call_recovers(world: World) -> None:
    world.append("acme", 2)
    works = appends(5)
    works[2] = lambda batch: break_the_database(world, batch)
    results = run_as_one_group(world, works)
    assert all(isinstance(result, DatabaseFailureError) for result in results), results
    reason = Reason.DISK_FULL if world.store.dialect == "sqlite" else Reason.STORE_UNAVAILABLE
    assert {result.reason for result in results} == {reason}
    assert len({id(result) for result in results}) == 5, "each caller has an exception of its own"
    assert_writable_again(world, entries=2 + 1)


def test_a_lone_caller_learns_of_a_database_failure(world: World) -> None:
    with pytest.raises(DatabaseFailureError):
        world.ledger.transact(lambda batch: break_the_database(world, batch))
    assert_writable_again(world, entries=0)


def test_a_unit_that_failed_by_itself_keeps_its_own_error_when_the_group_fails_later(world: World) -> None:
    def fail(batch: Batch) -> None:
        raise ValueError("mine")

    works = [fail, *appends(1), lambda batch: break_the_database(world, batch)]
    results = run_as_one_group(world, works)
    assert [type(result) for result in results] == [ValueError, DatabaseFailureError, DatabaseFailureError]
    assert_writable_again(world, entries=1)


def test_a_failure_of_the_environment_that_is_not_the_databases_stays_with_its_unit(world: World) -> None:
    def fail(batch: Batch) -> None:
        batch.append(event())
        raise EnvironmentFailureError(Reason.STATE_MISSING, "a key is missing")

    results = run_as_one_group(world, [*appends(2), fail, *appends(2)])
    assert [type(result) for result in results] == [Entry, Entry, EnvironmentFailureError, Entry, Entry]
    assert_writable_again(world, entries=4 + 1)


def test_a_failure_at_the_commit_is_reported_as_unknown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer got lost, the commit did not: whoever says `nothing was written` would lie."""
    with world.store.reading() as connection:
        kind = type(connection)
    honest = kind.commit

    def commit_and_lose_the_answer(connection: Any) -> None:
        honest(connection)
        if world.ledger.transactions >= 1:
            raise DatabaseFailureError(Reason.STORE_UNAVAILABLE, "the line is dead")

    monkeypatch.setattr(kind, "commit", commit_and_lose_the_answer)
    results = run_as_one_group(world, appends(3))
    monkeypatch.undo()
    if world.store.dialect == "postgresql":  # which outlives the session, and was asked
        assert [type(result) for result in results] == [Entry] * 3
        assert_writable_again(world, entries=3 + 1)
        return
    assert [type(result) for result in results] == [EnvironmentFailureError] * 3
    assert all("it is not known whether they were written" in result.what for result in results)
    assert all("remit ledger show" in result.next_step for result in results)
    assert_writable_again(world, entries=3 + 1)


def test_a_signer_that_fails_fails_the_group_with_nothing_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Batch) -> None:
        raise OSError("no key today")

    monkeypatch.setattr(Batch, "seal", fail)
    with pytest.raises(EnvironmentFailureError, match="nothing was written: no key today"):
        world.ledger.append(event())
    monkeypatch.undo()
    assert_writable_again(world, entries=0)


def test_a_store_that_cannot_be_reached_is_reported_to_all_and_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ledger.close()

    def unreachable(_: object) -> Connection:
        raise DatabaseFailureError(Reason.STORE_UNAVAILABLE, "nobody answers")

    monkeypatch.setattr(type(world.store), "connect", unreachable)
    for _ in range(2):
        with pytest.raises(DatabaseFailureError, match="nobody answers"):
            world.ledger.append(event())
    monkeypatch.undo()
    assert_writable_again(world, entries=0)


@pytest.mark.parametrize("place", [0, 2, 4])
def test_an_interrupt_in_the_leader_frees_its_followers(world: World, place: int) -> None:
    def interrupted(batch: Batch) -> None:
        batch.append(event())
        raise KeyboardInterrupt

    works = appends(5)
    works[place] = interrupted
    results = run_as_one_group(world, works)
    assert sum(isinstance(result, KeyboardInterrupt) for result in results) == 1, "the thread that was at work"
    assert sum(isinstance(result, EnvironmentFailureError) for result in results) == 4
    assert_writable_again(world, entries=1)


@pytest.mark.parametrize("moment", ["just after the commit", "while callers are told", "while the anchor is written"])
def test_an_interrupt_after_the_commit_does_not_deny_what_was_written(
    world: World, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    struck: list[str] = []

    def strike() -> None:
        # Not in the group of one that holds the others up.
        if threading.current_thread().name.startswith("ThreadPool") and not struck:
            struck.append(moment)
            raise KeyboardInterrupt

    class Told(group._Unit[Batch]):  # noqa: SLF001 - the very place where the interrupt strikes
        __slots__ = ("_told",)

        @property
        def is_done(self) -> bool:
            return self._told

        @is_done.setter
        def is_done(self, value: bool) -> None:
            if value:
                strike()
            self._told = value

    if moment == "just after the commit":
        monkeypatch.setattr(group, "reach", lambda name: strike() if name == "append.committed" else None)
    elif moment == "while callers are told":
        monkeypatch.setattr(group, "_Unit", Told)
    else:
        honest = Batch.committed

        def anchor_and_strike(batch: Batch) -> None:
            honest(batch)
            strike()

        monkeypatch.setattr(Batch, "committed", anchor_and_strike)
    results = run_as_one_group(world, appends(5))
    assert struck == [moment]
    assert sum(isinstance(result, KeyboardInterrupt) for result in results) == 1, "the thread that was at work"
    written = {result.seq for result in results if isinstance(result, Entry)}
    assert len(written) == 4, results
    monkeypatch.undo()
    assert world.verify().anchored >= 1
    head = world.anchors.read("acme")
    assert head is not None
    assert head.seq >= max(written)
    assert_writable_again(world, entries=5 + 1)


def test_more_callers_than_a_group_may_have_are_served_in_turns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "MAX_GROUP", 3)
    before = world.ledger.transactions
    threads = []
    with Gate(world):
        for work in appends(10):
            threads.append(threading.Thread(target=world.ledger.transact, args=(work,)))
            threads[-1].start()
        while len(world.ledger._group._waiting) < 10:  # noqa: SLF001 - nobody else knows who waits
            time.sleep(0.002)
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert world.ledger.transactions == before + 1 + 4
    assert_writable_again(world, entries=11)


@pytest.fixture
def alarm() -> Iterator[Callable[[float], None]]:
    """Ctrl-C after so many seconds, as the main thread would feel it."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)

    def ring(seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)

    yield ring
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_an_interrupt_while_waiting_withdraws_the_unit(world: World, alarm: Callable[[float], None]) -> None:
    with Gate(world):
        alarm(0.1)
        with pytest.raises(KeyboardInterrupt):
            world.ledger.append(event(number=1))
        other = threading.Thread(target=world.ledger.append, args=(event(number=2),))
        other.start()
    other.join(20)
    assert not other.is_alive()
    with world.store.reading() as connection:
        assert list(connection.rows("SELECT payload FROM ledger_entries WHERE tenant_id = 'acme'")) == [
            ('{"number":2}',)
        ]
    assert_writable_again(world, entries=2)


class Writers:
    """Threads that append until told to stop, and put up with what an interrupted leader tells them."""

    def __init__(self, world: World, count: int) -> None:
        self.counts = [0] * count
        self.problems: list[BaseException] = []
        self._world = world
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(count)]
        for thread in self._threads:
            thread.start()

    def _write(self, number: int) -> None:
        try:
            while not self._done.is_set():
                with contextlib.suppress(EnvironmentFailureError):
                    self._world.ledger.append(event(f"tenant-{number % 2}"))
                    self.counts[number] += 1
        except BaseException as problem:  # noqa: BLE001 - shown by the main thread
            self.problems.append(problem)

    def stop(self) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive(), "a follower waits for a leader that is gone"


# An interrupt inside the driver's own connect() leaves a session to the garbage collector, which grumbles.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_at_random_moments_leave_no_deadlock_and_no_gap(
    world: World, alarm: Callable[[float], None]
) -> None:
    """Two seconds of Ctrl-C while four threads write: as leader, as follower, amid every hand-over."""
    writers = Writers(world, 4)
    moments = random.Random(7)  # noqa: S311 - any moments will do
    interrupts = 0
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        try:
            alarm(moments.uniform(0.0005, 0.02))
            # Not for ever: an alarm that rings amid a finaliser is swallowed by the interpreter.
            again = time.monotonic() + 0.1
            while time.monotonic() < again:
                world.ledger.append(event("main"))
        except KeyboardInterrupt:
            interrupts += 1
    alarm(0)
    writers.stop()
    assert writers.problems == []
    assert interrupts > 20
    assert min(writers.counts) > 0
    verdict = world.verify()
    assert verdict.findings == []
    assert verdict.entries >= sum(writers.counts)
    world.ledger.append(event())


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_a_full_disk_is_named(world: World) -> None:
    with pytest.raises(DatabaseFailureError, match="the disk is full") as caught:
        world.ledger.transact(lambda batch: break_the_database(world, batch))
    assert caught.value.reason is Reason.DISK_FULL
    assert "Free some space" in caught.value.next_step
