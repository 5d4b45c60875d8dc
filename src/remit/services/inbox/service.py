"""The inbox: all requests that wait for a person, the information for the decision, and the decisions.

Nothing is decided here. The inbox passes each decision to the service of the request, which accepts or refuses it.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, get_args

from remit.contracts.browser.browser import Approval, HTTPPreview
from remit.contracts.services.common import (
    Decision,
    GoalAnswer,
    GoalAsked,
    Question,
    QuestionKind,
    QuestionState,
    QuestionView,
    RequestAsked,
)
from remit.contracts.services.plans import ProposalState, ProposalView
from remit.core.errors import Reason, RefusedError
from remit.execution.refusals import Request
from remit.goals.composite.layout import FIRST_STEP
from remit.goals.gates import ANSWER_LIFE, APPROVAL_LIFE
from remit.goals.status import DecidedGoal, WaitingGoal
from remit.identity.callers import AgentCaller, Caller, PersonCaller
from remit.identity.own_requests import find_own_request_refusal
from remit.identity.person import agent_cannot_decide
from remit.services.base.context import ServiceContext
from remit.services.base.ownership import GOAL_REQUESTED, find_requester
from remit.services.base.permissions import Right, require
from remit.services.base.screenshots import read_picture
from remit.services.goals.approvals import (
    decide_goal,
    describe_goal,
    expires_at,
    find_decided_goal,
    list_decided_goals,
    list_unconfirmed_goals,
    list_waiting_goals,
    require_waiting,
)
from remit.services.goals.previews import read_preview
from remit.services.goals.service import GoalRequestService
from remit.services.plans.refusal_records import about_proposal
from remit.services.plans.service import PlanService

MAX_RECENT: Final = 100
# The state of a request by the state of its plan. A plan in any other state was approved.
_ANSWERED: Final[dict[str, QuestionState]] = {
    "PENDING": "PENDING",
    "DENIED": "DENIED",
    "EXPIRED": "EXPIRED",
    "VOID": "VOID",
}
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CLOSED_PROPOSALS: Final = tuple(each for each in get_args(ProposalState) if each not in {"PENDING", "NOT_VOUCHED_FOR"})
"""The states of a plan whose request is closed, including all states after an approval."""
_CLOSED_REQUESTS: Final = ("APPROVED", "DENIED", "EXPIRED", "VOID", "USED")


class Inbox:
    def __init__(self, context: ServiceContext, plans: PlanService, goals: GoalRequestService) -> None:
        self._context = context
        self._plans = plans
        self._goals = goals

    def list_open(self, caller: Caller) -> list[Question]:
        """List all open requests, the newest first. Of the confirmations, list only those of the caller."""
        require(caller, Right.SEE)
        found = [
            *self._list_requests(),
            *self._list_proposals(caller),
            *self._list_goals(),
            *self._list_confirmations(caller),
        ]
        return sorted(found, key=lambda each: each.created_at, reverse=True)

    def list_recent(self, caller: Caller, limit: int = MAX_RECENT) -> list[Question]:
        """List the requests, plans and goals that were closed last, also those that are void as their process died.

        Of the goals, it lists those that a person decided.
        """
        require(caller, Right.SEE)
        limit = max(1, min(limit, MAX_RECENT))
        closed = [each for each in self._context.workspace.approvals.listed() if each.state in _CLOSED_REQUESTS][:limit]
        plans = self._plans.list_proposals(caller, states=_CLOSED_PROPOSALS, limit=limit).items
        goals = list_decided_goals(self._context.workspace, limit)
        found = [
            *map(self._request_question, closed),
            *map(self._proposal_question, plans),
            *map(self._decided_question, goals),
        ]
        return sorted(found, key=lambda each: each.decided_at or each.created_at, reverse=True)[:limit]

    def count_open(self) -> dict[QuestionKind, tuple[int, str | None]]:
        """Return the number of open requests of each kind, and the time of the oldest one, for metrics."""
        kinds: dict[QuestionKind, list[str]] = {
            "request": [each.created_at for each in self._context.workspace.approvals.listed("PENDING")],
            "plan": [each.created_at for each in self._context.workspace.proposals.pending()],
            "goal": [each.asked_at for each in list_waiting_goals(self._context.workspace)],
        }
        return {kind: (len(since), min(since, default=None)) for kind, since in kinds.items()}

    def show(self, caller: Caller, kind: QuestionKind, name: str, *, tenant: str | None = None) -> QuestionView:
        """Return one open or closed request. Goals and confirmations need their tenant."""
        require(caller, Right.SEE)
        match kind:
            case "request":
                approval = self._context.workspace.approvals.show(_require_full_id(name))
                return QuestionView(question=self._request_question(approval), request=view_request(approval))
            case "plan":
                return QuestionView(question=self._proposal_question(self._plans.get(caller, _require_full_id(name))))
            case "goal":
                return self._goal_view(caller, _require_tenant(tenant), name)
            case "confirmation":
                return self._confirmation_view(_require_user(caller, tenant), name)

    def decide(
        self, caller: Caller, kind: QuestionKind, name: str, decision: Decision, *, tenant: str | None = None
    ) -> Question:
        """Pass a person's decision on to the service of the request. For a plan, that is `plans.decide`."""
        workspace = self._context.workspace
        operation: Request = "confirm" if kind == "confirmation" else "approve" if decision.approved else "deny"
        with workspace.refusals.recording(operation, caller.id, about_proposal(workspace, name)):
            return self._decide(caller, kind, name, decision, tenant)

    def _decide(
        self, caller: Caller, kind: QuestionKind, name: str, decision: Decision, tenant: str | None
    ) -> Question:
        who = _require_person(caller, Right.CONFIRM if kind == "confirmation" else Right.DECIDE)
        if kind == "confirmation":
            return self._confirm(who, name, decision, tenant)
        if decision.approved is None or decision.answer is not None:
            raise _malformed_error(
                "the decision does not say approve or deny", "approved", "Give approved: true or false, and no answer."
            )
        if kind == "request":
            return self._decide_request(who, name, decision)
        if kind == "goal":
            decide_goal(
                self._context.workspace,
                _require_tenant(tenant),
                name,
                approved=decision.approved,
                caller=who,
                reason=decision.reason,
                step=decision.step,
            )
            return self._goal_view(caller, _require_tenant(tenant), name).question
        view = self._plans.decide(
            caller,
            _require_full_id(name),
            approved=decision.approved,
            preview_digest=decision.shown_digest,
            reason=decision.reason,
        )
        return self._proposal_question(view)

    def find_own_request_refusal(self, caller: PersonCaller, question: Question) -> RefusedError | None:
        """Return why the caller cannot approve this request of their own, or None. They may still deny it.

        Requests of browsers and calls are always those of agents.
        """
        require(caller, Right.SEE)
        workspace = self._context.workspace
        requester: str | None = None
        if question.kind == "plan":
            requester = question.asked_by
        elif question.kind == "goal":
            with workspace.store.reading_pooled() as connection:
                requester = find_requester(connection, question.tenant, question.id, GOAL_REQUESTED)
        where = f"{question.kind} {question.id}"
        if requester is None:
            return None
        return find_own_request_refusal(caller, requester, workspace.config, where=where)

    def read_picture(self, caller: Caller, approval_id: str) -> bytes:
        """Return the screenshot of an approval request, as PNG."""
        require(caller, Right.SEE)
        approval = self._context.workspace.approvals.show(_require_full_id(approval_id))
        return read_picture(
            self._context.workspace.state, approval.screenshot, f"approval request {approval.approval_id}"
        )

    # --- each kind ----------------------------------------------------------------------------------------------------

    def _list_requests(self) -> Iterator[Question]:
        return map(self._request_question, self._context.workspace.approvals.listed("PENDING"))

    def _list_proposals(self, caller: Caller) -> Iterator[Question]:
        return map(self._proposal_question, self._plans.list_pending(caller))

    def _list_goals(self) -> Iterator[Question]:
        return map(self._goal_question, list_waiting_goals(self._context.workspace))

    def _list_confirmations(self, caller: Caller) -> Iterator[Question]:
        if not isinstance(caller, PersonCaller) or caller.user is None or caller.tenant is None:
            return
        for correlation_id, _ in list_unconfirmed_goals(self._context.workspace, caller.tenant, caller.user):
            yield self._confirmation_view(caller, correlation_id).question

    def _request_question(self, approval: Approval) -> Question:
        return Question(
            kind="request",
            id=approval.approval_id,
            tenant="default",
            title=f"{approval.preview.headline}: {approval.preview.estimated_effect}"[:10_000],
            asked_by=f"agent:{approval.agent_id}",
            authority=f"token {approval.token_jti}",
            risk=read_risk(approval),
            created_at=approval.created_at,
            expires_at=approval.expires,
            state=approval.state,
            decided_by=approval.decided_by,
            decided_at=approval.decided_at,
            reason=approval.reason,
            link=self._context.link("inbox", "request", approval.approval_id),
        )

    def _proposal_question(self, view: ProposalView) -> Question:
        # The owner of the state directory needs no login, but may have logged in nevertheless.
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
            preview_state=view.preview_state,
            preview_problem=view.preview_problem,
            link=self._context.link("inbox", "plan", view.proposal_id),
        )

    def _goal_question(self, goal: WaitingGoal) -> Question:
        policies = ", ".join(goal.policies) or "no policy"
        return Question(
            kind="goal",
            id=goal.correlation_id,
            tenant=goal.tenant_id,
            title=describe_goal(goal)[:10_000],
            asked_by=goal.user_id,
            authority=f"user {goal.user_id} of {goal.tenant_id}; {policies}"[:1_000],
            risk=goal.risk or None,
            created_at=goal.asked_at,
            expires_at=expires_at(goal.asked_at, APPROVAL_LIFE),
            link=self._context.link("inbox", "goal", goal.tenant_id, goal.correlation_id),
            step=goal.step_id or None,
        )

    def _decided_question(self, decided: DecidedGoal) -> Question:
        update = {
            "state": "APPROVED" if decided.approved else "DENIED",
            "decided_by": decided.decided_by,
            "decided_at": decided.decided_at,
            "reason": decided.reason or None,
        }
        return self._goal_question(decided.goal).model_copy(update=update)

    def _goal_view(self, caller: Caller, tenant: str, name: str) -> QuestionView:
        """Return a goal that waits for an approval, or that a person has decided."""
        decided = find_decided_goal(self._context.workspace, tenant, name)
        if decided is not None:
            return QuestionView(question=self._decided_question(decided), goal=self._view(caller, decided.goal))
        goal = require_waiting(self._context.workspace, tenant, name)
        return QuestionView(question=self._goal_question(goal), goal=self._view(caller, goal))

    def _view(
        self, caller: Caller, goal: WaitingGoal, prompt: str | None = None, language: str | None = None
    ) -> GoalAsked:
        step = goal.step_id or FIRST_STEP
        preview = read_preview(self._context.workspace, caller, goal.tenant_id, goal.correlation_id, step)
        return view_goal(goal, prompt, language).model_copy(update={"preview": preview})

    def _confirmation_view(self, user: PersonCaller, correlation_id: str) -> QuestionView:
        status = self._goals.read_confirmation(user, correlation_id)
        question = Question(
            kind="confirmation",
            id=correlation_id,
            tenant=status.tenant_id,
            title=describe_goal(status.goal)[:10_000],
            asked_by=status.asked_by,
            authority=f"user {status.goal.user_id} of {status.tenant_id}"[:1_000],
            risk=status.goal.risk or None,
            created_at=status.goal.asked_at,
            expires_at=expires_at(status.goal.asked_at, ANSWER_LIFE),
            link=self._context.link("inbox", "confirmation", status.tenant_id, correlation_id),
            step=status.goal.step_id or None,
        )
        return QuestionView(question=question, goal=self._view(user, status.goal, status.prompt, status.language))

    # --- answers ------------------------------------------------------------------------------------------------------

    def _decide_request(self, who: PersonCaller, name: str, decision: Decision) -> Question:
        """Decide an approval request. An approval must name the digest of the request that was shown; a denial not."""
        approvals = self._context.workspace.approvals
        approved = bool(decision.approved)
        if approved and decision.shown_digest != approvals.show(_require_full_id(name)).request_digest:
            raise RefusedError(
                Reason.HASH_MISMATCH,
                "the approval does not name the request that would be sent",
                where="shown_digest",
                next_step="Look at the approval request, and give the digest that it shows.",
            )
        found = approvals.decide(_require_full_id(name), approved=approved, who=who.person, reason=decision.reason)
        return self._request_question(found)

    def _confirm(self, who: PersonCaller, name: str, decision: Decision, tenant: str | None) -> Question:
        if decision.answer is None or decision.approved is not None:
            advice = "Give answer with one of the words that the question names, and leave out approved."
            raise _malformed_error("a confirmation needs an answer in words", "answer", advice)
        user = _require_user(who, tenant)
        question = self._confirmation_view(user, name).question
        answer = self._goals.answer(user, name, decision.answer, step=decision.step)
        if answer.waiting_for == "confirmation" and (question.step is None or _step_of(answer) == question.step):
            return question  # the answer was unclear, and the question is asked again
        state = "DENIED" if answer.state == "refused" or _is_refused(answer, question.step) else "APPROVED"
        return question.model_copy(update={"state": state, "decided_by": who.person.signature})


