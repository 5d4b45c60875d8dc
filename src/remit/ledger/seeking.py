"""Where in a chain a time is: by halving, since a chain never runs backwards and no index of times is kept."""

from typing import Final

from remit.store.connection import Connection

_END: Final = "SELECT max(seq) FROM ledger_entries WHERE tenant_id = ?"
_TIME: Final = "SELECT created_at FROM ledger_entries WHERE tenant_id = ? AND seq >= ? ORDER BY seq LIMIT 1"


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
