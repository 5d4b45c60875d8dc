"""The operation of one held request: each request that changes something runs through the engine and waits for a
person.

The same object is shown, approved, recorded and sent. Its digest binds it to the action that caused it and to the token
that allowed the action. After the intent is recorded, the request may have been sent, and it is never sent again.
"""

import concurrent.futures
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from remit.approvals.errors import ASK_AGAIN
from remit.approvals.service import ApprovalRequest, ApprovalService
from remit.authority.capability_token import Token, require_in_time
from remit.browser.approval import OnWaiting, abandoned_error, request_approval
from remit.browser.checkpoint import (
    RequestCheckpoint,
    RequestOutcome,
    build_late_entry,
    parse_request_checkpoint,
    render_request,
    render_request_checkpoint,
)
from remit.browser.held_requests import PendingRequest
from remit.browser.model.masking import host_of
from remit.browser.model.requests import Ending
from remit.browser.policy import purchase_limit, require_host
from remit.browser.price_policy import require_price
from remit.browser.request_preview import Context, preview_request, read_request, require_showable
from remit.browser.types import TokenVerifier
from remit.contracts.browser.browser import Approval, HTTPPreview
from remit.core.canonical import digest
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.core.faultpoints import reach
from remit.core.ids import DEFAULT_TENANT
from remit.execution.decision import Denial, PolicyDecision
from remit.execution.engine import Note, Notes, Operation, Preview
from remit.execution.journal import RequestIds
from remit.ledger.entry import NewEntry
from remit.ledger.writer import Batch

ANSWER_SECONDS: Final = 330.0
"""A little more than the proxy waits for a server's answer."""


@dataclass(frozen=True)
class HeldRequest:
    """A request that the proxy holds. After a crash, the recorded data of one."""

    request_id: str
    action_id: str
    digest: str
    """The digest of the request, its id, the action and the token together."""
    request_digest: str
    approval_id: str | None = None


@dataclass(frozen=True)
class GrantedRequest:
    request: HeldRequest
    approvals: list[Approval] = field(default_factory=list, compare=False)


@dataclass(frozen=True)
class RequestPreview(Preview):
    """A preview with the document that the approver will see."""

    shown: HTTPPreview


