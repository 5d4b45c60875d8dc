"""One state change of a proposal, with its ledger entry and its row, and the checks of a row against the ledger."""

from collections.abc import Callable
from typing import Any

from remit.contracts.plans.proposal import StoredProposalState
from remit.core.canonical import digest_bytes
from remit.crypto.signing import Keyring
from remit.ledger.entry import NewEntry
from remit.ledger.proof import require_covered
from remit.ledger.writer import Batch
from remit.plans.proposals.errors import already_closed_error, unverified_row_error
from remit.store.connection import Connection
from remit.store.plan_previews import end_proposed, end_reference
from remit.store.proposal_previews import forget_document, read_preview_row
from remit.store.proposals import (
    KIND_OF,
    PLAN_DISCARDED,
    ProposalRow,
    find_row,
    last_step_at,
    matches_recorded_steps,
    move_row,
    read_plan,
    steps_recorded,
)


def change_state(
    batch: Batch,
    row: ProposalRow,
    state: StoredProposalState,
    actor: str | None,
    reason: str | None = None,
    **more: Any,
) -> ProposalRow:
    """Take one step of the state machine with its entry. The database refuses an invalid step."""
    payload = {"reason": reason} if reason else {}
    entry = batch.append(build_entry(row, state, actor, {**payload, **more}))
    moved = row._replace(state=state, reason=reason, entry_seq=entry.seq)
    if state in {"APPROVED", "DENIED"}:
        moved = moved._replace(decided_by=actor, decided_at=entry.created_at)
    if not move_row(batch.store, row, moved):
        now = find_row(batch.store, row.tenant_id, row.proposal_id) or row
        raise already_closed_error(now, last_step_at(batch.store, now))
    if (
        state not in PLAN_DISCARDED
    ):  # `forget_preview` does this later: its duration would tell an agent about the preview
        _end_preview_references(batch, moved, entry.created_at)
    return moved


def forget_preview(batch: Batch, row: ProposalRow, now: str) -> None:
    """Let go of the stored preview of a proposal that was withdrawn or expired, and delete its document."""
    _end_preview_references(batch, row, now)
    forget_document(batch.store, row.tenant_id, row.proposal_id)


def _end_preview_references(batch: Batch, row: ProposalRow, now: str) -> None:
    """Let go of the stored preview of a proposal that is decided or closed. An envelope has a reference of its own."""
    stored = read_preview_row(batch.store, row.tenant_id, row.proposal_id)
    if stored is None:
        return
    end_proposed(batch.store, row.tenant_id, stored.preview_digest, now)
    if row.state == "VOID" and row.envelope_id is not None:
        end_reference(batch.store, row.tenant_id, stored.preview_digest, now)


def build_entry(row: ProposalRow, state: StoredProposalState, actor: str | None, more: dict[str, Any]) -> NewEntry:
    payload = {
        "proposal_id": row.proposal_id,
        "plan_id": row.plan_id,
        "plan_digest": row.plan_digest,
        "proposed_by": row.proposed_by,
        "jti": row.token_jti,
        "bound_digest": row.bound_digest,
        "expires_at": row.expires_at,
        **more,
    }
    return NewEntry(row.tenant_id, KIND_OF[state], row.proposal_id, payload, actor=actor)


def require_evidence(
    connection: Connection, keyring: Callable[[], Keyring], row: ProposalRow, seq: int, state: StoredProposalState
) -> None:
    """Check that a signed entry says that it was proposed or approved like this. The row alone is no proof."""
    entry = require_covered(connection, keyring, row.tenant_id, seq)
    wanted = [f'"bound_digest":"{row.bound_digest}"']
    if state == "APPROVED":
        wanted.append(f'"envelope_digest":"{digest_bytes((row.envelope or "").encode())}"')
    is_recorded = entry.kind == KIND_OF[state] and all(each in entry.payload for each in wanted)
    if not is_recorded or (state == "APPROVED" and not entry.actor):
        raise unverified_row_error(row)


def require_current(connection: Connection, row: ProposalRow) -> None:
    """Check that no step is recorded beyond the row's state. It sees the steps of this transaction too."""
    if not matches_recorded_steps(row, steps_recorded(connection, row.tenant_id, row.proposal_id)):
        raise unverified_row_error(row)


def require_plan(connection: Connection, row: ProposalRow) -> str:
    """Return the text of the proposed plan. Raises EVIDENCE_INVALID if it is missing or differs from its digest."""
    plan = read_plan(connection, row)
    if plan is None or digest_bytes(plan.encode()) != row.plan_digest:
        raise unverified_row_error(row)
    return plan
