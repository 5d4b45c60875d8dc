"""The requester of a goal at the command line.

A person asks for a user whom they name, and an agent for the user that its token names. The goal of an agent belongs to
that agent, as over HTTP and MCP. The agent finds its own goals there, and no goals of others.
"""

from collections.abc import Callable
from dataclasses import dataclass

from remit.cli.common.identity import TOKEN_VARIABLE, as_admin, authenticate_agent
from remit.contracts.services.goal_preview import GoalPreview
from remit.contracts.services.goal_steps import GoalSteps
from remit.core.errors import Reason, RefusedError
from remit.core.ids import uuid7
from remit.goals.recording import TransactionHook, no_op_hook
from remit.goals.service import Reply
from remit.identity.callers import AgentCaller
from remit.identity.person import AGENT_VARIABLES, person_at_terminal
from remit.services.base.permissions import Right, require
from remit.services.goals.actor_check import ActorCheck
from remit.services.goals.agent_outcomes import reply_for_agent
from remit.services.goals.answers import User, find_user
from remit.services.goals.hints import Hints, build_hints, explain_gate
from remit.services.goals.ownership import OwnedGoals
from remit.services.goals.previews import compute_preview, read_preview
from remit.services.goals.steps import read_steps
from remit.workspace.workspace import Workspace


def resolve_goal_requester(workspace: Workspace, user_id: str | None, tenant_id: str | None) -> "GoalRequester":
    """Return the requester of a goal. An agent asks only for the user that its token names."""
    if not workspace.environ.get(TOKEN_VARIABLE):
        return GoalRequester(workspace, user_id, tenant_id)
    agent = authenticate_agent(workspace, None)
    require(agent, Right.ASK)
    named = find_user(agent)
    if (user_id or named.user, tenant_id or named.tenant) != (named.user, named.tenant):
        raise RefusedError(
            Reason.CONSTRAINT_VIOLATED,
            "this token lets its agent ask for a different user only",
            where="--user, --tenant",
            next_step="Leave them away: the token says for whom.",
        )
    return GoalRequester(workspace, named.user, named.tenant, agent)


@dataclass(frozen=True)
class GoalRequester:
    """The requester of goals. `user` and `tenant` come from the command or from the token."""

    workspace: Workspace
    user: str | None
    tenant: str | None
    agent: AgentCaller | None = None

    def ask(
        self,
        text: str,
        as_user: User,
        language: str,
        *,
        correlation_id: str | None = None,
        reply_to: str | None = None,
    ) -> Reply:
        """Ask for a new goal, or for the same goal again under its id."""

        def ask(goal_id: str, hook: TransactionHook) -> Reply:
            user, tenant = as_user
            return self.workspace.goals.ask(
                text, user=user, tenant=tenant, language=language, correlation_id=goal_id, reply_to=reply_to, hook=hook
            )

        return self._start_goal(as_user, correlation_id, reply_to, ask)

    def undo(self, original: str, as_user: User, language: str, *, correlation_id: str | None) -> Reply:
        """Undo a goal by a new goal."""

        def undo(goal_id: str, hook: TransactionHook) -> Reply:
            user, tenant = as_user
            return self.workspace.goals.rollback(
                original, user=user, tenant=tenant, language=language, correlation_id=goal_id, hook=hook
            )

        return self._start_goal(as_user, correlation_id, original, undo)

    def answer(self, correlation_id: str, answer: str | None, as_user: User, step: str | None = None) -> Reply:
        """Answer a goal that waits, and continue it. `step` is the step that the answer is for."""
        if self.agent is not None:
            OwnedGoals(self.workspace).require(self.agent, as_user, correlation_id)

        def resume(hook: TransactionHook) -> Reply:
            user, tenant = as_user
            return self.workspace.goals.answer(correlation_id, answer, user=user, tenant=tenant, step=step, hook=hook)

        return self._run_checked(as_user.tenant, correlation_id, resume)

    def preview(self, reply: Reply, step_id: str) -> GoalPreview | None:
        """Return what the action that waits would do. None for an agent, and if no preview is stored."""
        if self._is_agent:
            return None
        goal, person = reply.goal, as_admin(person_at_terminal(self.workspace.environ))
        return read_preview(self.workspace, person, goal.tenant_id, goal.correlation_id, step_id)

    def steps(self, reply: Reply) -> GoalSteps | None:
        """Return the steps of a goal, as the requester may see them. None for a goal with a single step."""
        return read_steps(self.workspace, reply, for_agent=self._is_agent)

    @property
    def _is_agent(self) -> bool:
        return self.agent is not None or any(self.workspace.environ.get(variable) for variable in AGENT_VARIABLES)

    def hints(self, reply: Reply, answered_field: str | None) -> Hints:
        """Return the hints for the requester. Those for people quote errors, which depend on files and rows."""
        if not self._is_agent or reply.outcome.reason_code in {"CLARIFY_REQUIRED", "SIMULATION_MISSING"}:
            return build_hints(self.workspace, reply, answered_field)
        gate = explain_gate(self.workspace, reply)
        return Hints(gate.why, gate.rules)

    def _start_goal(
        self,
        as_user: User,
        correlation_id: str | None,
        earlier: str | None,
        run: Callable[[str, TransactionHook], Reply],
    ) -> Reply:
        """Start a goal. `earlier` is the goal that it replies to or undoes."""
        correlation = correlation_id or uuid7(self.workspace.clock())
        if self.agent is not None:
            owned_goals = OwnedGoals(self.workspace)
            if earlier is not None:
                owned_goals.require(self.agent, as_user, earlier)
            owned_goals.require_new(self.agent, as_user.tenant, correlation)
        return self._run_checked(as_user.tenant, correlation, lambda hook: run(correlation, hook))

    def _hook_of_person(self, tenant: str, correlation_id: str) -> TransactionHook:
        """Return the hook that records the person. An agent without a token records nothing."""
        if any(self.workspace.environ.get(variable) for variable in AGENT_VARIABLES):
            return no_op_hook
        person = as_admin(person_at_terminal(self.workspace.environ))
        return ActorCheck(person, tenant, correlation_id)

    def _run_checked(self, tenant: str, correlation_id: str, run: Callable[[TransactionHook], Reply]) -> Reply:
        """Run a goal. The first decision records who asked: the agent, or the person at the terminal.

        After the token of an agent is revoked, there is no further decision.
        """
        if self.agent is None:
            reply = run(self._hook_of_person(tenant, correlation_id))
        else:
            actor_check = ActorCheck(self.agent, tenant, correlation_id)
            reply = actor_check.check_reply(run(actor_check))
            OwnedGoals(self.workspace).require_free(
                self.agent, tenant, correlation_id
            )  # of two agents at once, one gets the goal
        self.workspace.approvals.change_signal.notify()  # the goal may now wait for an approver
        if self._is_agent:
            return reply_for_agent(self.workspace, reply)
        compute_preview(self.workspace, reply)
        return reply
