"""The service for approval requests about held requests and calls. It asks, decides, expires, voids and uses them.

Each step is one ledger entry, written in one transaction with the row. A row is only trusted if a signed entry says the
same. So an attacker who can write to the database but has no key can neither make an approval nor change its subject.
An approval is used once, before it expires, for exactly the request, action and token that it was given for.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from remit.approvals.errors import (
    REVOKED,
    already_closed_error,
    not_approved_error,
    require_other_than_agent,
    timeout_error,
    unusable_error,
)
from remit.approvals.queries import find_approval, find_approval_to_deny, find_reusable
from remit.approvals.transitions import (
    build_entry,
    change_state,
    is_orphan,
    require_current,
    require_evidence,
    summarise_preview,
)
from remit.contracts.browser.browser import APPROVAL_SECONDS, LASTING, Approval, ApprovalPreview, ApprovalState
from remit.core.canonical import canonical_bytes
from remit.core.errors import Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT, Clock, parse_time, render_time, uuid7
from remit.fs.change_signal import ChangeSignal
from remit.identity.person import Person
from remit.ledger.clock import ChainTimes
from remit.ledger.writer import Batch, Ledger
from remit.masking import mask_shaped, mask_text, mask_texts
from remit.store.approvals import ApprovalRow, find_row, insert_row, last_step_at, newest_rows, open_rows
from remit.store.connection import Connection
from remit.store.process_identity import this_process
from remit.store.tokens import require_not_revoked, revoked_since

MAX_PENDING: Final = 500
MAX_PENDING_OF_ONE: Final = 50
"""The most pending requests of one agent. People who are asked too often stop reading."""
MOST_LISTED: Final = 1_000
_HOST_DIED: Final = "the process that held the request is gone"


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A request for a person's approval of exactly this request, for this action and this token."""

    agent_id: str
    token_jti: str
    action_id: str
    action_digest: str
    request_digest: str
    preview: ApprovalPreview
    screenshot: str | None = None
    not_after: datetime | None = None
    """The time at which the token expires. After it, an approval would have no effect."""
    life: timedelta = timedelta(seconds=APPROVAL_SECONDS)
    lasting: bool = False
    """Whether the request outlives the process that asks. A caller that asks for the same again gets the same one."""


class _Decided(NamedTuple):
    row: ApprovalRow
    refusal: RefusedError | None = None


