"""Somebody else and the same database, between two looks: another program, another plan. Nobody's bytes are lost."""

import threading
from pathlib import Path
from typing import Final

import duckdb
import pytest

from remit.contracts.plans.envelope import Envelope
from remit.execution.engine import IncompleteError
from tests.plans.project import at_phase, plan_of, replace
from tests.plans.sql.hostile_shop import HostileShop, World, ended_as
from tests.plans.sql.shop import sql
from tests.plans.sql.test_changes import UPDATE


def add_row(path: Path) -> None:
    with duckdb.connect(str(path)) as database:
        database.execute("INSERT INTO orders VALUES (77, 'meanwhile', 0)")


MEANWHILE: Final = {
    "CHECKING": "REFUSED",
    "CHECKPOINT": "REFUSED",
    "RUNNING": "ROLLED_BACK",
    "VERIFYING": "STUCK",
    "REPORTING": "SUCCESS",
}
"""When somebody writes, and what becomes of the plan. STUCK: he has to say which of the two files is the right one."""


@pytest.mark.req("PX-18", "PX-20")
@pytest.mark.parametrize("phase", MEANWHILE)
def test_a_row_that_another_process_writes_meanwhile_is_never_lost(hostile: HostileShop, phase: str) -> None:
    """He opens it, writes and closes it, between two looks. His row is there afterwards."""
    hostile.write("notes.txt")
    envelope = hostile.approve(plan_of(replace("a1", "notes.txt"), sql("a2", UPDATE))).canonical()
    try:
        ended = ended_as(
            hostile.workspace.apply(envelope, on_status=at_phase(phase, lambda: add_row(hostile.database)))
        )
    except IncompleteError:
        ended = "STUCK"
    assert ended == MEANWHILE[phase]
    assert (hostile.read("notes.txt") == "one\nTWO\nthree\n") == (ended == "SUCCESS")
    assert hostile.rows("SELECT count(*) FROM orders WHERE state = 'open'") == [
        (0 if ended in {"SUCCESS", "STUCK"} else 2,)
    ]
    if ended == "SUCCESS":
        assert hostile.workspace.rollback("last").status != "EXECUTED"
    assert hostile.rows("SELECT state FROM orders WHERE id = 77") == [("meanwhile",)]
    assert hostile.workspace.verify_ledger().holds


def two_plans(hostile: HostileShop) -> list[Envelope]:
    """Approved on the same bytes, to set all amounts to 1, or to 2."""
    hostile.write("notes.txt")
    texts = ["UPDATE orders SET amount = 1", "UPDATE orders SET amount = 2"]
    return [hostile.approve(plan_of(sql("a1", text), plan_id=f"plan-{n}")) for n, text in enumerate(texts)]


def require_one_done(hostile: HostileShop, ended: list[str], envelopes: list[Envelope], before: World) -> None:
    """And it can be taken back."""
    assert ended.count("SUCCESS") == 1, ended
    winner = ended.index("SUCCESS")
    assert hostile.rows("SELECT DISTINCT amount FROM orders") == [(winner + 1,)]
    assert hostile.workspace.rollback(envelopes[winner].envelope_id).status == "EXECUTED"
    assert hostile.world() == before
    assert hostile.workspace.verify_ledger().holds


@pytest.mark.req("PX-18", "PX-20")
def test_of_two_plans_at_once_on_one_database_one_is_done(hostile: HostileShop) -> None:
    envelopes, before = two_plans(hostile), hostile.world()
    workspaces, ended, ready = [hostile.workspace, hostile.opened()], ["", ""], threading.Barrier(2)

    def apply(number: int) -> None:
        ready.wait()
        ended[number] = ended_as(workspaces[number].apply(envelopes[number].canonical()))

    threads = [threading.Thread(target=apply, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    workspaces[1].close()
    require_one_done(hostile, ended, envelopes, before)


@pytest.mark.req("PX-18", "PX-20")
@pytest.mark.parametrize(
    "phase, first, second",
    [
        ("CHECKING", "REFUSED", "SUCCESS"),
        ("CHECKPOINT", "REFUSED", "SUCCESS"),
        ("RUNNING", "FAILED", "SUCCESS"),
        ("VERIFYING", "SUCCESS", "REFUSED"),
        ("REPORTING", "SUCCESS", "REFUSED"),
    ],
)
def test_a_plan_that_comes_in_the_midst_of_another_is_never_mixed_with_it(
    hostile: HostileShop, phase: str, first: str, second: str
) -> None:
    envelopes, before, ended = two_plans(hostile), hostile.world(), ["", ""]

    def come_between() -> None:
        with hostile.opened() as other:
            ended[1] = ended_as(other.apply(envelopes[1].canonical()))

    ended[0] = ended_as(hostile.workspace.apply(envelopes[0].canonical(), on_status=at_phase(phase, come_between)))
    assert ended == [first, second]
    require_one_done(hostile, ended, envelopes, before)
