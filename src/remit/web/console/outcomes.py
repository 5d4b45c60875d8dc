"""What comes after a yes: whom it waits for now, and what became of it as far as that is on record."""

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
    "done": "it is done",
    "undone": "it was taken back",
    "unknown": "nobody knows whether it was done, and it is not tried again",
}


_RUN_TEXTS: Final = {
    "RUNNING": "It is being applied.",
    "UNFINISHED": "The process that applied it is gone; the next run, or `remit recover`, settles what it left.",
    "APPLIED": "It was applied.",
    "PARTIAL": "It was applied in part.",
    "FAILED": "It was applied, and failed.",
    "ROLLED_BACK": "It failed, and all of it was taken back.",
    "CANCELLED": "It was stopped, and all of it was taken back.",
    "UNDONE": "It was applied, and taken back since.",
}
"""What has come of a plan, by its state."""


class QuestionOutcome(NamedTuple):
    """Of what was approved: how it ended, when, and where all of it is written down."""

    text: str
    at: str
    path: str


def describe_next_step(
    view: QuestionView, proposal: ProposalView | None, outcome: QuestionOutcome | None, *, is_stale: bool = False
) -> str:
    """Of a question that was answered with yes: who has to do something now. Empty where nobody has.

    `is_stale`: the files are not those that the yes was for.
    """
    question = view.question
    if proposal is not None and proposal.state == "APPROVED":
        if is_stale:
            return "It cannot be applied as things are now: something was changed since the yes."
        until = f", until {minute(proposal.apply_until)} UTC" if proposal.apply_until else ""
        who = proposal.proposed_by if proposal.token_jti else "an operator or an admin"
        return f"Waits for {who} to apply it{until}."
    if proposal is not None:
        return _RUN_TEXTS.get(proposal.state, "")
    if view.request is not None and question.state == "APPROVED" and outcome is None:
        what = "makes the same call again" if view.request.url is None else "goes on"
        return f"Nothing has come of it yet: it is done when {question.asked_by} {what}."
    return ""


def find_outcome(request: Request, viewer: Viewer, view: QuestionView) -> QuestionOutcome | None:
    """The newest entry that says how a held request, or a call, ended; of this very token, since an agent chooses the
    id of what it does.
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
    """By id: when each was answered, or ended without an answer."""
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
