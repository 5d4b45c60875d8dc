"""Checks that the files beside a SQLite database belong to it.

SQLite accepts any complete log as the database's own. It shows the content of the log, and writes it into the database
when the last session closes. A log of another database, or an old log of this one, would thus destroy the ledger. A
ledger only grows, so the check is possible beforehand. With its own log, the database holds at least as many entries as
its file alone.

Both reads change nothing. One session reads the file alone, as a file that does not change. The other reads it with its
log. It is read-only and cannot write the log back.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from remit.core.errors import Reason
from remit.store.connection import DatabaseFailureError

Tips = dict[str, tuple[int, str]]
"""The newest entry of each tenant, with its place and its hash."""

_PAGE: Final = 4096
_LOOKS: Final = 3
_NEWEST: Final = "SELECT seq, hash FROM ledger_entries WHERE tenant_id = ? ORDER BY seq DESC LIMIT 1"
_AT: Final = "SELECT hash FROM ledger_entries WHERE tenant_id = ? AND seq = ?"
_NEXT: Final = "SELECT min(tenant_id) FROM ledger_entries WHERE tenant_id > ?"
_KEEP: Final = "Stop every Remit process and keep a copy of both files."


def log_of(database: Path) -> Path:
    return database.with_name(database.name + "-wal")


def require_own_journal(database: Path) -> None:
    """Refuse a rollback journal beside a database with a write-ahead log. SQLite would apply the journal."""
    journal = database.with_name(database.name + "-journal")
    try:
        found = os.lstat(journal)
    except FileNotFoundError:
        return
    if found.st_size == 0 or not _is_in_use(database):
        return
    raise DatabaseFailureError(
        Reason.EVIDENCE_INVALID,
        "the ledger's database never has a rollback journal, but there is one beside it; another program put it there;"
        " nothing was opened",
        where=str(journal),
        next_step=f"{_KEEP} Then move the journal away, and run: remit ledger verify",
    )


def require_own_log(database: Path) -> None:
    """Refuse a write-ahead log that hides entries which the database file holds."""
    lost: str | None = None
    for _ in range(_LOOKS):  # another process may be moving the log's content into the file at this moment
        lost = _lost_by_log(database)
        if lost is None:
            return
    raise DatabaseFailureError(
        Reason.EVIDENCE_INVALID,
        f"the write-ahead log beside the ledger's database does not belong to it: {lost}; nothing was changed",
        where=str(log_of(database)),
        next_step=f"{_KEEP} Then move the log away, and run: remit ledger verify",
    )


def _lost_by_log(database: Path) -> str | None:
    """Describe the entries that the log hides. None if it hides none, or if this cannot be found out."""
    try:
        with _session(database, "mode=ro&immutable=1") as alone:
            tips = _tips(alone)
    except sqlite3.Error:  # during a checkpoint the file alone may be an incomplete database
        return None
    if not tips:
        return None
    try:
        with _session(database, "mode=ro") as together:
            lost = _first_lost(together, tips)
    except sqlite3.OperationalError as problem:
        if "no such table" not in str(problem):
            return None
        lost = "with it, the table of entries is missing"
    except sqlite3.DatabaseError as problem:
        lost = f"with it, the database cannot be read ({problem})"
    return lost if lost is None or _is_whole_alone(database) else None


def _is_whole_alone(database: Path) -> bool:
    with contextlib.suppress(sqlite3.Error), _session(database, "mode=ro&immutable=1") as alone:
        return bool(alone.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
    return False


def _first_lost(session: sqlite3.Connection, tips: Tips) -> str | None:
    for tenant, (seq, entry_hash) in tips.items():
        if session.execute(_AT, (tenant, seq)).fetchone() != (entry_hash,):
            return f"with it, entry {seq} of tenant {tenant} is missing"
    return None


def _tips(session: sqlite3.Connection) -> Tips:
    if (
        session.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'ledger_entries'").fetchone()
        is None
    ):
        return {}
    tips: Tips = {}
    (tenant,) = session.execute("SELECT min(tenant_id) FROM ledger_entries").fetchone()
    while type(tenant) is str:
        seq, entry_hash = session.execute(_NEWEST, (tenant,)).fetchone()
        tips[tenant] = seq, entry_hash
        (tenant,) = session.execute(_NEXT, (tenant,)).fetchone()
    return tips


@contextlib.contextmanager
def _session(database: Path, access: str) -> Iterator[sqlite3.Connection]:
    session = sqlite3.connect(f"{database.absolute().as_uri()}?{access}", uri=True, timeout=1.0, isolation_level=None)
    try:
        session.execute("PRAGMA trusted_schema=OFF")
        session.execute("PRAGMA query_only=ON")
        session.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        session.execute("BEGIN")
        yield session
    finally:
        session.close()


def _is_in_use(database: Path) -> bool:
    """Return whether the file is more than the first page of a database that is being created.

    Only its size is used. To open and close the file would drop the locks that this process holds on it.
    """
    try:
        return database.stat().st_size > _PAGE or log_of(database).exists()
    except OSError:
        return False
