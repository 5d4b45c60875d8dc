"""The inbox: every question that waits for a person, whatever it is about; what he should see of it, and his answer.

Nothing is decided here: each answer goes to the room whose question it is, and that one says whether it counts.
"""

import re
from collections.abc import Iterator
from typing import Final, get_args

from remit.contracts.browser.browser import Approval
from remit.contracts.services.common import Decision, Question, QuestionKind, QuestionState, QuestionView
from remit.contracts.services.plans import ProposalState, ProposalView
from remit.core.errors import Reason, RefusedError
from remit.goals.gates import ANSWER_LIFE, APPROVAL_LIFE
from remit.goals.status import WaitingGoal
from remit.identity.callers import AgentCaller, Caller, PersonCaller
from remit.identity.person import agent_cannot_decide
from remit.services.base.context import ServiceContext
from remit.services.base.permissions import Right, require
from remit.services.base.screenshots import read_picture
from remit.services.goals.approvals import all_waiting, decide_goal, expires_at, require_waiting, unconfirmed, wanted
from remit.services.goals.service import GoalDesk
from remit.services.inbox.views import goal_asked, request_asked, risk_of
from remit.services.plans.service import PlanDesk

MOST_RECENT: Final = 100
# Whatever became of a plan that was approved: its question has that answer.
_ANSWERED: Final[dict[str, QuestionState]] = {
    "PENDING": "PENDING",
    "DENIED": "DENIED",
    "EXPIRED": "EXPIRED",
    "VOID": "VOID",
}
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ENDED: Final = tuple(each for each in get_args(ProposalState) if each not in {"PENDING", "NOT_VOUCHED_FOR"})
"""Of a plan: its question is closed, whatever became of the plan after a yes."""
_CLOSED: Final = ("APPROVED", "DENIED", "EXPIRED", "VOID", "USED")


