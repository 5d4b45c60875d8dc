"""Why an answer cannot be given, or cannot be used, in words: which way it was closed, when, by whom, what next. Pure.

The thing that a person is asked is called a question; his yes is an approval. A question's id is the approval's.
"""

from typing import Final

from remit.contracts.browser.browser import ApprovalState
from remit.contracts.browser.errors import NOT_SENT, USER_DENIED
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.identity.person import Person, agent_cannot_decide
from remit.store.approvals import ApprovalRow

STATE_LABELS: Final[dict[ApprovalState, str]] = {
    "PENDING": "waits",
    "APPROVED": "approved",
    "DENIED": "denied",
    "EXPIRED": "expired",
    "VOID": "void",
    "USED": "used",
}
REVOKED: Final = "the token was revoked"
"""How the reason of a question begins that is void because of that."""
ASK_AGAIN: Final = "Ask for the action anew, under another id."
"""To the agent. Good advice only as long as nothing of the action was sent."""
REQUEST_NOT_SENT: Final = "This request was not sent."


def require_other_than_agent(row: ApprovalRow, who: Person) -> None:
    if row.agent_id in {who.id, who.name, who.signature}:
        raise agent_cannot_decide("this is the agent that asked")


def not_approved_error(row: ApprovalRow) -> RefusedError:
    if row.state == "DENIED":
        by = f"{row.decided_by} said no" + (f": {row.reason}" if row.reason else "")
        return RefusedError(Reason.APPROVAL_DENIED, USER_DENIED, where=f"question {row.approval_id}", next_step=by)
    if row.state == "EXPIRED":
        return timeout_error(row)
    if row.state == "VOID":
        return void_error(row.approval_id, row.reason)
    explanations = {"PENDING": "nobody has answered yet", "USED": "the approval was used before"}
    return unusable_error(row.approval_id, explanations[row.state])


def void_error(approval_id: str, why: str | None) -> RefusedError:
    """Of a question that is void: its token was revoked; or what it was about is gone, and nobody said no."""
    where = f"question {approval_id}"
    if why is not None and why.startswith(REVOKED):
        return RefusedError(Reason.REVOKED, why, where=where, next_step=REQUEST_NOT_SENT)
    what = f"{NOT_SENT}: the question is void: {why or 'it came to nothing'}"
    return RefusedError(Reason.CANCELLED, what, where=where, next_step=ASK_AGAIN)


def timeout_error(row: ApprovalRow) -> RefusedError:
    return RefusedError(
        Reason.APPROVAL_TIMEOUT,
        f"the time for an answer ended at {_second(row.expires_at)}",
        where=f"question {row.approval_id}",
        next_step=_next_step_unsent(row),
    )


def unusable_error(approval_id: str, why: str) -> RefusedError:
    return RefusedError(Reason.APPROVAL_DENIED, why, where=f"question {approval_id}", next_step=REQUEST_NOT_SENT)


def already_closed_error(row: ApprovalRow, changed_at: str) -> RefusedError:
    """To whoever answers a question that has its end. `changed_at` is when its last step was recorded."""
    return RefusedError(
        Reason.TRANSITION_INVALID,
        f"this question is closed: {_describe_closing(row, changed_at)}",
        where=f"question {row.approval_id}",
        next_step=_next_step_after(row),
    )


def evidence_error(row: ApprovalRow) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.EVIDENCE_INVALID,
        "this question is not the one that the ledger recorded; nothing was sent",
        where=f"question {row.approval_id}",
        next_step="Keep the database as it is and run `remit ledger verify`.",
    )


def _describe_closing(row: ApprovalRow, changed_at: str) -> str:
    because = f" ({row.reason})" if row.reason else ""
    answer = f"by {row.decided_by} at {_second(row.decided_at or changed_at)}"
    match row.state:
        case "APPROVED":
            return f"it was approved {answer}{because}, and is about to be used"
        case "USED":
            return f"it was approved {answer}{because}, and used at {_second(changed_at)}"
        case "DENIED":
            return f"it was denied {answer}{because}"
        case "EXPIRED" if row.decided_by:
            return f"it was approved {answer}, and not used until {_second(row.expires_at)}"
        case "EXPIRED":
            return f"nobody answered until {_second(row.expires_at)}"
        case _:
            return f"it is void since {_second(changed_at)}: {row.reason}"


def _next_step_after(row: ApprovalRow) -> str:
    if row.state == "APPROVED":
        return f"A yes cannot be taken back. To stop what has not been sent yet: remit token revoke {row.token_jti}"
    if row.state == "USED":
        return f"To see what became of it: remit ledger show --correlation {row.action_id}"
    return _next_step_unsent(row)


def _next_step_unsent(row: ApprovalRow) -> str:
    """This is about one request; others of its action may have been sent."""
    return f"{REQUEST_NOT_SENT} What else became of its action: remit ledger show --correlation {row.action_id}"


def _second(time: str) -> str:
    return f"{time[:19]}Z"
