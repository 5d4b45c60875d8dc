"""A workspace whose ledger is on PostgreSQL."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from remit.core.ids import system_clock
from remit.diagnostics import workspace
from remit.diagnostics.check import Check
from remit.diagnostics.checkup import check_workspace
from remit.store.migrations_runner import migrate
from remit.store.postgresql import PostgresStore
from tests.diagnostics.sound_workspace import SECRET, SoundWorkspace, checks_by_name

SERVER = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "server_version": "15.8 (Debian)",
    "server_version_num": "150008",
}


@pytest.mark.parametrize(
    "changed, status, next_step",
    [
        ({}, "ok", ""),
        ({"synchronous_commit": "remote_apply"}, "ok", ""),
        ({"fsync": "off"}, "fail", "ALTER SYSTEM SET fsync = on"),
        ({"full_page_writes": "off"}, "warn", "ALTER SYSTEM SET full_page_writes = on"),
        ({"synchronous_commit": "off"}, "warn", "ALTER SYSTEM SET synchronous_commit = on"),
    ],
)
def test_server_settings_that_lose_data_are_named(changed: dict[str, str], status: str, next_step: str) -> None:
    check = workspace.check_server_settings({**SERVER, **changed})
    assert (check.status, next_step in check.next_step) == (status, True)


@pytest.mark.parametrize("number, status", [("150008", "ok"), ("170000", "ok"), ("140012", "warn"), ("90624", "warn")])
def test_a_server_older_than_the_tests_is_a_warning(number: str, status: str) -> None:
    assert workspace.check_server_version({**SERVER, "server_version_num": number}).status == status


@pytest.mark.parametrize("seconds, status", [(0.1, "ok"), (-1.9, "ok"), (5, "warn"), (-5, "warn"), (3600, "fail")])
def test_clocks_that_differ_are_graded_by_how_much(seconds: float, status: str) -> None:
    check = workspace.check_server_clock(seconds)
    assert check.status == status
    assert bool(check.next_step) == (status != "ok")


@pytest.fixture
def server_store(postgres_url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres_url, "remit_doctor")
    yield store
    store.close()


def _check_server(
    store: PostgresStore, sound_workspace: SoundWorkspace, clock: Callable[[], datetime] = system_clock
) -> dict[str, Check]:
    return checks_by_name(check_workspace(sound_workspace.state, lambda: store, clock, has_database=False))


def test_a_workspace_on_postgresql_has_its_server_looked_at(
    server_store: PostgresStore, sound_workspace: SoundWorkspace
) -> None:
    checks = _check_server(server_store, sound_workspace)
    assert checks["tables"].status == "fail"
    assert "remit migrate" in checks["tables"].next_step
    migrate(server_store, system_clock)
    checks = _check_server(server_store, sound_workspace)
    names = ("store", "tables", "PostgreSQL settings", "PostgreSQL clock", "guards", "clock and ledger")
    assert {name: checks[name].status for name in names} == dict.fromkeys(names, "ok")
    assert checks["PostgreSQL server"].found


def test_a_clock_apart_from_the_servers_is_seen(server_store: PostgresStore, sound_workspace: SoundWorkspace) -> None:
    migrate(server_store, system_clock)
    checks = _check_server(server_store, sound_workspace, lambda: datetime.now(UTC) - timedelta(hours=1))
    assert checks["PostgreSQL clock"].status == "fail"
    assert "ahead" in checks["PostgreSQL clock"].found


def test_the_servers_own_setting_is_seen_and_not_this_sessions(
    postgres_url: str, server_store: PostgresStore, sound_workspace: SoundWorkspace
) -> None:
    migrate(server_store, system_clock)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        row = connection.execute("SELECT current_database()").fetchone()
        assert row is not None
        connection.execute(f'ALTER DATABASE "{row[0]}" SET synchronous_commit = off'.encode())
    checks = _check_server(server_store, sound_workspace)
    assert checks["PostgreSQL settings"].status == "warn"
    assert "synchronous_commit is off" in checks["PostgreSQL settings"].found


def test_a_server_that_is_not_there_fails_without_its_password(sound_workspace: SoundWorkspace) -> None:
    store = PostgresStore(f"postgresql://remit:{SECRET}@localhost:1/none", "remit_doctor")
    checks = _check_server(store, sound_workspace)
    assert checks["store"].status == "fail"
    assert checks["store"].next_step
    assert SECRET not in json.dumps([check.as_json() for check in checks.values()])