class Inbox:
    def __init__(self, room: ServiceContext, plans: PlanDesk, goals: GoalDesk) -> None:
        self._room = room
        self._plans = plans
        self._goals = goals

    def open(self, caller: Caller) -> list[Question]:
        """All that wait now, the newest first; of confirmations, the caller's own."""
        require(caller, Right.SEE)
        found = [*self._requests(), *self._proposals(caller), *self._goals_waiting(), *self._confirmations(caller)]
        return sorted(found, key=lambda each: each.created_at, reverse=True)

    def recent(self, caller: Caller, most: int = MOST_RECENT) -> list[Question]:
        """Requests and plans that were closed lately, and how: also those that are void since what held them died."""
        require(caller, Right.SEE)
        most = max(1, min(most, MOST_RECENT))
        closed = [each for each in self._room.workspace.approvals.listed() if each.state in _CLOSED][:most]
        plans = self._plans.listed(caller, states=_ENDED, limit=most).items
        found = [*map(self._request, closed), *map(self._proposal, plans)]
        return sorted(found, key=lambda each: each.decided_at or each.created_at, reverse=True)[:most]

    def counts(self) -> dict[QuestionKind, tuple[int, str | None]]:
        """How many of each kind are open, and since when the oldest: numbers only, for whoever measures."""
        kinds: dict[QuestionKind, list[str]] = {
            "request": [each.created_at for each in self._room.workspace.approvals.listed("PENDING")],
            "plan": [each.created_at for each in self._room.workspace.proposals.pending()],
            "goal": [each.asked_at for each in all_waiting(self._room.workspace)],
        }
        return {kind: (len(since), min(since, default=None)) for kind, since in kinds.items()}

    def show(self, caller: Caller, kind: QuestionKind, name: str, *, tenant: str | None = None) -> QuestionView:
        """One question, open or closed. Goals and confirmations need their tenant."""
        require(caller, Right.SEE)
        match kind:
            case "request":
                approval = self._room.workspace.approvals.show(_whole(name))
                return QuestionView(question=self._request(approval), request=request_asked(approval))
            case "plan":
                return QuestionView(question=self._proposal(self._plans.get(caller, _whole(name))))
            case "goal":
                goal = require_waiting(self._room.workspace, _named(tenant), name)
                return QuestionView(question=self._goal(goal), goal=goal_asked(goal))
            case "confirmation":
                return self._confirmation(_user(caller, tenant), name)

    def decide(
        self, caller: Caller, kind: QuestionKind, name: str, decision: Decision, *, tenant: str | None = None
    ) -> Question:
        """A person's answer, passed on to whose question it is. A plan's is given with `plans.decide`."""
        who = _person(caller, Right.CONFIRM if kind == "confirmation" else Right.DECIDE)
        if kind == "confirmation":
            return self._confirm(who, name, decision, tenant)
        if decision.approved is None or decision.answer is not None:
            raise _malformed("say yes or no to it", "approved", "Give approved: true or false, and no answer.")
        if kind == "request":
            return self._decide_request(who, name, decision)
        if kind == "goal":
            goal = decide_goal(
                self._room.workspace,
                _named(tenant),
                name,
                approved=decision.approved,
                who=who.person,
                reason=decision.reason,
                as_user=who.user if who.tenant == tenant else None,
            )
            state = "APPROVED" if decision.approved else "DENIED"
            decided = {"state": state, "decided_by": who.person.signature, "reason": decision.reason}
            return self._goal(goal).model_copy(update=decided)
        view = self._plans.decide(
            caller,
            _whole(name),
            approved=decision.approved,
            preview_digest=decision.shown_digest,
            reason=decision.reason,
        )
        return self._proposal(view)

    def picture(self, caller: Caller, approval_id: str) -> bytes:
        """The screenshot that a request's question shows, as PNG."""
        require(caller, Right.SEE)
        approval = self._room.workspace.approvals.show(_whole(approval_id))
        return read_picture(self._room.workspace.state, approval.screenshot, f"question {approval.approval_id}")

    # --- each kind ----------------------------------------------------------------------------------------------------

    def _requests(self) -> Iterator[Question]:
        return map(self._request, self._room.workspace.approvals.listed("PENDING"))

    def _proposals(self, caller: Caller) -> Iterator[Question]:
        return map(self._proposal, self._plans.waiting(caller))

    def _goals_waiting(self) -> Iterator[Question]:
        return map(self._goal, all_waiting(self._room.workspace))

    def _confirmations(self, caller: Caller) -> Iterator[Question]:
        if not isinstance(caller, PersonCaller) or caller.user is None or caller.tenant is None:
            return
        for correlation_id, _ in unconfirmed(self._room.workspace, caller.tenant, caller.user):
            yield self._confirmation(caller, correlation_id).question

    def _request(self, approval: Approval) -> Question:
        return Question(
            kind="request",
            id=approval.approval_id,
            tenant="default",
            title=f"{approval.preview.headline}: {approval.preview.estimated_effect}"[:10_000],
            asked_by=f"agent:{approval.agent_id}",
            authority=f"token {approval.token_jti}",
            risk=risk_of(approval),
            created_at=approval.created_at,
            expires_at=approval.expires,
            state=approval.state,
            decided_by=approval.decided_by,
            decided_at=approval.decided_at,
            reason=approval.reason,
            link=self._room.link("inbox", "request", approval.approval_id),
        )

    def _proposal(self, view: ProposalView) -> Question:
        # Whoever owns the state directory needs no login; he may have logged in all the same.
        person = "the owner of this workspace" if view.proposed_by.startswith("os:") else "a person who has logged in"
        token = f"token {view.token_jti}" if view.token_jti else person
        return Question(
            kind="plan",
            id=view.proposal_id,
            tenant="default",
            title=view.title,
            asked_by=view.proposed_by,
            authority=token,
            risk=view.risk,
            created_at=view.created_at,
            expires_at=view.expires_at,
            state=_ANSWERED.get(view.state, "APPROVED"),
            decided_by=view.decided_by,
            decided_at=view.decided_at,
            reason=view.reason,
            link=self._room.link("inbox", "plan", view.proposal_id),
        )

    def _goal(self, goal: WaitingGoal) -> Question:
        policies = ", ".join(goal.policies) or "no policy"
        return Question(
            kind="goal",
            id=goal.correlation_id,
            tenant=goal.tenant_id,
            title=wanted(goal)[:10_000],
            asked_by=goal.user_id,
            authority=f"user {goal.user_id} of {goal.tenant_id}; {policies}"[:1_000],
            risk=goal.risk or None,
            created_at=goal.asked_at,
            expires_at=expires_at(goal.asked_at, APPROVAL_LIFE),
            link=self._room.link("inbox", "goal", goal.tenant_id, goal.correlation_id),
        )

    def _confirmation(self, user: PersonCaller, correlation_id: str) -> QuestionView:
        asked = self._goals.confirmation(user, correlation_id)
        question = Question(
            kind="confirmation",
            id=correlation_id,
            tenant=asked.tenant_id,
            title=wanted(asked.goal)[:10_000],
            asked_by=asked.asked_by,
            authority=f"user {asked.goal.user_id} of {asked.tenant_id}"[:1_000],
            risk=asked.goal.risk or None,
            created_at=asked.goal.asked_at,
            expires_at=expires_at(asked.goal.asked_at, ANSWER_LIFE),
            link=self._room.link("inbox", "confirmation", asked.tenant_id, correlation_id),
        )
        return QuestionView(question=question, goal=goal_asked(asked.goal, asked.prompt))

    # --- answers ------------------------------------------------------------------------------------------------------

    def _decide_request(self, who: PersonCaller, name: str, decision: Decision) -> Question:
        """A yes is to what was shown, so it names that by its digest; a no needs none."""
        approvals = self._room.workspace.approvals
        approved = bool(decision.approved)
        if approved and decision.shown_digest != approvals.show(_whole(name)).request_digest:
            raise RefusedError(
                Reason.HASH_MISMATCH,
                "this yes does not name the request that would be sent",
                where="shown_digest",
                next_step="Look at the question, and give the digest that it shows.",
            )
        found = approvals.decide(_whole(name), approved=approved, who=who.person, reason=decision.reason)
        return self._request(found)

    def _confirm(self, who: PersonCaller, name: str, decision: Decision, tenant: str | None) -> Question:
        if decision.answer is None or decision.approved is not None:
            advice = "Give answer, with a word for yes or no that the question names; and not approved."
            raise _malformed("a user confirms in his own words", "answer", advice)
        user = _user(who, tenant)
        question = self._confirmation(user, name).question
        told = self._goals.answer(user, name, decision.answer)
        if told.waiting_for == "confirmation":
            return question  # the answer was unclear, and the question is asked again
        state = "DENIED" if told.state == "refused" else "APPROVED"
        return question.model_copy(update={"state": state, "decided_by": who.person.signature})


