"""Plans that an agent or a person proposed, and the answers: proposed, approved, denied, expired, void.

Each step is one entry of the ledger, written in one transaction with the row; the yes, in one with the entry of the
envelope that was signed for it. A row is believed only as far as a signed entry says the same. What becomes of the
plan after the yes is not said here: that is told by the claim of its envelope, as for every other plan.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from remit.approval.bell import Bell
from remit.approval.people import Person, agent_cannot_decide
from remit.approval.proposal_refusals import closed, no_such, not_approved, not_as_recorded, overdue
from remit.approval.proposal_steps import event_of, require_evidence, require_plan, take_step
from remit.approval.refusals import REVOKED
from remit.canonical import digest, digest_bytes
from remit.contracts.envelope import Envelope
from remit.contracts.proposal import MAX_NOTE, KeptState
from remit.errors import Reason, Refused
from remit.faultpoints import reach
from remit.ids import DEFAULT_TENANT, Clock, parse_time, render_time, uuid7
from remit.ledger.append import Batch, Ledger
from remit.ledger.entry import Event
from remit.masking import mask_text
from remit.store.claims import ClaimKey, read_claim
from remit.store.connection import Connection
from remit.store.proposals import (
    ProposalRow,
    find_row,
    insert_row,
    last_step_at,
    newest_rows,
    open_rows_of_token,
    pending_rows,
    row_of_envelope,
    rows_beginning,
    was_closed,
)
from remit.store.tokens import require_not_revoked

PROPOSAL_LIFE: Final = timedelta(hours=24)
MAX_PENDING: Final = 200
MAX_PENDING_OF_ONE: Final = 20
"""Plans that one proposer may have waiting. People who are asked about everything stop reading."""
CANCELLED: Final = "envelope.cancelled"
_SHORTEST_PREFIX: Final = 4
_LAST_TIME: Final = "SELECT created_at FROM ledger_entries WHERE tenant_id = ? ORDER BY seq DESC LIMIT 1"


@dataclass(frozen=True, slots=True)
class Draft:
    """What is proposed: a plan that was looked at, in canonical form, and by whom."""

    plan: bytes
    plan_id: str
    title: str
    risk: str
    proposed_by: str
    token_jti: str | None = None
    note: str | None = None
    key: str | None = None
    not_after: datetime | None = None
    """When the proposer's token ends: then nobody stands behind it any more."""

    @property
    def plan_digest(self) -> str:
        return digest_bytes(self.plan)


