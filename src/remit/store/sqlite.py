"""SQLite: WAL, synchronous=FULL, one writer at a time. The default, and sufficient for a single machine."""

import contextlib
import os
import re
import resource
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from remit.core.errors import Reason, RemitError, UsageError
from remit.fs.state_dir import require_private
from remit.store.connection import (
    ConflictError,
    Connection,
    DatabaseBusyError,
    DatabaseFailureError,
    Dialect,
    GuardedTableError,
    Row,
    Store,
    UnreadableTextError,
)
from remit.store.sqlite_files import log_of, require_own_journal, require_own_log

BUSY_SECONDS: Final = 10.0
FIRST_PAUSE: Final = 0.0005
LAST_PAUSE: Final = 0.004
GUARD: Final = "append-only"
MAX_DAMAGE: Final = 20
MAX_IDLE: Final = 4
NEARLY_FULL_BYTES: Final = 256 * 1024
"""With less free space than this, an I/O error is reported as a full disk."""
_KEY_TAKEN: Final = frozenset({"SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_TRIGGER"})


class SqliteConnection(Connection):
    dialect: Dialect = "sqlite"

    def __init__(self, path: Path, busy_seconds: float = BUSY_SECONDS, access: str = "mode=rw") -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        self._waits_itself = True
        try:
            self._raw = sqlite3.connect(
                # Never creates a file: a missing database is an error to report, and not a new empty ledger.
                f"{path.absolute().as_uri()}?{access}",
                uri=True,
                timeout=busy_seconds,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
            )
        except sqlite3.Error as problem:
            raise _translate(problem, path, busy_seconds) from problem
        try:
            self.execute("PRAGMA synchronous=FULL")
            self.execute("PRAGMA foreign_keys=ON")
            # The text in a table is data, never code, even if another program edited the file.
            self.execute("PRAGMA trusted_schema=OFF")
        except BaseException:
            self._raw.close()
            raise

    # Plain handlers and not a context manager, because these run several times for each durable entry.
    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        try:
            return self._raw.execute(sql, parameters).rowcount
        except (sqlite3.Error, OverflowError) as problem:
            raise _translate(problem, self._path, self._busy_seconds) from problem

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        try:
            return iter(self._raw.execute(*self._bound(sql, parameters)).fetchall())
        except (sqlite3.Error, OverflowError) as problem:
            raise _translate(problem, self._path, self._busy_seconds) from problem

    def one(self, sql: str, parameters: Sequence[Any] = ()) -> Row | None:
        try:
            found: Row | None = self._raw.execute(*self._bound(sql, parameters)).fetchone()
        except (sqlite3.Error, OverflowError) as problem:
            raise _translate(problem, self._path, self._busy_seconds) from problem
        return found

    def _bound(self, sql: str, parameters: Sequence[Any]) -> tuple[str, Sequence[Any]]:
        """Turn text that was read with lone surrogates into the bytes that it represents, before it is sent back."""
        if self._raw.text_factory is str:
            return sql, parameters
        bad = [isinstance(value, str) and not value.isascii() for value in parameters]
        if not any(bad):
            return sql, parameters
        marks = iter("CAST(? AS TEXT)" if spelled else "?" for spelled in bad)
        values = [_encode(value) if spelled else value for value, spelled in zip(parameters, bad, strict=True)]
        return re.sub(r"\?", lambda _: next(marks), sql), values

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        try:
            # Not `yield from`: a half-read result that outlives its connection would close the cursor too late.
            for row in self._raw.execute(*self._bound(sql, parameters)):  # noqa: UP028 - see above
                yield row
        except (sqlite3.Error, OverflowError) as problem:
            raise _translate(problem, self._path, self._busy_seconds) from problem

    def script(self, sql: str) -> None:
        self.execute(sql)

    def begin(self, *, write: bool) -> None:
        if not write:
            self.execute("BEGIN")
            return
        if self._waits_itself:
            self.execute("PRAGMA busy_timeout=0")
            self._waits_itself = False
        self._begin_writing()

    def _begin_writing(self) -> None:
        """Wait with pauses of our own. A transaction takes a few milliseconds, but SQLite's pauses grow to 0.1 s.

        Among several processes, the one that waited longest would come last.
        """
        ends, pause = time.monotonic() + self._busy_seconds, FIRST_PAUSE
        while True:
            try:
                self.execute("BEGIN IMMEDIATE")
            except DatabaseBusyError:
                if time.monotonic() > ends:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, LAST_PAUSE)
            else:
                return

    def lock_schema(self) -> None:
        """Do nothing: BEGIN IMMEDIATE already holds the only write lock."""

    def has_table(self, name: str) -> bool:
        return self.one("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)) is not None

    def tolerate_bad_text(self) -> None:
        """Not the default, because a function call for every text makes reading half as fast."""
        self._raw.text_factory = _decode

    def damage(self) -> Iterator[str]:
        for (line,) in self.rows(f"PRAGMA integrity_check({MAX_DAMAGE})"):
            if line != "ok":
                yield line

    def close(self) -> None:
        self._raw.close()


class SqliteStore(Store):
    dialect: Dialect = "sqlite"

    def __init__(self, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = path
        self.busy_seconds = busy_seconds
        self._lock = threading.Lock()
        self._idle: list[SqliteConnection] = []
        self._pool_identity = (0, 0, 0)
        self._closed = False
        self._checked_log = (0, 0, 0)

    @classmethod
    def create(cls, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> "SqliteStore":
        """Create an empty database in WAL mode, private to this account. An existing one stays as it is."""
        if not path.exists():
            # Create the file here first. SQLite would create it readable for others.
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            os.close(descriptor)
        store = cls(path, busy_seconds=busy_seconds)
        with contextlib.closing(store.connect()) as connection:
            _switch_to_wal(connection, path, busy_seconds)
        return store

    def connect(self) -> SqliteConnection:
        require_private(self.path, what="the ledger's database")
        self._require_own_files()
        return SqliteConnection(self.path, self.busy_seconds)

    def _require_own_files(self) -> None:
        """Check the files before SQLite reads them. Each process checks a log once, and again if the file changes."""
        require_own_journal(self.path)
        try:
            found = os.stat(log_of(self.path))
        except OSError:
            return
        identity = (os.getpid(), found.st_dev, found.st_ino)
        if found.st_size and identity != self._checked_log:
            require_own_log(self.path)
            self._checked_log = identity

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a new session for each use. A reused one would keep its earlier schema, whatever the file says now."""
        unlogged = self._unlogged_state()
        connection = self.connect() if unlogged is None else self._connect_to_copy()
        try:
            connection.execute("PRAGMA query_only=ON")
            connection.begin(write=False)
            yield connection
        finally:
            connection.close()
        if unlogged is not None and self._unlogged_state() != unlogged:
            raise DatabaseFailureError(
                Reason.STORE_UNAVAILABLE,
                "the database changed while it was read, in a folder that cannot be written to",
                where=str(self.path),
                next_step="Copy the state directory to a folder that you can write to, and set REMIT_STATE.",
            )

    @contextlib.contextmanager
    def reading_pooled(self) -> Iterator[Connection]:
        connection = self._reader()
        try:
            connection.begin(write=False)
            yield connection
            connection.rollback()
        except BaseException:
            connection.close()
            raise
        self._return_to_pool(connection)

    def _unlogged_state(self) -> tuple[int, int, int] | None:
        """Return the state of a database that no process can write to: its folder is read-only, and it has no log.

        To read with a log, SQLite needs a file beside the database. Without a log, as in a backup that is mounted
        read-only, SQLite can read the database alone.
        """
        log = self.path.with_name(self.path.name + "-wal")
        if os.access(self.path.parent, os.W_OK) or not self.path.exists() or (log.exists() and log.stat().st_size):
            return None
        found = os.stat(self.path)
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _connect_to_copy(self) -> SqliteConnection:
        require_private(self.path, what="the ledger's database")
        return SqliteConnection(self.path, self.busy_seconds, "mode=ro&immutable=1")

    def _reader(self) -> SqliteConnection:
        """Return a session for reading. A kept one is reused unless another file has replaced the database since."""
        found = require_private(self.path, what="the ledger's database")
        identity = found.st_dev, found.st_ino
        with self._lock:
            if self._pool_identity != (os.getpid(), *identity):
                # After a fork they belong to the parent. To close them here would drop the parent's locks.
                self._idle, stale = [], self._idle if self._pool_identity[0] == os.getpid() else []
                self._pool_identity = os.getpid(), *identity
                for connection in stale:
                    connection.close()
            if self._idle:
                return self._idle.pop()
        self._require_own_files()
        connection = SqliteConnection(self.path, self.busy_seconds)
        connection.execute("PRAGMA query_only=ON")
        return connection

    def _return_to_pool(self, connection: SqliteConnection) -> None:
        with self._lock:
            if len(self._idle) < MAX_IDLE and not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close the sessions that are kept for reading. The caller that opened any other session closes it."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close()

    def describe(self) -> str:
        return f"SQLite at {self.path}"


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _switch_to_wal(connection: SqliteConnection, path: Path, busy_seconds: float) -> None:
    """Switch to WAL. SQLite does not use its busy timeout here, so two processes at once need our own waiting."""
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            mode = connection.one("PRAGMA journal_mode=WAL")
        except DatabaseBusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
        if mode != ("wal",):
            raise DatabaseFailureError(
                Reason.STORE_UNAVAILABLE,
                f"the database cannot use a write-ahead log here (it stays in mode {mode and mode[0]})",
                where=str(path),
                next_step="Keep the state directory on a local disk: set REMIT_STATE.",
            )
        return


def _translate(
    problem: sqlite3.Error | OverflowError, path: Path, busy_seconds: float
) -> RemitError | ConflictError | GuardedTableError:
    if isinstance(problem, OverflowError):
        return UsageError(Reason.MISUSE, "a number is too large for the database", where=str(path))
    code = getattr(problem, "sqlite_errorname", None) or ""
    if isinstance(problem, sqlite3.IntegrityError) and code in _KEY_TAKEN:
        return GuardedTableError(str(problem)) if GUARD in str(problem) else ConflictError(str(problem))
    if isinstance(
        problem, (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)
    ):
        # Only this statement failed. Its transaction can continue.
        return UsageError(Reason.MISUSE, f"the database refused a value: {problem}", where=str(path))
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return DatabaseBusyError(
            Reason.STORE_UNAVAILABLE,
            f"another process has held the ledger's write lock for {busy_seconds:g} s",
            where=str(path),
            next_step="Wait for it, or find it with: fuser -v on this file.",
        )
    if explained := _explained_failure(code, path):
        return DatabaseFailureError(explained[0], explained[1], where=str(path), next_step=explained[2])
    if "Could not decode to UTF-8" in str(problem):
        return UnreadableTextError(
            Reason.EVIDENCE_INVALID,
            "a row holds text that Remit did not write",
            where=str(path),
            next_step="Keep a copy of the database as it is; `remit ledger verify` names the row.",
        )
    if "no such table" in str(problem):
        missing = "the ledger's tables do not exist"
        return DatabaseFailureError(Reason.STORE_OUTDATED, missing, where=str(path), next_step="Run `remit migrate`.")
    return DatabaseFailureError(
        Reason.STORE_UNAVAILABLE, f"the database reported: {problem}", where=str(path), next_step="Run `remit doctor`."
    )


def _explained_failure(code: str, path: Path) -> tuple[Reason, str, str] | None:
    if code.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN")) and (cause := _disk_full_cause(path)):
        return Reason.DISK_FULL, *cause
    return next((failure for prefix, failure in _FAILURES.items() if code.startswith(prefix)), None)


def _disk_full_cause(path: Path) -> tuple[str, str] | None:
    """Return the cause if an I/O error means a full disk. SQLite says so for some files only, and hides the errno."""
    with contextlib.suppress(OSError):
        disk = os.statvfs(path.parent)
        if disk.f_bavail * disk.f_frsize < NEARLY_FULL_BYTES or (disk.f_files and not disk.f_favail):
            return _FULL
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        sizes = [os.stat(part).st_size for part in path.parent.glob(f"{path.name}*")]
        if limit != resource.RLIM_INFINITY and max(sizes, default=0) + NEARLY_FULL_BYTES > limit:
            return "a file cannot grow any further", "Raise the limit on the size of files (ulimit -f) and try again."
    return None


_FULL: Final = ("the disk is full", "Free some space and try again.")
_DAMAGED: Final = (
    Reason.EVIDENCE_INVALID,
    "the database file is damaged",
    "Keep a copy of it as it is, then restore the last backup and check it: remit ledger verify",
)
_UNWRITABLE: Final = (
    Reason.STORE_UNAVAILABLE,
    "the ledger's database cannot be opened for writing",
    "Check that you own the file and its folder, and that both are writable. Work on a copy of a backup.",
)
_FAILURES: Final[dict[str, tuple[Reason, str, str]]] = {
    "SQLITE_FULL": (Reason.DISK_FULL, *_FULL),
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_NOTADB": _DAMAGED,
    "SQLITE_READONLY": _UNWRITABLE,
    "SQLITE_CANTOPEN": _UNWRITABLE,
    "SQLITE_PERM": _UNWRITABLE,
}
