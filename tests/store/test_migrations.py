"""Migrations run on request, once, whoever asks at the same time; a store that does not fit is refused, not mended."""

import threading
from contextlib import closing
from pathlib import Path

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from remit.ledger.heads import Anchors
from remit.ledger.writer import Ledger
from remit.store import migrations_runner as migrate_module
from remit.store.connection import Store
from remit.store.migrations_runner import Migration, migrate, require_current, shipped_migrations
from remit.store.sqlite import SqliteStore
from tests.support.store_fixtures import Ticking, World

NAMES = [
    "0001_foundation",
    "0002_browser",
    "0003_agent",
    "0004_proposals",
    "0005_previews",
    "0006_plan_previews",
    "0007_counted",
    "0008_steps",
]


def tables(store: Store) -> set[str]:
    with closing(store.connect()) as connection:
        if store.dialect == "sqlite":
            return {row[0] for row in connection.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
        query = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        return {row[0] for row in connection.rows(query)}


def refusal(store: Store) -> EnvironmentFailureError:
    with store.reading() as connection, pytest.raises(EnvironmentFailureError) as caught:
        require_current(connection)
    assert caught.value.reason is Reason.STORE_OUTDATED
    return caught.value


def test_migrating_twice_changes_nothing_the_second_time(empty_store: Store) -> None:
    assert migrate(empty_store, Ticking()) == NAMES
    before = tables(empty_store)
    assert {"ledger_entries", "claims", "approvals", "browser_tokens", "schema_migrations"} <= before
    assert migrate(empty_store, Ticking()) == []
    assert tables(empty_store) == before


def test_migrating_keeps_what_is_there(world: World) -> None:
    world.append("acme", 3)
    assert migrate(world.store, Ticking()) == []
    assert world.verify().entries == 3
    assert world.verify().holds


@pytest.mark.parametrize("turn", range(3))
def test_two_that_migrate_at_once_both_succeed_and_nothing_is_done_twice(empty_store: Store, turn: int) -> None:
    barrier = threading.Barrier(2)
    applied: list[list[str]] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            barrier.wait()
            applied.append(migrate(empty_store, Ticking()))
        except BaseException as problem:  # noqa: BLE001 - shown by the main thread
            problems.append(problem)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert sorted(name for names in applied for name in names) == NAMES, "each by one of the two"
    with empty_store.reading() as connection:
        require_current(connection)


def test_two_that_create_the_same_file_at_once_both_succeed(tmp_path: Path) -> None:
    for number in range(10):
        path = tmp_path / f"{number}.sqlite3"
        barrier = threading.Barrier(4)
        problems: list[BaseException] = []

        def run(
            path: Path = path, barrier: threading.Barrier = barrier, problems: list[BaseException] = problems
        ) -> None:
            try:
                barrier.wait()
                migrate(SqliteStore.create(path), Ticking())
            except BaseException as problem:  # noqa: BLE001 - shown by the main thread
                problems.append(problem)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        assert path.stat().st_mode & 0o777 == 0o600
        with SqliteStore(path).reading() as connection:
            require_current(connection)
            assert connection.one("PRAGMA journal_mode") == ("wal",)


def test_opening_never_migrates(empty_store: Store, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailureError, match="lacks migration 0001_foundation") as caught:
        Ledger(
            empty_store,
            lambda: pytest.fail("no key is needed"),
            lambda: pytest.fail("no key is needed"),
            Anchors(tmp_path / "anchors"),
            Ticking(),
        )
    assert caught.value.reason is Reason.STORE_OUTDATED
    assert "remit migrate" in str(caught.value)
    assert tables(empty_store) == set()


def test_a_missing_migration_is_refused_with_what_to_do(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a newer program would find it."""
    ship_another(monkeypatch)
    problem = refusal(world.store)
    assert "0009_more" in problem.what
    assert "remit migrate" in problem.next_step


def ship_another(monkeypatch: pytest.MonkeyPatch, statement: str = "CREATE TABLE more (x INTEGER)") -> None:
    honest = shipped_migrations("sqlite"), shipped_migrations("postgresql")
    more = Migration(9, "more", "sha256:more", (statement,))
    monkeypatch.setattr(migrate_module, "shipped_migrations", lambda dialect: [*honest[dialect == "postgresql"], more])


def test_the_next_migration_is_applied_to_a_store_in_use(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.append("acme", 2)
    ship_another(monkeypatch)
    assert migrate(world.store, world.clock) == ["0009_more"]
    assert "more" in tables(world.store)
    world.append("acme", 1)
    assert world.verify().entries == 3


def test_a_migration_that_fails_leaves_no_trace(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ship_another(monkeypatch, "CREATE TABLE more (x INTEGER")
    before = tables(world.store)
    with pytest.raises(EnvironmentFailureError):
        migrate(world.store, world.clock)
    monkeypatch.undo()
    assert tables(world.store) == before
    world.append("acme", 1)
    assert world.verify().holds


@pytest.mark.parametrize("asked", ["open", "migrate"])
def test_a_changed_migration_is_refused(world: World, asked: str) -> None:
    world.attacker.run("UPDATE schema_migrations SET digest = 'sha256:other'")
    if asked == "open":
        problem = refusal(world.store)
    else:
        with pytest.raises(EnvironmentFailureError) as caught:
            migrate(world.store, world.clock)
        problem = caught.value
    assert "0001_foundation differs" in problem.what
    assert "restore a backup" in problem.next_step


def test_a_changed_migration_is_refused_before_a_later_one_is_applied(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.attacker.run("UPDATE schema_migrations SET digest = 'sha256:other'")
    ship_another(monkeypatch)
    with pytest.raises(EnvironmentFailureError, match="differs"):
        migrate(world.store, world.clock)
    assert "more" not in tables(world.store)


@pytest.mark.parametrize("asked", ["open", "migrate"])
def test_a_store_newer_than_the_program_is_refused(world: World, asked: str) -> None:
    world.attacker.run("INSERT INTO schema_migrations VALUES (10, 'future', 'sha256:x', 'now')")
    if asked == "open":
        problem = refusal(world.store)
    else:
        with pytest.raises(EnvironmentFailureError) as caught:
            migrate(world.store, world.clock)
        problem = caught.value
    assert "newer than this program (it has migration 10)" in problem.what
    assert "Update Remit" in problem.next_step


def test_both_dialects_ship_the_same_migrations() -> None:
    names = [[(one.version, one.name) for one in shipped_migrations(dialect)] for dialect in ("sqlite", "postgresql")]
    assert names[0] == names[1]
    assert [f"{version:04d}_{name}" for version, name in names[0]] == NAMES


def test_writers_wait_while_another_connection_migrates(world: World) -> None:
    """The same lock: no entry is written into tables that are being changed."""
    written = threading.Event()

    def append_and_tell() -> None:
        world.append("acme", 1)
        written.set()

    with closing(world.store.connect()) as migrator:
        migrator.begin(write=True)
        migrator.lock_schema()
        writer = threading.Thread(target=append_and_tell)
        writer.start()
        assert not written.wait(0.1)
        migrator.rollback()
    assert written.wait(20)
    writer.join()
