"""Why a proposed plan cannot be answered, or applied, in words: how it ended, when, by whom, what next. Pure."""

from typing import Final

from remit.contracts.proposal import KeptState
from remit.errors import EnvironmentFailed, Reason, Refused
from remit.store.proposals import ProposalRow

STATE_WORDS: Final[dict[KeptState, str]] = {
    "PENDING": "waits",
    "APPROVED": "approved",
    "DENIED": "denied",
    "EXPIRED": "expired",
    "VOID": "void",
}
PROPOSE_ANEW: Final = "If it is still wanted, propose the plan again."


class NobodyAnswered(Refused):
    """Not a no: only a person can go on from here."""

    exit_code = 3


def no_such(name: str) -> Refused:
    return Refused(
        Reason.STATE_MISSING,
        "there is no such proposal",
        where=f"proposal {name}",
        next_step="List those that wait: remit approvals",
    )


def closed(row: ProposalRow, since: str) -> Refused:
    """To whoever answers a proposal that has its answer, or none any more. `since` is when its last step was."""
    return Refused(
        Reason.TRANSITION_INVALID,
        f"this proposal is closed: {_how(row, since)}",
        where=f"proposal {row.proposal_id}",
        next_step="It can be applied, or withdrawn." if row.state == "APPROVED" else PROPOSE_ANEW,
    )


def overdue(row: ProposalRow) -> Refused:
    return Refused(
        Reason.APPROVAL_TIMEOUT,
        f"the time for an answer ended at {_second(row.expires_at)}",
        where=f"proposal {row.proposal_id}",
        next_step=PROPOSE_ANEW,
    )


def not_approved(row: ProposalRow, since: str) -> Refused:
    """To whoever wants to apply it."""
    where = f"proposal {row.proposal_id}"
    match row.state:
        case "PENDING":
            what, next_step = "nobody has answered yet", "A person must look at it and approve it first."
            return NobodyAnswered(Reason.APPROVAL_PENDING, what, where=where, next_step=next_step)
        case "DENIED":
            said = f"{row.decided_by} said no" + (f": {row.reason}" if row.reason else "")
            return Refused(Reason.APPROVAL_DENIED, said, where=where, next_step=PROPOSE_ANEW)
        case "EXPIRED":
            return overdue(row)
        case _:
            return Refused(Reason.REVOKED, _how(row, since), where=where, next_step=PROPOSE_ANEW)


def not_as_recorded(row: ProposalRow) -> EnvironmentFailed:
    return EnvironmentFailed(
        Reason.EVIDENCE_INVALID,
        "this proposal is not the one that the ledger recorded; nothing was done",
        where=f"proposal {row.proposal_id}",
        next_step="Keep the database as it is and run `remit ledger verify`.",
    )


def _how(row: ProposalRow, since: str) -> str:
    because = f" ({row.reason})" if row.reason else ""
    match row.state:
        case "APPROVED" | "DENIED":
            return f"it was {STATE_WORDS[row.state]} by {row.decided_by} at {_second(row.decided_at or since)}{because}"
        case "EXPIRED":
            return f"nobody answered until {_second(row.expires_at)}"
        case _:
            return f"it is void since {_second(since)}: {row.reason}"


def _second(time: str) -> str:
    return f"{time[:19]}Z"
