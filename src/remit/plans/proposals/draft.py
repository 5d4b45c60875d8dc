"""The draft of a proposal, and its id. The proposer's own key gives the same id each time. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from remit.core.canonical import digest, digest_bytes
from remit.core.errors import Reason, RefusedError
from remit.plans.proposals.previews import ComputedPreview
from remit.store.proposals import ProposalRow

PreviewExecution = Literal["nothing", "allowed", "not_allowed"]
"""Whether computing the preview later executes something, and whether the proposer may cause that."""


@dataclass(frozen=True, slots=True)
class ProposalDraft:
    """A proposed plan, which was validated, in canonical form, with its proposer."""

    plan: bytes
    plan_id: str
    title: str
    risk: str
    proposed_by: str
    token_jti: str | None = None
    note: str | None = None
    key: str | None = None
    not_after: datetime | None = None
    """When the proposer's token expires. The proposal ends with it."""
    preview: ComputedPreview | None = None
    """The preview that was computed for this proposal. Without one, it must be computed before an approval."""
    execution: PreviewExecution = "nothing"
    """For a draft without a preview: what computing it would mean."""
    turn_length: timedelta | None = None
    """For a draft without a preview that its proposer may read as a whole: how long the turn is that it gets."""

    @property
    def plan_digest(self) -> str:
        return digest_bytes(self.plan)


def proposal_id_for(tenant_id: str, proposed_by: str, key: str) -> str:
    """Return the id of a proposal under the proposer's own key: the same each time, and unique to the proposer."""
    identity = digest({"proposal_of": proposed_by, "tenant_id": tenant_id, "key": key})
    raw = bytearray.fromhex(identity.removeprefix("sha256:")[:32])
    raw[6] = (raw[6] & 0x0F) | 0x80
    raw[8] = (raw[8] & 0x3F) | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def same_plan(row: ProposalRow, plan_digest: str) -> ProposalRow:
    if row.plan_digest == plan_digest:
        return row
    raise RefusedError(
        Reason.IDEMPOTENCY_CONFLICT,
        "this key was used before for a different plan",
        where=f"proposal {row.proposal_id}",
        next_step="Give the new plan a key of its own.",
    )