class ApprovalService:
    """The approval requests of one workspace. Safe to use from several threads and processes at once."""

    def __init__(
        self, ledger: Callable[[], Ledger], change_signal: ChangeSignal, clock: Clock, tenant_id: str = DEFAULT_TENANT
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._tenant_id = tenant_id
        self.change_signal = change_signal

    # --- asking and using: the side of the host that holds the request ------------------------------------------------

    def ask(self, request: ApprovalRequest) -> Approval:
        """Create an approval request. It is void when this process ends, and expires after `life` or with the token.

        A lasting request is created once. A caller that asks for the same again gets it, also if it was denied.
        """
        # The caller has masked the preview. Each text is masked again by itself, so that no mask hides another text.
        tree: Any = mask_texts(request.preview.tree(), mask_shaped)
        preview = canonical_bytes(request.preview.from_tree(tree, source="preview").tree()).decode()

        def work(batch: Batch) -> tuple[ApprovalRow, bool]:
            now = batch.time_in(self._tenant_id)
            ends = now + request.life
            self._close_overdue(batch)
            require_not_revoked(batch.store, self._tenant_id, request.token_jti)
            row = ApprovalRow(
                self._tenant_id,
                uuid7(now),
                request.agent_id,
                request.token_jti,
                request.action_id,
                request.action_digest,
                request.request_digest,
                preview,
                request.screenshot,
                LASTING if request.lasting else this_process(),
                render_time(now),
                render_time(min(ends, request.not_after or ends)),
                requested_seq=0,
                state="PENDING",
                decided_by=None,
                decided_at=None,
                reason=None,
                entry_seq=0,
            )
            reusable = find_reusable(batch, row, now - request.life) if request.lasting else None
            if reusable is not None:
                return reusable, False
            self._require_capacity(batch.store, request.agent_id)
            seq = batch.append(build_entry(row, "PENDING", row.agent_id, summarise_preview(tree))).seq
            row = row._replace(requested_seq=seq, entry_seq=seq)
            insert_row(batch.store, row)
            return row, True

        requested, is_new = self._ledger().transact(work)
        return self._notify(requested) if is_new else requested.as_approval()

    def use(
        self, batch: Batch, approval_id: str, *, request_digest: str, action_digest: str, token_jti: str
    ) -> Approval:
        """Use up an approval in the transaction that records the intent. Refuses, with the reason, if anything differs.

        After it the request may be sent once. The approval cannot be used again, whatever the outcome is.
        """
        row = find_row(batch.store, self._tenant_id, approval_id)
        if row is None:
            raise unusable_error(approval_id, "there is no such approval")
        if row.state != "APPROVED":
            raise not_approved_error(row)
        if refusal := self._refusal(batch, row):
            raise refusal
        bound = {
            "request": (row.request_digest, request_digest),
            "action": (row.action_digest, action_digest),
            "token": (row.token_jti, token_jti),
        }
        for what, (requested, actual) in bound.items():
            if requested != actual:
                raise unusable_error(approval_id, f"the approval is for another {what}")
        require_not_revoked(batch.store, self._tenant_id, row.token_jti)
        require_evidence(batch.store, self._ledger().keyring, row, row.requested_seq, "PENDING")
        require_evidence(batch.store, self._ledger().keyring, row, row.entry_seq, "APPROVED")
        require_current(batch.store, row)
        return change_state(batch, row, "USED", this_process()).as_approval()

    def void(self, approval_ids: Collection[str], why: str) -> list[Approval]:
        """Void requests that can have no effect any more, for example because the page is gone. Skips closed ones."""
        return self._close(lambda row: why if row.approval_id in approval_ids else "")

    def void_orphans(self) -> list[Approval]:
        """Void the requests whose process is gone: the requests that it held are lost."""
        return self._close(lambda row: _HOST_DIED if is_orphan(row, self._ledger().store.dialect) else "")

    def void_of_token(self, batch: Batch, token_jti: str, by: str) -> int:
        """Void all open requests of a token in the transaction that revokes it. The caller notifies afterwards."""
        rows = [row for row in open_rows(batch.store, self._tenant_id) if row.token_jti == token_jti]
        for row in rows:
            change_state(batch, row, "VOID", None, f"{REVOKED} by {by}")
        return len(rows)

    # --- looking and deciding: the side of people ---------------------------------------------------------------------

    def listed(self, *states: ApprovalState) -> list[Approval]:
        """List the requests in these states, the newest first. Without states, list the newest thousand."""
        self.expire_due()
        with self._ledger().store.reading() as connection:
            if states == ("PENDING",):
                rows = [row for row in open_rows(connection, self._tenant_id) if row.state == "PENDING"][::-1]
            else:
                rows = newest_rows(connection, self._tenant_id, states, MOST_LISTED)
        return [row.as_approval() for row in rows]

    def pending(self) -> frozenset[str]:
        """Return the ids of the pending requests. This is a quick query for callers that wait for a decision."""
        self.expire_due()
        with self._ledger().store.reading_pooled() as connection:
            rows = open_rows(connection, self._tenant_id)
            return frozenset(row.approval_id for row in rows if row.state == "PENDING")

    def show(self, approval_id: str) -> Approval:
        """Return a request by its id, or by a beginning that no other request has."""
        self.expire_due()
        with self._ledger().store.reading_pooled() as connection:
            return find_approval(connection, self._tenant_id, approval_id).as_approval()

    def decide(self, approval_id: str, *, approved: bool, who: Person, reason: str | None = None) -> Approval:
        """Record a person's decision. The first decision is final; a closed request accepts none."""
        why = mask_text(reason)[:1_000] if reason else None

        def work(batch: Batch) -> _Decided:
            who.require_still_valid(batch.time_in(self._tenant_id))
            find = find_approval if approved else find_approval_to_deny
            row = find(batch.store, self._tenant_id, approval_id)
            require_other_than_agent(row, who)
            if row.state != "PENDING":
                raise already_closed_error(row, last_step_at(batch.store, row))
            # Closed here and raised after the transaction: an error inside it would undo the closing.
            if batch.times_in(self._tenant_id).is_over(row.created_at, row.expires_at):
                return _Decided(change_state(batch, row, "EXPIRED", None), timeout_error(row))
            if refusal := self._refusal(batch, row):
                raise refusal
            if void_reason := self._why_void(batch.store, row):
                return _Decided(
                    change_state(batch, row, "VOID", None, void_reason), unusable_error(row.approval_id, void_reason)
                )
            require_evidence(batch.store, self._ledger().keyring, row, row.requested_seq, "PENDING")
            require_current(batch.store, row)
            return _Decided(change_state(batch, row, "APPROVED" if approved else "DENIED", who.signature, why))

        decided = self._ledger().transact(work)
        approval = self._notify(decided.row)
        if decided.refusal is not None:
            raise decided.refusal
        return approval

    def expire_due(self) -> list[Approval]:
        """Close the requests that expired, and those whose process is gone. Writes only if there are any."""
        with self._ledger().store.reading_pooled() as connection:
            rows = list(open_rows(connection, self._tenant_id))
            times = ChainTimes.of(connection, self._tenant_id, self._clock()) if rows else None
        dialect = self._ledger().store.dialect
        if times is None or not any(
            times.is_over(row.created_at, row.expires_at) or is_orphan(row, dialect) for row in rows
        ):
            return []
        return self.void_orphans()

    def wait(
        self, approval_id: str, timeout: float | None = None, is_over: Callable[[], bool] = lambda: False
    ) -> Approval:
        """Wait until a person decides, the request is closed, or the timeout passes. After a timeout it is PENDING.

        The change signal wakes it; it does not poll. `is_over` ends the wait early: notify so that it is called.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.change_signal.listening() as listener:
            while True:
                found = self.show(approval_id)
                left = float("inf") if deadline is None else deadline - time.monotonic()
                if found.state != "PENDING" or left <= 0 or is_over():
                    return found
                listener.wait(min(left, self.seconds_left(found)))

    def seconds_left(self, approval: Approval) -> float:
        """Return the seconds until it expires, plus a millisecond, so that a query after them finds it expired."""
        return max((parse_time(approval.expires) - self._clock()).total_seconds(), 0) + 0.001

    # --- inside -------------------------------------------------------------------------------------------------------

    def _close(self, why: Callable[[ApprovalRow], str]) -> list[Approval]:
        """Void the open requests for which `why` returns a reason, and expire the overdue ones."""

        def work(batch: Batch) -> list[ApprovalRow]:
            voided = [
                change_state(batch, row, "VOID", None, reason)
                for row in list(open_rows(batch.store, self._tenant_id))
                if (reason := why(row))
            ]
            return voided + self._close_overdue(batch)

        rows = self._ledger().transact(work)
        if rows:
            self.change_signal.notify()
        return [row.as_approval() for row in rows]

    def _close_overdue(self, batch: Batch) -> list[ApprovalRow]:
        times = batch.times_in(self._tenant_id)
        due = [row for row in open_rows(batch.store, self._tenant_id) if times.is_over(row.created_at, row.expires_at)]
        return [change_state(batch, row, "EXPIRED", None) for row in due]

    def _refusal(self, batch: Batch, row: ApprovalRow) -> RefusedError | None:
        return batch.times_in(self._tenant_id).refusal(row.created_at, row.expires_at, timeout_error(row))

    def _require_capacity(self, connection: Connection, agent_id: str) -> None:
        agents = [row.agent_id for row in open_rows(connection, self._tenant_id) if row.state == "PENDING"]
        if len(agents) >= MAX_PENDING or agents.count(agent_id) >= MAX_PENDING_OF_ONE:
            raise RefusedError(
                Reason.RESOURCE_EXHAUSTED,
                "too many approval requests are pending",
                where=f"agent {agent_id}",
                next_step="A person has to decide some of them first: remit approvals",
            )

    def _why_void(self, connection: Connection, row: ApprovalRow) -> str:
        if is_orphan(row, self._ledger().store.dialect):
            return _HOST_DIED
        return REVOKED if revoked_since(connection, self._tenant_id, row.token_jti) else ""

    def _notify(self, row: ApprovalRow) -> Approval:
        self.change_signal.notify()
        return row.as_approval()
