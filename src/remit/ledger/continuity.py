"""Refuses to continue a chain that lost a signed entry or gained an unsigned one.

After a tail was cut off, each append would overwrite a part of the anchor that proves it. Therefore the first append of
a process compares the chain with its anchor, and every later one with the last head that this process committed. An
append after an inserted entry would cover it with our next signature. Therefore an end of the chain that this process
did not write must have its own head, signed with an audit key of this workspace.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from remit.contracts.ledger import LedgerHead
from remit.core.errors import EnvironmentFailureError, Reason
from remit.crypto.signing import Keyring
from remit.ledger.heads import HEAD_FIELDS, Anchors, is_ours
from remit.store.connection import Connection

_NEWEST_HEAD: Final = f"SELECT {', '.join(HEAD_FIELDS)} FROM ledger_heads WHERE tenant_id = ? ORDER BY seq DESC LIMIT 1"
_HASH_AT: Final = "SELECT hash FROM ledger_entries WHERE tenant_id = ? AND seq = ?"


class Tip(NamedTuple):
    """The end of a chain."""

    seq: int
    hash: str
    created_at: str


class Continuity:
    """Keeps the last known place in each chain. Used by one thread at a time."""

    def __init__(self, anchors: Anchors, keyring: Callable[[], Keyring]) -> None:
        self._anchors = anchors
        self._keyring = keyring
        self._known: dict[str, tuple[int, str]] = {}

    def require(self, connection: Connection, tenant_id: str, tip: Tip) -> None:
        """Refuse to continue from `tip` if the chain no longer holds the last entry that this process knows."""
        written = self._known.get(tenant_id)
        if written == (tip.seq, tip.hash):
            return
        known = written or self._anchored(tenant_id)
        if known is not None and known != (tip.seq, tip.hash):
            self._require_same_hash(connection, tenant_id, tip, *known)
        self._require_signed(connection, tenant_id, tip)

    def _require_same_hash(self, connection: Connection, tenant_id: str, tip: Tip, seq: int, entry_hash: str) -> None:
        found = connection.one(_HASH_AT, (tenant_id, seq)) if seq <= tip.seq else None
        if found != (entry_hash,):
            raise EnvironmentFailureError(
                Reason.EVIDENCE_INVALID,
                f"the ledger of tenant {tenant_id} no longer holds entry {seq}, which was signed: it was cut short,"
                " rewritten, or replaced by an older copy",
                where=self._anchors.where(tenant_id),
                next_step="Keep the database as it is and run `remit ledger verify`. If you restored an old backup on"
                " purpose, move the anchor named here away.",
            )

    def _require_signed(self, connection: Connection, tenant_id: str, tip: Tip) -> None:
        row = connection.one(_NEWEST_HEAD, (tenant_id,))
        if tip.seq == 0 and row is None:
            return
        head = LedgerHead.model_construct(**dict(zip(HEAD_FIELDS, row, strict=True))) if row else None
        if head is None or (head.seq, head.hash) != (tip.seq, tip.hash) or not is_ours(head, self._keyring()):
            raise EnvironmentFailureError(
                Reason.EVIDENCE_INVALID,
                f"the newest entry of tenant {tenant_id} has no head signed by a key of this workspace: another program"
                " wrote it, or removed its head",
                where=f"entry {tip.seq}",
                next_step="Keep the database as it is and run `remit ledger verify`.",
            )

    def advance(self, tenant_id: str, tip: Tip) -> None:
        """Note a committed entry as the last known one."""
        self._known[tenant_id] = tip.seq, tip.hash

    def _anchored(self, tenant_id: str) -> tuple[int, str] | None:
        head = self._anchors.read(tenant_id)
        return (head.seq, head.hash) if head is not None else None
