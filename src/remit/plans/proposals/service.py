"""Plans that an agent or a person proposed, and their states: pending, approved, denied, expired, void.

Each step is one entry of the ledger, written in one transaction with the row. An approval is written in one transaction
with the entry of the envelope that was signed for it. A row is valid only as far as a signed entry says the same. The
outcome of an approved plan is not stored here: the claim of its envelope has it, as for every other plan.
"""

import os
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from remit.approvals.errors import REVOKED
from remit.contracts.plans.envelope import Envelope
from remit.contracts.plans.proposal import MAX_NOTE
from remit.core.canonical import digest_bytes
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.faultpoints import reach
from remit.core.ids import render_time, uuid7
from remit.identity.person import Person, agent_cannot_decide
from remit.ledger.entry import NewEntry
from remit.ledger.writer import Batch
from remit.masking import mask_text
from remit.plans.proposals.admission import admit_preview, build_deferral_entry
from remit.plans.proposals.draft import ProposalDraft, proposal_id_for, same_plan
from remit.plans.proposals.errors import already_closed_error, not_found_error, overdue_error, unverified_row_error
from remit.plans.proposals.previews import (
    ComputedPreview,
    build_failure_entry,
    build_preview_entry,
    save_preview,
)
from remit.plans.proposals.queries import ProposalQueries
from remit.plans.proposals.transitions import (
    build_entry,
    change_state,
    forget_preview,
    require_current,
    require_evidence,
)
from remit.plans.proposals.turns import FIELD, MOST_AHEAD, Turn, allot_turn, live_turns
from remit.store.claims import ClaimKey, read_claim
from remit.store.connection import Connection
from remit.store.proposal_previews import closed_with_document, proposed_since
from remit.store.proposals import (
    PLAN_DISCARDED,
    ProposalRow,
    find_row,
    insert_row,
    last_step_at,
    open_rows_of_token,
    pending_rows,
)
from remit.store.tokens import require_not_revoked

PROPOSAL_LIFE: Final = timedelta(hours=24)
MAX_PENDING: Final = 200
MAX_PENDING_OF_ONE: Final = 20
"""The number of pending proposals of one proposer. People who must decide too often stop reading."""
CANCELLED: Final = "envelope.cancelled"


class Proposed(NamedTuple):
    """A proposal, and whether this request made it. A repeated one did not, and then there is nothing to compute."""

    row: ProposalRow
    is_new: bool
    turn: Turn | None = None
    """The turn in which a new proposal's preview is computed, if its agent may be shown it."""


