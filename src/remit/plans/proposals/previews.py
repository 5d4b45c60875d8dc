"""The stored preview of a proposed plan: what people see, verified against a signed entry.

A preview runs the plan's SQL and pipelines to find out what they would do. Therefore it is computed when the plan is
proposed, or later by a deliberate act, and never by a view. It is stored in the transaction that records its digests.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from remit.core.canonical import digest_bytes
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.crypto.signing import Keyring
from remit.ledger.entry import Entry, NewEntry
from remit.ledger.proof import require_covered
from remit.ledger.writer import Batch
from remit.plans.proposals.errors import unverified_row_error
from remit.store.connection import Connection
from remit.store.plan_previews import end_proposed, propose_preview
from remit.store.proposal_previews import (
    COMPUTED_AGAIN,
    COMPUTING_FAILED,
    RECORDED_BY,
    PreviewRow,
    computed_again_at,
    computing_failed_at,
    read_preview,
    read_preview_row,
    store_preview,
)
from remit.store.proposals import ProposalRow

_IN_TURN: Final = "in_turn"
"""The field of the entry of a preview that was computed and stored in its turn, and holds no credential."""


@dataclass(frozen=True, slots=True)
class ComputedPreview:
    """A computed preview before it is stored: the digest that an approval names, the document as bytes, and the title
    and the risk that lists show to people.
    """

    preview_digest: str
    document: bytes
    title: str
    risk: str
    cannot_be_approved: bool = False
    """Whether the plan would fail and change nothing."""

    @property
    def document_digest(self) -> str:
        return digest_bytes(self.document)

    def digests(self) -> dict[str, str]:
        """Return the digests for the payload of the entry that records the preview."""
        return {"preview_digest": self.preview_digest, "preview_document_digest": self.document_digest}


class StoredPreview(NamedTuple):
    """The preview that people see, verified against the ledger."""

    preview_digest: str
    document: str
    computed_by: str
    computed_at: str
    in_turn: bool = False
    """Whether it was computed and stored in its turn, so that the agent may be shown it."""


class FailedPreview(NamedTuple):
    """Why the preview of a proposed plan could not be computed, as the ledger recorded it."""

    what: str
    where: str
    next_step: str
    at: str


class ListedEffect(NamedTuple):
    """What lists show people of a preview, from the entry that recorded it."""

    title: str
    risk: str
    cannot_be_approved: bool = False


class PreviewNotStoredError(RefusedError):
    """There is no preview to show. Computing one is a deliberate act: it runs the plan's SQL and pipelines."""

    def __init__(self, proposal_id: str, failed: FailedPreview | None = None, why: str = "") -> None:
        what = "no preview of this plan is stored, so its effect cannot be shown"
        what += f": {why}" if why else ""
        first = ""
        if failed is not None:
            what = f"no preview of this plan is stored, because computing it failed at {failed.at[:19]}Z: {failed.what}"
            what += f" ({failed.where})" if failed.where else ""
            first = f"{failed.next_step} Then: " if failed.next_step else ""
        super().__init__(
            Reason.STATE_MISSING,
            what,
            where=f"proposal {proposal_id}",
            next_step=f"{first or 'Compute it: '}remit approvals compute {proposal_id}, or POST"
            f" /v1/plans/{proposal_id}/preview, with the right to compute, which operators and admins"
            " have.",
        )
        self.failed = failed


def save_preview(batch: Batch, row: ProposalRow, computed: ComputedPreview, entry: Entry) -> None:
    """Store the preview in the transaction of the entry that has `computed.digests()`."""
    stored = PreviewRow(
        row.tenant_id,
        row.proposal_id,
        computed.preview_digest,
        computed.document_digest,
        entry.actor or "",
        entry.created_at,
        entry.seq,
    )
    earlier = read_preview(batch.store, row.tenant_id, row.proposal_id)
    store_preview(batch.store, stored, computed.document.decode())
    # If it was removed since, for lack of space, it must be computed again before an approval. Its text is stored here.
    propose_preview(batch.store, row.tenant_id, computed.preview_digest, row.expires_at)
    if earlier is not None and earlier[0].preview_digest != computed.preview_digest:
        end_proposed(batch.store, row.tenant_id, earlier[0].preview_digest, entry.created_at)


