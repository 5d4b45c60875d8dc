"""Search of a chain from its end, for people, one page at a time.

Only correlations have an index. A search for kinds, actors or words reads a limited number of entries and returns where
to continue. Therefore no request can make the database read all of a long chain at once.

The place of a time is found by bisection, since there is no index of times. The times of a chain decrease only where a
person has accepted the clock (`clock.accepted`). So a chain has stretches, mostly one, and within each the times only
increase.
"""

import sys
from datetime import datetime
from itertools import pairwise
from typing import Final, NamedTuple

from remit.ledger.clock import ABOUT_CLOCK, ACCEPTED, newest_time
from remit.ledger.entry import COLUMNS, Entry
from remit.store.connection import Connection

_END: Final = "SELECT max(seq) FROM ledger_entries WHERE tenant_id = ?"
_TIME: Final = "SELECT created_at FROM ledger_entries WHERE tenant_id = ? AND seq >= ? ORDER BY seq LIMIT 1"
_TURNS: Final = f"""SELECT seq FROM ledger_entries
  WHERE tenant_id = ? AND correlation_id = '{ABOUT_CLOCK}' AND kind = '{ACCEPTED}' ORDER BY seq"""


def not_before_newest(connection: Connection, tenant_id: str, now: datetime) -> datetime:
    """Return the time now, but never earlier than the newest entry: a clock set back makes nothing valid again."""
    newest = newest_time(connection, tenant_id)
    return now if newest is None else max(now, newest)


def first_seq_since(connection: Connection, tenant_id: str, at: str) -> int:
    """Return the place of the first entry that is not older than `at`, or one past the end if all are.

    After the clock was accepted, entries behind that place may be older. A caller that must be exact checks each one.
    """
    stretches = _stretches(connection, tenant_id)
    for start, end in stretches:
        found = _first_in(connection, tenant_id, at, start, end)
        if found < end:
            return found
    return stretches[-1][1]


def last_seq_before(connection: Connection, tenant_id: str, at: str) -> int:
    """Return the place of the last entry that is older than `at`, or 0. Entries before it may be newer, as above."""
    for start, end in reversed(_stretches(connection, tenant_id)):
        found = _first_in(connection, tenant_id, at, start, end)
        if found > start:
            return found - 1
    return 0


def _stretches(connection: Connection, tenant_id: str) -> list[tuple[int, int]]:
    """Return each stretch as its first place and the first place behind it."""
    row = connection.one(_END, (tenant_id,))
    behind = (row[0] if row and row[0] else 0) + 1
    turns = [seq for (seq,) in connection.rows(_TURNS, (tenant_id,)) if seq > 1]
    return list(pairwise((1, *turns, behind)))


def _first_in(connection: Connection, tenant_id: str, at: str, low: int, high: int) -> int:
    while low < high:
        middle = (low + high) // 2
        found = connection.one(_TIME, (tenant_id, middle))
        if found is not None and found[0] < at:
            low = middle + 1
        else:
            high = middle
    return low


LOOKED_THROUGH: Final = 20_000

_ONE: Final = f"SELECT {COLUMNS} FROM ledger_entries WHERE tenant_id = ? AND seq = ?"
_BEGINNING: Final = """SELECT DISTINCT correlation_id FROM ledger_entries
  WHERE tenant_id = ? AND correlation_id >= ? AND correlation_id < ? ORDER BY correlation_id LIMIT ?"""
_TASK: Final = "SELECT correlation_id FROM claims WHERE tenant_id = ? AND scope = 'task' AND key = ?"


class SearchFilter(NamedTuple):
    """The entries to find. `kind` is the beginning of a kind. `text` may be anywhere in the payload."""

    kind: str | None = None
    correlation_id: str | None = None
    task_id: str | None = None
    actor: str | None = None
    text: str | None = None
    since: str | None = None
    until: str | None = None


class SearchPage(NamedTuple):
    entries: list[Entry]
    before: int | None
    """Where to continue: entries before this place were not read. None if there are none."""


def find_entries(
    connection: Connection, tenant_id: str, wanted: SearchFilter, before: int | None, most: int
) -> SearchPage:
    """Return one page of the wanted entries, the newest first."""
    row = connection.one(_END, (tenant_id,))
    high = min(before - 1 if before is not None else (row[0] or 0 if row else 0), row[0] or 0 if row else 0)
    low = first_seq_since(connection, tenant_id, wanted.since) if wanted.since is not None else 1
    if wanted.until is not None:
        high = min(high, last_seq_before(connection, tenant_id, wanted.until))
    where, parameters = _conditions(connection, tenant_id, wanted)
    by_index = wanted.correlation_id is not None or wanted.task_id is not None
    until = low if by_index else max(low, high - LOOKED_THROUGH + 1)
    if high < low:
        return SearchPage([], None)
    query = f"""SELECT {COLUMNS} FROM ledger_entries WHERE tenant_id = ? AND seq <= ? AND seq >= ?{where}
      ORDER BY seq DESC LIMIT {most + 1:d}"""
    found = [Entry(*each) for each in connection.rows(query, (tenant_id, high, until, *parameters))]
    if len(found) > most:
        return SearchPage(found[:most], found[most - 1].seq)
    return SearchPage(found, until if until > low else None)


def count_entries(connection: Connection, tenant_id: str, correlation_id: str | None, task_id: str | None) -> int:
    """Return how many entries a chain has, or those of one correlation or task, which an index finds."""
    if correlation_id is None and task_id is None:
        row = connection.one(_END, (tenant_id,))
    else:
        wanted = SearchFilter(correlation_id=correlation_id, task_id=task_id)
        where, parameters = _conditions(connection, tenant_id, wanted)
        row = connection.one(
            f"SELECT count(*) FROM ledger_entries WHERE tenant_id = ?{where}", (tenant_id, *parameters)
        )
    return (row[0] or 0) if row else 0


def correlations_beginning(connection: Connection, tenant_id: str, beginning: str, most: int) -> list[str]:
    """Return the correlations of a chain that begin with this text, at most `most` of them, in order."""
    end = beginning + chr(sys.maxunicode)
    return [str(row[0]) for row in connection.rows(_BEGINNING, (tenant_id, beginning, end, most))]


def read_entry(connection: Connection, tenant_id: str, seq: int) -> Entry | None:
    if not tenant_id.isprintable():
        return None
    row = connection.one(_ONE, (tenant_id, seq))
    return Entry(*row) if row else None


def _conditions(connection: Connection, tenant_id: str, wanted: SearchFilter) -> tuple[str, list[object]]:
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
        # A task is found by its correlation, which is the task id or the one in its claim. So one index serves both.
        row = connection.one(_TASK, (tenant_id, wanted.task_id))
        where += " AND correlation_id IN (?, ?)"
        parameters += [wanted.task_id, row[0] if row else wanted.task_id]
    # The places are not enough: where a person accepted the clock, later entries have earlier times.
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
