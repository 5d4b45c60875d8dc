"""Approval requests for calls. Nothing is held meanwhile: the same call, made again, uses the approval."""

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
    """The call waits for a person. It is not recorded as a refusal or a failure; its approval request is recorded."""

    def __init__(self, approval: Approval) -> None:
        self.waiting = CallWaiting(
            approval_id=approval.approval_id, expires=approval.expires, what=approval.preview.estimated_effect
        )
        super().__init__(Reason.APPROVAL_PENDING, **_waiting_error(self.waiting))


class WaitsForPersonError(RefusedError):
    """A plain call that waits for a person. If it is made within another call, that call waits too if it can."""

    def __init__(self, waiting: CallWaiting) -> None:
        self.waiting = waiting
        super().__init__(Reason.APPROVAL_PENDING, **_waiting_error(waiting))


class SuspendedInCallError(SuspendedError):
    """A started call that waits because a call within it waits for a person. When repeated, it starts again."""

    def __init__(self, problem: WaitsForPersonError) -> None:
        self.waiting = problem.waiting
        super().__init__(problem.reason, problem.what, where=problem.where, next_step=problem.next_step)


def _waiting_error(waiting: CallWaiting) -> dict[str, str]:
    return {
        "what": f"a person must approve this first: {waiting.what}",
        "where": f"approval request {waiting.approval_id}",
        "next_step": f"remit approvals show {waiting.approval_id}; then make the same call again, with the same key.",
    }


def can_wait(function: GovernedFunction) -> bool:
    """Whether the function may start again after a decision about a call within it.

    Calls within it are not made twice, but the rest of it is. A function with an undo cannot wait, because the undo
    would run first and might reverse those calls. A read-only function cannot wait, because recovery closes it.
    """
    return function.idempotent and function.undo is None and not function.read_only


def require_approval(
    approvals: ApprovalService,
    granted: GrantedCall,
    preview: ShownCall,
    wait: float | None,
    on_waiting: Callable[[Approval], None],
) -> Approval:
    """Return the approval. Raises `AwaitsPersonError` while the request is pending, and `RefusedError` if denied."""
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
    where = f"approval request {approval.approval_id}"
    if approval.state == "PENDING":
        raise AwaitsPersonError(approval)
    if approval.state == "DENIED":
        because = f": {approval.reason}" if approval.reason else "."
        advice = f"{approval.decided_by} denied it{because}"
        raise RefusedError(
            Reason.APPROVAL_DENIED, "a person denied it", where=where, next_step=f"It was not called. {advice}"
        )
    if approval.state == "EXPIRED":
        raise RefusedError(
            Reason.APPROVAL_TIMEOUT, "no person decided in time", where=where, next_step="It was not called."
        )
    if approval.state != "APPROVED":
        why = approval.reason or "no reason is recorded"
        raise RefusedError(
            Reason.CANCELLED, f"the approval request is void: {why}", where=where, next_step="It was not called."
        )
    return approval
