"""Asking a person, and taking yes for an answer: exactly yes, and nothing else."""

from collections.abc import Callable
from typing import NoReturn

from remit.approval.approvals import Approvals, Question
from remit.contracts.browser import Approval
from remit.contracts.browser_errors import USER_DENIED
from remit.errors import Reason, Refused
from remit.faultpoints import reach

OnWaiting = Callable[[Approval], None]


def ask(
    approvals: Approvals,
    question: Question,
    on_waiting: OnWaiting,
    is_given_up: Callable[[], bool] = lambda: False,
) -> Approval:
    """The approval that was given. Refuses when somebody said no, nobody answered in time, or it came to nothing."""
    if is_given_up():
        raise _gone("the browser gave the request up before anybody was asked")
    asked = approvals.ask(question)
    reach("browser.asked")
    on_waiting(asked)
    if is_given_up():
        approvals.void([asked.approval_id], "the browser gave the request up")
    answer = approvals.wait(asked.approval_id)
    if answer.state != "APPROVED":
        _refuse(answer)
    reach("browser.answered")
    return answer


def _refuse(answer: Approval) -> NoReturn:
    where = f"question {answer.approval_id}"
    if answer.state == "DENIED":
        because = f": {answer.reason}" if answer.reason else "."
        said = f"{answer.decided_by} said no{because}"
        raise Refused(Reason.APPROVAL_DENIED, USER_DENIED, where=where, next_step=f"It was not sent. {said}")
    if answer.state == "EXPIRED":
        raise Refused(
            Reason.APPROVAL_TIMEOUT,
            "nobody answered in time",
            where=where,
            next_step="It was not sent. Ask for the action anew, under another id.",
        )
    raise _gone(f"the question is {answer.state.lower()}: {answer.reason or 'it came to nothing'}")


def _gone(what: str) -> Refused:
    return Refused(
        Reason.APPROVAL_DENIED, what, next_step="It was not sent. Ask for the action anew, under another id."
    )
