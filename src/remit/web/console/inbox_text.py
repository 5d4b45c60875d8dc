"""Texts of an approval request: its kind, the effect of an approval and a denial, how it was closed."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from remit.contracts.services.common import Question
from remit.web.console.templating import address

_RISKS: Final = {"LOW": "low", "MEDIUM": "medium", "HIGH": "high", "CRITICAL": "high"}


class InboxTexts(NamedTuple):
    kind: str
    approve: str
    deny: str


_TEXTS: Final[dict[str, InboxTexts]] = {
    "request": InboxTexts("Held request", "it is done once, exactly as shown.", "it is not done."),
    "plan": InboxTexts("Plan", "the plan can be applied, exactly as shown.", "the plan cannot be applied."),
    "goal": InboxTexts("Goal", "the goal continues, exactly as shown.", "nothing is done."),
    "confirmation": InboxTexts("Your own goal", "the goal continues.", "nothing is done."),
}
_CALL: Final = InboxTexts("Call", "the call is made once, exactly as shown.", "the call is not made.")
_CLOSED: Final = {
    "APPROVED": "Approved",
    "DENIED": "Denied: nothing was done",
    "EXPIRED": "Expired: no decision in time, and nothing was done",
    "VOID": "Void",
    "USED": "Approved, and used",
}
_PREVIEW_PROBLEMS: Final = {"configuration_changed": "preview is stale", "would_fail": "would fail"}
HOST_GONE: Final = "the process that held it is gone"


@dataclass(frozen=True, slots=True)
class InboxItem:
    question: Question

    @property
    def path(self) -> str:
        question = self.question
        return address("/inbox/question", kind=question.kind, tenant=question.tenant, id=question.id)

    @property
    def title(self) -> str:
        return self.question.title or self.question.id

    @property
    def _texts(self) -> InboxTexts:
        """A request with a risk of its own is a call of a governed function. A held request has none."""
        is_call = self.question.kind == "request" and self.question.risk is not None
        return _CALL if is_call else _TEXTS[self.question.kind]

    @property
    def kind_label(self) -> str:
        return self._texts.kind

    @property
    def approve_text(self) -> str:
        return self._texts.approve

    @property
    def deny_text(self) -> str:
        return self._texts.deny

    @property
    def risk_label(self) -> str:
        return _RISKS.get((self.question.risk or "").upper(), "")

    @property
    def preview_problem_label(self) -> str:
        return _PREVIEW_PROBLEMS.get(self.question.preview_problem or "", "")

    @property
    def closed_text(self) -> str:
        """How the request was closed; empty while it is open. A void request says why."""
        question = self.question
        if question.state == "PENDING":
            return ""
        text = _CLOSED.get(question.state, question.state.lower())
        reason = question.reason or ""
        if question.state == "VOID" and "gone" in reason:
            reason = HOST_GONE
        return f"{text}: {reason}" if reason else text
