"""PostgreSQL: the same tables for many hosts. Each workspace has its own schema in the database."""

import contextlib
import hashlib
import os
import re
import threading
import weakref
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict

from remit.core.errors import EnvironmentFailureError, Reason, RemitError, UsageError
from remit.store.connection import (
    ConflictError,
    Connection,
    DatabaseBusyError,
    DatabaseFailureError,
    Dialect,
    GuardedTableError,
    Row,
    Store,
)

BUSY_SECONDS: Final = 10.0
HUNG_SECONDS: Final = 60
STREAM_ROWS: Final = 1_000
# Advisory locks are numbers in one space for each database. This one separates Remit's from those of other programs.
LOCK_SPACE: Final = 0x52454D


class PostgresConnection(Connection):
    dialect: Dialect = "postgresql"

    def __init__(self, url: str, schema: str, busy_seconds: float = BUSY_SECONDS) -> None:
        _read_address(url)
        self._schema = schema
        self._busy_seconds = busy_seconds
        self._streams = 0
        with self._translated():
            self._raw = psycopg.connect(
                url, autocommit=True, application_name="remit", connect_timeout=max(2, int(busy_seconds))
            )
        try:
            self._set_up(schema)
        except BaseException:
            self._raw.close()
            raise
        # A client that hangs while it writes must not block every other host without end.
        self._begin_writing = (
            f"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '{HUNG_SECONDS}s';"
            f" SELECT pg_advisory_xact_lock({_lock_number(schema)})"
        ).encode()

    def _set_up(self, schema: str) -> None:
        with self._translated():
            # pg_temp is last, so that a temporary table cannot hide one of Remit's tables.
            self._raw.execute(sql.SQL("SET search_path TO {}, pg_temp").format(sql.Identifier(schema)))
            self._raw.execute("SELECT set_config('lock_timeout', %s, false)", (f"{int(self._busy_seconds * 1000)}ms",))
            # A server that acknowledges a commit before its disk has the data could lose entries reported as durable.
            self._raw.execute(
                "SELECT set_config('synchronous_commit', 'on', false)"
                " WHERE current_setting('synchronous_commit') = 'off'"
            )

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        with self._translated():
            return self._raw.execute(_placeholders(sql), parameters or None).rowcount

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        with self._translated():
            yield from self._raw.execute(_placeholders(sql), parameters or None)

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        self._streams += 1
        with self._translated(), self._raw.cursor(name=f"remit_{self._streams}") as cursor:
            cursor.itersize = STREAM_ROWS
            cursor.execute(_placeholders(sql), parameters or None)
            yield from cursor

    def script(self, sql: str) -> None:
        with self._translated():
            self._raw.execute(sql.encode())

    def begin(self, *, write: bool) -> None:
        with self._translated():
            if write:
                self._raw.execute(self._begin_writing, prepare=False)
            else:
                self._raw.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def commit(self) -> None:
        with self._translated():
            done = self._raw.execute("COMMIT").statusmessage
        if done != "COMMIT":
            # After a failed statement, PostgreSQL answers COMMIT with a silent ROLLBACK.
            raise UsageError(Reason.MISUSE, "a statement of this transaction failed, so the database undid all of it")

    def lock_schema(self) -> None:
        self.execute(f'CREATE SCHEMA IF NOT EXISTS "{self._schema}"')

    def has_table(self, name: str) -> bool:
        return self.one("SELECT 1 WHERE to_regclass(?) IS NOT NULL", (f'"{self._schema}"."{name}"',)) is not None

    def tolerate_bad_text(self) -> None:
        """Do nothing: the server itself refuses such text."""

    def damage(self) -> Iterator[str]:
        """Report nothing: the server checks its pages itself, if data checksums are on."""
        yield from ()

    def close(self) -> None:
        self._raw.close()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as problem:
            raise _translate(problem, self._busy_seconds) from problem


