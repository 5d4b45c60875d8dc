"""PostgreSQL that is gone, busy, restarted or misaddressed: said clearly, without a password, mended if possible."""

import os
import time
import warnings
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, UsageError
from remit.ledger.bundle import write_bundle
from remit.store.connection import DatabaseBusyError, DatabaseFailureError, GuardedTableError
from remit.store.postgresql import PostgresConnection, PostgresStore
from tests.support.patience import SOON
from tests.support.store_fixtures import World


@pytest.fixture
def dialect() -> str:
    return "postgresql"


@pytest.fixture
def here(world: World) -> PostgresStore:
    assert isinstance(world.store, PostgresStore)
    return world.store


def test_an_address_that_leads_nowhere_is_reported_without_its_password(subtests: pytest.Subtests) -> None:
    for url in [
        "postgresql://bob:hunter2@[bad",
        "host=nowhere password=hunter2 sslmode",
        "postgresql://bob:hunter2@127.0.0.1:1/x",
        "postgresql://bob:p@hunter2@127.0.0.1:1/x",
        "postgresql://bob:p@hunter2/@127.0.0.1:1/x",
        "postgresql://bob:p@hunter2:7@127.0.0.1:1/x",
        "postgresql://bob:hunter2/x@127.0.0.1:1/x",
        "postgresql://bob:1/hunter2@127.0.0.1:1/x",
        "postgresql://bob:%hunter2@127.0.0.1:1/x",
    ]:
        with subtests.test(url):
            store = PostgresStore(url, "remit_x", busy_seconds=2)
            with pytest.raises(EnvironmentFailureError) as caught:
                store.connect()
            assert caught.value.reason is Reason.STORE_UNAVAILABLE
            assert caught.value.next_step
            assert "hunter2" not in str(caught.value)
            assert "hunter2" not in store.describe()


@pytest.mark.parametrize("url", ["postgresql://bob@hunter2/x", "host=hunter2 dbname=x"])
def test_a_host_that_cannot_be_found_is_not_quoted(url: str) -> None:
    with pytest.raises(DatabaseFailureError, match="host in the database's address cannot be found") as caught:
        PostgresStore(url, "remit_x", busy_seconds=2).connect()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("password", ["p@ssw0rdX", "p@/x", "@", "4/x@y", "a/b"])
def test_a_password_that_breaks_the_address_is_refused_before_any_server_is_asked(password: str) -> None:
    store = PostgresStore(f"postgresql://u:{password}@host/db", "remit_x", busy_seconds=2)
    with pytest.raises(EnvironmentFailureError, match="cannot be read") as caught:
        store.connect()
    assert "Percent-encode" in caught.value.next_step
    assert store.describe() == "PostgreSQL at an unreadable address"


@pytest.mark.parametrize("url", ["postgresql://u:p%40s%2Fx@h1,h2:5/db", "host=/run/a@b dbname=db", "postgresql:///db"])
def test_an_address_that_is_spelled_right_is_read(url: str) -> None:
    assert PostgresStore(url, "remit_x").describe().startswith("PostgreSQL database db on ")


@pytest.mark.parametrize("schema", ["", "Upper", 'a"b', "a b", "x" * 64, "1a"])
def test_a_schema_name_that_is_none_is_refused(schema: str) -> None:
    with pytest.raises(ValueError, match="schema name"):
        PostgresStore("postgresql://localhost/x", schema)


def test_another_writer_that_holds_the_lock_is_reported_after_the_timeout(world: World, here: PostgresStore) -> None:
    hasty = PostgresStore(world.url, here.schema, busy_seconds=0.3)
    with closing(here.connect()) as holder, closing(hasty.connect()) as waiter:
        holder.begin(write=True)
        began = time.monotonic()
        with pytest.raises(DatabaseBusyError, match=r"held the ledger's write lock for 0\.3 s") as caught:
            waiter.begin(write=True)
        assert 0.25 < time.monotonic() - began < SOON
        assert "pg_stat_activity" in caught.value.next_step
        with hasty.reading() as reader:
            assert reader.one("SELECT count(*) FROM ledger_entries") == (0,), "readers are not held up"
    hasty.close()


