"""Asking a person about a call. Nothing is held meanwhile: the answer is used by the same call, made again."""

from collections.abc import Callable

from remit.approvals.service import ApprovalRequest, ApprovalService
from remit.calls.checkpoint import GrantedCall, ShownCall
from remit.calls.function import APPROVAL_REQUEST_LIFE, GovernedFunction
from remit.contracts.browser.browser import Approval
from remit.contracts.calls.call import CallWaiting
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.faultpoints import reach
from remit.execution.engine import SuspendedError


class AwaitsPersonError(RemitError):
    """Neither a refusal nor a failure, and so not recorded as one: the question is, and it waits."""

    def __init__(self, approval: Approval) -> None:
        self.waiting = CallWaiting(
            approval_id=approval.approval_id, expires=approval.expires, what=approval.preview.estimated_effect
        )
        super().__init__(Reason.APPROVAL_PENDING, **_waiting_error(self.waiting))


class WaitsForPersonError(RefusedError):
    """A plain call that waits. Where it is made within another call, that one waits with it, if it can."""

    def __init__(self, waiting: CallWaiting) -> None:
        self.waiting = waiting
        super().__init__(Reason.APPROVAL_PENDING, **_waiting_error(waiting))


class SuspendedInCallError(SuspendedError):
    """A call that was begun waits for the person whom a call within it waits for. Made again, it begins anew."""

    def __init__(self, problem: WaitsForPersonError) -> None:
        self.waiting = problem.waiting
        super().__init__(problem.reason, problem.what, where=problem.where, next_step=problem.next_step)


def _waiting_error(waiting: CallWaiting) -> dict[str, str]:
    return {
        "what": f"a person has to say yes first: {waiting.what}",
        "where": f"question {waiting.approval_id}",
        "next_step": f"remit approvals show {waiting.approval_id}; then make the same call again, with the same key.",
    }


def can_wait(function: GovernedFunction) -> bool:
    """Whether it may be called from the start after an answer: calls within it are not made twice, but the rest of it
    is. With an undo that would be called first, and might take back what those calls did. And recovery closes what
    only reads, so that could not be gone on with.
    """
    return function.idempotent and function.undo is None and not function.read_only


def require_approval(
    approvals: ApprovalService,
    granted: GrantedCall,
    preview: ShownCall,
    wait: float | None,
    on_waiting: Callable[[Approval], None],
) -> Approval:
    """The approval that was given. `AwaitsPersonError` while there is none; refuses when somebody said no."""
    request = ApprovalRequest(
        agent_id=granted.token.agent_id,
        token_jti=granted.token.jti,
        action_id=granted.request.call_id,
        action_digest=granted.request.digest,
        request_digest=preview.digest,
        preview=preview.shown,
        not_after=granted.token.expires_at,
        life=APPROVAL_REQUEST_LIFE,
        lasting=True,
    )
    approval = approvals.ask(request)
    reach("call.asked")
    if approval.state == "PENDING":
        on_waiting(approval)
        approval = approvals.wait(approval.approval_id, wait)
    where = f"question {approval.approval_id}"
    if approval.state == "PENDING":
        raise AwaitsPersonError(approval)
    if approval.state == "DENIED":
        because = f": {approval.reason}" if approval.reason else "."
        advice = f"{approval.decided_by} said no{because}"
        raise RefusedError(
            Reason.APPROVAL_DENIED, "a person said no", where=where, next_step=f"It was not called. {advice}"
        )
    if approval.state == "EXPIRED":
        raise RefusedError(
            Reason.APPROVAL_TIMEOUT, "nobody answered in time", where=where, next_step="It was not called."
        )
    if approval.state != "APPROVED":
        why = approval.reason or "it came to nothing"
        raise RefusedError(
            Reason.CANCELLED, f"the question is void: {why}", where=where, next_step="It was not called."
        )
    return approval
