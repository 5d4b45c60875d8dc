"""One entry believed: it is as it was written, and a chain leads from it to a head that our audit key signed.

For whoever is about to act on what an entry says. Whoever can write to the database, and has no key, can make up rows;
a signed head over them, no.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from remit.contracts.ledger import LedgerHead
from remit.core.errors import EnvironmentFailureError, Reason
from remit.crypto.signing import Keyring
from remit.ledger.entry import COLUMNS, Entry
from remit.ledger.heads import HEAD_FIELDS, is_ours
from remit.store.connection import Connection

_NEXT_HEAD: Final = f"""SELECT {", ".join(HEAD_FIELDS)} FROM ledger_heads
  WHERE tenant_id = ? AND seq >= ? ORDER BY seq LIMIT 1"""
_STRETCH: Final = f"""SELECT {COLUMNS} FROM ledger_entries
  WHERE tenant_id = ? AND seq >= ? AND seq <= ? ORDER BY seq"""


def require_covered(connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, seq: int) -> Entry:
    """The entry at this place. Reads as far as the end of the transaction that wrote it."""
    row = connection.one(_NEXT_HEAD, (tenant_id, seq))
    head = LedgerHead.model_construct(**dict(zip(HEAD_FIELDS, row, strict=True))) if row else None
    if head is not None and is_ours(head, keyring()):
        entries = [Entry(*each) for each in connection.rows(_STRETCH, (tenant_id, seq, head.seq))]
        if _leads_to(entries, seq, head):
            return entries[0]
    raise EnvironmentFailureError(
        Reason.EVIDENCE_INVALID,
        "this entry is not one that Remit wrote and signed; nothing was touched",
        where=f"tenant {tenant_id}, entry {seq}",
        next_step="Keep the database as it is and run `remit ledger verify`.",
    )


def _leads_to(entries: list[Entry], seq: int, head: LedgerHead) -> bool:
    if len(entries) != head.seq - seq + 1 or entries[-1].hash != head.hash:
        return False
    linked = all(later.prev_hash == earlier.hash for earlier, later in pairwise(entries))
    placed = all(entry.seq == seq + place for place, entry in enumerate(entries))
    return linked and placed and all(entry.is_intact() for entry in entries)
