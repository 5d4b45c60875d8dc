"""Asking a person, and taking yes for an answer: exactly yes, and nothing else."""

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
    """The approval that was given. Refuses when somebody said no, nobody answered in time, or it came to nothing."""
    if is_abandoned():
        raise abandoned_error("the browser gave the request up before anybody was asked")
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
    where = f"question {answer.approval_id}"
    if answer.state == "DENIED":
        because = f": {answer.reason}" if answer.reason else "."
        denial = f"{answer.decided_by} said no{because}"
        raise RefusedError(Reason.APPROVAL_DENIED, USER_DENIED, where=where, next_step=f"{REQUEST_NOT_SENT} {denial}")
    if answer.state == "EXPIRED":
        if request.not_after is not None and answer.expires == render_time(request.not_after):
            raise RefusedError(
                Reason.EXPIRED, "the token expired before anybody answered", where=where, next_step=REQUEST_NOT_SENT
            )
        raise RefusedError(
            Reason.APPROVAL_TIMEOUT, "nobody answered in time", where=where, next_step=f"{REQUEST_NOT_SENT} {ASK_AGAIN}"
        )
    raise void_error(answer.approval_id, answer.reason)


def abandoned_error(what: str) -> RefusedError:
    """By the browser, or with it: nobody said no."""
    return RefusedError(Reason.CANCELLED, f"{NOT_SENT}: {what}", next_step=ASK_AGAIN)
