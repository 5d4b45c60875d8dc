"""State changes of an approval request: the ledger entry together with the row.

Also the checks of a row: a signed ledger entry says the same, and the process that holds the request is alive.
"""

from collections.abc import Callable
from typing import Any

from remit.approvals.errors import already_closed_error, evidence_error
from remit.contracts.browser.browser import LASTING, ApprovalState
from remit.crypto.signing import Keyring
from remit.ledger.entry import NewEntry
from remit.ledger.proof import require_covered
from remit.ledger.writer import Batch
from remit.store.approvals import KIND_OF, ApprovalRow, find_row, last_step_at, move_row, was_moved_on
from remit.store.connection import Connection, Dialect
from remit.store.process_identity import is_before_reboot, is_dead


def change_state(
    batch: Batch, row: ApprovalRow, state: ApprovalState, actor: str | None, reason: str | None = None
) -> ApprovalRow:
    """Make one step of the state machine, and append its entry. The database refuses any other step."""
    entry = batch.append(build_entry(row, state, actor, {"reason": reason} if reason else {}))
    moved = row._replace(state=state, entry_seq=entry.seq)
    if state in {"APPROVED", "DENIED"}:
        moved = moved._replace(decided_by=actor, decided_at=entry.created_at)
    if state != "USED":
        moved = moved._replace(reason=reason)
    if not move_row(batch.store, row, moved):
        now = find_row(batch.store, row.tenant_id, row.approval_id) or row
        raise already_closed_error(now, last_step_at(batch.store, now))
    return moved


def build_entry(row: ApprovalRow, state: ApprovalState, actor: str | None, more: dict[str, Any]) -> NewEntry:
    payload = {
        "approval_id": row.approval_id,
        "agent_id": row.agent_id,
        "jti": row.token_jti,
        "request_digest": row.request_digest,
        "action_digest": row.action_digest,
        "bound_digest": row.bound_digest,
        "expires_at": row.expires_at,
        **more,
    }
    return NewEntry(row.tenant_id, KIND_OF[state], row.action_id, payload, actor=actor)


def summarise_preview(preview: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a preview that the ledger keeps beside its digest. It is small, because it is permanent."""
    if "function" in preview:
        return {"function": preview["function"], "effect": preview["estimatedEffect"][:2_000]}
    return {"method": preview["method"], "url": preview["url"][:2_000], "effect": preview["estimatedEffect"][:2_000]}


def require_evidence(
    connection: Connection, keyring: Callable[[], Keyring], row: ApprovalRow, seq: int, state: ApprovalState
) -> None:
    """Require a signed entry that says the same as the row. Without it, the row proves nothing."""
    entry = require_covered(connection, keyring, row.tenant_id, seq)
    wanted = f'"bound_digest":"{row.bound_digest}"'
    if entry.kind != KIND_OF[state] or wanted not in entry.payload or (state == "APPROVED" and not entry.actor):
        raise evidence_error(row)


def require_current(connection: Connection, row: ApprovalRow) -> None:
    """Require that the ledger has no later step than the row, including the steps of this transaction."""
    if was_moved_on(connection, row):
        raise evidence_error(row)


def is_orphan(row: ApprovalRow, dialect: Dialect) -> bool:
    """Return whether the process that held the request is gone, as far as this machine can know."""
    if row.host == LASTING:
        return False
    return (dialect == "sqlite" and is_before_reboot(row.host)) or is_dead(row.host)
