"""What a row about a question is worth: a signed entry of the ledger says the same, and its host is alive."""

from collections.abc import Callable

from remit.approvals.errors import evidence_error
from remit.contracts.browser.browser import LASTING, ApprovalState
from remit.crypto.signing import Keyring
from remit.ledger.proof import require_covered
from remit.store.approvals import KIND_OF, ApprovalRow, was_moved_on
from remit.store.connection import Connection, Dialect
from remit.store.process_identity import is_before_reboot, is_gone


def require_evidence(
    connection: Connection, keyring: Callable[[], Keyring], row: ApprovalRow, seq: int, state: ApprovalState
) -> None:
    """That it was asked like this, or answered like this, is somebody's word until a signed entry says so."""
    entry = require_covered(connection, keyring, row.tenant_id, seq)
    wanted = f'"bound_digest":"{row.bound_digest}"'
    if entry.kind != KIND_OF[state] or wanted not in entry.payload or (state == "APPROVED" and not entry.actor):
        raise evidence_error(row)


def require_not_moved_on(connection: Connection, row: ApprovalRow) -> None:
    """That nothing has become of it but what the row says. Counts the steps of this very transaction too."""
    if was_moved_on(connection, row):
        raise evidence_error(row)


def is_orphan(row: ApprovalRow, dialect: Dialect) -> bool:
    """Whether the process that held the request is gone, as far as this machine can tell."""
    if row.host == LASTING:
        return False
    return (dialect == "sqlite" and is_before_reboot(row.host)) or is_gone(row.host)