class Proposals(ProposalQueries):
    """The proposals of one workspace, with every step that a proposal can take."""

    # --- proposing ----------------------------------------------------------------------------------------------------

    def find_by_key(self, proposed_by: str, key: str, plan_digest: str) -> ProposalRow | None:
        """Return what the proposer proposed under this key before, if anything. Refuses the key for another plan."""
        with self._ledger().store.reading_pooled() as connection:
            row = find_row(connection, self._tenant_id, proposal_id_for(self._tenant_id, proposed_by, key))
            return None if row is None else same_plan(self._require_verified(connection, row), plan_digest)

    def propose(self, draft: ProposalDraft) -> Proposed:
        """Store a proposal that waits for a person. It expires after a day, or with the token."""
        note = _masked(draft.note)
        plan_digest, plan = draft.plan_digest, draft.plan.decode()

        def work(batch: Batch) -> Proposed:
            now = batch.time_in(self._tenant_id)
            proposal_id = (
                uuid7(now) if draft.key is None else proposal_id_for(self._tenant_id, draft.proposed_by, draft.key)
            )
            if (found := find_row(batch.store, self._tenant_id, proposal_id)) is not None:
                return Proposed(same_plan(found, plan_digest), is_new=False)
            self._close_overdue(batch)
            self._require_capacity(batch.store, draft.proposed_by)
            if draft.token_jti is not None:
                require_not_revoked(batch.store, self._tenant_id, draft.token_jti)
            ends = now + PROPOSAL_LIFE
            row = ProposalRow(
                self._tenant_id,
                proposal_id,
                draft.plan_id,
                plan_digest,
                draft.title[:1_000],
                draft.risk,
                str(draft.proposed_by),
                draft.token_jti,
                note,
                render_time(now),
                render_time(min(ends, draft.not_after or ends)),
                proposed_seq=0,
                state="PENDING",
                decided_by=None,
                decided_at=None,
                reason=None,
                envelope_id=None,
                envelope=None,
                entry_seq=0,
            )
            payload: dict[str, Any] = {"title": row.title, "risk": row.risk, "note": note}
            payload |= draft.preview.digests() if draft.preview is not None else {}
            turn = self._allot_turn(batch.store, draft, now)
            payload |= {FIELD: turn.tree()} if turn is not None else {}
            entry = batch.append(build_entry(row, "PENDING", draft.proposed_by, payload))
            row = row._replace(proposed_seq=entry.seq, entry_seq=entry.seq)
            insert_row(batch.store, row, plan)
            if draft.preview is not None:
                save_preview(batch, row, draft.preview, entry)
            elif draft.execution != "nothing":
                batch.append(admit_preview(batch, row, draft, now))
            reach("proposal.inserted")
            return Proposed(row, is_new=True, turn=turn)

        proposed = self._ledger().transact(work)
        reach("proposal.made")
        self.change_signal.notify()
        return proposed

    def replace_preview(
        self, proposal_id: str, computed: ComputedPreview, by: str, *, turn: Turn | None = None
    ) -> ProposalRow:
        """Store a preview that was computed after the plan was proposed. It replaces the earlier one, if any.

        Refuses a proposal that is closed. Does not verify the earlier preview: `preview_of` does. `turn` is the turn in
        which the preview was computed. If it is stored too late, the agent is not shown it.
        """
        self.expire_due()

        def work(batch: Batch) -> ProposalRow:
            row = self._require_row(batch, proposal_id)
            if row.state not in {"PENDING", "APPROVED"}:
                raise already_closed_error(row, last_step_at(batch.store, row))
            require_evidence(batch.store, self._ledger().keyring, row, row.proposed_seq, "PENDING")
            require_current(batch.store, row)
            if row.token_jti is not None:
                require_not_revoked(batch.store, self._tenant_id, row.token_jti)
            in_turn = turn is not None and batch.time_in(self._tenant_id) < turn.stops_at
            save_preview(batch, row, computed, batch.append(build_preview_entry(row, computed, by, in_turn=in_turn)))
            reach("proposal.preview_stored")
            return row

        row = self._ledger().transact(work)
        reach("proposal.previewed")
        return self._signal(row)

    def record_failed_preview(self, proposal_id: str, problem: RemitError, by: str) -> None:
        """Record, for people, why the preview of a pending proposal could not be computed."""

        def work(batch: Batch) -> None:
            row = self._require_row(batch, proposal_id)
            if row.state == "PENDING":
                batch.append(build_failure_entry(row, problem, by))

        self._ledger().transact(work)
        self.change_signal.notify()

    def record_stopped_preview(self, proposal_id: str, by: str) -> None:
        """Record, for people, that computing the preview was stopped, and that a person decides about another run."""

        def work(batch: Batch) -> None:
            row = self._require_row(batch, proposal_id)
            if row.state == "PENDING":
                batch.append(build_deferral_entry(row, "turn", by))

        self._ledger().transact(work)
        self.change_signal.notify()

    # --- deciding -----------------------------------------------------------------------------------------------------

    def deny(self, proposal_id: str, who: Person, reason: str | None = None) -> ProposalRow:
        self.expire_due()

        def work(batch: Batch) -> ProposalRow:
            row = self._require_pending(batch, proposal_id, who)
            return change_state(batch, row, "DENIED", who.signature, _masked(reason))

        denied = self._ledger().transact(work)
        reach("proposal.answered")
        return self._signal(denied)

    def approve(
        self,
        batch: Batch,
        proposal_id: str,
        envelope: Envelope,
        who: Person,
        reason: str | None = None,
        preview_digest: str | None = None,
    ) -> ProposalRow:
        """Approve a proposal in the transaction that records its signed envelope. The caller notifies afterwards.

        `preview_digest` is the digest of the preview that the person saw, for the ledger.
        """
        row = self._require_pending(batch, proposal_id, who)
        if envelope.plan_digest != row.plan_digest:
            raise unverified_row_error(row)
        text = envelope.canonical(without=frozenset({"plan"})).decode()
        signed = row._replace(envelope_id=envelope.envelope_id, envelope=text)
        moved = change_state(
            batch,
            signed,
            "APPROVED",
            who.signature,
            _masked(reason),
            envelope_id=envelope.envelope_id,
            envelope_digest=digest_bytes(text.encode()),
            approvals=envelope.approvals.tree(),
            **({"preview_digest": preview_digest} if preview_digest is not None else {}),
        )
        reach("proposal.approved")
        return moved

    # --- ending -------------------------------------------------------------------------------------------------------

    def withdraw(self, proposal_id: str, by: str, reason: str | None = None) -> ProposalRow:
        """Withdraw a proposal that is pending, or approved and not started. Refuses any other."""
        self.expire_due()

        def work(batch: Batch) -> ProposalRow:
            row = self._require_row(batch, proposal_id)
            why = f"withdrawn by {by}" + (f": {_masked(reason)}" if reason else "")
            voided = self._void(batch, row, why[:1_000], by)
            if voided is None:
                raise already_closed_error(row, last_step_at(batch.store, row))
            return voided

        return self._signal(self._ledger().transact(work))

    def void_of_token(self, batch: Batch, token_jti: str, by: str) -> int:
        """Void the open proposals of a token that is being revoked: pending, or approved and not started.

        Returns their number. The caller notifies afterwards.
        """
        rows = open_rows_of_token(batch.store, self._tenant_id, token_jti)
        return sum(self._void(batch, row, f"{REVOKED} by {by}", by) is not None for row in rows)

    def forget_closed_previews(self, share: float = 1.0) -> int:
        """Delete the documents of proposals that were withdrawn or expired while they were pending. Return how many.

        This is apart from the request that closed them. The duration of the deletion depends on the size of the
        document, and so on files that the agent may not read. With `share`, each one is deleted by chance, so that an
        agent cannot watch for the moment either.
        """
        with self._ledger().store.reading_pooled() as connection:
            names = closed_with_document(connection, self._tenant_id)
        names = [name for name in names if share >= 1 or _draw() < share]
        for name in names:

            def work(batch: Batch, name: str = name) -> None:
                row = find_row(batch.store, self._tenant_id, name)
                if row is not None and row.state in PLAN_DISCARDED:
                    forget_preview(batch, row, render_time(batch.time_in(self._tenant_id)))

            self._ledger().transact(work)
        return len(names)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _require_row(self, batch: Batch, proposal_id: str) -> ProposalRow:
        row = find_row(batch.store, self._tenant_id, proposal_id)
        if row is None:
            raise not_found_error(proposal_id)
        return row

    def _require_pending(self, batch: Batch, proposal_id: str, who: Person) -> ProposalRow:
        who.require_still_valid(batch.time_in(self._tenant_id))
        row = self._require_row(batch, proposal_id)
        if row.proposed_by.startswith("agent:") and _is_agent(row, who):
            raise agent_cannot_decide("this is the agent that proposed it")
        if row.state != "PENDING":
            raise already_closed_error(row, last_step_at(batch.store, row))
        times = batch.times_in(self._tenant_id)
        if refusal := times.refusal(row.created_at, row.expires_at, overdue_error(row)):
            raise refusal  # the next query closes it, if its time is over
        if row.token_jti is not None:
            require_not_revoked(batch.store, self._tenant_id, row.token_jti)
        require_evidence(batch.store, self._ledger().keyring, row, row.proposed_seq, "PENDING")
        require_current(batch.store, row)
        return row

    def _void(self, batch: Batch, row: ProposalRow, why: str, by: str) -> ProposalRow | None:
        """Void a proposal, and with it the envelope that its approval signed. None if it is too late."""
        if row.state not in {"PENDING", "APPROVED"}:
            return None
        if row.envelope_id is not None:
            if read_claim(batch.store, ClaimKey(self._tenant_id, "plan", row.envelope_id)) is not None:
                return None
            payload = {"envelope_id": row.envelope_id, "proposal_id": row.proposal_id}
            batch.append(NewEntry(self._tenant_id, CANCELLED, row.envelope_id, payload, actor=by))
        return change_state(batch, row, "VOID", by, why)

    def _allot_turn(self, connection: Connection, draft: ProposalDraft, now: datetime) -> Turn | None:
        """Return the turn of a new proposal, by the times and the number of the proposals before it alone."""
        length = draft.turn_length
        if length is None or draft.preview is not None or draft.execution == "not_allowed":
            return None
        since = render_time(now - (MOST_AHEAD + 1) * length)
        proposed = proposed_since(connection, self._tenant_id, since)
        return None if proposed is None else allot_turn(live_turns(proposed), str(draft.proposed_by), now, length)

    def _require_capacity(self, connection: Connection, proposed_by: str) -> None:
        waiting = [row.proposed_by for row in pending_rows(connection, self._tenant_id)]
        if len(waiting) >= MAX_PENDING or waiting.count(proposed_by) >= MAX_PENDING_OF_ONE:
            raise RefusedError(
                Reason.RESOURCE_EXHAUSTED,
                "too many proposed plans are pending already",
                where=proposed_by,
                next_step="Have some of them decided first, or withdraw them: remit approvals",
            )

    def _signal(self, row: ProposalRow) -> ProposalRow:
        self.change_signal.notify()
        return row


def _is_agent(row: ProposalRow, who: Person) -> bool:
    agent = row.proposed_by.removeprefix("agent:")
    return bool({agent, row.proposed_by} & {who.id, who.name, who.signature})


def _draw() -> float:
    """Return a random number from 0 to 1, from the kernel, because an agent must not predict it."""
    return int.from_bytes(os.urandom(4)) / (1 << 32)


def _masked(text: str | None) -> str | None:
    """Mask the text of a person or an agent for the ledger. Neither database stores a NUL or half a character."""
    if not text:
        return None
    return mask_text(text.replace("\0", "").encode("utf-8", "replace").decode())[:MAX_NOTE] or None
