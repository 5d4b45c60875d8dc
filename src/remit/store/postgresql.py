"""PostgreSQL: the same tables for many hosts. Each workspace has a schema of its own in the database."""

import contextlib
import hashlib
import re
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict

from remit.errors import EnvironmentFailed, Reason, RemitError
from remit.store.connection import Conflict, Connection, Dialect, Guarded, Row, Store

BUSY_SECONDS = 10
STREAM_ROWS = 1_000
# Advisory locks are numbers in one space per database; this one keeps ours apart from other programs'.
LOCK_SPACE = 0x52454D


class PostgresConnection(Connection):
    dialect: Dialect = "postgresql"

    def __init__(self, url: str, schema: str) -> None:
        _refuse_unreadable(url)
        with _translated():
            self._raw = psycopg.connect(url, autocommit=True, application_name="remit", connect_timeout=BUSY_SECONDS)
            self._raw.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(schema)))
            self._raw.execute("SELECT set_config('lock_timeout', %s, false)", (f"{BUSY_SECONDS}s",))
            # A server told to acknowledge before its disk has the data would lose entries we vouched for.
            self._raw.execute(
                "SELECT set_config('synchronous_commit', 'on', false)"
                " WHERE current_setting('synchronous_commit') = 'off'"
            )
        self._schema = schema
        self._streams = 0

    @property
    def broken(self) -> bool:
        return bool(self._raw.broken or self._raw.closed)

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        with _translated():
            return self._raw.execute(_placeholders(sql), parameters or None).rowcount

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        with _translated():
            yield from self._raw.execute(_placeholders(sql), parameters or None)

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        self._streams += 1
        with _translated(), self._raw.cursor(name=f"remit_{self._streams}") as cursor:
            cursor.itersize = STREAM_ROWS
            cursor.execute(_placeholders(sql), parameters or None)
            yield from cursor

    def script(self, sql: str) -> None:
        with _translated():
            self._raw.execute(sql.encode())

    def begin(self, *, write: bool) -> None:
        self.execute("BEGIN" if write else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def lock_schema(self) -> None:
        self.execute("SELECT pg_advisory_xact_lock(?)", (_lock_number(self._schema, "migration", ""),))
        self.execute(f'CREATE SCHEMA IF NOT EXISTS "{self._schema}"')

    def has_table(self, name: str) -> bool:
        return self.one("SELECT 1 WHERE to_regclass(?) IS NOT NULL", (f'"{self._schema}"."{name}"',)) is not None

    def lock_chain(self, tenant_id: str) -> None:
        self.execute("SELECT pg_advisory_xact_lock(?)", (_lock_number(self._schema, "chain", tenant_id),))

    def lock_keys(self, *, exclusive: bool) -> None:
        function = "pg_advisory_xact_lock" if exclusive else "pg_advisory_xact_lock_shared"
        self.execute(f"SELECT {function}(?)", (_lock_number(self._schema, "keys", ""),))

    def lock_projection(self) -> None:
        self.execute("LOCK TABLE agent_execution_current IN SHARE ROW EXCLUSIVE MODE")

    def close(self) -> None:
        self._raw.close()


class PostgresStore(Store):
    dialect: Dialect = "postgresql"

    def __init__(self, url: str, schema: str) -> None:
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema):
            raise ValueError(f"not a plain schema name: {schema!r}")
        self._url = url
        self.schema = schema
        self._idle: list[PostgresConnection] = []
        self._lock = threading.Lock()

    def connect(self) -> PostgresConnection:
        return PostgresConnection(self._url, self.schema)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        connection = connection or self.connect()
        try:
            connection.begin(write=False)
            yield connection
            connection.rollback()
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)

    def close(self) -> None:
        with self._lock:
            while self._idle:
                self._idle.pop().close()

    def describe(self) -> str:
        try:
            parts = conninfo_to_dict(self._url)
        except psycopg.ProgrammingError:
            return "PostgreSQL at an unreadable address"
        host, name = parts.get("host", "localhost"), parts.get("dbname", "")
        return f"PostgreSQL database {name} on {host}, schema {self.schema}"


@lru_cache(maxsize=512)
def _placeholders(statement: str) -> bytes:
    """Our SQL holds no literal `?` or `%`; the check keeps it so."""
    if "%" in statement:
        raise ValueError("a literal % in shared SQL")
    return statement.replace("?", "%s").encode()


@lru_cache(maxsize=4096)
def _lock_number(schema: str, kind: str, name: str) -> int:
    wanted = f"{LOCK_SPACE}\0{schema}\0{kind}\0{name}".encode()
    return int.from_bytes(hashlib.sha256(wanted).digest()[:8], "big", signed=True)


def _refuse_unreadable(url: str) -> None:
    """The driver's own complaint would quote the address, password and all."""
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise EnvironmentFailed(
            Reason.STORE_UNAVAILABLE,
            "the address of the PostgreSQL database cannot be read",
            next_step="Give it as postgresql://user@host:port/database (a password may stand in ~/.pgpass).",
        ) from None


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as problem:
        raise _translate(problem) from problem


def _translate(problem: psycopg.Error) -> RemitError | Conflict | Guarded:
    if isinstance(problem, errors.UniqueViolation):
        return Conflict(str(problem))
    if isinstance(problem, (errors.RestrictViolation, errors.InsufficientPrivilege)):
        return Guarded(str(problem).splitlines()[0])
    if isinstance(problem, errors.DiskFull):
        return EnvironmentFailed(Reason.DISK_FULL, "the database server's disk is full", next_step="Free space there.")
    if isinstance(problem, (errors.InvalidSchemaName, errors.UndefinedTable)):
        return EnvironmentFailed(
            Reason.STORE_OUTDATED, "the ledger's tables are not there", next_step="Run `remit migrate`."
        )
    # The server's first line says what was wrong; it never holds the connection string.
    first = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
    return EnvironmentFailed(
        Reason.STORE_UNAVAILABLE,
        f"PostgreSQL: {first}",
        next_step="Check that the server runs and that the address and password are right: remit doctor",
    )