def _step_of(answer: GoalAnswer) -> str | None:
    """Return the step of a goal that waits now."""
    return answer.waiting.step if answer.waiting is not None else None


def _is_refused(answer: GoalAnswer, step: str | None) -> bool:
    """Tell whether this step of a goal with several was refused."""
    steps = answer.steps.steps if answer.steps is not None else ()
    return any(each.step_id == step and each.state == "refused" for each in steps)


def _require_person(caller: Caller, right: Right) -> PersonCaller:
    require(caller, right)
    if isinstance(caller, AgentCaller):  # a second check, so that not everything depends on the table of rights
        raise agent_cannot_decide("the request came with a token")
    return caller


def _require_user(caller: Caller, tenant: str | None) -> PersonCaller:
    """Return the caller as a person who is a user of this tenant. Refuses other callers."""
    if isinstance(caller, PersonCaller) and caller.user is not None and caller.tenant == (tenant or caller.tenant):
        return caller
    raise RefusedError(
        Reason.PERMISSION_DENIED,
        "only the user who asked can confirm it",
        where=f"tenant {tenant}" if tenant else "the caller",
        next_step="The user has to log in. An admin can invite the user: remit people invite NAME --user U --tenant T",
    )


def _require_tenant(tenant: str | None) -> str:
    if tenant is None:
        raise _malformed_error(
            "a goal needs its tenant besides its id", "tenant", "Give the tenant that the inbox shows."
        )
    return tenant


