"""Rows of counted entries: one for each caller and operation, with the window that is counted now."""

from typing import Final, NamedTuple

from remit.store.connection import Connection


class CountedRow(NamedTuple):
    """One row, in column order."""

    tenant_id: str
    kind: str
    """The kind of the entry that states the count, such as `refusals.counted`."""
    actor: str
    """The caller; empty if it is not known."""
    operation: str
    opened_at: str
    ends_at: str
    singles_left: int
    """How many entries of this window are still written one by one."""
    counted: int
    stated: int
    """How many of the counted ones the last counting entry of this window states."""
    reasons: str
    """JSON: how many were counted, by reason. A reason of single entries only has 0."""
    first_about: str | None
    last_about: str | None
    last_at: str | None
    entry_seq: int
    """The last entry of this window, single or counting."""


_COLUMNS: Final = ", ".join(CountedRow._fields)
_KEY: Final = "tenant_id = ? AND kind = ? AND actor = ? AND operation = ?"
_CHANGED: Final = CountedRow._fields[4:]
_INSERT: Final = f"INSERT INTO counted_entries ({_COLUMNS}) VALUES ({', '.join('?' * len(CountedRow._fields))})"
_UPDATE: Final = f"UPDATE counted_entries SET {', '.join(f'{name} = ?' for name in _CHANGED)} WHERE {_KEY}"
_READ: Final = f"SELECT {_COLUMNS} FROM counted_entries WHERE {_KEY}"
_UNSTATED: Final = f"""SELECT {_COLUMNS} FROM counted_entries
  WHERE tenant_id = ? AND counted > stated ORDER BY kind, actor, operation"""


def read_counted(connection: Connection, tenant_id: str, kind: str, actor: str, operation: str) -> CountedRow | None:
    found = connection.one(_READ, (tenant_id, kind, actor, operation))
    return CountedRow(*found) if found else None


def write_counted(connection: Connection, row: CountedRow) -> None:
    """Store the row in place of the earlier one. The database refuses a row without its ledger entry."""
    if connection.execute(_UPDATE, (*row[4:], *row[:4])) == 0:
        connection.execute(_INSERT, row)


def unstated(connection: Connection, tenant_id: str) -> list[CountedRow]:
    """Return the rows with a count that no entry states yet. There is at most one for each caller and operation."""
    return [CountedRow(*found) for found in connection.rows(_UNSTATED, (tenant_id,))]
