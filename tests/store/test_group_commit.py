"""Many callers, one transaction: each gets its own result or its own error, and nobody is told too early."""

import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from remit.core.errors import RefusedError, UsageError
from remit.ledger.entry import Entry
from remit.ledger.findings import RecordFault
from remit.ledger.writer import Batch
from remit.store.connection import ConflictError
from tests.store.one_group import Gate, event, run_as_one_group
from tests.support.store_fixtures import World

CALLERS = 16


def test_waiting_callers_share_one_transaction_and_each_gets_its_own_entry(world: World) -> None:
    works = [partial(Batch.append, event=event(number=number)) for number in range(CALLERS)]
    before = world.ledger.transactions
    entries = run_as_one_group(world, works)
    assert world.ledger.transactions == before + 2
    assert sorted(entry.seq for entry in entries) == list(range(1, CALLERS + 1))
    assert [entry.payload for entry in entries] == [f'{{"number":{number}}}' for number in range(CALLERS)]
    verdict = world.verify()
    assert verdict.findings == []
    assert (verdict.entries, verdict.heads) == (CALLERS + 1, 2)


def test_a_lone_caller_commits_at_once(world: World) -> None:
    for number in range(1, 4):
        world.ledger.append(event())
        assert world.ledger.transactions == number


class Odd(Exception):
    """An error that only its own caller may see."""


def fail_late(batch: Batch, error: BaseException) -> None:
    batch.append(event())
    batch.append(event("only-here"))
    raise error


@pytest.mark.parametrize("error", [Odd("mine"), SystemExit(3), RecursionError()], ids=repr)
def test_a_unit_that_fails_is_undone_alone(world: World, error: BaseException) -> None:
    works: list[Callable[[Batch], Any]] = [lambda batch: batch.append(event()) for _ in range(6)]
    works[1] = works[4] = lambda batch: fail_late(batch, error)
    results = run_as_one_group(world, works)
    assert results[1] is error
    assert results[4] is error
    good = [result for result in results if isinstance(result, Entry)]
    assert sorted(entry.seq for entry in good) == [1, 2, 3, 4], "no gap where a unit was undone"
    verdict = world.verify()
    assert verdict.findings == []
    assert verdict.tenants == 2, "the tenant that only a failed unit wrote to does not exist"


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO ledger_entries SELECT * FROM no_such_column_here_on_purpose",
        "INSERT INTO claims VALUES ('t', 's', 'k', 'd', 'c', '{}', 'o', 'x', 'now', 'OTHER', NULL, NULL, NULL)",
        "INSERT INTO claims VALUES ('t', 's', 'k', NULL, 'c', '{}', 'o', 'x', 'now', 'CLAIMED', NULL, NULL, NULL)",
        "UPDATE ledger_entries SET actor = 'mallory'",
    ],
)
def test_a_statement_the_database_refuses_harms_at_most_the_group_and_never_the_chain(
    world: World, statement: str
) -> None:
    works: list[Callable[[Batch], Any]] = [lambda batch: batch.append(event()) for _ in range(4)]
    works[2] = lambda batch: (batch.append(event()), batch.store.execute(statement))
    results = run_as_one_group(world, works)
    assert isinstance(results[2], Exception)
    if "no_such" not in statement:
        assert [isinstance(result, Entry) for result in results] == [True, True, False, True]
    world.ledger.append(event())
    assert world.verify().findings == []


def test_values_the_database_cannot_hold_fail_their_own_unit_only(world: World) -> None:
    """A NUL on PostgreSQL, a number past 64 bits on SQLite: one caller's data, one caller's problem."""

    def bad(batch: Batch) -> None:
        batch.append(event())
        value = "a\0b" if batch.store.dialect == "postgresql" else 2**70
        batch.store.execute(
            "INSERT INTO claims VALUES ('t', 's', ?, 'd', 'c', '{}', 'o', 'x', 'now', 'CLAIMED', NULL, NULL, NULL)",
            (value,),
        )

    works: list[Callable[[Batch], Any]] = [
        lambda batch: batch.append(event()),
        bad,
        lambda batch: batch.append(event()),
    ]
    results = run_as_one_group(world, works)
    assert [type(result) for result in results] == [Entry, UsageError, Entry]
    assert world.verify().findings == []


