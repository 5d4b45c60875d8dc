"""Request a person's approval and wait for the decision. Only an approval lets the request go on."""

from collections.abc import Callable
from typing import NoReturn

from remit.approvals.errors import ASK_AGAIN, REQUEST_NOT_SENT, void_error
from remit.approvals.service import ApprovalRequest, ApprovalService
from remit.contracts.browser.browser import Approval
from remit.contracts.browser.errors import NOT_SENT, USER_DENIED
from remit.core.errors import Reason, RefusedError
from remit.core.faultpoints import reach
from remit.core.ids import render_time

OnWaiting = Callable[[Approval], None]


def request_approval(
    approvals: ApprovalService,
    request: ApprovalRequest,
    on_waiting: OnWaiting,
    is_abandoned: Callable[[], bool] = lambda: False,
) -> Approval:
    """Return the approval. Refuses if a person denied it, if it expired without an answer, or if it became void."""
    if is_abandoned():
        raise abandoned_error("the browser gave the request up before a person was asked")
    approval = approvals.ask(request)
    reach("browser.asked")
    on_waiting(approval)
    if is_abandoned():
        approvals.void([approval.approval_id], "the browser gave the request up")
    answer = approvals.wait(approval.approval_id)
    if answer.state != "APPROVED":
        _raise_refusal(answer, request)
    reach("browser.answered")
    return answer


def _raise_refusal(answer: Approval, request: ApprovalRequest) -> NoReturn:
    where = f"approval request {answer.approval_id}"
    if answer.state == "DENIED":
        because = f": {answer.reason}" if answer.reason else "."
        denial = f"{answer.decided_by} denied it{because}"
        raise RefusedError(Reason.APPROVAL_DENIED, USER_DENIED, where=where, next_step=f"{REQUEST_NOT_SENT} {denial}")
    if answer.state == "EXPIRED":
        if request.not_after is not None and answer.expires == render_time(request.not_after):
            raise RefusedError(
                Reason.EXPIRED, "the token expired before an approver answered", where=where, next_step=REQUEST_NOT_SENT
            )
        raise RefusedError(
            Reason.APPROVAL_TIMEOUT,
            "no approver answered in time",
            where=where,
            next_step=f"{REQUEST_NOT_SENT} {ASK_AGAIN}",
        )
    raise void_error(answer.approval_id, answer.reason)


def abandoned_error(what: str) -> RefusedError:
    """The error for a request that the browser gave up, or that ended with the browser. No person denied it."""
    return RefusedError(Reason.CANCELLED, f"{NOT_SENT}: {what}", next_step=ASK_AGAIN)
