"""Asking a person about a call. Nothing is held meanwhile: the answer is used by the same call, made again."""

from collections.abc import Callable

from remit.approval.approvals import Approvals, Question
from remit.contracts.browser import Approval
from remit.doors.call_function import QUESTION_LIFE
from remit.doors.call_papers import GrantedCall, ShownCall
from remit.errors import Reason, Refused, RemitError
from remit.faultpoints import reach


class AwaitsPerson(RemitError):
    """Neither a refusal nor a failure, and so not recorded as one: the question is, and it waits."""

    def __init__(self, approval: Approval) -> None:
        self.approval = approval
        super().__init__(
            Reason.APPROVAL_PENDING,
            f"a person has to say yes first: {approval.preview.estimated_effect}",
            where=f"question {approval.approval_id}",
            next_step=f"remit approvals show {approval.approval_id}; then make the same call again, with the same key.",
        )


def ask_about_call(
    approvals: Approvals,
    granted: GrantedCall,
    preview: ShownCall,
    wait: float | None,
    on_waiting: Callable[[Approval], None],
) -> Approval:
    """The approval that was given. `AwaitsPerson` while there is none; refuses when somebody said no."""
    question = Question(
        agent_id=granted.token.agent_id,
        token_jti=granted.token.jti,
        action_id=granted.request.call_id,
        action_digest=granted.request.digest,
        request_digest=preview.digest,
        preview=preview.shown,
        not_after=granted.token.expires_at,
        life=QUESTION_LIFE,
        lasting=True,
    )
    answer = approvals.ask(question)
    reach("call.asked")
    if answer.state == "PENDING":
        on_waiting(answer)
        answer = approvals.wait(answer.approval_id, wait)
    where = f"question {answer.approval_id}"
    if answer.state == "PENDING":
        raise AwaitsPerson(answer)
    if answer.state == "DENIED":
        because = f": {answer.reason}" if answer.reason else "."
        said = f"{answer.decided_by} said no{because}"
        raise Refused(Reason.APPROVAL_DENIED, "a person said no", where=where, next_step=f"It was not called. {said}")
    if answer.state == "EXPIRED":
        raise Refused(Reason.APPROVAL_TIMEOUT, "nobody answered in time", where=where, next_step="It was not called.")
    if answer.state != "APPROVED":
        why = answer.reason or "it came to nothing"
        raise Refused(Reason.CANCELLED, f"the question is void: {why}", where=where, next_step="It was not called.")
    return answer