@pytest.mark.parametrize("company", [0, 2])
def test_a_unit_that_swallows_a_database_error_and_goes_on_is_not_acknowledged_falsely(
    world: World, company: int
) -> None:
    """PostgreSQL would answer such a transaction's COMMIT with a quiet ROLLBACK."""
    world.attacker.run(
        "INSERT INTO claims VALUES ('t', 's', 'k', 'd', 'c', '{}', 'o', 'x', 'now', 'CLAIMED', NULL, NULL, NULL)"
    )
    insert = "INSERT INTO claims VALUES ('t', 's', ?, 'd', 'c', '{}', 'o', 'x', 'now', 'CLAIMED', NULL, NULL, NULL)"

    def careless(batch: Batch) -> str:
        batch.store.execute(insert, ("mine",))
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever it is, this unit does not care
            batch.store.execute(insert, ("k",))
        return "done"

    works: list[Callable[[Batch], Any]] = [careless, *([lambda batch: batch.append(event())] * company)]
    results = run_as_one_group(world, works)
    written = world.attacker.run("SELECT count(*) FROM claims WHERE key = 'mine'") == [(1,)]
    assert written == (results[0] == "done"), "told of success exactly if it is there"
    assert [type(result) for result in results[1:]] == [Entry] * company
    assert world.faults() == {RecordFault.CLAIM_FORGED}, "nobody recorded an intent for these claims"


def test_a_conflict_reaches_its_own_caller(world: World) -> None:
    insert = "INSERT INTO schema_migrations VALUES (1, 'again', 'x', 'now')"
    with pytest.raises(ConflictError):
        world.ledger.transact(lambda batch: batch.store.execute(insert))
    with pytest.raises(RefusedError):
        world.ledger.append(event(""))
    world.ledger.append(event())
    assert world.verify().entries == 1


def test_a_unit_inside_a_unit_is_refused_instead_of_waiting_for_itself(world: World) -> None:
    with pytest.raises(UsageError, match="cannot start another"):
        world.ledger.transact(lambda _: world.ledger.append(event()))
    world.ledger.append(event())
    assert world.verify().entries == 1


def test_many_threads_lose_nothing(world: World) -> None:
    def call(number: int) -> list[Entry]:
        mine = []
        for turn in range(20):
            if (number + turn) % 7 == 0:
                with pytest.raises(Odd):
                    world.ledger.transact(lambda batch: fail_late(batch, Odd()))
            else:
                mine.append(world.ledger.append(event(f"tenant-{turn % 3}", number=number, turn=turn)))
        return mine

    with ThreadPoolExecutor(CALLERS) as pool:
        entries = [entry for mine in pool.map(call, range(CALLERS)) for entry in mine]
    with world.store.reading() as connection:
        there = set(connection.rows("SELECT tenant_id, seq, hash FROM ledger_entries"))
    assert there == {(entry.tenant_id, entry.seq, entry.hash) for entry in entries}
    assert world.ledger.transactions < len(entries), "some shared a transaction"
    verdict = world.verify()
    assert verdict.findings == []
    assert verdict.tenants == 3


def test_use_after_a_fork_is_refused_in_the_child_and_fine_in_the_parent(world: World) -> None:
    world.append("acme", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of the very thing that is tested
        child = os.fork()
    if child == 0:  # nothing here may raise past os._exit, or pytest would run twice
        code = 1
        try:
            world.ledger.append(event())
        except UsageError as problem:
            world.ledger.close()
            code = 0 if "fork" in str(problem) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    world.append("acme", 2)
    assert world.verify().entries == 4
    assert world.verify().holds


def test_closing_waits_for_the_transaction_at_work_and_the_next_call_opens_again(world: World) -> None:
    closed = threading.Event()

    def close() -> None:
        world.ledger.close()
        closed.set()

    with Gate(world):
        closer = threading.Thread(target=close)
        closer.start()
        assert not closed.wait(0.1)
    assert closed.wait(20)
    closer.join()
    world.ledger.append(event())
    assert world.verify().entries == 2
    assert world.verify().holds
