"""The tables themselves: dropped keys and indexes, weakened columns, row security. And rows that such tables let in."""

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from remit.ledger.entry import NewEntry
from remit.ledger.findings import RecordFault
from remit.store.migrations_runner import migrate
from remit.store.schema_check import present_shape, schema_changes, shipped_shape, tables
from scripts.generate_shape import PLACE, render_shape
from tests.support.store_fixtures import World


def changes(world: World) -> list[str]:
    return [one.what for one in world.verify().findings if one.fault is RecordFault.SCHEMA_CHANGED]


def edit_definition(world: World, name: str, old: str, new: str) -> None:
    world.attacker.run("PRAGMA writable_schema=ON")
    world.attacker.run("UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = ?", (old, new, name))
    version = world.attacker.run("PRAGMA schema_version")[0][0]
    world.attacker.run(f"PRAGMA schema_version={version + 1}")
    world.attacker.run("PRAGMA writable_schema=RESET")


def test_a_fresh_store_is_as_shipped(world: World) -> None:
    with world.store.reading() as connection:
        assert list(schema_changes(connection)) == []
        assert {name.partition(" ")[2] for name in present_shape(connection) if name.startswith("table ")} == tables(
            connection.dialect
        )
    assert len(tables("sqlite")) == len(tables("postgresql")) == 17


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_the_shipped_shape_of_postgresql_is_current(world: World) -> None:
    """If this fails after a migration was added: python scripts/generate_shape.py postgresql://..."""
    with world.store.reading() as connection:
        assert PLACE.read_text("utf-8") == render_shape(present_shape(connection))


@pytest.mark.parametrize("dialect", ["sqlite"])
@pytest.mark.parametrize(
    "name, old, new",
    [
        ("ledger_entries", "STRICT", ""),
        ("ledger_entries", "payload TEXT NOT NULL", "payload TEXT"),
        ("ledger_entries", " CHECK (seq > 0)", ""),
        ("claims", "'CLAIMED', 'DONE'", "'CLAIMED', 'DONE', 'AGAIN'"),
        ("schema_migrations", "digest TEXT NOT NULL", "digest TEXT"),
    ],
)
def test_a_weakened_table_is_named_on_sqlite(world: World, name: str, old: str, new: str) -> None:
    world.append("acme", 1)
    edit_definition(world, name, old, new)
    assert changes(world) == [f"table {name} was changed"]


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_a_rebuilt_table_without_its_key_is_named(world: World) -> None:
    """All rows are as they were; only nothing keeps two of them from having the same place any more."""
    world.append("acme", 3)
    triggers = world.attacker.run("SELECT sql FROM sqlite_master WHERE tbl_name = 'ledger_heads' AND type = 'trigger'")
    world.attacker.run("CREATE TABLE copy AS SELECT * FROM ledger_heads")
    world.attacker.run("DROP TABLE ledger_heads")
    world.attacker.run("ALTER TABLE copy RENAME TO ledger_heads")
    for (statement,) in triggers:
        world.attacker.run(statement)
    assert changes(world) == ["table ledger_heads was changed"]
    assert world.verify().heads == 3, "everything else is still checked"


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_a_view_in_the_place_of_a_table_is_named(world: World) -> None:
    world.append("acme", 3)
    world.attacker.drop_guards()
    world.attacker.run("ALTER TABLE ledger_entries RENAME TO elsewhere")
    world.attacker.run("CREATE VIEW ledger_entries AS SELECT * FROM elsewhere WHERE seq <> 2")
    assert "table ledger_entries is missing" in changes(world)
    assert (RecordFault.MISSING, "acme", 2) in world.found()


def test_a_dropped_index_is_named(world: World) -> None:
    for name in ("agent_execution_ledger_idempotency", "agent_execution_ledger_plan"):
        world.attacker.run(f"DROP INDEX {name}")
    assert changes(world) == [
        "index agent_execution_ledger.agent_execution_ledger_idempotency is missing",
        "index agent_execution_ledger.agent_execution_ledger_plan is missing",
    ]


def test_an_index_made_again_without_its_uniqueness_is_named(world: World) -> None:
    world.attacker.run("DROP INDEX agent_execution_ledger_idempotency")
    world.attacker.run(
        "CREATE INDEX agent_execution_ledger_idempotency ON agent_execution_ledger"
        " (tenant_id, correlation_id, step_id, idempotency_key) WHERE event = 'DISPATCHED'"
    )
    assert changes(world) == ["index agent_execution_ledger.agent_execution_ledger_idempotency was changed"]


def test_an_index_that_would_refuse_honest_entries_is_named(world: World) -> None:
    world.attacker.run("CREATE UNIQUE INDEX quiet ON ledger_entries (kind)")
    assert changes(world) == ["index ledger_entries.quiet was not made by Remit"]


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_another_table_in_the_schema_of_a_server_is_no_finding(world: World) -> None:
    world.attacker.run("CREATE TABLE notes (text TEXT PRIMARY KEY)")
    assert world.verify().holds
    world.reopen()


