"""Where in a chain a time is: by halving, since no index of times is kept.

A chain never runs backwards but where a person has accepted the clock (`clock.accepted`). So it has stretches, mostly
one, and within each the times only grow.
"""

from datetime import datetime
from itertools import pairwise
from typing import Final

from remit.ledger.clock import ABOUT_CLOCK, ACCEPTED, newest_time
from remit.store.connection import Connection

_END: Final = "SELECT max(seq) FROM ledger_entries WHERE tenant_id = ?"
_TIME: Final = "SELECT created_at FROM ledger_entries WHERE tenant_id = ? AND seq >= ? ORDER BY seq LIMIT 1"
_TURNS: Final = f"""SELECT seq FROM ledger_entries
  WHERE tenant_id = ? AND correlation_id = '{ABOUT_CLOCK}' AND kind = '{ACCEPTED}' ORDER BY seq"""


def not_before_newest(connection: Connection, tenant_id: str, now: datetime) -> datetime:
    """Now, but never earlier than the newest entry of the chain: a clock set back revives nothing that is over."""
    newest = newest_time(connection, tenant_id)
    return now if newest is None else max(now, newest)


def first_seq_since(connection: Connection, tenant_id: str, at: str) -> int:
    """The place of the first entry that is not older than `at`; one past the end if all are.

    After the clock was accepted, entries behind that place may be older: a caller that needs to be exact looks at each.
    """
    stretches = _stretches(connection, tenant_id)
    for start, end in stretches:
        found = _first_in(connection, tenant_id, at, start, end)
        if found < end:
            return found
    return stretches[-1][1]


def last_seq_before(connection: Connection, tenant_id: str, at: str) -> int:
    """The place of the last entry that is older than `at`; 0 if none is. Entries before it may be newer, as above."""
    for start, end in reversed(_stretches(connection, tenant_id)):
        found = _first_in(connection, tenant_id, at, start, end)
        if found > start:
            return found - 1
    return 0


def _stretches(connection: Connection, tenant_id: str) -> list[tuple[int, int]]:
    """From the first place of each to the first one behind it."""
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
