"""Errors that say why a proposal cannot be decided or applied: how it ended, when, by whom, and what to do. Pure."""

from typing import Final

from remit.contracts.plans.proposal import StoredProposalState
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.store.proposals import ProposalRow

STATE_LABELS: Final[dict[StoredProposalState, str]] = {
    "PENDING": "waits",
    "APPROVED": "approved",
    "DENIED": "denied",
    "EXPIRED": "expired",
    "VOID": "void",
}
PROPOSE_AGAIN: Final = "If it is still wanted, propose the plan again, with another key."


class NotAnsweredError(RefusedError):
    """The proposal is not denied, but only a person can continue from here."""

    exit_code = 3


def not_found_error(name: str) -> RefusedError:
    return RefusedError(
        Reason.STATE_MISSING,
        "there is no such proposal",
        where=f"proposal {name}",
        next_step="A person lists the pending proposals with `remit approvals`. An agent gives the whole proposal_id"
        " that it received for its proposal.",
    )


def already_closed_error(row: ProposalRow, changed_at: str) -> RefusedError:
    """Return the error for a decision about a proposal that is closed. `changed_at` is the time of its last step."""
    return RefusedError(
        Reason.TRANSITION_INVALID,
        f"this proposal is closed: {_describe_end(row, changed_at)}",
        where=f"proposal {row.proposal_id}",
        next_step=f"Apply it: remit apply --proposal {row.proposal_id}. Or withdraw it: remit cancel {row.envelope_id}"
        if row.state == "APPROVED"
        else PROPOSE_AGAIN,
    )


def outdated_digest_error(row: ProposalRow) -> RefusedError:
    """Return the error for an approval by a digest that is not the digest of the stored preview."""
    return RefusedError(
        Reason.HASH_MISMATCH,
        "this digest is not that of the plan's stored preview: the preview was computed again since, or the digest"
        " belongs to another plan; nothing was approved",
        where=f"proposal {row.proposal_id}",
        next_step=f"Read the preview and give the digest that it shows: remit approvals show {row.proposal_id}",
    )


def changed_since_approval_error(row: ProposalRow) -> RefusedError:
    """Return the error for a new preview of an approved plan after something changed."""
    return RefusedError(
        Reason.HASH_MISMATCH,
        "a file that the plan names, or the configuration, changed since the plan was approved; the stored preview"
        " stays as it is",
        where=f"proposal {row.proposal_id}",
        next_step="Restore what was changed, and then apply the plan as it was approved. Or withdraw"
        f" it (remit cancel {row.envelope_id}), and propose it again with another key.",
    )


def overdue_error(row: ProposalRow) -> RefusedError:
    return RefusedError(
        Reason.APPROVAL_TIMEOUT,
        f"the time for a decision ended at {_second(row.expires_at)}",
        where=f"proposal {row.proposal_id}",
        next_step=PROPOSE_AGAIN,
    )


def not_approved_error(row: ProposalRow, changed_at: str) -> RefusedError:
    """Return the error for a caller who wants to apply a proposal that is not approved."""
    where = f"proposal {row.proposal_id}"
    match row.state:
        case "PENDING":
            next_step = f"A person must read it and decide first: remit approvals show {row.proposal_id}"
            return NotAnsweredError(
                Reason.APPROVAL_PENDING, "no person has decided yet", where=where, next_step=next_step
            )
        case "DENIED":
            what = f"{row.decided_by} denied it" + (f": {row.reason}" if row.reason else "")
            return RefusedError(Reason.APPROVAL_DENIED, what, where=where, next_step=PROPOSE_AGAIN)
        case "EXPIRED":
            return overdue_error(row)
        case _:
            return RefusedError(Reason.REVOKED, _describe_end(row, changed_at), where=where, next_step=PROPOSE_AGAIN)


def unverified_row_error(row: ProposalRow) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.EVIDENCE_INVALID,
        "this proposal differs from the one that the ledger recorded; nothing was done",
        where=f"proposal {row.proposal_id}",
        next_step="Keep the database as it is and run `remit ledger verify`.",
    )


def _describe_end(row: ProposalRow, changed_at: str) -> str:
    because = f" ({row.reason})" if row.reason else ""
    match row.state:
        case "APPROVED" | "DENIED":
            decided_at = _second(row.decided_at or changed_at)
            return f"it was {STATE_LABELS[row.state]} by {row.decided_by} at {decided_at}{because}"
        case "EXPIRED":
            return f"no person decided until {_second(row.expires_at)}"
        case _:
            return f"it has been void since {_second(changed_at)}: {row.reason}"


def _second(time: str) -> str:
    return f"{time[:19]}Z"