def build_preview_entry(row: ProposalRow, computed: ComputedPreview, actor: str, *, in_turn: bool) -> NewEntry:
    payload: dict[str, Any] = {
        "proposal_id": row.proposal_id,
        "plan_id": row.plan_id,
        "plan_digest": row.plan_digest,
        "title": computed.title,
        "risk": computed.risk,
        **computed.digests(),
        **({"cannot_be_approved": True} if computed.cannot_be_approved else {}),
    }
    if in_turn:
        payload[_IN_TURN] = True
    return NewEntry(row.tenant_id, COMPUTED_AGAIN, row.proposal_id, payload, actor=actor)


def build_failure_entry(row: ProposalRow, problem: RemitError, actor: str) -> NewEntry:
    payload = {
        "proposal_id": row.proposal_id,
        "plan_id": row.plan_id,
        "plan_digest": row.plan_digest,
        **problem.as_json(),
    }
    return NewEntry(row.tenant_id, COMPUTING_FAILED, row.proposal_id, payload, actor=actor)


def find_failed_preview(
    connection: Connection, keyring: Callable[[], Keyring], row: ProposalRow
) -> FailedPreview | None:
    """Return why the newest preview could not be computed. None if that is not recorded, or the entry is not signed."""
    seq = computing_failed_at(connection, row.tenant_id, row.proposal_id)
    if seq is None:
        return None
    try:
        entry = require_covered(connection, keyring, row.tenant_id, seq)
        payload = json.loads(entry.payload)
        return FailedPreview(
            str(payload["what"]), str(payload["where"]), str(payload["next_step"]), str(entry.created_at)
        )
    except (EnvironmentFailureError, ValueError, TypeError, KeyError):
        return None


def stored_preview(connection: Connection, keyring: Callable[[], Keyring], row: ProposalRow) -> StoredPreview | None:
    """Return the verified preview, or None if none is stored.

    Raises EVIDENCE_INVALID for a document that differs from the signed entry, and for one that a later entry replaced.
    """
    found = read_preview(connection, row.tenant_id, row.proposal_id)
    if found is None:
        return None
    stored, document = found
    in_turn = False
    try:
        entry = require_covered(connection, keyring, row.tenant_id, stored.entry_seq)
        payload = json.loads(entry.payload)
        in_turn = payload.get(_IN_TURN) is True
        text_digest = digest_bytes((document or "").encode())
        is_recorded = (
            entry.kind in RECORDED_BY
            and entry.correlation_id == row.proposal_id
            and (entry.actor or "", entry.created_at) == (stored.computed_by, stored.computed_at)
            and (payload.get("preview_digest"), payload.get("plan_digest")) == (stored.preview_digest, row.plan_digest)
            and payload.get("preview_document_digest") == stored.document_digest == text_digest
            and (computed_again_at(connection, row.tenant_id, row.proposal_id) or 0) <= stored.entry_seq
        )
    except (EnvironmentFailureError, ValueError, TypeError, AttributeError):  # the columns' types can be altered
        is_recorded = False
    if not is_recorded or document is None:
        raise unverified_row_error(row)
    return StoredPreview(stored.preview_digest, document, stored.computed_by, stored.computed_at, in_turn)


def is_shown_in_turn(connection: Connection, keyring: Callable[[], Keyring], row: ProposalRow) -> bool:
    """Whether the stored preview may be shown to its agent, by its signed entry. The document is not read.

    Reading it takes longer the larger it is, so an agent would learn the size of a preview that it is not shown.
    """
    stored = read_preview_row(connection, row.tenant_id, row.proposal_id)
    if stored is None:
        return False
    try:
        payload = json.loads(require_covered(connection, keyring, row.tenant_id, stored.entry_seq).payload)
        return payload.get(_IN_TURN) is True
    except (EnvironmentFailureError, ValueError, TypeError, AttributeError):
        raise unverified_row_error(row) from None


def read_listed_effect(
    connection: Connection, keyring: Callable[[], Keyring], row: ProposalRow, seq: int
) -> ListedEffect | None:
    """Return what lists show from the entry at `seq`, which recorded a preview that was computed after the proposal.

    Returns None for an entry without title and risk. Raises for an entry that is not signed.
    """
    payload = json.loads(require_covered(connection, keyring, row.tenant_id, seq).payload)
    title, risk = payload.get("title"), payload.get("risk")
    if not isinstance(title, str) or not isinstance(risk, str):
        return None
    return ListedEffect(title, risk, payload.get("cannot_be_approved") is True)
