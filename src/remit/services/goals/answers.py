"""Answers to callers of the goal service: the state of a goal, what it waits for, and the next steps."""

import shlex
from typing import Final, NamedTuple

from remit.contracts.services.common import GoalAnswer, QuestionKind, Waiting, WaitingFor
from remit.contracts.services.goal_preview import GoalPreview
from remit.core.errors import Reason, RefusedError
from remit.goals.gates import ANSWER_LIFE, APPROVAL_LIFE
from remit.goals.service import Reply
from remit.goals.status import GoalStatus, read_goal_status
from remit.identity.callers import AgentCaller, Caller
from remit.services.base.context import ServiceContext
from remit.services.goals.agent_outcomes import reply_for_agent
from remit.services.goals.approvals import expires_at
from remit.services.goals.hints import build_hints, explain_gate
from remit.services.goals.previews import read_preview
from remit.services.goals.states import can_undo, state_of, waiting_for
from remit.services.goals.steps import read_steps

_ABANDONED_EVENTS: Final = frozenset({"", "ACCESS_ALLOWED"})
"""Events of a goal that was allowed and not started. If no process works on it, its process died before the start."""
_RESUME_STEPS: Final = (
    "The goal was allowed, but its process ended before the action started.",
    "Continue the goal, or send the same request with the same id. Nothing is done twice.",
)


class User(NamedTuple):
    user: str
    tenant: str


class GoalAnswers:
    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def build_answer(self, caller: Caller, reply: Reply) -> GoalAnswer:
        is_agent = isinstance(caller, AgentCaller)
        reply = reply_for_agent(self._context.workspace, reply) if is_agent else reply
        goal, outcome = reply.goal, reply.outcome
        now = self.read_status(goal.tenant_id, goal.correlation_id)
        event = now.event if now is not None else ""
        waits = waiting_for(outcome, event)
        is_refused = outcome.step_id is None
        is_under_way = event == "DISPATCHED" or (event == "STARTED" and not is_refused)
        is_abandoned = now is not None and event in _ABANDONED_EVENTS
        return GoalAnswer(
            state="running" if is_under_way else "waiting" if is_abandoned else state_of(outcome, event),
            tenant_id=goal.tenant_id,
            correlation_id=goal.correlation_id,
            user_id=goal.user_id,
            event=event,
            text=outcome.user_visible_text,
            text_language=outcome.text_language,
            outcome=outcome,
            waiting_for=waits,
            waiting=self._build_waiting(reply, now, waits),
            why=self._explain(caller, reply)[:10_000] or None,
            can_take_back=now is not None and can_undo(goal, now),
            next=_RESUME_STEPS if is_abandoned else _next_steps(waits, is_under_way=is_under_way),
            steps=read_steps(self._context.workspace, reply, for_agent=is_agent),
            preview=self._read_preview(caller, reply, now, waits),
        )

    def _read_preview(
        self, caller: Caller, reply: Reply, now: GoalStatus | None, waits: WaitingFor | None
    ) -> GoalPreview | None:
        if now is None or waits not in {"confirmation", "approval"}:
            return None
        goal = reply.goal
        return read_preview(self._context.workspace, caller, goal.tenant_id, goal.correlation_id, now.step_id)

    def _build_waiting(self, reply: Reply, now: GoalStatus | None, waits: WaitingFor | None) -> Waiting | None:
        if now is None or waits not in {"confirmation", "approval"}:
            return None
        goal = reply.goal
        kind: QuestionKind = "confirmation" if waits == "confirmation" else "goal"
        life = ANSWER_LIFE if waits == "confirmation" else APPROVAL_LIFE
        return Waiting(
            kind=kind,
            id=goal.correlation_id,
            tenant=goal.tenant_id,
            what=reply.outcome.user_visible_text,
            expires=expires_at(now.at, life),
            link=self._context.link("inbox", kind, goal.tenant_id, goal.correlation_id),
            step=now.waiting_step,
        )

    def _explain(self, caller: Caller, reply: Reply) -> str:
        """Return the gate's reason for an agent. People get more details, because they may read the ledger anyway."""
        if not isinstance(caller, AgentCaller):
            return build_hints(self._context.workspace, reply, None).why
        return explain_gate(self._context.workspace, reply).why

    def read_recovered_status(self, tenant: str, correlation_id: str) -> GoalStatus | None:
        """Read the status of a goal. If its process died after the dispatch, the goal is recovered first."""
        now = self.read_status(tenant, correlation_id)
        if now is None or not now.dispatch_key:
            return now
        self._context.find_claim("simulation", now.dispatch_key, tenant)
        return self.read_status(tenant, correlation_id)

    def read_status(self, tenant: str, correlation_id: str) -> GoalStatus | None:
        workspace = self._context.workspace
        with workspace.store.reading() as connection:
            return read_goal_status(connection, lambda: workspace.keyring, tenant, correlation_id)


def find_user(caller: Caller) -> User:
    """Return the user for whom a caller requests goals.

    Raises:
        RefusedError: The token or the person has no user.
    """
    if isinstance(caller, AgentCaller):
        limits = caller.token.constraints
        if limits.user is not None and limits.tenant is not None:
            return User(limits.user, limits.tenant)
        raise RefusedError(
            Reason.CONSTRAINT_VIOLATED,
            "this token names no user for whom its agent may ask",
            where="constraints.user",
            next_step="Have a token with a user issued: remit token issue"
            f" --sub {shlex.quote(caller.token.agent_id)} --cap goal.ask --user USER --tenant TENANT",
        )
    if caller.user is not None and caller.tenant is not None:
        return User(caller.user, caller.tenant)
    raise RefusedError(
        Reason.PERMISSION_DENIED,
        "this person is not a user of any tenant, so they cannot request a goal",
        where="the caller",
        next_step="An admin can invite the person as a user: remit people invite NAME --user USER --tenant TENANT",
    )


def build_running_answer(tenant: str, correlation_id: str, now: GoalStatus | None, user: str = "") -> GoalAnswer:
    return GoalAnswer(
        state="running",
        tenant_id=tenant,
        correlation_id=correlation_id,
        user_id=now.user_id if now is not None else user or "unknown",
        event=now.event if now is not None else "",
        text="",
        next=_next_steps(None, is_under_way=True),
    )


def _next_steps(waits: WaitingFor | None, *, is_under_way: bool) -> tuple[str, ...]:
    if is_under_way:
        return ("Read the goal by its id in a moment. If its state does not change: remit recover",)
    match waits:
        case "confirmation":
            return ("The user has to answer in the inbox; no other person can. Then read the goal by its id.",)
        case "approval":
            return (
                "Another person has to approve it in the inbox.",
                "Then continue the goal, or send the same request with the same id.",
            )
        case "clarification":
            return ("Ask again with the answer, and this id as reply_to.",)
    return ()