def _require_full_id(name: str) -> str:
    """Refuse an id that is not whole. The services accept the beginning of an id, but ids here come from links."""
    if not _UUID.fullmatch(name):
        raise RefusedError(
            Reason.STATE_MISSING,
            "there is no such approval request",
            where=f"approval request {name}",
            next_step="The inbox lists all requests with their ids.",
        )
    return name


def _malformed_error(what: str, where: str, next_step: str) -> RefusedError:
    return RefusedError(Reason.MALFORMED, what, where=where, next_step=next_step)


def view_request(approval: Approval) -> RequestAsked:
    preview = approval.preview
    tree: dict[str, Any] = dict.fromkeys(("method", "url", "way_back"))
    tree |= {"headers": {}, "body": {}, "masked": {}, "arguments": {}}
    if isinstance(preview, HTTPPreview):
        tree |= {"method": preview.method, "url": preview.url, "headers": preview.headers}
        tree |= {"body": preview.body.preview, "masked": preview.body.masked}
    else:
        tree |= {"arguments": preview.arguments, "way_back": preview.way_back}
    return RequestAsked(
        headline=preview.headline,
        effect=preview.estimated_effect,
        action_id=approval.action_id,
        token_jti=approval.token_jti,
        request_digest=approval.request_digest,
        has_picture=approval.screenshot is not None,
        **tree,
    )


def read_risk(approval: Approval) -> str | None:
    """Return the risk of a call. A browser request has no risk level: its effect is described in words."""
    return None if isinstance(approval.preview, HTTPPreview) else approval.preview.risk


def view_goal(goal: WaitingGoal, prompt: str | None = None, prompt_language: str | None = None) -> GoalAsked:
    return GoalAsked(
        user_id=goal.user_id,
        language_tag=goal.language_tag,
        utterance=goal.utterance[:10_000],
        simulation_id=goal.simulation_id,
        title=goal.title[:1_000],
        version=goal.version,
        impact=goal.impact,
        risk=goal.risk,
        fields=dict(goal.fields),
        policies=tuple(each[:1_000] for each in goal.policies),
        policy_reasons=dict(goal.policy_reasons),
        problem=goal.problem or None,
        prompt=prompt,
        step=goal.step or None,
        place=goal.place or None,
        prompt_language=prompt_language,
    )
