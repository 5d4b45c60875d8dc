"""Why an answer cannot be given, or cannot be used, in words. Pure."""

from remit.approval.people import Person, agent_cannot_decide
from remit.contracts.browser_errors import USER_DENIED
from remit.errors import Reason, Refused
from remit.store.approvals import ApprovalRow


def require_other_than_agent(row: ApprovalRow, who: Person) -> None:
    if row.agent_id in {who.id, who.name, who.signature}:
        raise agent_cannot_decide("this is the agent that asked")


def not_approved(row: ApprovalRow) -> Refused:
    if row.state == "DENIED":
        by = f"{row.decided_by} said no" + (f": {row.reason}" if row.reason else "")
        return Refused(Reason.APPROVAL_DENIED, USER_DENIED, where=f"approval {row.approval_id}", next_step=by)
    if row.state == "EXPIRED":
        return overdue(row)
    words = {"PENDING": "nobody has answered yet", "USED": "the approval was used before"}
    return unusable(row.approval_id, words.get(row.state) or f"the question is void: {row.reason}")


def overdue(row: ApprovalRow) -> Refused:
    return Refused(
        Reason.APPROVAL_TIMEOUT,
        f"the time for an answer ended at {row.expires_at[:19]}Z",
        where=f"approval {row.approval_id}",
        next_step="Nothing was sent. Ask for the action anew, under another id.",
    )


def unusable(approval_id: str, why: str) -> Refused:
    return Refused(
        Reason.APPROVAL_DENIED,
        why,
        where=f"approval {approval_id}",
        next_step="Nothing was sent. Ask for the action anew, under another id.",
    )


def answered(row: ApprovalRow) -> Refused:
    by = f" by {row.decided_by}" if row.decided_by else ""
    return Refused(
        Reason.TRANSITION_INVALID,
        f"this question is closed: it is {row.state}{by}",
        where=f"approval {row.approval_id}",
        next_step="`remit approvals` lists those that wait.",
    )
