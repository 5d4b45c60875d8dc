"""A log or a journal that does not belong to the database: found before SQLite reads it, and nothing is changed."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from remit.ledger.findings import RecordFault
from remit.store.migrations_runner import migrate
from remit.store.sqlite import SqliteStore
from remit.store.sqlite_files import log_of
from tests.support.store_fixtures import Ticking, World, database_url, dialect, empty_store, store, store_url, world

__all__ = ["database_url", "dialect", "empty_store", "store", "store_url", "world"]

pytestmark = pytest.mark.parametrize("dialect", ["sqlite"])


def database_of(world: World) -> Path:
    assert isinstance(world.store, SqliteStore)
    return world.store.path


def at_rest(world: World, entries: int = 3) -> Path:
    """With some entries, and everything in the one file: no process has it open."""
    world.append("acme", entries)
    world.ledger.close()
    world.store.close()
    world.attacker.close()
    database = database_of(world)
    assert not log_of(database).exists()
    return database


def log_of_another(folder: Path, *statements: str) -> Path:
    """The log of a database that another program uses."""
    other = folder / "other.sqlite3"
    with closing(sqlite3.connect(other, isolation_level=None)) as session:
        session.execute("PRAGMA journal_mode=WAL")
        for statement in statements:
            session.execute(statement)
        return Path(shutil.copy(log_of(other), folder / "kept.log"))


def log_of_another_ledger(folder: Path) -> Path:
    other = SqliteStore.create(folder / "second.sqlite3")
    with closing(other.connect()):  # as long as it is open, everything stays in the log
        migrate(other, Ticking())
        return Path(shutil.copy(log_of(other.path), folder / "kept.log"))


def plant(log: Path, database: Path) -> None:
    shutil.copy(log, log_of(database))
    os.chmod(log_of(database), 0o600)


def refused(look: Callable[[], object]) -> EnvironmentFailureError:
    with pytest.raises(EnvironmentFailureError) as caught:
        look()
    assert caught.value.reason is Reason.EVIDENCE_INVALID
    return caught.value


@pytest.mark.parametrize("kind", ["table", "ledger"])
def test_a_log_of_another_database_is_named_and_does_no_harm(world: World, tmp_path: Path, kind: str) -> None:
    database = at_rest(world)
    statements = ("CREATE TABLE t (x)", "INSERT INTO t VALUES (1)")
    log = log_of_another(tmp_path, *statements) if kind == "table" else log_of_another_ledger(tmp_path)
    before = database.read_bytes()
    plant(log, database)

    for look in (world.reopen, lambda: migrate(world.store, world.clock), lambda: _read(world.store)):
        problem = refused(look)
        assert "does not belong to it" in problem.what
        assert problem.where == str(log_of(database))
        assert "move the log away" in problem.next_step
        assert "remit migrate" not in str(problem)
    (finding,) = world.verify().findings
    assert finding.fault is RecordFault.STORE_DAMAGED
    assert "does not belong to it" in finding.what
    assert database.read_bytes() == before, "the log was not written into the database"

    log_of(database).unlink()
    world.reopen()
    world.append("acme", 1)
    assert world.verify().findings == []


def test_an_old_log_of_this_database_is_named(world: World) -> None:
    world.append("acme", 1)
    database = database_of(world)
    old = Path(shutil.copy(log_of(database), database.with_name("old.log")))
    at_rest(world, entries=40)
    plant(old, database)
    assert "does not belong to it" in refused(world.reopen).what


def test_the_log_of_a_process_that_died_is_taken_over(world: World, tmp_path: Path) -> None:
    """Its own log, left by a crash: nothing is lost, and there is no alarm."""
    at_rest(world)
    world.reopen()
    world.append("acme", 2)
    database, copy = database_of(world), tmp_path / "copy"
    copy.mkdir()
    for file in (database, log_of(database)):
        shutil.copy(file, copy / file.name)
    world.ledger.close()
    world.store.close()
    for file in (database, log_of(database)):
        shutil.copy(copy / file.name, file)
    world.reopen()
    world.append("acme", 1)
    assert world.verify().findings == []


@pytest.mark.parametrize("content", [b"no log", b"\0" * 40_000, b"\x37\x7f\x06\x82" + b"\1" * 9_000])
def test_a_log_that_is_none_is_left_out_of_account(world: World, content: bytes) -> None:
    """SQLite does so too: no frame in it has a sum that fits."""
    database = at_rest(world)
    log_of(database).write_bytes(content)
    os.chmod(log_of(database), 0o600)
    world.reopen()
    world.append("acme", 1)
    assert world.verify().findings == []


def test_a_journal_that_sqlite_would_play_back_is_named(world: World) -> None:
    database = at_rest(world)
    before = database.read_bytes()
    journal = database.with_name(database.name + "-journal")
    journal.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\0" * 5_000)
    for look in (world.reopen, lambda: migrate(world.store, world.clock)):
        problem = refused(look)
        assert "rollback journal" in problem.what
        assert problem.where == str(journal)
    assert "rollback journal" in world.verify().findings[0].what
    assert database.read_bytes() == before
    journal.unlink()
    world.reopen()
    assert world.verify().findings == []


def test_an_emptied_database_is_not_migrated_over_its_anchors(world: World) -> None:
    database = at_rest(world)
    database.unlink()
    SqliteStore.create(database)
    problem = refused(world.reopen)
    assert "its anchor proves 3 entries of tenant acme" in problem.what
    assert "Do not run `remit migrate`" in problem.next_step
    assert "its anchor proves 3 entries" in world.verify().findings[0].what


def _read(store: object) -> None:
    assert isinstance(store, SqliteStore)
    with store.reading() as connection:
        connection.one("SELECT 1 FROM ledger_entries")
