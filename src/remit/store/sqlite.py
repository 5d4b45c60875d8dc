"""SQLite: WAL, synchronous=FULL, one writer at a time. The default, and all a single machine needs."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from remit.errors import EnvironmentFailed, Reason, RemitError
from remit.state import require_private
from remit.store.connection import Conflict, Connection, Dialect, Guarded, Row, Store

BUSY_SECONDS = 10.0
GUARD = "append-only"


class SqliteConnection(Connection):
    dialect: Dialect = "sqlite"

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._translated():
            self._raw = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
            )
            self._raw.execute("PRAGMA synchronous=FULL")
            self._raw.execute("PRAGMA foreign_keys=ON")
            # A table's text is data, never code, also when somebody else edited the file.
            self._raw.execute("PRAGMA trusted_schema=OFF")

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        with self._translated():
            return self._raw.execute(sql, parameters).rowcount

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        with self._translated():
            yield from self._raw.execute(sql, parameters)

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        return self.rows(sql, parameters)

    def script(self, sql: str) -> None:
        self.execute(sql)

    def begin(self, *, write: bool) -> None:
        self.execute("BEGIN IMMEDIATE" if write else "BEGIN")

    def lock_schema(self) -> None:
        """BEGIN IMMEDIATE already holds the only write lock there is."""

    def has_table(self, name: str) -> bool:
        return self.one("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)) is not None

    def lock_chain(self, tenant_id: str) -> None:
        """BEGIN IMMEDIATE already holds the only write lock there is."""

    def lock_keys(self, *, exclusive: bool) -> None:
        """BEGIN IMMEDIATE already holds the only write lock there is."""

    def lock_projection(self) -> None:
        """BEGIN IMMEDIATE already holds the only write lock there is."""

    def close(self) -> None:
        self._raw.close()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as problem:
            raise _translate(problem, self._path) from problem


class SqliteStore(Store):
    dialect: Dialect = "sqlite"

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> "SqliteStore":
        """Make an empty database in WAL mode, private to us. An existing one is left as it is."""
        if not path.exists():
            # Made under our own name first: SQLite itself would create the file open to others.
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            os.close(descriptor)
        store = cls(path)
        connection = store.connect()
        with contextlib.closing(connection):
            connection.execute("PRAGMA journal_mode=WAL")
        return store

    def connect(self) -> SqliteConnection:
        require_private(self.path, what="the ledger's database")
        return SqliteConnection(self.path)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        connection = self.connect()
        try:
            connection.execute("PRAGMA query_only=ON")
            connection.begin(write=False)
            yield connection
        finally:
            connection.close()

    def describe(self) -> str:
        return f"SQLite at {self.path}"


def _translate(problem: sqlite3.Error, path: Path) -> RemitError | Conflict | Guarded:
    if isinstance(problem, sqlite3.IntegrityError):
        return Guarded(str(problem)) if GUARD in str(problem) else Conflict(str(problem))
    code = getattr(problem, "sqlite_errorname", "")
    if code.startswith("SQLITE_FULL"):
        return EnvironmentFailed(
            Reason.DISK_FULL, "the disk is full", where=str(path), next_step="Free some space and try again."
        )
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return EnvironmentFailed(
            Reason.STORE_UNAVAILABLE,
            f"another process has held the ledger's write lock for {BUSY_SECONDS:.0f} s",
            where=str(path),
            next_step="Wait for it, or find it with: fuser -v on this file.",
        )
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return EnvironmentFailed(
            Reason.EVIDENCE_INVALID,
            "the database file is damaged",
            where=str(path),
            next_step="Keep a copy of it as it is, then restore the last backup and check it: remit ledger verify",
        )
    return EnvironmentFailed(
        Reason.STORE_UNAVAILABLE, f"the database said: {problem}", where=str(path), next_step="Run `remit doctor`."
    )
