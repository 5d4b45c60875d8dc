"""The status after an approval: who acts next, and the recorded outcome."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from starlette.requests import Request

from remit.contracts.ledger import LedgerEntry
from remit.contracts.services.common import Question, QuestionView
from remit.contracts.services.ledger import EntryFilter
from remit.contracts.services.plans import ProposalView
from remit.core.ids import DEFAULT_TENANT
from remit.web.console.pages import Viewer, get_services
from remit.web.console.templating import address, minute

_OUTCOME_KINDS: Final = ("call.audit", "browser.action")
_MAX_ENTRIES: Final = 10
_VOIDED: Final = {"proposal.voided": "proposal_id", "approval.voided": "approval_id"}
_MOST_VOIDED: Final = 100
_EFFECTS: Final = {
    "none": "nothing was changed",
    "done": "the effect took place",
    "undone": "the effect was undone",
    "unknown": "it is not known whether the effect took place, and it is not tried again",
}


_RUN_TEXTS: Final = {
    "RUNNING": "The plan is being applied.",
    "UNFINISHED": "The process that applied it has ended. The next run, or `remit recover`, finishes or undoes it.",
    "APPLIED": "The plan was applied.",
    "PARTIAL": "The plan was applied in part.",
    "FAILED": "The plan was applied, and failed.",
    "ROLLED_BACK": "The plan failed, and all its changes were undone.",
    "CANCELLED": "The plan was stopped, and all its changes were undone.",
    "UNDONE": "The plan was applied, and rolled back since.",
}
"""A sentence for each state of a plan."""


class QuestionOutcome(NamedTuple):
    """The outcome of an approved request: a sentence, the time, and the address of its ledger entries."""

    text: str
    at: str
    path: str


def describe_next_step(
    view: QuestionView, proposal: ProposalView | None, outcome: QuestionOutcome | None, *, is_stale: bool = False
) -> str:
    """Return who has to act next after an approval. Empty if no step is left.

    `is_stale`: the files changed since the approval.
    """
    question = view.question
    if proposal is not None and proposal.state == "APPROVED":
        if is_stale:
            return "The plan cannot be applied now: something changed since the approval."
        until = f", until {minute(proposal.apply_until)} UTC" if proposal.apply_until else ""
        who = proposal.proposed_by if proposal.token_jti else "an operator or an admin"
        waits = f"Waits for {who} to apply it{until}."
        if proposal.refused is None:
            return waits
        place = f" ({proposal.refused.where})" if proposal.refused.where else ""
        return (
            f"The last attempt to apply it was refused, and nothing was changed: {proposal.refused.what}{place}."
            f" {proposal.refused.next_step} {waits}"
        )
    if proposal is not None:
        return _RUN_TEXTS.get(proposal.state, "")
    if view.request is not None and question.state == "APPROVED" and outcome is None:
        what = "makes the same call again" if view.request.url is None else "continues"
        return f"Not done yet. It is done when {question.asked_by} {what}."
    return ""


def find_outcome(request: Request, viewer: Viewer, view: QuestionView) -> QuestionOutcome | None:
    """Return the newest entry with the outcome of a held request or a call. The entry must be of the same token,
    because an agent chooses the id of its action.
    """
    wanted = view.request
    if wanted is None or view.question.state not in {"APPROVED", "USED"}:
        return None
    record = get_services(request).ledger
    for kind in _OUTCOME_KINDS:
        filters = EntryFilter.from_tree({"kind": kind, "correlation_id": wanted.action_id}, source="the console")
        for found in record.list_entries(viewer.caller, DEFAULT_TENANT, filters, None, _MAX_ENTRIES).items:
            entry = found.entry
            if found.problem is None and _is_of(entry, wanted.token_jti) and _is_later(entry, view.question.decided_at):
                path = address("/ledger", correlation=wanted.action_id)
                return QuestionOutcome(_describe_entry(entry), entry.created_at, path)
    return None


def list_closing_times(request: Request, viewer: Viewer, questions: Sequence[Question]) -> dict[str, str | None]:
    """Return by id when each request was decided, or ended without a decision."""
    voided: dict[str, str] = {}
    if any(each.state == "VOID" and each.decided_at is None for each in questions):
        record = get_services(request).ledger
        for kind, name in _VOIDED.items():
            filters = EntryFilter.from_tree({"kind": kind}, source="the console")
            for found in record.list_entries(viewer.caller, DEFAULT_TENANT, filters, None, _MOST_VOIDED).items:
                if isinstance(found.entry.payload, dict):
                    voided[str(found.entry.payload.get(name))] = found.entry.created_at
    ended = {each.id: each.expires_at if each.state == "EXPIRED" else voided.get(each.id) for each in questions}
    return {each.id: each.decided_at or ended[each.id] for each in questions}


def _is_of(entry: LedgerEntry, jti: str) -> bool:
    payload = entry.payload
    return isinstance(payload, dict) and jti in {payload.get("jti"), payload.get("tokenJti")}


def _is_later(entry: LedgerEntry, decided_at: str | None) -> bool:
    return decided_at is None or entry.created_at >= decided_at


def _describe_entry(entry: LedgerEntry) -> str:
    payload = entry.payload if isinstance(entry.payload, dict) else {}
    succeeded = payload.get("status") == "SUCCESS" or payload.get("success") is True
    code, effect = str(payload.get("code") or ""), str(payload.get("effect") or "")
    ended = ("It succeeded" if succeeded else "It failed") + (f" ({code})" if code else "")
    return f"{ended}: {_EFFECTS.get(effect, effect)}." if effect else f"{ended}."
