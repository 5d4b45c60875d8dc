"""The four agent tables with their three indexes, column for column, and that the databases use them."""

import re

import pytest

from tests.support.store_fixtures import World

STEPS = "agent_execution_ledger"
CURRENT = "agent_execution_current"
COLUMNS = {
    STEPS: (
        "tenant_id entry_seq event_id source created_at correlation_id plan_id step_id event simulation_id"
        " idempotency_key reason_code finder_packet_ref policy_snapshot_ref catalog_snapshot_ref"
        " artifact_fingerprint_bundle_ref access_decision_ref confirmation_parse_proof_ref simulation_entry_ref"
        " rollback_plan_ref dispatch_decision_hash attempt effect outputs_ref"
    ),
    CURRENT: ("tenant_id plan_id step_id correlation_id event idempotency_key reason_code entry_seq updated_at"),
    "agent_execution_confirmation_ledger": (
        "tenant_id entry_seq confirmation_id created_at correlation_id plan_id step_id user_id verdict accepted_token"
        " language_tag confirm_lexicon_version_ref"
    ),
    "agent_execution_access_decision_ledger": (
        "tenant_id entry_seq decision_id created_at correlation_id plan_id step_id user_id access_action verdict"
        " reason_code policy_snapshot_ref"
    ),
}
DISPATCH = ("tenant_id", "correlation_id", "step_id", "idempotency_key")
LOOKUP = ("tenant_id", "plan_id", "step_id")
REPLAY = ("tenant_id", "correlation_id", "created_at")


def columns(world: World, table: str) -> list[str]:
    if world.attacker.dialect == "sqlite":
        return [row[1] for row in world.attacker.run(f"PRAGMA table_info({table})")]
    query = "SELECT attname FROM pg_attribute WHERE attrelid = ?::regclass AND attnum > 0 ORDER BY attnum"
    return [row[0] for row in world.attacker.run(query, (table,))]


def indexes(world: World, table: str) -> dict[tuple[str, ...], tuple[bool, str]]:
    """Columns of each index: is it unique, and for which rows."""
    found: dict[tuple[str, ...], tuple[bool, str]] = {}
    if world.attacker.dialect == "sqlite":
        for _, name, unique, _, _ in world.attacker.run(f"PRAGMA index_list({table})"):
            names = tuple(row[2] for row in world.attacker.run(f"PRAGMA index_info({name})"))
            texts = world.attacker.run("SELECT sql FROM sqlite_master WHERE name = ? AND sql IS NOT NULL", (name,))
            found[names] = bool(unique), texts[0][0].partition(" WHERE ")[2] if texts else ""
        return found
    query = (
        "SELECT array(SELECT pg_get_indexdef(indexrelid, k, false) FROM generate_series(1, indnatts) AS k),"
        " indisunique, coalesce(pg_get_expr(indpred, indrelid), '') FROM pg_index WHERE indrelid = ?::regclass"
    )
    for names, unique, where in world.attacker.run(query, (table,)):
        found[tuple(names)] = unique, re.sub(r"[()]|::text", "", where)
    return found


def plan_of(world: World, query: str) -> str:
    """How the database would find the rows. PostgreSQL scans small tables whole unless it is told not to."""
    if world.attacker.dialect == "sqlite":
        return "\n".join(row[3] for row in world.attacker.run(f"EXPLAIN QUERY PLAN {query}"))
    world.attacker.run("SET enable_seqscan = off")
    return "\n".join(row[0] for row in world.attacker.run(f"EXPLAIN {query}"))


@pytest.mark.req("AC-09")
@pytest.mark.parametrize("table", COLUMNS)
def test_the_four_tables_have_exactly_their_columns(world: World, table: str) -> None:
    assert columns(world, table) == COLUMNS[table].split()


@pytest.mark.req("AC-09")
def test_the_three_indexes_are_there(world: World) -> None:
    of_steps = indexes(world, STEPS)
    assert of_steps[DISPATCH] == (True, "event = 'DISPATCHED'"), "a step has many events and one dispatch"
    assert of_steps[REPLAY] == (False, "")
    assert indexes(world, CURRENT)[LOOKUP] == (True, ""), "the projection's key is the lookup by plan and step"
    for table in ("agent_execution_confirmation_ledger", "agent_execution_access_decision_ledger"):
        assert indexes(world, table)[REPLAY] == (False, "")