def proposal_id_for(tenant_id: str, proposed_by: str, key: str) -> str:
    """The id of what somebody proposes under a key of his own: the same each time, and nobody else's."""
    named = digest({"proposal_of": proposed_by, "tenant_id": tenant_id, "key": key})
    raw = bytearray.fromhex(named.removeprefix("sha256:")[:32])
    raw[6] = (raw[6] & 0x0F) | 0x80
    raw[8] = (raw[8] & 0x3F) | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Proposals:
    """The proposed plans of one workspace. Safe to use from several threads and processes at once."""

    def __init__(self, ledger: Callable[[], Ledger], bell: Bell, clock: Clock, tenant_id: str = DEFAULT_TENANT) -> None:
        self._ledger = ledger
        self._clock = clock
        self._tenant_id = tenant_id
        self.bell = bell

    # --- proposing ----------------------------------------------------------------------------------------------------

    def under_key(self, proposed_by: str, key: str, plan_digest: str) -> ProposalRow | None:
        """What he proposed under this key before, if anything. Refuses the key for another plan."""
        with self._ledger().store.glancing() as connection:
            row = find_row(connection, self._tenant_id, proposal_id_for(self._tenant_id, proposed_by, key))
        return None if row is None else _same_plan(row, plan_digest)

    def propose(self, draft: Draft) -> ProposalRow:
        """Have it wait for a person. It expires after a day, or with the token."""
        note = _masked(draft.note)
        plan_digest, plan = draft.plan_digest, draft.plan.decode()

        def work(batch: Batch) -> ProposalRow:
            now = batch.time_in(self._tenant_id)
            proposal_id = (
                uuid7(now) if draft.key is None else proposal_id_for(self._tenant_id, draft.proposed_by, draft.key)
            )
            if (found := find_row(batch.store, self._tenant_id, proposal_id)) is not None:
                return _same_plan(found, plan_digest)
            self._close_overdue(batch, now)
            self._require_room(batch.store, draft.proposed_by)
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
                draft.proposed_by,
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
            told = {"title": row.title, "risk": row.risk, "note": note}
            seq = batch.append(event_of(row, "PENDING", row.proposed_by, told)).seq
            row = row._replace(proposed_seq=seq, entry_seq=seq)
            insert_row(batch.store, row, plan)
            reach("proposal.inserted")
            return row

        row = self._ledger().transact(work)
        reach("proposal.made")
        self.bell.ring()
        return row

    # --- looking ------------------------------------------------------------------------------------------------------

    def find(self, proposal_id: str) -> ProposalRow | None:
        """By its whole id."""
        if not _is_name(proposal_id):
            return None
        self.expire_due()
        with self._ledger().store.glancing() as connection:
            return find_row(connection, self._tenant_id, proposal_id)

    def named(self, name: str) -> ProposalRow:
        """For a person: by its id, or by the beginning of it where that is no other's too."""
        if not _is_name(name):
            raise no_such(name)
        self.expire_due()
        with self._ledger().store.glancing() as connection:
            if (found := find_row(connection, self._tenant_id, name)) is not None:
                return found
            rows = rows_beginning(connection, self._tenant_id, name) if len(name) >= _SHORTEST_PREFIX else []
        if not rows:
            raise no_such(name)
        if len(rows) > 1:
            raise Refused(
                Reason.MALFORMED,
                "more than one proposal begins like this",
                where=f"proposal {name}",
                next_step=f"Give the whole id: {', '.join(row.proposal_id for row in rows[:4])}.",
            )
        return rows[0]

    def of_envelope(self, envelope_id: str) -> ProposalRow | None:
        if not _is_name(envelope_id):
            return None
        with self._ledger().store.glancing() as connection:
            return row_of_envelope(connection, self._tenant_id, envelope_id)

    def pending(self) -> list[ProposalRow]:
        """Those that wait for an answer, the newest first."""
        self.expire_due()
        with self._ledger().store.glancing() as connection:
            return pending_rows(connection, self._tenant_id)[::-1]

    def newest(
        self, *, proposed_by: str | None, states: Collection[KeptState], before: tuple[str, str], most: int
    ) -> list[ProposalRow]:
        self.expire_due()
        with self._ledger().store.reading() as connection:
            return newest_rows(
                connection, self._tenant_id, proposed_by=proposed_by, states=states, before=before, most=most
            )

    def plan_of(self, row: ProposalRow) -> bytes:
        """What was proposed, as the ledger vouches for it. Refuses one of which the text is gone."""
        with self._ledger().store.glancing() as connection:
            if row.state in {"EXPIRED", "VOID"}:
                raise closed(row, last_step_at(connection, row))
            require_evidence(connection, self._ledger().keyring, row, row.proposed_seq, "PENDING")
            return require_plan(connection, row).encode()

    def seconds_left(self, row: ProposalRow) -> float:
        return max((parse_time(row.expires_at) - self._clock()).total_seconds(), 0)

    # --- deciding -----------------------------------------------------------------------------------------------------

    def deny(self, proposal_id: str, who: Person, reason: str | None = None) -> ProposalRow:
        self.expire_due()

        def work(batch: Batch) -> ProposalRow:
            row = self._answerable(batch, proposal_id, who)
            return take_step(batch, row, "DENIED", who.signature, _masked(reason))

        denied = self._ledger().transact(work)
        reach("proposal.answered")
        return self._told(denied)

    def approve(
        self, batch: Batch, proposal_id: str, envelope: Envelope, who: Person, reason: str | None = None
    ) -> ProposalRow:
        """A person's yes, in the transaction that records the envelope which was signed for it. Ring afterwards."""
        row = self._answerable(batch, proposal_id, who)
        if envelope.plan_digest != row.plan_digest:
            raise not_as_recorded(row)
        text = envelope.canonical(without=frozenset({"plan"})).decode()
        signed = row._replace(envelope_id=envelope.envelope_id, envelope=text)
        moved = take_step(
            batch,
            signed,
            "APPROVED",
            who.signature,
            _masked(reason),
            envelope_id=envelope.envelope_id,
            envelope_digest=digest_bytes(text.encode()),
            approvals=envelope.approvals.tree(),
        )
        reach("proposal.approved")
        return moved

    def envelope_of(self, row: ProposalRow) -> bytes:
        """What was signed for it, whole, as the door takes it. Refuses unless it was approved and nothing ended it."""
        with self._ledger().store.glancing() as connection:
            if row.state != "APPROVED" or row.envelope is None:
                raise not_approved(row, last_step_at(connection, row))
            keyring = self._ledger().keyring
            require_evidence(connection, keyring, row, row.proposed_seq, "PENDING")
            require_evidence(connection, keyring, row, row.entry_seq, "APPROVED")
            if was_closed(connection, row):
                raise not_as_recorded(row)
            plan = require_plan(connection, row)
        return f'{row.envelope[:-1]},"plan":{plan}}}'.encode()

    # --- ending -------------------------------------------------------------------------------------------------------

    def withdraw(self, proposal_id: str, by: str, reason: str | None = None) -> ProposalRow:
        """Nothing is to come of it: one that waits, or one that was approved and not begun. Refuses any other."""
        self.expire_due()

        def work(batch: Batch) -> ProposalRow:
            row = self._found(batch, proposal_id)
            why = f"withdrawn by {by}" + (f": {_masked(reason)}" if reason else "")
            voided = self._void(batch, row, why[:1_000], by)
            if voided is None:
                raise closed(row, last_step_at(batch.store, row))
            return voided

        return self._told(self._ledger().transact(work))

    def void_of_token(self, batch: Batch, token_jti: str, by: str) -> int:
        """All that wait, or were approved and not begun, for a token which is being revoked. Ring afterwards."""
        rows = open_rows_of_token(batch.store, self._tenant_id, token_jti)
        return sum(self._void(batch, row, f"{REVOKED} by {by}", by) is not None for row in rows)

    def expire_due(self) -> None:
        """Close what nobody answered in time. Writes only if there is any."""
        with self._ledger().store.glancing() as connection:
            rows = pending_rows(connection, self._tenant_id)
            last = connection.one(_LAST_TIME, (self._tenant_id,)) if rows else None
        now = max(render_time(self._clock()), last[0] if last else "")
        if not any(row.expires_at <= now for row in rows):
            return
        self._ledger().transact(lambda batch: self._close_overdue(batch, batch.time_in(self._tenant_id)))
        self.bell.ring()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _found(self, batch: Batch, proposal_id: str) -> ProposalRow:
        row = find_row(batch.store, self._tenant_id, proposal_id)
        if row is None:
            raise no_such(proposal_id)
        return row

    def _answerable(self, batch: Batch, proposal_id: str, who: Person) -> ProposalRow:
        row = self._found(batch, proposal_id)
        if row.proposed_by.startswith("agent:") and _is_agent(row, who):
            raise agent_cannot_decide("this is the agent that proposed it")
        if row.state != "PENDING":
            raise closed(row, last_step_at(batch.store, row))
        if batch.time_in(self._tenant_id) >= parse_time(row.expires_at):
            raise overdue(row)  # closed by the next look
        if row.token_jti is not None:
            require_not_revoked(batch.store, self._tenant_id, row.token_jti)
        require_evidence(batch.store, self._ledger().keyring, row, row.proposed_seq, "PENDING")
        if was_closed(batch.store, row):
            raise not_as_recorded(row)
        return row

    def _void(self, batch: Batch, row: ProposalRow, why: str, by: str) -> ProposalRow | None:
        """None if it is too late. With the approval goes the envelope that was signed by it."""
        if row.state not in {"PENDING", "APPROVED"}:
            return None
        if row.envelope_id is not None:
            if read_claim(batch.store, ClaimKey(self._tenant_id, "plan", row.envelope_id)) is not None:
                return None
            told = {"envelope_id": row.envelope_id, "proposal_id": row.proposal_id}
            batch.append(Event(self._tenant_id, CANCELLED, row.envelope_id, told, actor=by))
        return take_step(batch, row, "VOID", by, why)

    def _close_overdue(self, batch: Batch, now: datetime) -> None:
        for row in pending_rows(batch.store, self._tenant_id):
            if parse_time(row.expires_at) <= now:
                take_step(batch, row, "EXPIRED", None)

    def _require_room(self, connection: Connection, proposed_by: str) -> None:
        waiting = [row.proposed_by for row in pending_rows(connection, self._tenant_id)]
        if len(waiting) >= MAX_PENDING or waiting.count(proposed_by) >= MAX_PENDING_OF_ONE:
            raise Refused(
                Reason.RESOURCE_EXHAUSTED,
                "too many proposed plans wait for an answer already",
                where=proposed_by,
                next_step="Have some answered first, or withdraw them: remit approvals",
            )

    def _told(self, row: ProposalRow) -> ProposalRow:
        self.bell.ring()
        return row


def _same_plan(row: ProposalRow, plan_digest: str) -> ProposalRow:
    if row.plan_digest == plan_digest:
        return row
    raise Refused(
        Reason.IDEMPOTENCY_CONFLICT,
        "this key was used before for a different plan",
        where=f"proposal {row.proposal_id}",
        next_step="Give the new plan a key of its own.",
    )


def _is_name(text: str) -> bool:
    """Whether it could be anybody's id. Not every text can be asked for: PostgreSQL takes no NUL."""
    return 0 < len(text) <= 200 and text.isprintable()


def _is_agent(row: ProposalRow, who: Person) -> bool:
    agent = row.proposed_by.removeprefix("agent:")
    return bool({agent, row.proposed_by} & {who.id, who.name, who.signature})


def _masked(said: str | None) -> str | None:
    """Somebody's words, for the record. Neither database keeps a NUL, or half a character."""
    if not said:
        return None
    return mask_text(said.replace("\0", "").encode("utf-8", "replace").decode())[:MAX_NOTE] or None
