"""The position of a subscriber in the ledger: how far each tenant's chain was sent, as one text.

Neither database keeps one order over all chains, so a position has a part for each chain. It is exact: nothing after it
was sent, and nothing before it was left out. Limit: the text grows with the tenants, by some twenty characters each.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final
from urllib.parse import quote, unquote

from remit.core.errors import Reason, RefusedError
from remit.ledger.entry import COLUMNS, Entry
from remit.store.connection import Connection

MAX_TEXT: Final = 65_536
BEGINNING: Final = "-"
MAX_DIGITS: Final = 16
_FIRST: Final = "SELECT min(tenant_id) FROM ledger_entries"
_NEXT: Final = "SELECT min(tenant_id) FROM ledger_entries WHERE tenant_id > ?"
_END: Final = "SELECT max(seq) FROM ledger_entries WHERE tenant_id = ?"
_KINDS: Final = """SELECT kind, count(*) FROM ledger_entries
  WHERE tenant_id = ? AND seq > ? AND seq <= ? GROUP BY kind"""
_AFTER: Final = f"""SELECT {COLUMNS} FROM ledger_entries
  WHERE tenant_id = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?"""


def render_position(seqs: Mapping[str, int]) -> str:
    return ",".join(f"{quote(tenant, safe='')}:{seq}" for tenant, seq in sorted(seqs.items())) or BEGINNING


def parse_position(text: str) -> dict[str, int]:
    """Parse a position from outside: a browser sends the last one that it received."""
    if text == BEGINNING:
        return {}
    seqs: dict[str, int] = {}
    for part in text.split(",") if len(text) <= MAX_TEXT else [""]:
        tenant, colon, number = part.rpartition(":")
        name = unquote(tenant)
        if not (colon and name and name.isprintable() and _is_number(number) and name not in seqs):
            raise RefusedError(
                Reason.MALFORMED,
                "this is not a position in the stream of events",
                where="Last-Event-ID",
                next_step="Send the id of an event unchanged, or no id to begin with the current events.",
            )
        seqs[name] = int(number)
    return seqs


def tenants_in(connection: Connection) -> Iterator[str]:
    """Yield the tenants that have a chain. Skips through the index instead of reading all entries."""
    row = connection.one(_FIRST)
    while row is not None and row[0] is not None:
        yield row[0]
        row = connection.one(_NEXT, (row[0],))


def ends_of(connection: Connection, tenants: Collection[str] | None = None) -> dict[str, int]:
    """Return the length of each chain."""
    names = tenants_in(connection) if tenants is None else tenants
    found = ((name, connection.one(_END, (name,))) for name in names)
    return {name: row[0] for name, row in found if row is not None and row[0] is not None}


def entries_between(connection: Connection, tenant_id: str, after: int, until: int, most: int) -> list[Entry]:
    return [Entry(*row) for row in connection.rows(_AFTER, (tenant_id, after, until, most))]


def kinds_between(connection: Connection, tenant_id: str, after: int, until: int) -> dict[str, int]:
    """Return the number of entries of each kind."""
    return dict(connection.rows(_KINDS, (tenant_id, after, until)))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
