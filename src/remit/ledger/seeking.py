"""Where in a chain a time is: by halving, since a chain never runs backwards and no index of times is kept."""

from datetime import datetime
from typing import Final

from remit.ids import parse_time
from remit.store.connection import Connection

_END: Final = "SELECT max(seq) FROM ledger_entries WHERE tenant_id = ?"
_NEWEST: Final = "SELECT created_at FROM ledger_entries WHERE tenant_id = ? ORDER BY seq DESC LIMIT 1"
_TIME: Final = "SELECT created_at FROM ledger_entries WHERE tenant_id = ? AND seq >= ? ORDER BY seq LIMIT 1"


def not_before_newest(connection: Connection, tenant_id: str, now: datetime) -> datetime:
    """Now, but never earlier than the newest entry of the chain: a clock set back revives nothing that is over."""
    row = connection.one(_NEWEST, (tenant_id,))
    return max(now, parse_time(row[0])) if row else now


def first_seq_since(connection: Connection, tenant_id: str, at: str) -> int:
    """The place of the first entry that is not older than `at`; one past the end if all are."""
    row = connection.one(_END, (tenant_id,))
    low, high = 1, (row[0] if row and row[0] else 0) + 1
    while low < high:
        middle = (low + high) // 2
        found = connection.one(_TIME, (tenant_id, middle))
        if found is not None and found[0] < at:
            low = middle + 1
        else:
            high = middle
    return low