@pytest.mark.parametrize("dialect", ["sqlite"])
@pytest.mark.parametrize(
    "statement, name",
    [
        ("CREATE TABLE notes (text TEXT PRIMARY KEY)", "table notes"),
        ("CREATE VIEW people AS SELECT * FROM ledger_entries", "view people"),
        ("CREATE VIEW pg_class AS SELECT 1 AS oid", "view pg_class"),
        ("CREATE VIRTUAL TABLE words USING fts5(text)", "table words"),
        ("CREATE INDEX quiet ON ledger_entries (kind)", "index quiet"),
        (
            "CREATE TRIGGER loud AFTER INSERT ON ledger_entries BEGIN SELECT 1; END",
            "trigger loud",
        ),
    ],
)
def test_what_another_program_put_into_the_file_is_named_and_the_ledger_is_not_opened(
    world: World, statement: str, name: str
) -> None:
    world.append("acme", 1)
    world.attacker.run(statement)
    found = [one.what for one in world.verify().findings]
    assert any(name.split()[1] in what for what in found), found
    for refused in (world.reopen, lambda: migrate(world.store, world.clock)):
        with pytest.raises(EnvironmentFailureError, match=f"objects that Remit did not make: .*{name}") as caught:
            refused()
        assert caught.value.reason is Reason.EVIDENCE_INVALID
        assert "remit ledger verify" in caught.value.next_step


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_a_view_in_the_place_of_the_history_is_named_and_no_reason_to_migrate(world: World) -> None:
    world.append("acme", 1)
    world.attacker.run("ALTER TABLE schema_migrations RENAME TO elsewhere")
    world.attacker.run("CREATE VIEW schema_migrations AS SELECT * FROM elsewhere")
    for refused in (world.reopen, lambda: migrate(world.store, world.clock)):
        with pytest.raises(EnvironmentFailureError, match="view schema_migrations") as caught:
            refused()
        assert "remit migrate" not in str(caught.value)
    assert any("view schema_migrations" in one.what for one in world.verify().findings)


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_the_statistics_of_sqlite_itself_are_no_finding(world: World) -> None:
    world.append("acme", 3)
    world.attacker.run("ANALYZE")
    assert world.verify().holds
    world.reopen()


@pytest.mark.parametrize("dialect", ["postgresql"])
@pytest.mark.parametrize(
    "statement, said",
    [
        ("ALTER TABLE claims DROP CONSTRAINT claims_pkey", "constraint claims.claims_pkey is missing"),
        ("ALTER TABLE ledger_entries ALTER payload DROP NOT NULL", "column ledger_entries.payload was changed"),
        (
            "ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_seq_check",
            "constraint ledger_entries.ledger_entries_seq_check is missing",
        ),
        (
            "ALTER TABLE ledger_entries ALTER actor TYPE text COLLATE pg_catalog.default",
            "column ledger_entries.actor was changed",
        ),
        ("ALTER TABLE ledger_entries ALTER actor SET DEFAULT 'x'", "column ledger_entries.actor was changed"),
        ("ALTER TABLE ledger_heads ADD note text", "column ledger_heads.note was not made by Remit"),
        ("ALTER TABLE ledger_heads ENABLE ROW LEVEL SECURITY", "table ledger_heads was changed"),
        ("ALTER TABLE ledger_heads FORCE ROW LEVEL SECURITY", "table ledger_heads was changed"),
        ("ALTER TABLE ledger_heads SET UNLOGGED", "table ledger_heads was changed"),
        ("CREATE POLICY hide ON ledger_entries USING (seq <> 2)", "policy ledger_entries.hide was not made by Remit"),
        ("CREATE TABLE more () INHERITS (ledger_entries)", "table ledger_entries was changed"),
    ],
)
def test_a_weakened_table_is_named_on_postgresql(world: World, statement: str, said: str) -> None:
    world.append("acme", 1)
    world.attacker.run(statement)
    assert said in changes(world)


def test_a_dropped_table_is_a_finding_and_no_failure(world: World) -> None:
    world.append("acme", 2)
    world.attacker.run("DROP TABLE ledger_heads")
    assert "table ledger_heads is missing" in changes(world)
    assert RecordFault.STORE_DAMAGED in world.faults()


# --- rows of another kind -------------------------------------------------------------------------------------------

