"""Why an answer cannot be given, or cannot be used, in words: which way it was closed, when, by whom, what next. Pure.

The thing that a person is asked is called a question; his yes is an approval. A question's id is the approval's.
"""

from typing import Final

from remit.approval.people import Person, agent_cannot_decide
from remit.contracts.browser import ApprovalState
from remit.contracts.browser_errors import USER_DENIED
from remit.errors import EnvironmentFailed, Reason, Refused
from remit.store.approvals import ApprovalRow

STATE_WORDS: Final[dict[ApprovalState, str]] = {
    "PENDING": "waits",
    "APPROVED": "approved",
    "DENIED": "denied",
    "EXPIRED": "expired",
    "VOID": "void",
    "USED": "used",
}
_ASK_ANEW: Final = "Nothing was sent. The agent may ask anew, with an action of another id."


def require_other_than_agent(row: ApprovalRow, who: Person) -> None:
    if row.agent_id in {who.id, who.name, who.signature}:
        raise agent_cannot_decide("this is the agent that asked")


def not_approved(row: ApprovalRow) -> Refused:
    if row.state == "DENIED":
        by = f"{row.decided_by} said no" + (f": {row.reason}" if row.reason else "")
        return Refused(Reason.APPROVAL_DENIED, USER_DENIED, where=f"question {row.approval_id}", next_step=by)
    if row.state == "EXPIRED":
        return overdue(row)
    words = {"PENDING": "nobody has answered yet", "USED": "the approval was used before"}
    return unusable(row.approval_id, words.get(row.state) or f"the question is void: {row.reason}")


def overdue(row: ApprovalRow) -> Refused:
    return Refused(
        Reason.APPROVAL_TIMEOUT,
        f"the time for an answer ended at {_second(row.expires_at)}",
        where=f"question {row.approval_id}",
        next_step=_ASK_ANEW,
    )


def unusable(approval_id: str, why: str) -> Refused:
    return Refused(Reason.APPROVAL_DENIED, why, where=f"question {approval_id}", next_step=_ASK_ANEW)


def closed(row: ApprovalRow, since: str) -> Refused:
    """To whoever answers a question that has its end. `since` is when its last step was recorded."""
    return Refused(
        Reason.TRANSITION_INVALID,
        f"this question is closed: {_how_closed(row, since)}",
        where=f"question {row.approval_id}",
        next_step=_after(row),
    )


def not_as_recorded(row: ApprovalRow) -> EnvironmentFailed:
    return EnvironmentFailed(
        Reason.EVIDENCE_INVALID,
        "this question is not the one that the ledger recorded; nothing was sent",
        where=f"question {row.approval_id}",
        next_step="Keep the database as it is and run `remit ledger verify`.",
    )


def _how_closed(row: ApprovalRow, since: str) -> str:
    because = f" ({row.reason})" if row.reason else ""
    answer = f"by {row.decided_by} at {_second(row.decided_at or since)}"
    match row.state:
        case "APPROVED":
            return f"it was approved {answer}{because}, and is about to be used"
        case "USED":
            return f"it was approved {answer}{because}, and used at {_second(since)}"
        case "DENIED":
            return f"it was denied {answer}{because}"
        case "EXPIRED" if row.decided_by:
            return f"it was approved {answer}, and not used until {_second(row.expires_at)}"
        case "EXPIRED":
            return f"nobody answered until {_second(row.expires_at)}"
        case _:
            return f"it is void since {_second(since)}: {row.reason}"


def _after(row: ApprovalRow) -> str:
    if row.state == "APPROVED":
        return f"A yes cannot be taken back. To stop what has not been sent yet: remit token revoke {row.token_jti}"
    if row.state == "USED":
        return f"To see what became of it: remit ledger show --correlation {row.action_id}"
    return _ASK_ANEW


def _second(time: str) -> str:
    return f"{time[:19]}Z"
