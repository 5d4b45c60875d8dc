"""Looking through a chain from its end, for people: by what is asked for, a page at a time.

No index but that of correlations helps to find kinds, actors or words, so each look goes through so many entries at
most and says where to go on: nobody can make the database read all of a long chain at once.
"""

from typing import Final, NamedTuple

from remit.ledger.entry import COLUMNS, Entry
from remit.ledger.search_seeking import first_seq_since, last_seq_before
from remit.store.connection import Connection

LOOKED_THROUGH: Final = 20_000
_END: Final = "SELECT max(seq) FROM ledger_entries WHERE tenant_id = ?"
_ONE: Final = f"SELECT {COLUMNS} FROM ledger_entries WHERE tenant_id = ? AND seq = ?"
_TASK: Final = "SELECT correlation_id FROM claims WHERE tenant_id = ? AND scope = 'task' AND key = ?"


class Wanted(NamedTuple):
    """Which entries. `kind` is the beginning of one; `text` is anywhere in what was recorded."""

    kind: str | None = None
    correlation_id: str | None = None
    task_id: str | None = None
    actor: str | None = None
    text: str | None = None
    since: str | None = None
    until: str | None = None


class Found(NamedTuple):
    entries: list[Entry]
    before: int | None
    """Where to go on: entries before this place were not looked at. None: there are none."""


def find_entries(connection: Connection, tenant_id: str, wanted: Wanted, before: int | None, most: int) -> Found:
    """The newest first."""
    row = connection.one(_END, (tenant_id,))
    high = min(before - 1 if before is not None else (row[0] or 0 if row else 0), row[0] or 0 if row else 0)
    low = first_seq_since(connection, tenant_id, wanted.since) if wanted.since is not None else 1
    if wanted.until is not None:
        high = min(high, last_seq_before(connection, tenant_id, wanted.until))
    where, parameters = _conditions(connection, tenant_id, wanted)
    by_index = wanted.correlation_id is not None or wanted.task_id is not None
    until = low if by_index else max(low, high - LOOKED_THROUGH + 1)
    if high < low:
        return Found([], None)
    query = f"""SELECT {COLUMNS} FROM ledger_entries WHERE tenant_id = ? AND seq <= ? AND seq >= ?{where}
      ORDER BY seq DESC LIMIT {most + 1:d}"""
    found = [Entry(*each) for each in connection.rows(query, (tenant_id, high, until, *parameters))]
    if len(found) > most:
        return Found(found[:most], found[most - 1].seq)
    return Found(found, until if until > low else None)


def read_entry(connection: Connection, tenant_id: str, seq: int) -> Entry | None:
    if not tenant_id.isprintable():
        return None
    row = connection.one(_ONE, (tenant_id, seq))
    return Entry(*row) if row else None


def _conditions(connection: Connection, tenant_id: str, wanted: Wanted) -> tuple[str, list[object]]:
    where, parameters = "", []  # type: str, list[object]
    if wanted.kind:
        where += " AND kind LIKE ? ESCAPE '!'"
        parameters.append(_escaped(wanted.kind) + "%")
    for name, value in (
        ("correlation_id", wanted.correlation_id),
        ("actor", wanted.actor),
        ("task_id", wanted.task_id),
    ):
        if value is not None:
            where += f" AND {name} = ?"
            parameters.append(value)
    if wanted.task_id is not None and wanted.correlation_id is None:
        # Found by its correlation, which is the task itself or what its claim says: so one index serves both.
        row = connection.one(_TASK, (tenant_id, wanted.task_id))
        where += " AND correlation_id IN (?, ?)"
        parameters += [wanted.task_id, row[0] if row else wanted.task_id]
    # The places are not enough: where a person accepted the clock, later entries are older.
    for comparison, at in ((">=", wanted.since), ("<", wanted.until)):
        if at is not None:
            where += f" AND created_at {comparison} ?"
            parameters.append(at)
    if wanted.text is not None:
        where += " AND lower(payload) LIKE ? ESCAPE '!'"
        parameters.append(f"%{_escaped(wanted.text.lower())}%")
    return where, parameters


def _escaped(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