def test_two_workspaces_in_one_database_do_not_wait_for_each_other(world: World, here: PostgresStore) -> None:
    other = PostgresStore(world.url, here.schema + "_other", busy_seconds=0.3)
    with closing(here.connect()) as holder, closing(other.connect()) as neighbour:
        holder.begin(write=True)
        neighbour.begin(write=True)


def test_a_reader_kept_for_reuse_that_died_is_replaced(world: World, here: PostgresStore) -> None:
    with here.reading() as connection:
        session = connection.one("SELECT pg_backend_pid()")
    assert session is not None
    world.attacker.run("SELECT pg_terminate_backend(?)", session)
    with here.reading() as connection:
        assert connection.one("SELECT pg_backend_pid()") != session


def _end_sessions(world: World) -> None:
    world.attacker.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'remit' AND datname = current_database() AND pid <> pg_backend_pid()"
    )


def test_a_writer_kept_for_reuse_that_died_is_replaced(world: World) -> None:
    world.append("acme", 1)
    _end_sessions(world)
    world.append("acme", 1)
    assert world.verify().entries == 2


@pytest.mark.parametrize("has_happened", [True, False])
def test_a_commit_whose_answer_is_lost_is_looked_up_and_told_as_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch, *, has_happened: bool
) -> None:
    """The server ends the session right before the commit, or right after it and before its answer came."""
    world.append("acme", 1)
    commit = PostgresConnection.commit
    with monkeypatch.context() as dying:

        def lost(connection: PostgresConnection) -> None:
            dying.undo()
            if has_happened:
                commit(connection)
            _end_sessions(world)
            commit(connection)

        dying.setattr(PostgresConnection, "commit", lost)
        if has_happened:
            world.append("acme", 1)
        else:
            with pytest.raises(DatabaseFailureError) as caught:
                world.append("acme", 1)
            assert "not known" not in str(caught.value)
    verdict = world.verify()
    assert (verdict.entries, verdict.findings) == (1 + has_happened, [])
    world.append("acme", 1)
    assert world.verify().entries == 2 + has_happened


def test_a_commit_that_left_no_entry_cannot_be_looked_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = PostgresConnection.commit
    with monkeypatch.context() as dying:

        def lost(connection: PostgresConnection) -> None:
            dying.undo()
            _end_sessions(world)
            commit(connection)

        dying.setattr(PostgresConnection, "commit", lost)
        with pytest.raises(EnvironmentFailureError, match="not known whether"):
            world.ledger.transact(lambda batch: batch.store.execute("SELECT 1"))


def test_readers_are_reused_and_closed(world: World, here: PostgresStore) -> None:
    with here.reading() as connection:
        first = connection.one("SELECT pg_backend_pid()")
    with here.reading() as connection:
        assert connection.one("SELECT pg_backend_pid()") == first
    here.close()
    with here.reading() as connection:
        assert connection.one("SELECT pg_backend_pid()") != first


def test_a_child_process_does_not_share_its_parents_sessions(world: World, here: PostgresStore) -> None:
    with here.reading() as connection:
        parents = connection.one("SELECT pg_backend_pid()")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks in general
        child = os.fork()
    if child == 0:  # nothing here may raise past os._exit, or pytest would run twice
        code = 1
        try:
            with here.reading() as connection:
                code = 0 if connection.one("SELECT pg_backend_pid()") != parents else 2
            here.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with here.reading() as connection:
        assert connection.one("SELECT pg_backend_pid()") == parents


