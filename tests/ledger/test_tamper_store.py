"""The guards themselves, and the bytes beneath: dropped, disabled or weakened triggers, strange ones, damaged pages."""

import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from remit.ledger.entry import NewEntry
from remit.ledger.findings import RecordFault
from remit.ledger.heads import Anchors
from remit.ledger.verify.triggers import foreign_triggers, missing_guards
from remit.ledger.verify.verifier import verify_store
from remit.store.sqlite import SqliteStore
from tests.support.store_fixtures import World


def said(world: World) -> list[tuple[RecordFault, str]]:
    return [(one.fault, one.what) for one in world.verify().findings]


def guards_of(world: World) -> list[tuple[str, str]]:
    return world.attacker.guards()


def test_each_dropped_guard_is_named(world: World) -> None:
    world.append("acme", 1)
    for name, table in guards_of(world):
        world.attacker.run(f"DROP TRIGGER {name}" + ("" if world.attacker.dialect == "sqlite" else f" ON {table}"))
        assert said(world) == [(RecordFault.GUARD_MISSING, f"table {table} lost its guard {name}")]
        world.attacker.restore_guards()
    assert world.verify().holds


def test_all_guards_dropped_and_an_entry_edited_are_both_named(world: World) -> None:
    world.append("acme", 2)
    count = len(guards_of(world))
    world.attacker.drop_guards()
    world.attacker.run("UPDATE ledger_entries SET actor = 'mallory' WHERE seq = 2")
    found = said(world)
    assert [fault for fault, _ in found].count(RecordFault.GUARD_MISSING) == count
    assert (RecordFault.EDITED, "acme", 2) in world.found()


@pytest.mark.parametrize("dialect", ["postgresql"])
@pytest.mark.parametrize("how", ["DISABLE TRIGGER USER", "ENABLE REPLICA TRIGGER ledger_entries_no_change"])
def test_a_disabled_guard_is_named(world: World, how: str) -> None:
    world.attacker.run(f"ALTER TABLE ledger_entries {how}")
    assert (RecordFault.GUARD_MISSING, "table ledger_entries lost its guard ledger_entries_no_change") in said(world)


@pytest.mark.parametrize("dialect", ["postgresql"])
@pytest.mark.parametrize(
    "weakening",
    [
        "CREATE OR REPLACE FUNCTION remit_append_only() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$",
        "ALTER FUNCTION remit_append_only() RESET search_path",
        (
            "CREATE OR REPLACE TRIGGER ledger_entries_no_change BEFORE UPDATE OR DELETE ON ledger_entries"
            " FOR EACH ROW WHEN (false) EXECUTE FUNCTION remit_append_only()"
        ),
        (
            "CREATE OR REPLACE TRIGGER ledger_entries_no_change BEFORE UPDATE ON ledger_entries"
            " FOR EACH ROW EXECUTE FUNCTION remit_append_only()"
        ),
        (
            "CREATE OR REPLACE TRIGGER ledger_entries_no_change BEFORE UPDATE OR DELETE ON ledger_entries"
            " FOR EACH ROW EXECUTE FUNCTION remit_finish_once()"
        ),
        (
            "CREATE OR REPLACE TRIGGER ledger_entries_no_change BEFORE UPDATE OR DELETE ON ledger_entries"
            " FOR EACH STATEMENT EXECUTE FUNCTION suppress_redundant_updates_trigger()"
        ),
    ],
)
def test_a_weakened_guard_is_named_on_postgresql(world: World, weakening: str) -> None:
    world.attacker.run(weakening)
    assert (RecordFault.GUARD_MISSING, "table ledger_entries lost its guard ledger_entries_no_change") in said(world)


@pytest.mark.parametrize("dialect", ["sqlite"])
@pytest.mark.parametrize("when", ["WHEN false", "WHEN OLD.tenant_id <> 'acme'"])
def test_a_weakened_guard_is_named_on_sqlite(world: World, when: str) -> None:
    world.attacker.run("DROP TRIGGER ledger_entries_no_update")
    world.attacker.run(
        f"CREATE TRIGGER ledger_entries_no_update BEFORE UPDATE ON ledger_entries {when}"
        " BEGIN SELECT RAISE(ABORT, 'ledger_entries is append-only'); END"
    )
    assert said(world) == [(RecordFault.GUARD_MISSING, "table ledger_entries lost its guard ledger_entries_no_update")]


def swallow_entries_of_bob(world: World) -> None:
    if world.attacker.dialect == "sqlite":
        world.attacker.run(
            "CREATE TRIGGER zz_quiet BEFORE INSERT ON ledger_entries WHEN NEW.actor = 'bob'"
            " BEGIN SELECT RAISE(IGNORE); END"
        )
        return
    world.attacker.run("CREATE FUNCTION quiet() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$")
    world.attacker.run(
        "CREATE TRIGGER zz_quiet BEFORE INSERT ON ledger_entries FOR EACH ROW WHEN (NEW.actor = 'bob')"
        " EXECUTE FUNCTION quiet()"
    )


