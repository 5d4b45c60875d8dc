"""A ledger on either database, and an attacker with a connection of his own. For the tests of store and ledger."""

import itertools
import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from remit.contracts.ledger import LedgerHead
from remit.crypto.keyring import create_keys, load_keyring, load_signer
from remit.crypto.signing import Keyring, Signer
from remit.ledger.entry import COLUMNS, Entry, NewEntry
from remit.ledger.findings import RecordFault, VerificationReport
from remit.ledger.goal_tables import StepRow
from remit.ledger.heads import Anchors
from remit.ledger.projections import append_step
from remit.ledger.verify.verifier import verify_store
from remit.ledger.writer import Ledger
from remit.store.connection import Store
from remit.store.migrations_runner import migrate, shipped_migrations
from remit.store.postgresql import PostgresStore
from remit.store.sqlite import SqliteStore

LEDGER_TABLES = (
    "ledger_entries",
    "ledger_heads",
    "agent_execution_ledger",
    "agent_execution_confirmation_ledger",
    "agent_execution_access_decision_ledger",
)
NUMBERS = itertools.count(1)
Found = set[tuple[RecordFault, str, int | None]]


class Ticking:
    """A clock that moves one millisecond each time somebody looks at it, and can be set."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now


class Attacker:
    """Whoever can write to the database directly: past Remit, as the owner of its tables."""

    def __init__(self, store: Store, url: str) -> None:
        self.dialect = store.dialect
        self._raw: sqlite3.Connection | psycopg.Connection[Any]
        if isinstance(store, SqliteStore):
            self._raw = sqlite3.connect(store.path, isolation_level=None, timeout=5)
        elif isinstance(store, PostgresStore):
            self._raw = psycopg.connect(url, autocommit=True, options=f"-c search_path={store.schema}")

    def run(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if isinstance(self._raw, sqlite3.Connection):
            return self._raw.execute(statement, parameters).fetchall()
        marked = statement.replace("?", "%s") if parameters else statement
        cursor = self._raw.execute(marked.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []

    def drop_guards(self) -> None:
        for name, table in self.guards():
            self.run(f"DROP TRIGGER {name}" + ("" if self.dialect == "sqlite" else f" ON {table}"))

    def restore_guards(self) -> None:
        """Cover the traces: put back every trigger exactly as shipped."""
        present = {name for name, _ in self.guards()}
        for migration in shipped_migrations(self.dialect):
            for statement in migration.statements:
                start = statement.find("CREATE TRIGGER")
                if start >= 0 and statement[start:].split()[2] not in present:
                    self.run(statement[start:].strip())

    def tamper(self, *statements: str | tuple[str, Sequence[Any]]) -> None:
        """Guards off, changes, guards on again: afterwards only the evidence itself can tell.

        All at once: dozens of guards, each written to the disk by itself, would take longer than all the rest.
        """
        self.run("BEGIN")
        self.drop_guards()
        for statement in statements:
            if isinstance(statement, str):
                self.run(statement)
            else:
                self.run(*statement)
        self.restore_guards()
        self.run("COMMIT")

    def entry(self, tenant_id: str, seq: int) -> Entry:
        query = f"SELECT {COLUMNS} FROM ledger_entries WHERE tenant_id = ? AND seq = ?"
        return Entry(*self.run(query, (tenant_id, seq))[0])

    def write_entry(self, old: Entry, new: Entry) -> None:
        """Put `new` where `old` stands."""
        names = [name.strip() for name in COLUMNS.split(",")]
        changes = ", ".join(f"{name} = ?" for name in names)
        where = "WHERE tenant_id = ? AND seq = ?"
        values = [*(getattr(new, name) for name in names), old.tenant_id, old.seq]
        self.run(f"UPDATE ledger_entries SET {changes} {where}", values)

    def insert_entry(self, entry: Entry) -> None:
        names = [name.strip() for name in COLUMNS.split(",")]
        marks = ", ".join("?" * len(names))
        values = [getattr(entry, name) for name in names]
        self.run(f"INSERT INTO ledger_entries ({COLUMNS}) VALUES ({marks})", values)

    def insert_head(self, head: LedgerHead) -> None:
        self.run(
            "INSERT INTO ledger_heads (tenant_id, seq, hash, signed_at, key_id, signature) VALUES (?, ?, ?, ?, ?, ?)",
            (head.tenant_id, head.seq, head.hash, head.signed_at, head.key_id, head.signature),
        )

    def close(self) -> None:
        self._raw.close()

    def guards(self) -> list[tuple[Any, ...]]:
        if self.dialect == "sqlite":
            return self.run("SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger'")
        return self.run(
            "SELECT t.tgname, c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
            " JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = current_schema() AND NOT t.tgisinternal"
        )


@dataclass
class World:
    """A migrated store, its keys and anchors, a ledger that writes to it, and an attacker."""

    store: Store
    url: str
    keys: Path
    anchors: Anchors
    anchor_folder: Path
    ledger: Ledger
    attacker: Attacker
    clock: Ticking = field(default_factory=Ticking)

    @property
    def keyring(self) -> Keyring:
        return load_keyring(self.keys)

    @property
    def signer(self) -> Signer:
        return load_signer(self.keys, "audit")

    def reopen(self, clock: Ticking | None = None) -> Ledger:
        """As a new process would: nothing remembered but what is on disk."""
        self.ledger.close()
        self.ledger = open_ledger(self.store, self.keys, self.anchor_folder, clock or self.clock)
        return self.ledger

    def append(self, tenant_id: str, count: int, **payload: Any) -> list[Entry]:
        """`count` transactions of one entry each."""
        return [
            self.ledger.append(
                NewEntry(
                    tenant_id,
                    "test.event",
                    f"corr-{number % 3}",
                    {"number": number, **payload},
                    task_id=f"task-{number}",
                    capability_id="NO_EFFECT",
                    actor="alice",
                )
            )
            for number in range(1, count + 1)
        ]

    def walk_step(self, tenant_id: str, step_id: str, events: Sequence[str], plan_id: str = "plan") -> None:
        """Take a step through these events, each in a transaction of its own."""
        for event in events:
            row = StepRow(
                event_id=f"{step_id}-{event}",
                correlation_id="corr-agent",
                plan_id=plan_id,
                step_id=step_id,
                event=event,
                idempotency_key=f"key-{plan_id}-{step_id}",
            )
            self.ledger.transact(partial(append_step, tenant_id=tenant_id, row=row))

    def verify(self, *known_heads: LedgerHead) -> VerificationReport:
        return verify_store(self.store, self.keyring, Anchors(self.anchor_folder), known_heads=known_heads)

    def verify_tenant(self, tenant_id: str) -> VerificationReport:
        return verify_store(self.store, self.keyring, Anchors(self.anchor_folder), tenant_id=tenant_id)

    def found(self, *known_heads: LedgerHead) -> Found:
        return {(one.fault, one.tenant_id, one.seq) for one in self.verify(*known_heads).findings}

    def faults(self) -> set[RecordFault]:
        return {one.fault for one in self.verify().findings}


def open_ledger(store: Store, keys: Path, anchor_folder: Path, clock: Ticking) -> Ledger:
    return Ledger(store, lambda: load_signer(keys, "audit"), lambda: load_keyring(keys), Anchors(anchor_folder), clock)


@pytest.fixture(params=["sqlite", "postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def database_url(postgres_admin_url: str) -> Iterator[str]:
    """One database for all tests of a worker: a schema for each test is as separate, and ten times quicker to make."""
    name = f"remit_shared_{secrets.token_hex(8)}"
    with psycopg.connect(postgres_admin_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield urlsplit(postgres_admin_url)._replace(path=f"/{name}").geturl()
    with psycopg.connect(postgres_admin_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def store_url(dialect: str, request: pytest.FixtureRequest) -> str:
    """Of the PostgreSQL database; empty for SQLite, so that no server is started for it."""
    return str(request.getfixturevalue("database_url")) if dialect == "postgresql" else ""


@pytest.fixture
def empty_store(dialect: str, store_url: str, tmp_path: Path) -> Iterator[Store]:
    """A place without tables."""
    store: Store
    if dialect == "sqlite":
        store = SqliteStore.create(tmp_path / "ledger.sqlite3")
    else:
        store = PostgresStore(store_url, f"remit_{next(NUMBERS)}")
    yield store
    store.close()


@cache
def _migrated() -> bytes:
    """A SQLite store as `migrate` makes it: a copy of it is as good as another."""
    with tempfile.TemporaryDirectory() as folder:
        made = SqliteStore.create(Path(folder) / "ledger.sqlite3")
        migrate(made, Ticking())
        made.close()
        (alone,) = Path(folder).iterdir()
        return alone.read_bytes()


@cache
def _made_keys() -> tuple["tempfile.TemporaryDirectory[str]", datetime]:
    """Keys that each world has a copy of, and when the last of them was made."""
    folder, clock = tempfile.TemporaryDirectory(), Ticking()
    create_keys(Path(folder.name) / "keys", clock)
    return folder, clock.now


@pytest.fixture
def store(empty_store: Store) -> Store:
    if isinstance(empty_store, SqliteStore):
        empty_store.path.write_bytes(_migrated())
    else:
        migrate(empty_store, Ticking())
    return empty_store


@pytest.fixture
def world(store: Store, store_url: str, tmp_path: Path) -> Iterator[World]:
    clock = Ticking()
    keys, anchor_folder = tmp_path / "keys", tmp_path / "anchors"
    kept, clock.now = _made_keys()
    shutil.copytree(Path(kept.name) / "keys", keys)
    ledger = open_ledger(store, keys, anchor_folder, clock)
    attacker = Attacker(store, store_url)
    world = World(store, store_url, keys, Anchors(anchor_folder), anchor_folder, ledger, attacker, clock)
    yield world
    world.ledger.close()
    world.attacker.close()