@dataclass(frozen=True)
class HeldRequestOperation(Operation[HeldRequest, GrantedRequest, RequestCheckpoint, Ending, RequestOutcome]):
    """The engine's steps for one held request. In recovery, which only records the outcome, `held` is None."""

    tokens: TokenVerifier
    approvals: ApprovalService
    held: PendingRequest | None = None
    token: Token | None = None
    context: Context = field(default_factory=Context)
    picture: str | None = None
    currency: str = "USD"
    """The currency of a limit that is a bare number."""
    on_waiting: OnWaiting = lambda _: None
    on_problem: Callable[[RemitError], None] = lambda _: None
    """Called with the error if the request was not sent or not answered."""
    name: str = field(default="browser_request", init=False)
    try_again: str = field(default=f"It is not sent again. {ASK_AGAIN}", init=False)

    def parse(self, raw: tuple[bytes, ...]) -> HeldRequest:
        held, token = self._require_held()
        request, cause = held.request, held.cause
        bound = {
            "request_id": request.request_id,
            "request": request.digest,
            "action": cause.digest,
            "token_jti": token.jti,
        }
        return HeldRequest(request.request_id, cause.action.action_id, digest(bound), request.digest)

    def trace(self, request: HeldRequest) -> RequestIds:
        return RequestIds(DEFAULT_TENANT, request.action_id, self.name, request.request_id, request.digest)

    def verify_authority(self, request: HeldRequest, now: datetime) -> GrantedRequest:
        require_in_time(self._require_held()[1], now)
        return GrantedRequest(request)

    def decide(self, request: HeldRequest) -> PolicyDecision:
        if self.held is None:
            return PolicyDecision(("it was begun, and only its outcome is recorded now",))
        held, token = self._require_held()
        try:
            require_showable(held.request)
            require_host(token.constraints, host_of(held.request.url))
            in_request = read_request(held.request).amounts
            limit = purchase_limit(token.constraints, self.currency)
            require_price(held.cause.action.amount, limit, in_request, self.context.on_page)
        except RefusedError as problem:
            return PolicyDecision((), (Denial(problem.reason, problem.what, problem.where, problem.next_step),))
        return PolicyDecision((f"token {token.jti} allows the host; a person has to approve the request",))

    def preview(self, granted: GrantedRequest) -> RequestPreview:
        held, _ = self._require_held()
        shown = preview_request(read_request(held.request), self.context)
        return RequestPreview(shown.estimated_effect, digest([held.request.digest, shown.digest()]), shown)

    def consent(self, granted: GrantedRequest, preview: Preview, now: datetime) -> str:
        held, token = self._require_held()
        shown = preview.shown if isinstance(preview, RequestPreview) else self.preview(granted).shown
        approval_request = ApprovalRequest(
            agent_id=token.agent_id,
            token_jti=token.jti,
            action_id=granted.request.action_id,
            action_digest=held.cause.digest,
            request_digest=held.request.digest,
            preview=shown,
            screenshot=self.picture,
            not_after=token.expires_at,
        )

        def on_waiting(approval: Approval) -> None:
            held.set_approval(approval.approval_id)
            self.on_waiting(approval)

        approval = request_approval(self.approvals, approval_request, on_waiting, lambda: held.is_abandoned)
        held.approved_by, held.approval_reason = approval.decided_by, approval.reason
        granted.approvals[:] = [approval]
        return f"approval {approval.approval_id} by {approval.decided_by}"

    def checkpoint(self, granted: GrantedRequest, preview: Preview) -> str:
        _, token = self._require_held()
        request = granted.request
        checkpoint = RequestCheckpoint(
            request_id=request.request_id,
            digest=request.digest,
            request_digest=request.request_digest,
            action_id=request.action_id,
            agent_id=token.agent_id,
            jti=token.jti,
            approval_id=granted.approvals[0].approval_id,
            what=self._render_request(),
        )
        return render_request_checkpoint(checkpoint)

    def require_still_valid(self, granted: GrantedRequest, now: datetime) -> None:
        held, token = self._require_held()
        require_in_time(token, now)
        if held.is_abandoned:
            raise abandoned_error("the browser gave the request up")

    def consume_authority(self, granted: GrantedRequest, batch: Batch, now: datetime) -> None:
        """Use the approval together with the intent. It is valid once, for this request, this action and this token."""
        held, token = self._require_held()
        self.tokens.require_still_valid(batch.store, token, now)
        self.approvals.use(
            batch,
            granted.approvals[0].approval_id,
            request_digest=held.request.digest,
            action_digest=held.cause.digest,
            token_jti=token.jti,
        )

    def load_checkpoint(self, text: str) -> tuple[HeldRequest, RequestCheckpoint]:
        checkpoint = parse_request_checkpoint(text)
        fields = (
            checkpoint.request_id,
            checkpoint.action_id,
            checkpoint.digest,
            checkpoint.request_digest,
            checkpoint.approval_id,
        )
        return HeldRequest(*fields), checkpoint

    def effect(self, granted: GrantedRequest, checkpoint: RequestCheckpoint, note: Note) -> Ending:
        held, _ = self._require_held()
        held.release()
        reach("browser.released")
        try:
            ending = held.ending.result(ANSWER_SECONDS)
        except concurrent.futures.TimeoutError:
            ending = Ending(None, sent=True, problem="the server did not answer")
        reach("browser.ended")
        if ending.status is None and not ending.sent:
            raise EnvironmentFailureError(
                Reason.EFFECT_FAILED,
                f"the request was approved and was not sent: {ending.problem}",
                where=checkpoint.what,
                next_step=self.try_again,
            )
        if ending.status is None and (ending.problem or held.request.kind != "message"):
            raise _unknown_outcome_error(checkpoint, ending.problem)
        return ending

    def recover_effect(self, checkpoint: RequestCheckpoint, notes: Notes, note: Note) -> Ending | None:
        return Ending(None, sent=True, problem="the process that sent it ended")

    def undo(self, checkpoint: RequestCheckpoint, notes: Notes, note: Note) -> None:
        """Do nothing. A sent request cannot be undone."""

    def verify_effect(self, checkpoint: RequestCheckpoint, made: Ending) -> None:
        """Do nothing. The server's answer is the only evidence."""

    def succeed(self, request: HeldRequest, checkpoint: RequestCheckpoint, made: Ending) -> RequestOutcome:
        if made.problem:
            return self.fail(request, _unknown_outcome_error(checkpoint, made.problem), checkpoint)
        return RequestOutcome(
            request_id=request.request_id,
            action_id=request.action_id,
            request_digest=request.request_digest,
            state="SENT" if made.status is None else "ANSWERED",
            status=made.status,
            approval_id=checkpoint.approval_id,
            approved_by=self.held.approved_by if self.held is not None else None,
            what=checkpoint.what,
        )

    def fail(
        self, request: HeldRequest, problem: RemitError, checkpoint: RequestCheckpoint | None = None
    ) -> RequestOutcome:
        unknown = problem.reason is Reason.FATE_UNKNOWN
        if checkpoint is not None and not unknown and self.held is not None and self.held.may_have_been_sent:
            # The request was released before this error, so it may have been sent.
            problem, unknown = _unknown_outcome_error(checkpoint, str(problem)), True
        self.on_problem(problem)
        return RequestOutcome(
            request_id=request.request_id,
            action_id=request.action_id,
            request_digest=request.request_digest,
            state="UNKNOWN" if unknown else "NOT_SENT" if checkpoint is not None else "REFUSED",
            approval_id=None if self.held is None else self.held.approval_id,
            approved_by=None if self.held is None else self.held.approved_by,
            what=checkpoint.what if checkpoint is not None else self._render_request() or None,
            reason=problem.reason.value,
            problem=str(problem)[:10_000],
        )

    def store_outcome(self, outcome: RequestOutcome) -> str:
        return outcome.canonical().decode()

    def load_outcome(self, stored: str, recorded_at: str) -> RequestOutcome:
        return RequestOutcome.parse(stored.encode(), source="stored outcome of a request")

    def extra_entries(self, request: HeldRequest, outcome: RequestOutcome) -> Sequence[NewEntry]:
        """Return the entry for a late request: its action had ended with another `sent` count."""
        if self.held is None or self.token is None or self.held.seconds_after is None:
            return ()
        cause = self.held.cause
        return (build_late_entry(cause.action, outcome, self.held.seconds_after, cause.sent, self.token.agent_id),)

    def _render_request(self) -> str:
        held = self.held
        return "" if held is None else render_request(held.request.method, held.request.url, held.secrets)

    def _require_held(self) -> tuple[PendingRequest, Token]:
        if self.held is None or self.token is None:
            raise EnvironmentFailureError(Reason.INTERNAL, "a request that exists only as a record cannot be sent")
        return self.held, self.token


def _unknown_outcome_error(checkpoint: RequestCheckpoint, problem: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.FATE_UNKNOWN,
        f"the request may have been sent, and the server's response is unknown: {problem or 'no answer'}",
        where=checkpoint.what,
        next_step="Remit does not send it again. Look at the site to see whether it took effect.",
    )