class PostgresStore(Store):
    dialect: Dialect = "postgresql"

    def __init__(self, url: str, schema: str, *, busy_seconds: float = BUSY_SECONDS) -> None:
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema):
            raise ValueError(f"invalid schema name: {schema!r}")
        self._url = url
        self.schema = schema
        self.busy_seconds = busy_seconds
        self._idle: list[PostgresConnection] = []
        self._lock = threading.Lock()
        self._process = os.getpid()
        weakref.finalize(self, _close_all, self._idle, self._process)

    def connect(self) -> PostgresConnection:
        return PostgresConnection(self._url, self.schema, self.busy_seconds)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        connection = self._reader()
        try:
            yield connection
            connection.rollback()
        except BaseException:
            connection.close()
            raise
        self._return_to_pool(connection)

    def reading_pooled(self) -> contextlib.AbstractContextManager[Connection]:
        """Open a reading session. Each one is reused, because the schema comes from the server and not from a file."""
        return self.reading()

    def close(self) -> None:
        with self._lock:
            _close_all(self._idle, self._process)

    def describe(self) -> str:
        try:
            parts = _read_address(self._url)
        except EnvironmentFailureError:
            return "PostgreSQL at an unreadable address"
        host, name = parts.get("host", "localhost"), parts.get("dbname", "")
        return f"PostgreSQL database {name} on {host}, schema {self.schema}"

    def _reader(self) -> PostgresConnection:
        """Return a session in a reading transaction. If a reused one has died meanwhile, open a new one."""
        # After a fork the kept sessions belong to the parent. Two processes on one socket would mix up their answers.
        while os.getpid() == self._process:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                break
            try:
                connection.begin(write=False)
            except DatabaseFailureError:
                connection.close()
            else:
                return connection
        fresh = self.connect()
        try:
            fresh.begin(write=False)
        except BaseException:
            fresh.close()
            raise
        return fresh

    def _return_to_pool(self, connection: PostgresConnection) -> None:
        if os.getpid() != self._process:
            connection.close()
            return
        with self._lock:
            self._idle.append(connection)


def _close_all(idle: list[PostgresConnection], process: int) -> None:
    while idle and os.getpid() == process:
        idle.pop().close()


@lru_cache(maxsize=512)
def _placeholders(statement: str) -> bytes:
    """Translate the parameter marks. The SQL here holds no literal `?` or `%`; the check ensures it for `%`."""
    if "%" in statement:
        raise ValueError("shared SQL contains a literal %")
    return statement.replace("?", "%s").encode()


def _lock_number(schema: str) -> int:
    wanted = f"{LOCK_SPACE}\0{schema}\0writer".encode()
    return int.from_bytes(hashlib.sha256(wanted).digest()[:8], "big", signed=True)


def _read_address(url: str) -> dict[str, Any]:
    """Return the parts of the address. The driver's own message would quote the address with the password."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        parts = {}
        advice = "Write it as postgresql://user@host:port/database (a password can be in ~/.pgpass)."
    else:
        advice = (
            "Percent-encode special characters in the password: @ as %40, / as %2F, : as %3A." if _torn(parts) else ""
        )
    if advice:
        raise EnvironmentFailureError(
            Reason.STORE_UNAVAILABLE, "the address of the PostgreSQL database cannot be read", next_step=advice
        )
    return parts


def _torn(parts: dict[str, Any]) -> bool:
    """Return whether a raw @ or / in the password split it, so that a piece of it is now the host or the name.

    An error about an unknown host or database would show that piece.
    """
    hosts = str(parts.get("host", "")).split(",")
    in_host = any("@" in host and not host.startswith("/") for host in hosts)
    return in_host or "@" in str(parts.get("dbname", "")) or not re.fullmatch(r"[\d,]*", str(parts.get("port", "")))


def _translate(problem: psycopg.Error, busy_seconds: float) -> RemitError | ConflictError | GuardedTableError:
    # The first line of the server's message names the problem. It never contains the connection string.
    first = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
    if isinstance(problem, errors.UniqueViolation):
        return ConflictError(first)
    if isinstance(problem, (errors.RestrictViolation, errors.InsufficientPrivilege)):
        return GuardedTableError(first)
    if isinstance(problem, errors.LockNotAvailable):
        return DatabaseBusyError(
            Reason.STORE_UNAVAILABLE,
            f"another process has held the ledger's write lock for {busy_seconds:g} s",
            next_step="Wait for it, or find it in the server's view pg_stat_activity.",
        )
    if isinstance(problem, (errors.InvalidSchemaName, errors.UndefinedTable)):
        return DatabaseFailureError(
            Reason.STORE_OUTDATED, "the ledger's tables do not exist", next_step="Run `remit migrate`."
        )
    if isinstance(problem, (psycopg.DataError, psycopg.IntegrityError, errors.InFailedSqlTransaction)):
        # Only this unit of work failed. A savepoint undoes it, and the transaction can continue.
        return UsageError(Reason.MISUSE, f"PostgreSQL refused a statement: {first}")
    if isinstance(problem, (errors.DataCorrupted, errors.IndexCorrupted)):
        return DatabaseFailureError(
            Reason.EVIDENCE_INVALID,
            f"the database's files are damaged: {first}",
            next_step="Keep a copy of them as they are, then restore the last backup and check it: remit ledger verify",
        )
    if isinstance(problem, errors.DiskFull):
        return DatabaseFailureError(
            Reason.DISK_FULL, "the database server's disk is full", next_step="Free space on that disk."
        )
    if "resolve host" in first or "translate host name" in first:
        first = "the host in the database's address cannot be found"  # the original may contain a piece of a password
    return DatabaseFailureError(
        Reason.STORE_UNAVAILABLE,
        f"PostgreSQL: {first}",
        next_step="Check that the server runs and that the address and password are right: remit doctor",
    )