def test_a_strange_trigger_is_named(world: World) -> None:
    swallow_entries_of_bob(world)
    assert said(world) == [
        (RecordFault.GUARD_FOREIGN, "Remit did not make the trigger 'zz_quiet' on table ledger_entries")
    ]


def test_an_entry_that_a_strange_trigger_swallows_is_not_acknowledged(world: World) -> None:
    world.append("acme", 2)
    swallow_entries_of_bob(world)
    with pytest.raises(EnvironmentFailureError, match="did not store a new row") as caught:
        world.ledger.append(NewEntry("acme", "test.event", "corr", {}, actor="bob"))
    assert caught.value.reason is Reason.EVIDENCE_INVALID
    world.append("acme", 1)
    assert world.verify().entries == 3


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_a_rewrite_rule_is_named(world: World) -> None:
    world.attacker.run("CREATE RULE quiet AS ON INSERT TO ledger_heads DO INSTEAD NOTHING")
    assert said(world) == [(RecordFault.GUARD_FOREIGN, "Remit did not make the trigger 'quiet' on table ledger_heads")]


def test_a_fresh_store_has_its_guards_and_no_others(world: World) -> None:
    with world.store.reading() as connection:
        assert list(missing_guards(connection)) == []
        assert list(foreign_triggers(connection)) == []
    assert len(guards_of(world)) == (50 if world.attacker.dialect == "sqlite" else 35)


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_a_column_turned_into_another_kind_is_named(world: World) -> None:
    world.append("acme", 2)
    world.attacker.run(
        "ALTER TABLE ledger_entries ALTER seq TYPE text USING seq::text, DROP CONSTRAINT ledger_entries_seq_check"
    )
    found = world.found()
    assert (RecordFault.SCHEMA_CHANGED, "", None) in found
    assert {tenant for fault, tenant, _ in found if fault is RecordFault.STORE_DAMAGED} <= {"", "acme"}


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_garbage_in_any_page_of_the_file_is_named(world: World, tmp_path: Path) -> None:
    world.append("acme", 20, text="x" * 300)
    world.walk_step("acme", "one", ["PLANNED", "CONFIRMED"])
    world.ledger.close()
    world.attacker.run("PRAGMA wal_checkpoint(TRUNCATE)")
    world.attacker.close()
    assert isinstance(world.store, SqliteStore)
    whole = world.store.path.read_bytes()
    page_size = int.from_bytes(whole[16:18], "big")
    noise = random.Random(1)  # noqa: S311 - any garbage will do
    for page in range(len(whole) // page_size):
        path = tmp_path / f"page-{page}.sqlite3"
        spoilt = whole[: page * page_size] + noise.randbytes(page_size) + whole[(page + 1) * page_size :]
        path.write_bytes(spoilt)
        path.chmod(0o600)
        verdict = verify_store(SqliteStore(path), world.keyring, Anchors(world.anchor_folder))
        assert RecordFault.STORE_DAMAGED in {one.fault for one in verdict.findings}, f"page {page + 1}"
        path.unlink()
    assert verify_store(world.store, world.keyring, Anchors(world.anchor_folder)).holds


@pytest.mark.parametrize("dialect", ["sqlite"])
@pytest.mark.parametrize("content", [b"", b"not a database, whatever it was before" * 40, None])
def test_a_file_that_is_no_ledger_is_refused(world: World, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "other.sqlite3"
    if content is None:
        sqlite3.connect(path).execute("CREATE TABLE something (else_ TEXT)").connection.close()
    else:
        path.write_bytes(content)
    path.chmod(0o600)
    if content or content is None:
        assert not verify_store(SqliteStore(path), world.keyring, world.anchors).holds
    else:
        with pytest.raises(EnvironmentFailureError, match="lacks migration") as caught:
            verify_store(SqliteStore(path), world.keyring, world.anchors)
        assert "remit migrate" in str(caught.value)


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_rows_hidden_from_one_index_are_named(world: World) -> None:
    """A row that lookups by correlation find and the walk along the chain does not: only the file itself can tell."""
    world.append("acme", 6)
    world.ledger.close()
    world.attacker.run("PRAGMA writable_schema=ON")
    world.attacker.run(
        "UPDATE sqlite_master SET rootpage ="
        " (SELECT rootpage FROM sqlite_master WHERE name = 'agent_execution_ledger_plan')"
        " WHERE name = 'ledger_entries_correlation'"
    )
    world.attacker.close()
    assert RecordFault.STORE_DAMAGED in world.faults()


def test_a_copy_of_the_state_verifies_like_the_original(world: World, tmp_path: Path) -> None:
    world.append("acme", 3)
    shutil.copytree(world.anchor_folder, tmp_path / "copy")
    assert os.listdir(tmp_path / "copy")
    assert verify_store(world.store, world.keyring, Anchors(tmp_path / "copy")).anchored == 1
