"""Proof of one entry: it is unchanged, and a chain leads from it to a head that an audit key of this workspace signed.

Use it before you act on the content of an entry. An attacker who can write to the database, and has no key, can invent
rows but no signed head over them.
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
    """Return the proven entry at this place. Reads up to the end of the transaction that wrote it."""
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
