"""`agent_execution_current` is always what the ledger says: it moves with it, rebuilds from it, and cannot leave it."""

import itertools
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remit.core.errors import Reason, RefusedError
from remit.ledger.findings import RecordFault
from remit.ledger.goal_tables import StepRow
from remit.ledger.projections import TRANSITIONS, append_step, projection_drift, rebuild
from remit.ledger.writer import Batch
from tests.support.store_fixtures import World, open_ledger

EVENTS = sorted({event for allowed in TRANSITIONS.values() for event in allowed})
TENANTS = itertools.count(1)
TO_THE_END = ("PLANNED", "CONFIRMED", "ACCESS_ALLOWED", "DISPATCHED", "SUCCEEDED")


def step_row(plan_id: str, step_id: str, event: str) -> StepRow:
    return StepRow(
        event_id="event",
        correlation_id="corr",
        plan_id=plan_id,
        step_id=step_id,
        event=event,
        idempotency_key=f"{plan_id}-{step_id}",
        reason_code="BECAUSE" if event in {"REFUSED", "FAILED"} else None,
    )


def current(world: World, tenant_id: str) -> list[tuple[Any, ...]]:
    with world.store.reading() as connection:
        query = "SELECT * FROM agent_execution_current WHERE tenant_id = ? ORDER BY plan_id, step_id"
        return list(connection.rows(query, (tenant_id,)))


def drift(world: World) -> list[tuple[str, int, str]]:
    with world.store.reading() as connection:
        return list(projection_drift(connection))


def walk_at_random(world: World, choices: Sequence[tuple[int, int, bool]]) -> tuple[str, dict[tuple[str, str], str]]:
    """Take nine steps of three plans through legal events: which step, which of its legal moves, commit afterwards?"""
    tenant_id = f"tenant-{next(TENANTS)}"
    stands: dict[tuple[str, str], str] = {}
    pending: list[StepRow] = []
    for which, move, commit in choices:
        key = f"plan-{which % 3}", f"step-{which // 3}"
        legal = sorted(TRANSITIONS[stands.get(key, "")])
        if legal:
            stands[key] = legal[move % len(legal)]
            pending.append(step_row(*key, stands[key]))
        if commit:
            _append_all(world, tenant_id, pending)
            pending.clear()
    _append_all(world, tenant_id, pending)
    return tenant_id, stands


def _append_all(world: World, tenant_id: str, rows: Sequence[StepRow]) -> None:
    def work(batch: Batch) -> None:
        for row in rows:
            append_step(batch, tenant_id, row)

    if rows:
        world.ledger.transact(work)


CHOICES = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5), st.booleans()), min_size=1, max_size=40)
QUICK = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def assert_rebuilds_without_drift(world: World, choices: Sequence[tuple[int, int, bool]]) -> None:
    tenant_id, stands = walk_at_random(world, choices)
    before = current(world, tenant_id)
    assert {(row[1], row[2]): row[4] for row in before} == stands
    assert rebuild(world.ledger).drift == ()
    assert current(world, tenant_id) == before
    world.attacker.run("DELETE FROM agent_execution_current WHERE tenant_id = ?", (tenant_id,))
    assert len(rebuild(world.ledger).drift) == len(before)
    assert current(world, tenant_id) == before


@pytest.mark.req("AC-10")
@pytest.mark.parametrize("dialect", ["sqlite"])
@settings(max_examples=120, deadline=None, suppress_health_check=QUICK)
@given(choices=CHOICES)
def test_any_legal_history_rebuilds_without_drift(world: World, choices: list[tuple[int, int, bool]]) -> None:
    assert_rebuilds_without_drift(world, choices)


@pytest.mark.req("AC-10")
@pytest.mark.parametrize("dialect", ["postgresql"])
@settings(max_examples=15, deadline=None, suppress_health_check=QUICK)
@given(choices=CHOICES)
def test_any_legal_history_rebuilds_without_drift_on_postgresql(
    world: World, choices: list[tuple[int, int, bool]]
) -> None:
    assert_rebuilds_without_drift(world, choices)


def path_to(state: str) -> tuple[str, ...]:
    """The shortest legal way to a state."""
    ways: list[tuple[str, ...]] = [()]
    while True:
        for way in ways:
            if (way[-1] if way else "") == state:
                return way
        ways = [(*way, event) for way in ways for event in sorted(TRANSITIONS[way[-1] if way else ""])]


@pytest.mark.req("AC-10")
@pytest.mark.parametrize("state", TRANSITIONS)
def test_from_every_state_only_legal_events_are_taken(world: World, state: str) -> None:
    def work(batch: Batch) -> tuple[set[str], set[str]]:
        taken, refused = set(), set()
        for event in [*EVENTS, "INVENTED"]:
            for passed in path_to(state):
                append_step(batch, "acme", step_row("plan", event, passed))
            try:
                append_step(batch, "acme", step_row("plan", event, event))
            except RefusedError as problem:
                advised = all(legal in problem.next_step for legal in TRANSITIONS[state])
                refused.add(event if problem.reason is Reason.TRANSITION_INVALID and advised else str(problem))
            else:
                taken.add(event)
        return taken, refused

    taken, refused = world.ledger.transact(work)
    assert taken == TRANSITIONS[state]
    assert refused == {*EVENTS, "INVENTED"} - TRANSITIONS[state]
    assert drift(world) == []
    assert world.verify().holds


