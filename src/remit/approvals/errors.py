"""The errors of approval requests: a decision is not accepted, or an approval cannot be used. Pure functions.

Each error says how the request was closed, when, by whom, and what to do next. An approval has the id of its request.
"""

from typing import Final

from remit.contracts.browser.browser import ApprovalState
from remit.contracts.browser.errors import NOT_SENT, USER_DENIED
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.identity.person import Person, agent_cannot_decide
from remit.store.approvals import ApprovalRow

STATE_LABELS: Final[dict[ApprovalState, str]] = {
    "PENDING": "pending",
    "APPROVED": "approved",
    "DENIED": "denied",
    "EXPIRED": "expired",
    "VOID": "void",
    "USED": "used",
}
REVOKED: Final = "the token was revoked"
"""The beginning of the stored reason of a request that is void because its token was revoked."""
ASK_AGAIN: Final = "Ask for the action again, under another id."
"""The next step for the agent. It is only correct if no request of the action was sent."""
REQUEST_NOT_SENT: Final = "This request was not sent."


def require_other_than_agent(row: ApprovalRow, who: Person) -> None:
    if row.agent_id in {who.id, who.name, who.signature}:
        raise agent_cannot_decide("this agent asked for the approval")


def not_approved_error(row: ApprovalRow) -> RefusedError:
    if row.state == "DENIED":
        by = f"{row.decided_by} denied it" + (f": {row.reason}" if row.reason else "")
        return RefusedError(
            Reason.APPROVAL_DENIED, USER_DENIED, where=f"approval request {row.approval_id}", next_step=by
        )
    if row.state == "EXPIRED":
        return timeout_error(row)
    if row.state == "VOID":
        return void_error(row.approval_id, row.reason)
    explanations = {"PENDING": "no person has approved or denied it yet", "USED": "the approval was used before"}
    return unusable_error(row.approval_id, explanations[row.state])


def void_error(approval_id: str, why: str | None) -> RefusedError:
    """Return the error for a void request. Its token was revoked, or its subject is gone. It was not denied."""
    where = f"approval request {approval_id}"
    if why is not None and why.startswith(REVOKED):
        return RefusedError(Reason.REVOKED, why, where=where, next_step=REQUEST_NOT_SENT)
    what = f"{NOT_SENT}: the approval request is void: {why or 'no reason is known'}"
    return RefusedError(Reason.CANCELLED, what, where=where, next_step=ASK_AGAIN)


def timeout_error(row: ApprovalRow) -> RefusedError:
    return RefusedError(
        Reason.APPROVAL_TIMEOUT,
        f"the approval request expired at {_second(row.expires_at)}",
        where=f"approval request {row.approval_id}",
        next_step=_next_step_unsent(row),
    )


def unusable_error(approval_id: str, why: str) -> RefusedError:
    return RefusedError(
        Reason.APPROVAL_DENIED, why, where=f"approval request {approval_id}", next_step=REQUEST_NOT_SENT
    )


def already_closed_error(row: ApprovalRow, changed_at: str) -> RefusedError:
    """Return the error for a decision about a closed request. `changed_at` is the time of its last ledger entry."""
    return RefusedError(
        Reason.TRANSITION_INVALID,
        f"this approval request is closed: {_describe_closing(row, changed_at)}",
        where=f"approval request {row.approval_id}",
        next_step=_next_step_after(row),
    )


def evidence_error(row: ApprovalRow) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.EVIDENCE_INVALID,
        "the stored approval request differs from the ledger; nothing was sent",
        where=f"approval request {row.approval_id}",
        next_step="Do not change the database. Run: remit ledger verify",
    )


def _describe_closing(row: ApprovalRow, changed_at: str) -> str:
    because = f" ({row.reason})" if row.reason else ""
    answer = f"by {row.decided_by} at {_second(row.decided_at or changed_at)}"
    match row.state:
        case "APPROVED":
            return f"it was approved {answer}{because}, and the approval is not used yet"
        case "USED":
            return f"it was approved {answer}{because}, and used at {_second(changed_at)}"
        case "DENIED":
            return f"it was denied {answer}{because}"
        case "EXPIRED" if row.decided_by:
            return f"it was approved {answer}, but the approval expired unused at {_second(row.expires_at)}"
        case "EXPIRED":
            return f"it expired without a decision at {_second(row.expires_at)}"
        case _:
            return f"it has been void since {_second(changed_at)}: {row.reason}"


def _next_step_after(row: ApprovalRow) -> str:
    if row.state == "APPROVED":
        return f"An approval is final. To stop requests that are not sent yet: remit token revoke {row.token_jti}"
    if row.state == "USED":
        return f"To see its outcome: remit ledger show --correlation {row.action_id}"
    return _next_step_unsent(row)


def _next_step_unsent(row: ApprovalRow) -> str:
    """Return the next step after a request that was not sent. Other requests of its action may have been sent."""
    return f"{REQUEST_NOT_SENT} To see the rest of its action: remit ledger show --correlation {row.action_id}"


def _second(time: str) -> str:
    return f"{time[:19]}Z"
