"""The agent tables and the projection repeat what the chain says; where they do not, it is found and named."""

import pytest

from remit.core.errors import Reason, RefusedError, UsageError
from remit.ledger.entry import NewEntry
from remit.ledger.findings import RecordFault
from remit.ledger.goal_tables import AccessRow, AgentRow, ConfirmationRow, StepRow, append_agent_row
from remit.ledger.projections import append_step
from tests.support.store_fixtures import World

STEPS = "agent_execution_ledger"
CONFIRMATIONS = "agent_execution_confirmation_ledger"
DECISIONS = "agent_execution_access_decision_ledger"
TO_THE_END = ("PLANNED", "CONFIRMED", "ACCESS_ALLOWED", "DISPATCHED", "SUCCEEDED")
CONFIRMATION = ConfirmationRow(
    confirmation_id="confirmation",
    correlation_id="corr-agent",
    plan_id="plan",
    step_id="one",
    user_id="alice",
    verdict="CONFIRMED",
    accepted_token="yes",
    language_tag="en",
    confirm_lexicon_version_ref="lexicon-1",
)
DECISION = AccessRow(
    decision_id="decision",
    correlation_id="corr-agent",
    plan_id="plan",
    step_id="one",
    user_id="alice",
    access_action="write",
    verdict="ALLOWED",
    policy_snapshot_ref="policy-1",
)


@pytest.fixture
def history(world: World) -> World:
    """Entries 1 to 5 are the events of step one, 6 is a confirmation, 7 an access decision, 8 the start of step two."""
    world.walk_step("acme", "one", TO_THE_END)
    world.ledger.transact(lambda batch: append_agent_row(batch, "acme", CONFIRMATION))
    world.ledger.transact(lambda batch: append_agent_row(batch, "acme", DECISION))
    world.walk_step("acme", "two", ["PLANNED"])
    assert world.verify().holds
    return world


def columns(world: World, table: str) -> list[str]:
    with world.store.reading() as connection:
        if connection.dialect == "sqlite":
            return [row[1] for row in connection.rows(f"PRAGMA table_info({table})")]
        query = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(?) AND attnum > 0 ORDER BY attnum"
        return [row[0] for row in connection.rows(query, (table,))]


@pytest.mark.parametrize("table,seq", [(STEPS, 4), (CONFIRMATIONS, 6), (DECISIONS, 7)])
def test_an_edit_of_any_column_of_a_row_is_named(history: World, table: str, seq: int) -> None:
    where = f"WHERE tenant_id = 'acme' AND entry_seq = {seq}"
    unchecked = [
        name
        for name in columns(history, table)
        if name not in {"tenant_id", "entry_seq", "source", "verdict", "effect"}
    ]
    assert len(unchecked) > 8
    for column in unchecked:
        (kept,) = history.attacker.run(f"SELECT {column} FROM {table} {where}")
        history.attacker.tamper((f"UPDATE {table} SET {column} = ? {where}", ("edited",)))
        assert (RecordFault.ROW_EDITED, "acme", seq) in history.found(), column
        history.attacker.tamper((f"UPDATE {table} SET {column} = ? {where}", kept))
    assert history.verify().holds


def test_another_verdict_is_named(history: World) -> None:
    history.attacker.tamper(f"UPDATE {DECISIONS} SET verdict = 'DENIED'")
    assert history.found() == {(RecordFault.ROW_EDITED, "acme", 7)}


@pytest.mark.parametrize("table,seq", [(STEPS, 2), (CONFIRMATIONS, 6), (DECISIONS, 7)])
def test_a_deleted_row_is_named(history: World, table: str, seq: int) -> None:
    history.attacker.tamper(f"DELETE FROM {table} WHERE entry_seq = {seq}")
    assert (RecordFault.ROW_MISSING, "acme", seq) in history.found()