@pytest.mark.req("AC-10")
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE agent_execution_current SET event = 'ROLLED_BACK'",
        "UPDATE agent_execution_current SET entry_seq = 99",
        "UPDATE agent_execution_current SET step_id = 'other'",
        "UPDATE agent_execution_current SET plan_id = 'other'",
        "UPDATE agent_execution_current SET tenant_id = 'other'",
        "UPDATE agent_execution_current SET correlation_id = 'other'",
        "UPDATE agent_execution_current SET idempotency_key = 'other'",
        "INSERT INTO agent_execution_current VALUES ('acme', 'plan', 'two', 'c', 'PLANNED', 'key', NULL, 1, 'now')",
        (
            "INSERT INTO agent_execution_current VALUES ('acme', 'plan', 'one', 'c', 'PLANNED', 'key', NULL, 9, 'now')"
            " ON CONFLICT (tenant_id, plan_id, step_id) DO UPDATE SET event = excluded.event"
        ),
    ],
)
def test_a_transition_without_evidence_is_refused_by_the_database_itself(world: World, change: str) -> None:
    world.walk_step("acme", "one", TO_THE_END)
    before = current(world, "acme")
    with pytest.raises(Exception, match="evidence is missing"):
        world.attacker.run(change)
    assert current(world, "acme") == before


@pytest.mark.req("AC-10")
@pytest.mark.parametrize("dialect", ["postgresql"])
def test_evidence_from_a_temporary_table_is_not_accepted(world: World) -> None:
    world.walk_step("acme", "one", ["PLANNED"])
    world.attacker.run("CREATE TEMPORARY TABLE agent_execution_ledger (LIKE agent_execution_ledger)")
    world.attacker.run(
        "INSERT INTO pg_temp.agent_execution_ledger SELECT tenant_id, 9, event_id, source, created_at, correlation_id,"
        " plan_id, step_id, 'SUCCEEDED', simulation_id, idempotency_key FROM agent_execution_current"
        " CROSS JOIN (SELECT 'e' AS event_id, 'PH1.AGENT_EXECUTION' AS source, 'now' AS created_at,"
        " NULL AS simulation_id) AS forged"
    )
    with pytest.raises(Exception, match="evidence is missing"):
        world.attacker.run("UPDATE agent_execution_current SET event = 'SUCCEEDED', entry_seq = 9")


@pytest.mark.req("AC-10")
def test_drift_is_found_named_and_repaired(world: World) -> None:
    for step in ("one", "two", "three"):
        world.walk_step("acme", step, TO_THE_END)
    before = current(world, "acme")
    world.attacker.tamper(
        "UPDATE agent_execution_current SET event = 'PLANNED' WHERE step_id = 'one'",
        "DELETE FROM agent_execution_current WHERE step_id = 'two'",
        "UPDATE agent_execution_current SET step_id = 'zzz' WHERE step_id = 'three'",
    )
    assert world.faults() == {RecordFault.PROJECTION_DRIFT}
    repaired = rebuild(world.ledger)
    assert repaired.rows == 3
    assert sorted(repaired.drift) == [
        "step one of plan plan is stored as PLANNED, and the ledger says SUCCEEDED",
        "step three of plan plan is missing from the projection",
        "step two of plan plan is missing from the projection",
        "step zzz of plan plan has no event in the ledger",
    ]
    assert current(world, "acme") == before
    assert world.verify().holds


@pytest.mark.req("AC-10")
def test_rebuilding_while_others_append_loses_nothing(world: World) -> None:
    other = open_ledger(world.store, world.keys, world.anchor_folder, world.clock)
    done = threading.Event()
    problems: list[BaseException] = []
    rebuilt: list[int] = []

    def rebuild_all_the_time() -> None:
        try:
            while not done.is_set():
                result = rebuild(other)
                rebuilt.append(result.rows)
                assert result.drift == ()
        except BaseException as problem:  # noqa: BLE001 - shown by the main thread
            problems.append(problem)

    rebuilder = threading.Thread(target=rebuild_all_the_time)
    rebuilder.start()
    try:
        writers = [
            threading.Thread(target=partial(_walk_many, world, f"tenant-{number}", problems)) for number in range(3)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    finally:
        done.set()
        rebuilder.join()
        other.close()
    assert problems == []
    assert rebuilt
    assert drift(world) == []
    verdict = world.verify()
    assert verdict.findings == []
    assert verdict.entries == 3 * 5 * 5


def _walk_many(world: World, tenant_id: str, problems: list[BaseException]) -> None:
    try:
        for number in range(5):
            world.walk_step(tenant_id, f"step-{number}", TO_THE_END)
    except BaseException as problem:  # noqa: BLE001 - shown by the main thread
        problems.append(problem)
