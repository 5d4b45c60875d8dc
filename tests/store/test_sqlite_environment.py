"""SQLite on a machine that does not play along: busy, missing, open to others, read-only. Each said with what to do."""

import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, UsageError
from remit.store.connection import DatabaseBusyError, DatabaseFailureError
from remit.store.migrations_runner import migrate
from remit.store.sqlite import SqliteStore
from tests.support.patience import SOON
from tests.support.store_fixtures import Ticking

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.sqlite3"
    migrate(SqliteStore.create(path), Ticking())
    return path


def failure(store: SqliteStore) -> EnvironmentFailureError:
    with pytest.raises(EnvironmentFailureError) as caught, closing(store.connect()) as connection:
        connection.begin(write=True)
    assert str(store.path) in caught.value.where
    assert caught.value.next_step
    return caught.value


def test_a_foreign_process_that_holds_the_write_lock_is_reported_after_the_timeout(path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        store = SqliteStore(path, busy_seconds=0.3)
        began = time.monotonic()
        problem = failure(store)
        assert 0.25 < time.monotonic() - began < SOON
        assert isinstance(problem, DatabaseBusyError)
        assert problem.reason is Reason.STORE_UNAVAILABLE
        assert "held the ledger's write lock for 0.3 s" in problem.what
        with store.reading() as connection:
            assert connection.one("SELECT count(*) FROM ledger_entries") == (0,), "readers are not held up"
        holder.communicate(timeout=20)
    with closing(store.connect()) as connection:
        connection.begin(write=True)


def test_a_connection_that_waits_for_the_write_lock_checks_it_often(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's own pauses grow to a tenth of a second: of several processes, one would wait for seconds."""
    pauses: list[float] = []
    with closing(SqliteStore(path).connect()) as holder, closing(SqliteStore(path).connect()) as waiting:
        holder.begin(write=True)

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 8:
                holder.rollback()

        monkeypatch.setattr("remit.store.sqlite.time.sleep", sleep)
        waiting.begin(write=True)
    assert pauses == sorted(pauses)
    assert 0 < pauses[0] <= pauses[-1] <= 0.005
    assert len(pauses) == 8


def test_a_missing_database_is_not_created_by_opening(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "nothing.sqlite3")
    problem = failure(store)
    assert problem.reason is Reason.STATE_MISSING
    assert "backup" in problem.next_step
    assert not store.path.exists()


def test_a_database_that_vanishes_between_check_and_opening_is_not_created(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remit.store.sqlite.require_private", lambda *_, **__: path.unlink())
    assert failure(SqliteStore(path)).reason is Reason.STORE_UNAVAILABLE
    assert not path.exists()


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o602])
def test_a_database_open_to_others_is_refused(path: Path, mode: int) -> None:
    path.chmod(mode)
    problem = failure(SqliteStore(path))
    assert problem.reason is Reason.STATE_UNSAFE
    assert f"open to others (mode {mode:04o})" in problem.what
    assert "chmod" in problem.next_step


def test_a_link_in_the_place_of_the_database_is_refused(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.sqlite3"
    link.symlink_to(path)
    assert "is a symbolic link" in failure(SqliteStore(link)).what


def test_a_database_of_another_user_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = os.geteuid() + 1
    monkeypatch.setattr("os.geteuid", lambda: stranger)
    problem = failure(SqliteStore(path))
    assert problem.reason is Reason.STATE_UNSAFE
    assert "belongs to user" in problem.what


READ_ONLY = """
import os, sys
from contextlib import closing
from pathlib import Path
from remit.core.errors import EnvironmentFailureError
from remit.store.sqlite import SqliteStore
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    with closing(SqliteStore(Path(sys.argv[1])).connect()) as connection:
        connection.begin(write=True)
        connection.execute("INSERT INTO schema_migrations VALUES (9, 'x', 'x', 'x')")
except EnvironmentFailureError as problem:
    print(problem.reason.value, problem, sep="|")
"""


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_read_only_place_is_reported_with_what_to_do(path: Path, what: str) -> None:
    """As an ordinary user, since nothing is read-only to root."""
    for place in (path, path.parent):
        if os.geteuid() == 0:
            os.chown(place, 65534, 65534)
    for above in path.parent.parents:
        if above.stat().st_uid == os.geteuid() and len(above.parts) > 2:
            above.chmod(0o755)
    if what == "folder":
        path.parent.chmod(0o500)
    else:
        path.chmod(0o400)
    source = Path(__file__).resolve().parent.parent.parent / "src"
    command = [sys.executable, "-c", READ_ONLY, str(path)]
    done = subprocess.run(
        command, capture_output=True, check=False, text=True, env={**os.environ, "PYTHONPATH": str(source)}
    )
    path.parent.chmod(0o700)
    assert done.returncode == 0, done.stderr
    reason, _, text = done.stdout.strip().partition("|")
    assert reason == "store_unavailable"
    assert "cannot be opened for writing" in text
    assert str(path) in text
    assert "cannot be opened for writing" in text


def test_a_database_without_tables_says_migrate(tmp_path: Path) -> None:
    store = SqliteStore.create(tmp_path / "empty.sqlite3")
    with store.reading() as connection, pytest.raises(DatabaseFailureError, match="tables do not exist") as caught:
        connection.one("SELECT * FROM ledger_entries")
    assert caught.value.reason is Reason.STORE_OUTDATED
    assert "remit migrate" in caught.value.next_step


def test_a_new_database_is_private_durable_and_in_wal_mode(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    with closing(SqliteStore(path).connect()) as connection:
        connection.begin(write=True)
        connection.execute("INSERT INTO schema_migrations VALUES (9, 'x', 'x', 'x')")
        assert connection.one("PRAGMA journal_mode") == ("wal",)
        assert connection.one("PRAGMA synchronous") == (2,), "FULL"
        assert connection.one("PRAGMA trusted_schema") == (0,)
        assert path.with_name(path.name + "-wal").stat().st_mode & 0o777 == 0o600
        connection.rollback()


def test_readers_cannot_write(path: Path) -> None:
    with SqliteStore(path).reading() as connection, pytest.raises(DatabaseFailureError):
        connection.execute("DELETE FROM agent_execution_current")


def test_a_reader_keeps_its_view_while_others_write(path: Path) -> None:
    store = SqliteStore(path)
    added = "SELECT count(*) FROM schema_migrations WHERE version = 9"
    with store.reading() as reader, closing(store.connect()) as writer:
        assert reader.one(added) == (0,)
        writer.execute("INSERT INTO schema_migrations VALUES (9, 'x', 'x', 'x')")
        assert reader.one(added) == (0,)
    with store.reading() as reader:
        assert reader.one(added) == (1,)


def test_a_half_read_result_may_outlive_its_connection(path: Path) -> None:
    with SqliteStore(path).reading() as connection:
        rows = connection.stream("SELECT 1 UNION SELECT 2")
        assert next(rows) == (1,)
    rows.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["a b.sqlite3", "a?mode=ro.sqlite3", "a%20b#c.sqlite3", "é.sqlite3"])
def test_odd_file_names_are_only_names(tmp_path: Path, name: str) -> None:
    store = SqliteStore.create(tmp_path / name)
    migrate(store, Ticking())
    assert {path.name for path in tmp_path.iterdir()} <= {name, f"{name}-wal", f"{name}-shm"}
    assert str(store.path) in store.describe()


@pytest.mark.parametrize("value", [object(), 2**64, b"bytes", None])
def test_a_value_of_the_wrong_kind_is_the_callers_mistake(path: Path, value: object) -> None:
    insert = "INSERT INTO claims VALUES ('t', 's', ?, 'd', 'c', '{}', 'o', 'x', 'now', 'CLAIMED', NULL, NULL, NULL)"
    with closing(SqliteStore(path).connect()) as connection, pytest.raises(UsageError):
        connection.execute(insert, (value,))


def test_a_glance_sees_the_database_that_is_there_now_not_the_one_of_the_last_glance(
    path: Path, tmp_path: Path
) -> None:
    store = SqliteStore(path)
    with store.reading_pooled() as connection:
        assert connection.has_table("claims")
    other = tmp_path / "other.sqlite3"
    SqliteStore.create(other)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    other.replace(path)
    with store.reading_pooled() as connection:
        assert not connection.has_table("claims")
    store.close()


def test_a_glance_keeps_its_session_for_the_next_and_lets_go_when_closed(path: Path) -> None:
    store = SqliteStore(path)
    with store.reading_pooled() as first:
        pass
    with store.reading_pooled() as second:
        assert second is first
    store.close()
    with store.reading_pooled() as third:
        assert third is not first
