"""Whether the preview of a new proposal is computed right away if that executes something, or left to a person.

The answer is an entry in the transaction that stores the proposal. So two proposals at once cannot both take the last
place within the rate, and a process that dies afterwards leaves a proposal whose preview is not computed.
"""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple, get_args

from remit.contracts.services.common import PreviewState
from remit.core.ids import render_time
from remit.ledger.entry import NewEntry
from remit.ledger.writer import Batch
from remit.plans.proposals.draft import ProposalDraft
from remit.store.connection import Connection
from remit.store.proposal_previews import (
    COMPUTING_FAILED,
    DEFERRED,
    QUEUED,
    computing_steps,
    is_stored,
    queued_since,
    read_payload_at,
)
from remit.store.proposals import ProposalRow

MAX_IN_WINDOW: Final = 30
"""The most previews of one agent that execute something and are computed without a person, within the window."""
WINDOW: Final = timedelta(hours=1)

Deferral = Literal["capability", "rate", "turn"]
_DEFERRALS: Final[tuple[Deferral, ...]] = get_args(Deferral)


class PreviewStatus(NamedTuple):
    """Whether the preview of a proposal is stored, and why a person has to compute it, if that was decided."""

    state: PreviewState
    deferral: Deferral | None = None


def admit_preview(batch: Batch, row: ProposalRow, draft: ProposalDraft, now: datetime) -> NewEntry:
    """Return the entry that says whether the preview of this new proposal is computed right away.

    The row of the proposal must be in the transaction already.
    """
    deferral: Deferral | None = None
    if draft.execution == "not_allowed":
        deferral = "capability"
    elif queued_since(batch.store, row.tenant_id, row.proposed_by, render_time(now - WINDOW)) >= MAX_IN_WINDOW:
        deferral = "rate"
    if deferral is None:
        return NewEntry(row.tenant_id, QUEUED, row.proposal_id, _payload(row), actor=draft.proposed_by)
    return build_deferral_entry(row, deferral, draft.proposed_by)


def build_deferral_entry(row: ProposalRow, why: Deferral, actor: str) -> NewEntry:
    """Return the entry that leaves the preview to a person."""
    return NewEntry(row.tenant_id, DEFERRED, row.proposal_id, {**_payload(row), "why": why}, actor=actor)


def read_preview_status(
    connection: Connection, row: ProposalRow, is_computing: Callable[[], bool] = lambda: False
) -> PreviewStatus:
    """Return the status of the preview of a pending proposal. For display: an approval verifies the stored preview."""
    steps = computing_steps(connection, row.tenant_id, row.proposal_id)
    deferral = find_deferral(connection, row, steps)
    if is_stored(connection, row.tenant_id, row.proposal_id):
        return PreviewStatus("computed", deferral)
    if is_computing():
        return PreviewStatus("computing", deferral)
    return PreviewStatus("failed" if COMPUTING_FAILED in steps else "not_computed", deferral)


def find_deferral(connection: Connection, row: ProposalRow, steps: dict[str, int] | None = None) -> Deferral | None:
    """Return why the preview was left to a person, or None if it was not."""
    steps = computing_steps(connection, row.tenant_id, row.proposal_id) if steps is None else steps
    if DEFERRED not in steps:
        return None
    try:
        why = json.loads(read_payload_at(connection, row.tenant_id, steps[DEFERRED])).get("why")
    except (ValueError, AttributeError):  # the entry was altered; `ledger verify` names it
        why = None
    return next((each for each in _DEFERRALS if each == why), "capability")


def _payload(row: ProposalRow) -> dict[str, str]:
    payload = {"proposal_id": row.proposal_id, "plan_id": row.plan_id, "plan_digest": row.plan_digest}
    return payload if row.token_jti is None else {**payload, "jti": row.token_jti}