EDIT_OF_ANOTHER = "UPDATE ledger_entries SET actor = 'm' WHERE tenant_id = 'zeta' AND seq = 2"
BAD = "CAST(x'61ff' AS TEXT)"
PLANTED = {
    "an entry": f"INSERT INTO ledger_entries SELECT {BAD}, seq, entry_id, created_at, kind, correlation_id, task_id,"
    " capability_id, actor, payload, prev_hash, hash FROM ledger_entries WHERE tenant_id = 'acme' AND seq = 2",
    "a head": f"INSERT INTO ledger_heads VALUES ({BAD}, 1, 'h', 's', 'k', 's')",
    "a row of an agent table": "INSERT INTO agent_execution_access_decision_ledger VALUES"
    f" ({BAD}, 1, 'd', 'c', 'c', 'p', 's', 'u', 'a', 'ALLOWED', NULL, 'p')",
    "a row of the projection": "INSERT INTO agent_execution_current VALUES"
    f" ({BAD}, 'p', 's', 'c', 'E', 'k', NULL, 1, 'x')",
    "an entry moved away": f"UPDATE ledger_entries SET tenant_id = {BAD} WHERE tenant_id = 'acme' AND seq = 2",
    "a head moved away": f"UPDATE ledger_heads SET tenant_id = {BAD} WHERE tenant_id = 'acme' AND seq = 2",
}


@pytest.mark.parametrize("dialect", ["sqlite"])
@pytest.mark.parametrize("planted", PLANTED)
def test_a_tenant_that_is_no_text_is_named_and_all_others_are_still_checked(world: World, planted: str) -> None:
    world.append("acme", 3)
    world.append("zeta", 3)
    world.attacker.tamper(
        PLANTED[planted], "UPDATE ledger_entries SET actor = 'm' WHERE tenant_id = 'zeta' AND seq = 2"
    )
    found = world.found()
    assert (RecordFault.EDITED, "zeta", 2) in found, "after it in every order"
    named = {fault for fault, tenant, _ in found if tenant == "a\\udcff"}
    assert named, found
    for finding in world.verify().findings:
        (finding.tenant_id + finding.what).encode()


@pytest.mark.parametrize("dialect", ["sqlite"])
@pytest.mark.parametrize("tenant", ["'a' || char(0) || 'b'", "''", "char(55296)"])
def test_a_tenant_of_strange_characters_is_named(world: World, tenant: str) -> None:
    world.append("acme", 1)
    world.attacker.tamper(f"INSERT INTO ledger_heads VALUES ({tenant}, 1, 'h', 's', 'k', 's')")
    assert world.faults() & {RecordFault.HEAD_UNKNOWN_KEY, RecordFault.HEAD_FORGED}


@pytest.mark.parametrize("dialect", ["sqlite"])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_entries SET seq = 'two' WHERE tenant_id = 'acme' AND seq = 2",
        "UPDATE ledger_entries SET kind = x'00' WHERE tenant_id = 'acme' AND seq = 2",
        "UPDATE ledger_entries SET tenant_id = x'00' WHERE tenant_id = 'acme' AND seq = 2",
        "UPDATE ledger_heads SET seq = 'two' WHERE tenant_id = 'acme' AND seq = 2",
        "UPDATE ledger_heads SET signature = 7 WHERE tenant_id = 'acme' AND seq = 2",
        "UPDATE ledger_heads SET key_id = x'00' WHERE tenant_id = 'acme' AND seq = 2",
        "UPDATE agent_execution_ledger SET entry_seq = 'x' WHERE tenant_id = 'acme'",
        "UPDATE agent_execution_current SET plan_id = x'00' WHERE tenant_id = 'acme'",
        "INSERT INTO claims SELECT x'00', 's', 'k', 'd', 'c', '{}', 'o', 't', 'c', 'CLAIMED', NULL, NULL, NULL",
    ],
)
def test_values_of_another_kind_are_named_and_all_others_are_still_checked(world: World, statement: str) -> None:
    world.append("acme", 3)
    world.walk_step("acme", "one", ["PLANNED"])
    world.append("zeta", 3)
    world.ledger.close()
    for table in tables("sqlite"):
        edit_definition(world, table, "STRICT", "")
        edit_definition(world, table, ", WITHOUT ROWID", "WITHOUT ROWID")
    world.attacker.tamper(statement, EDIT_OF_ANOTHER)
    found = world.found()
    assert (RecordFault.EDITED, "zeta", 2) in found
    assert {fault for fault, tenant, _ in found if tenant in {"acme", ""}} - {RecordFault.SCHEMA_CHANGED}


def test_claims_of_a_tenant_without_a_chain_are_named(world: World) -> None:
    world.append("acme", 1)
    world.attacker.run(
        "INSERT INTO claims (tenant_id, scope, key, request_digest, correlation_id, checkpoint, owner, claim_token,"
        " claimed_at, state) VALUES ('nobody', 'task', 'k', 'd', 'c', '{}', 'o', 't', 'now', 'CLAIMED')"
    )
    assert (RecordFault.CLAIM_FORGED, "nobody", None) in world.found()


def test_the_tests_of_the_schema_depend_on_the_shipped_shape(world: World) -> None:
    shape = shipped_shape(world.store.dialect)
    assert any(name.endswith("agent_execution_ledger_idempotency") for name in shape)
    world.ledger.append(NewEntry("acme", "test.event", "corr", {}))
    assert world.verify().holds
