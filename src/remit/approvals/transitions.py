"""One step in the life of a question: the entry of the ledger, and the row with it."""

from typing import Any

from remit.approvals.errors import already_closed_error
from remit.contracts.browser.browser import ApprovalState
from remit.ledger.entry import NewEntry
from remit.ledger.writer import Batch
from remit.store.approvals import KIND_OF, ApprovalRow, find_row, last_step_at, move_row


def record_step(
    batch: Batch, row: ApprovalRow, state: ApprovalState, actor: str | None, reason: str | None = None
) -> ApprovalRow:
    """One step of the state machine with its entry. The database refuses any other step."""
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
    """What the ledger keeps of a preview, beside its digest: it is for ever, and small."""
    if "function" in preview:
        return {"function": preview["function"], "effect": preview["estimatedEffect"][:2_000]}
    return {"method": preview["method"], "url": preview["url"][:2_000], "effect": preview["estimatedEffect"][:2_000]}