def test_a_reader_keeps_its_view_while_others_write(world: World, here: PostgresStore) -> None:
    world.append("acme", 1)
    with here.reading() as reader:
        assert reader.one("SELECT count(*) FROM ledger_entries") == (1,)
        world.append("acme", 1)
        assert len(list(reader.stream("SELECT * FROM ledger_entries"))) == 1


def test_readers_cannot_write(world: World, here: PostgresStore) -> None:
    with pytest.raises(EnvironmentFailureError), here.reading() as connection:
        connection.execute("DELETE FROM agent_execution_current")


def test_a_stream_fetches_more_rows_than_fit_in_one_batch(world: World, here: PostgresStore) -> None:
    with here.reading() as connection:
        numbers = [row[0] for row in connection.stream("SELECT generate_series(1, 2500)")]
        assert numbers == list(range(1, 2501))
        first, second = connection.stream("SELECT 1"), connection.stream("SELECT 2")
        assert (next(first), next(second)) == ((1,), (2,)), "two at a time"


@pytest.mark.parametrize("kind", ["rows", "stream"])
def test_a_half_read_result_may_outlive_its_connection(here: PostgresStore, kind: str) -> None:
    with closing(here.connect()) as connection:
        connection.begin(write=False)
        rows = getattr(connection, kind)("SELECT 1 UNION SELECT 2 ORDER BY 1")
        assert next(rows) == (1,)
    rows.close()


def test_a_session_that_hangs_amid_a_transaction_is_ended_by_the_server(here: PostgresStore) -> None:
    """Else a host that sleeps while it holds the write lock would hold up all others for ever."""
    with closing(here.connect()) as connection:
        assert connection.one("SHOW idle_in_transaction_session_timeout") == ("0",)
        connection.begin(write=True)
        assert connection.one("SHOW idle_in_transaction_session_timeout") == ("1min",)


def test_a_server_told_to_acknowledge_early_is_overruled(world: World, here: PostgresStore) -> None:
    separator = "&" if urlsplit(world.url).query else "?"
    eager = PostgresStore(f"{world.url}{separator}options=-csynchronous_commit%3Doff", here.schema)
    with closing(eager.connect()) as connection:
        assert connection.one("SHOW synchronous_commit") == ("on",)


def test_a_commit_of_a_failed_transaction_is_not_taken_for_success(here: PostgresStore) -> None:
    with closing(here.connect()) as connection:
        connection.begin(write=True)
        with pytest.raises(UsageError):
            connection.execute(
                "INSERT INTO claims VALUES ('t', 's', 'k', 'd', 'c', '{}', 'o', 'x', 'now', 'OTHER', NULL, NULL, NULL)"
            )
        with pytest.raises(UsageError, match="undid all of it"):
            connection.commit()


def test_tables_that_are_not_there_say_migrate(world: World) -> None:
    nothing = PostgresStore(world.url, "remit_nothing_here")
    with pytest.raises(DatabaseFailureError, match="tables do not exist") as caught, nothing.reading() as connection:
        connection.one("SELECT * FROM ledger_entries")
    assert "remit migrate" in caught.value.next_step


def test_a_lost_server_amid_an_export_is_reported(world: World, here: PostgresStore) -> None:
    world.append("acme", 2)

    class Slow:
        """A pipe whose reader takes so long that the server is restarted meanwhile."""

        def write(self, _: bytes) -> None:
            world.attacker.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'remit' AND datname = current_database() AND pid <> pg_backend_pid()"
            )

    with pytest.raises(DatabaseFailureError) as caught:
        write_bundle(here, Slow(), "acme", world.clock)  # type: ignore[arg-type]
    assert caught.value.reason is Reason.STORE_UNAVAILABLE


def test_a_guard_speaks_through_the_store_as_guarded(world: World, here: PostgresStore) -> None:
    world.append("acme", 1)
    with closing(here.connect()) as connection, pytest.raises(GuardedTableError, match="append-only"):
        connection.execute("DELETE FROM ledger_entries")