@pytest.mark.req("AC-09")
@pytest.mark.parametrize(
    "query,index",
    [
        (
            (
                f"SELECT 1 FROM {STEPS} WHERE tenant_id = 't' AND correlation_id = 'c' AND step_id = 's'"
                " AND idempotency_key = 'k' AND event = 'DISPATCHED'"
            ),
            "agent_execution_ledger_idempotency",
        ),
        (
            f"SELECT * FROM {CURRENT} WHERE tenant_id = 't' AND plan_id = 'p' AND step_id = 's'",
            ("PRIMARY KEY", "agent_execution_current_pkey"),
        ),
        (
            f"SELECT * FROM {STEPS} WHERE tenant_id = 't' AND correlation_id = 'c' ORDER BY created_at",
            "agent_execution_ledger_replay",
        ),
        (
            f"SELECT * FROM {STEPS} WHERE tenant_id = 't' ORDER BY tenant_id, plan_id, step_id, entry_seq",
            "agent_execution_ledger_plan",
        ),
        (
            "SELECT min(seq) FROM ledger_entries WHERE tenant_id = 't' AND correlation_id = 'c'",
            "ledger_entries_correlation",
        ),
        (
            "SELECT seq, hash FROM ledger_entries WHERE tenant_id = 't' ORDER BY seq DESC LIMIT 1",
            ("sqlite_autoindex_ledger_entries_1", "ledger_entries_pkey"),
        ),
    ],
)
def test_lookups_use_the_indexes_and_sort_nothing(world: World, query: str, index: str | tuple[str, str]) -> None:
    plan = plan_of(world, query)
    name = index if isinstance(index, str) else index[0 if world.attacker.dialect == "sqlite" else 1]
    assert name in plan
    assert "Seq Scan" not in plan
    assert "SCAN" not in plan
    assert "B-TREE" not in plan
    assert "Sort" not in plan


@pytest.mark.req("AC-09")
def test_one_step_has_one_dispatch_and_many_events(world: World) -> None:
    """As the database sees it, whoever inserts the rows."""
    insert = (
        f"INSERT INTO {STEPS} (tenant_id, entry_seq, event_id, source, created_at, correlation_id, plan_id, step_id,"
        " event, idempotency_key) VALUES ('acme', ?, 'e', 'PH1.AGENT_EXECUTION', 'now', 'c', 'p', 's', ?, 'k')"
    )
    for seq, event in enumerate(["PLANNED", "CONFIRMED", "DISPATCHED", "SUCCEEDED", "PLANNED"], start=1):
        world.attacker.run(insert, (seq, event))
    with pytest.raises(Exception, match=r"dispatched before|agent_execution_ledger_idempotency"):
        world.attacker.run(insert, (6, "DISPATCHED"))
    assert world.attacker.run(f"SELECT count(*) FROM {STEPS} WHERE event = 'DISPATCHED'") == [(1,)]


@pytest.mark.parametrize(
    "table,row",
    [
        (STEPS, "'t', 1, 'e', 'SOMEBODY_ELSE', 'now', 'c', 'p', 's', 'PLANNED'" + ", NULL, 'k'" + ", NULL" * 13),
        ("ledger_entries", "'t', 0, 'e', 'now', 'k', 'c', NULL, NULL, NULL, '{}', 'p', 'h'"),
        ("claims", "'t', 's', 'k', 'd', 'c', '{}', 'o', 'x', 'now', 'DONE', NULL, NULL, NULL"),
        ("claims", "'t', 's', 'k', 'd', 'c', '{}', 'o', 'x', 'now', 'OTHER', NULL, NULL, NULL"),
    ],
)
def test_rows_that_make_no_sense_are_refused(world: World, table: str, row: str) -> None:
    with pytest.raises(Exception, match=r"(?i)check constraint"):
        world.attacker.run(f"INSERT INTO {table} VALUES ({row})")
