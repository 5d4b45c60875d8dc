"""Checks that the ledger is still there. Missing tables beside anchors mean that it was emptied or replaced.

New tables would start an empty record in place of the lost one. Therefore Remit never offers to make them.
"""

from remit.contracts.ledger import LedgerHead
from remit.core.errors import EnvironmentFailureError, Reason
from remit.ledger.heads import Anchors
from remit.store.connection import Connection
from remit.store.migrations_runner import foreign_objects

_HASH: str = "SELECT hash FROM ledger_entries WHERE tenant_id = ? AND seq = ?"


def require_entries_table(connection: Connection, anchors: Anchors) -> None:
    """Refuse a database that has no table of entries although an anchor proves some."""
    if connection.has_table("ledger_entries") or foreign_objects(connection):  # another error names foreign objects
        return
    proof = next((head for _, head in anchors if head is not None), None)
    if proof is not None:
        raise EnvironmentFailureError(
            Reason.EVIDENCE_INVALID,
            f"the ledger's table of entries is missing, and its anchor proves {proof.seq} entries of tenant"
            f" {proof.tenant_id}: the database was emptied, or another one was put in its place",
            where=anchors.where(proof.tenant_id),
            next_step="Do not run `remit migrate`. Keep the files as they are, then restore the database from a backup"
            " and check it: remit ledger verify",
        )


def anchored_heads(anchors: Anchors) -> list[LedgerHead]:
    """Return all anchored heads. Call it before you read the database: a later anchor may name entries not yet read."""
    return [head for _, head in anchors if head is not None]


def lost_anchored(connection: Connection, heads: list[LedgerHead]) -> list[LedgerHead]:
    """Return the heads whose entry the database does not have. Fast: it reads one entry of each tenant."""
    return [head for head in heads if connection.one(_HASH, (head.tenant_id, head.seq)) != (head.hash,)]