def _person(caller: Caller, right: Right) -> PersonCaller:
    require(caller, right)
    if isinstance(caller, AgentCaller):  # the table says so already; nothing rests on it alone
        raise agent_cannot_decide("it came with a token")
    return caller


def _user(caller: Caller, tenant: str | None) -> PersonCaller:
    """Whoever is a user himself, of this tenant."""
    if isinstance(caller, PersonCaller) and caller.user is not None and caller.tenant == (tenant or caller.tenant):
        return caller
    raise RefusedError(
        Reason.PERMISSION_DENIED,
        "only the user who asked can confirm it",
        where=f"tenant {tenant}" if tenant else "the caller",
        next_step="Let him log in; an admin says who is which user: remit people invite NAME --user U --tenant T",
    )


def _named(tenant: str | None) -> str:
    if tenant is None:
        raise _malformed("a goal is named by its tenant and its id", "tenant", "Give the tenant that the inbox shows.")
    return tenant


def _whole(name: str) -> str:
    """A beginning would do for the rooms below; here an id comes out of a link, and is whole."""
    if not _UUID.fullmatch(name):
        raise RefusedError(
            Reason.STATE_MISSING, "there is no such question", where=f"question {name}", next_step="See the inbox."
        )
    return name


def _malformed(what: str, where: str, next_step: str) -> RefusedError:
    return RefusedError(Reason.MALFORMED, what, where=where, next_step=next_step)
