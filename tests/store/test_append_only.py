"""The database itself refuses to change what was written: no convention, no cooperation needed."""

from typing import Any

import pytest

from remit.core.canonical import digest_bytes
from remit.ledger.entry import NewEntry
from remit.ledger.goal_tables import AccessRow, ConfirmationRow, append_agent_row
from remit.ledger.writer import Batch
from remit.store.claims import ClaimAcquired, ClaimKey, claim, finish_claim
from remit.store.connection import GuardedTableError
from tests.support.store_fixtures import LEDGER_TABLES, World

AT = "2026-01-01T00:00:00Z"
PLACE = {"correlation_id": "corr", "plan_id": "plan", "step_id": "one", "user_id": "alice"}
CONFIRMATION = ConfirmationRow(
    confirmation_id="c", verdict="CONFIRMED", language_tag="en", confirm_lexicon_version_ref="l", **PLACE
)
DECISION = AccessRow(decision_id="d", access_action="write", verdict="ALLOWED", policy_snapshot_ref="p", **PLACE)


@pytest.fixture
def filled(world: World) -> World:
    """At least one row in every table: a finished claim, and one that is still running."""

    def work(batch: Batch) -> None:
        append_agent_row(batch, "acme", CONFIRMATION)
        append_agent_row(batch, "acme", DECISION)
        finished = claim(batch.store, ClaimKey("acme", "task", "finished"), "digest", AT)
        assert isinstance(finished, ClaimAcquired)
        claim(batch.store, ClaimKey("acme", "task", "running"), "digest", AT)
        for _ in range(2):
            batch.append(NewEntry("acme", "task.intent", "corr", {}))
        outcome = batch.append(NewEntry("acme", "task.outcome", "corr", {"outcome_digest": digest_bytes(b"result")}))
        finish_claim(batch.store, finished, "result", AT, outcome.seq)

    world.append("acme", 2)
    world.ledger.transact(work)
    world.walk_step("acme", "one", ["PLANNED"])
    return world


def rows(world: World, table: str) -> list[tuple[Any, ...]]:
    return sorted(world.attacker.run(f"SELECT * FROM {table}"), key=repr)


def assert_refused(world: World, table: str, statement: str, match: str = "append-only") -> None:
    before = rows(world, table)
    assert before
    with pytest.raises(Exception, match=match):
        world.attacker.run(statement)
    assert rows(world, table) == before


def columns(world: World, table: str) -> list[str]:
    if world.attacker.dialect == "sqlite":
        return [row[1] for row in world.attacker.run(f"PRAGMA table_info({table})")]
    return [
        row[0]
        for row in world.attacker.run(
            "SELECT attname FROM pg_attribute WHERE attrelid = ?::regclass AND attnum > 0 ORDER BY attnum", (table,)
        )
    ]


@pytest.mark.req("AC-09")
@pytest.mark.parametrize("table", LEDGER_TABLES)
def test_no_column_of_a_ledger_can_be_updated(filled: World, table: str) -> None:
    for column in columns(filled, table):
        assert_refused(filled, table, f"UPDATE {table} SET {column} = {column}")


@pytest.mark.req("AC-09")
@pytest.mark.parametrize("table", [*LEDGER_TABLES, "claims"])
def test_no_row_of_a_ledger_can_be_deleted(filled: World, table: str) -> None:
    assert_refused(filled, table, f"DELETE FROM {table}")
    assert_refused(filled, table, f"DELETE FROM {table} WHERE tenant_id = 'acme'")


@pytest.mark.req("AC-09")
@pytest.mark.parametrize("dialect", ["postgresql"])
@pytest.mark.parametrize("table", [*LEDGER_TABLES, "claims"])
def test_no_ledger_can_be_truncated(filled: World, table: str) -> None:
    assert_refused(filled, table, f"TRUNCATE {table}")
    assert_refused(filled, table, f"TRUNCATE {table} CASCADE")


@pytest.mark.req("AC-09")
@pytest.mark.parametrize("dialect", ["sqlite"])
@pytest.mark.parametrize("table", [*LEDGER_TABLES, "claims"])
@pytest.mark.parametrize("verb", ["REPLACE", "INSERT OR REPLACE", "UPDATE OR REPLACE"])
def test_no_row_of_a_ledger_can_be_replaced(filled: World, table: str, verb: str) -> None:
    if verb == "UPDATE OR REPLACE":
        statement = f"UPDATE OR REPLACE {table} SET tenant_id = 'acme', {columns(filled, table)[2]} = 'x'"
        if table == "claims":
            statement = "UPDATE OR REPLACE claims SET key = 'finished' WHERE key = 'running'"
    else:
        statement = f"{verb} INTO {table} SELECT * FROM {table}"
    assert_refused(filled, table, statement)


@pytest.mark.req("AC-09")
@pytest.mark.parametrize("dialect", ["sqlite"])
@pytest.mark.parametrize("table", [table for table in LEDGER_TABLES if table != "ledger_heads"])
def test_no_row_can_be_replaced_by_way_of_its_rowid(filled: World, table: str) -> None:
    """A new tenant and number, so no unique index objects; only the hidden key is the old row's."""
    names = columns(filled, table)
    values = ["'other'" if name == "tenant_id" else name for name in names]
    statement = f"REPLACE INTO {table} (rowid, {', '.join(names)}) SELECT rowid, {', '.join(values)} FROM {table}"
    assert_refused(filled, table, statement)


@pytest.mark.req("AC-09")
@pytest.mark.parametrize("table", LEDGER_TABLES)
def test_no_row_of_a_ledger_can_be_upserted(filled: World, table: str) -> None:
    key = "tenant_id, seq" if table in {"ledger_entries", "ledger_heads"} else "tenant_id, entry_seq"
    changed = columns(filled, table)[2]
    assert_refused(
        filled,
        table,
        f"INSERT INTO {table} SELECT * FROM {table} WHERE true ON CONFLICT ({key}) DO UPDATE SET {changed} = 'x'",
    )


@pytest.mark.req("AC-09")
@pytest.mark.parametrize(
    "change",
    [
        "state = 'CLAIMED', result = NULL WHERE key = 'finished'",
        "result = 'another' WHERE key = 'finished'",
        "claim_token = 'another' WHERE key = 'finished'",
        "key = 'another' WHERE key = 'running'",
        "scope = 'another' WHERE key = 'running'",
        "tenant_id = 'another' WHERE key = 'running'",
        "request_digest = 'another' WHERE key = 'running'",
    ],
)
def test_a_finished_claim_never_changes_and_a_running_one_keeps_its_key(filled: World, change: str) -> None:
    assert_refused(filled, "claims", f"UPDATE claims SET {change}")


@pytest.mark.parametrize("table", LEDGER_TABLES)
def test_the_refusal_reaches_our_own_code_as_guarded(filled: World, table: str) -> None:
    with pytest.raises(GuardedTableError, match="append-only"):
        filled.ledger.transact(lambda batch: batch.store.execute(f"UPDATE {table} SET tenant_id = 'x'"))
    assert filled.verify().holds