@pytest.mark.parametrize("tenant_id,seq", [("acme", 70), ("ghost", 1)])
def test_a_row_without_evidence_is_named(history: World, tenant_id: str, seq: int) -> None:
    """No guard stands in the way of an insert, so nothing has to be switched off for it."""
    history.attacker.run(
        f"INSERT INTO {DECISIONS} SELECT ?, ?, 'forged', created_at, correlation_id, plan_id, step_id, user_id,"
        f" access_action, verdict, reason_code, policy_snapshot_ref FROM {DECISIONS}",
        (tenant_id, seq),
    )
    assert history.found() == {(RecordFault.ROW_WITHOUT_EVIDENCE, tenant_id, seq)}


def test_a_row_given_to_another_tenant_is_named(history: World) -> None:
    history.attacker.tamper(f"UPDATE {CONFIRMATIONS} SET tenant_id = 'zeta'")
    assert history.found() == {(RecordFault.ROW_MISSING, "acme", 6), (RecordFault.ROW_WITHOUT_EVIDENCE, "zeta", 6)}


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE agent_execution_current SET event = 'PLANNED' WHERE step_id = 'one'",
        "UPDATE agent_execution_current SET reason_code = 'FINE' WHERE step_id = 'one'",
        "UPDATE agent_execution_current SET updated_at = '2026-01-01T00:00:00.000000Z' WHERE step_id = 'one'",
        "UPDATE agent_execution_current SET step_id = 'three' WHERE step_id = 'one'",
        "DELETE FROM agent_execution_current WHERE step_id = 'one'",
    ],
)
def test_a_changed_projection_is_named(history: World, change: str) -> None:
    history.attacker.tamper(change)
    assert (RecordFault.PROJECTION_DRIFT, "acme", 5) in history.found()


def test_an_illegal_history_is_named_although_everything_is_signed(history: World) -> None:
    """By somebody who holds the key and writes rows past the table of transitions."""
    row = StepRow(
        event_id="e", correlation_id="c", plan_id="plan", step_id="two", event="SUCCEEDED", idempotency_key="k"
    )
    history.ledger.transact(lambda batch: append_agent_row(batch, "acme", row))
    verdict = history.verify()
    assert {(one.fault, one.seq) for one in verdict.findings} == {(RecordFault.PROJECTION_DRIFT, 9)}
    assert any("went from PLANNED to SUCCEEDED" in one.what for one in verdict.findings)


def test_an_agent_entry_without_its_row_cannot_be_written(history: World) -> None:
    with pytest.raises(UsageError, match="written with their row"):
        history.ledger.append(NewEntry("acme", "agent.step", "corr", {}))
    assert history.verify().holds


@pytest.mark.parametrize("bad", ["", "a\0b", "a\nb", "x" * 1001])
@pytest.mark.parametrize("row", [CONFIRMATION, DECISION], ids=["confirmation", "decision"])
def test_a_row_with_an_unprintable_or_endless_word_is_refused(history: World, row: AgentRow, bad: str) -> None:
    values = {name: getattr(row, name) for name in row.__dataclass_fields__}
    spoilt = type(row)(**{**values, "step_id": bad})
    with pytest.raises(RefusedError, match="step_id") as caught:
        history.ledger.transact(lambda batch: append_agent_row(batch, "acme", spoilt))
    assert caught.value.reason is Reason.MALFORMED
    assert history.verify().entries == 8


def test_a_second_dispatch_with_the_same_key_is_refused_by_the_database(history: World) -> None:
    row = StepRow(
        event_id="again",
        correlation_id="corr-agent",
        plan_id="other-plan",
        step_id="one",
        event="DISPATCHED",
        idempotency_key="key-plan-one",
    )
    history.walk_step("acme", "one", TO_THE_END[:3], plan_id="other-plan")
    with pytest.raises(RefusedError, match="dispatched before") as caught:
        history.ledger.transact(lambda batch: append_step(batch, "acme", row))
    assert caught.value.reason is Reason.IDEMPOTENCY_CONFLICT
    assert history.verify().entries == 11
