"""On PostgreSQL a service runs with a role that may add to the ledgers and nothing else: by grant, not by trigger."""

import secrets
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import psycopg
import pytest

from remit.core.canonical import digest_bytes
from remit.core.errors import RefusedError
from remit.ledger.bundle import write_bundle
from remit.ledger.entry import NewEntry
from remit.ledger.projections import rebuild
from remit.ledger.verify.verifier import verify_store
from remit.ledger.writer import Batch, Ledger
from remit.store.claims import ClaimAcquired, ClaimKey, claim, finish_claim
from remit.store.connection import GuardedTableError
from remit.store.grants import grant_runtime_role
from remit.store.migrations_runner import migrate
from remit.store.postgresql import PostgresStore
from remit.store.sqlite import SqliteStore
from tests.support.store_fixtures import LEDGER_TABLES, Ticking, World

AT = "2026-01-01T00:00:00Z"


@pytest.fixture
def dialect() -> str:
    return "postgresql"


@pytest.fixture
def role(postgres_admin_url: str, database_url: str) -> Iterator[str]:
    """A role of the server that may log in and owns nothing."""
    name = f"remit_runtime_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_admin_url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN".encode())
    yield name
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f"DROP OWNED BY {name}".encode())
        admin.execute(f"DROP ROLE {name}".encode())


@pytest.fixture
def service(world: World, role: str) -> Iterator[PostgresStore]:
    """The same store, opened by the runtime role."""
    with closing(world.store.connect()) as owner:
        grant_runtime_role(owner, role)
    parts = urlsplit(world.url)
    user = parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}").geturl()
    assert isinstance(world.store, PostgresStore)
    store = PostgresStore(user, world.store.schema)
    yield store
    store.close()


def refusal(service: PostgresStore, statement: str) -> str:
    with closing(service.connect()) as connection, pytest.raises(GuardedTableError) as caught:
        connection.script(statement)
    return str(caught.value)


@pytest.mark.req("AC-09")
def test_the_whole_ledger_works_as_the_runtime_role(world: World, service: PostgresStore) -> None:
    world.ledger.close()
    world.ledger = Ledger(service, lambda: world.signer, lambda: world.keyring, world.anchors, world.clock)
    world.append("acme", 3)
    world.walk_step("acme", "one", ["PLANNED", "CONFIRMED", "ACCESS_ALLOWED", "DISPATCHED", "SUCCEEDED"])
    assert rebuild(world.ledger).rows == 1

    def work(batch: Batch) -> None:
        won = claim(batch.store, ClaimKey("acme", "task", "one"), "digest", AT)
        assert isinstance(won, ClaimAcquired)
        batch.append(NewEntry("acme", "task.intent", "corr", {}))
        outcome = batch.append(NewEntry("acme", "task.outcome", "corr", {"outcome_digest": digest_bytes(b"result")}))
        finish_claim(batch.store, won, "result", AT, outcome.seq)

    world.ledger.transact(work)
    verdict = verify_store(service, world.keyring, world.anchors)
    assert verdict.findings == []
    assert verdict.entries == 10
    with open("/dev/null", "wb") as nowhere:
        assert write_bundle(service, nowhere, "acme", world.clock).entries == 10


@pytest.mark.req("AC-09")
@pytest.mark.parametrize("table", LEDGER_TABLES)
@pytest.mark.parametrize("statement", ["UPDATE {} SET tenant_id = 'x'", "DELETE FROM {}", "TRUNCATE {}"])
def test_the_runtime_role_may_not_change_a_ledger(service: PostgresStore, table: str, statement: str) -> None:
    assert "permission denied" in refusal(service, statement.format(table))


@pytest.mark.req("AC-09")
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE ledger_entries DISABLE TRIGGER ALL",
        "ALTER TABLE ledger_entries DISABLE TRIGGER ledger_entries_no_change",
        "DROP TRIGGER ledger_entries_no_change ON ledger_entries",
        "DROP TABLE ledger_entries",
        "CREATE TABLE planted (x int)",
        "CREATE OR REPLACE FUNCTION remit_append_only() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN END$$",
        "SET session_replication_role = replica",
        "DELETE FROM claims",
        "TRUNCATE claims",
        "TRUNCATE agent_execution_current",
        "INSERT INTO schema_migrations VALUES (9, 'x', 'x', 'x')",
    ],
)
def test_the_runtime_role_may_not_remove_the_guards(service: PostgresStore, statement: str) -> None:
    assert any(word in refusal(service, statement) for word in ("permission denied", "must be owner"))


def test_privileges_given_by_mistake_are_taken_away_again(world: World, role: str, service: PostgresStore) -> None:
    world.attacker.run(f"GRANT ALL ON ledger_entries TO {role}")
    world.append("acme", 1)
    with closing(world.store.connect()) as owner:
        grant_runtime_role(owner, role)
    assert "permission denied" in refusal(service, "DELETE FROM ledger_entries")


@pytest.mark.parametrize("name", ["", 'a"; DROP TABLE claims; --', "Upper", "a b", "x" * 64])
def test_a_role_name_that_is_none_is_refused(world: World, name: str) -> None:
    with closing(world.store.connect()) as owner, pytest.raises(RefusedError, match="role name"):
        grant_runtime_role(owner, name)


def test_sqlite_has_no_roles(tmp_path_factory: pytest.TempPathFactory) -> None:
    store = SqliteStore.create(tmp_path_factory.mktemp("roles") / "ledger.sqlite3")
    migrate(store, Ticking())
    with closing(store.connect()) as connection, pytest.raises(RefusedError, match="SQLite has no roles"):
        grant_runtime_role(connection, "somebody")


def test_an_insert_by_the_runtime_role_still_needs_evidence(world: World, service: PostgresStore) -> None:
    world.ledger.append(NewEntry("acme", "test.event", "corr", {}))
    statement = "INSERT INTO agent_execution_current VALUES ('acme', 'p', 's', 'c', 'PLANNED', 'k', NULL, 1, 'now')"
    assert "evidence is missing" in refusal(service, statement)
