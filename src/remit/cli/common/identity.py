"""The caller at the command line: an agent with its capability token, or the person at the terminal.

With `remit ask`, a person asks for a user whom they name, and an agent for the user that its token names. The goal of
an agent belongs to that agent, as over HTTP and MCP. The agent finds its own goals there, and no goals of others.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from remit.core.errors import Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT, uuid7
from remit.goals.core import TransactionHook, no_op_hook
from remit.goals.service import Reply
from remit.identity.callers import AgentCaller
from remit.identity.person import AGENT_VARIABLES, person_at_terminal
from remit.ledger.clock import require_valid_when_signed
from remit.services.base.permissions import Right, require
from remit.services.goals.actor_check import ActorCheck
from remit.services.goals.answers import User, find_user
from remit.services.goals.ownership import OwnedGoals
from remit.workspace.workspace import Workspace

if TYPE_CHECKING:
    from remit.identity.callers import AgentCaller, Caller

TOKEN_VARIABLE: Final = "REMIT_TOKEN"  # noqa: S105 - the name of a variable
_MAX_TOKEN_LENGTH: Final = 20_000

token_option: Final = click.option(
    "--token",
    metavar="FILE",
    help=f"The file with the capability token, or the token itself. Default: the variable {TOKEN_VARIABLE}.",
)


def resolve_caller(workspace: Workspace, token: str | None, name: str | None = None) -> "Caller":
    """Return the agent of the token if there is one, else the person at the terminal, who has every right."""
    from remit.identity.callers import PersonCaller  # noqa: PLC0415 - most commands need only the option

    if token is None and not workspace.environ.get(TOKEN_VARIABLE):
        return PersonCaller(person_at_terminal(workspace.environ, name), "admin")
    return authenticate_agent(workspace, token)


def require_clock(workspace: Workspace, life: timedelta) -> None:
    """Refuse to sign something that is valid for `life` if the ledger is further ahead of the clock than that."""
    with workspace.store.reading() as connection:
        require_valid_when_signed(connection, DEFAULT_TENANT, workspace.clock(), life)


def is_agent_environment() -> bool:
    """Return whether the environment names an agent. Neither its identity nor its token is checked."""
    return any(os.environ.get(variable) for variable in AGENT_VARIABLES)


def find_agent(workspace: Workspace) -> "AgentCaller | None":
    """Return the agent that the environment names, authenticated by its token, or None for a person.

    An agent without a token is refused.
    """
    if not any(workspace.environ.get(variable) for variable in AGENT_VARIABLES):
        return None
    return authenticate_agent(workspace, None)


def resolve_actor(workspace: Workspace, token: str | None = None) -> str | None:
    """Return the actor for the ledger. None for an agent without a token, where the command needs none."""
    if token is None and not workspace.environ.get(TOKEN_VARIABLE):
        is_agent = any(workspace.environ.get(variable) for variable in AGENT_VARIABLES)
        return None if is_agent else person_at_terminal(workspace.environ).id
    return authenticate_agent(workspace, token).actor


def authenticate_agent(workspace: Workspace, token: str | None) -> "AgentCaller":
    from remit.identity.callers import AgentCaller  # noqa: PLC0415 - as above

    return AgentCaller.by(workspace.tokens, read_token(token))


def read_token(given: str | None) -> str:
    """Return the token from a file, the command line or the environment. A file is best: other users of the machine can
    see a token in a command line.
    """
    text = given or os.environ.get(TOKEN_VARIABLE, "")
    if not text:
        raise RefusedError(
            Reason.AUTHORITY_MALFORMED,
            "no capability token given",
            where="--token",
            next_step="Name the file that holds it: --token FILE, or the variable REMIT_TOKEN. A person issues a token:"
            " remit token issue --sub AGENT --cap CAPABILITY -o FILE",
        )
    if text.count(".") == 2 and text.startswith("ey") and not os.path.exists(text):
        return text.strip()
    try:
        with Path(text).open("rb") as stream:
            return stream.read(_MAX_TOKEN_LENGTH).decode("utf-8", "replace").strip()
    except OSError as problem:
        raise RefusedError(
            Reason.AUTHORITY_MALFORMED,
            f"the token file cannot be read: {problem.strerror}",
            where="--token" if text.startswith("ey") else text,  # a part of a token is a secret too
            next_step="Name the file that `remit token issue -o FILE` wrote.",
        ) from None


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

    def answer(self, correlation_id: str, answer: str | None, as_user: User) -> Reply:
        """Answer a goal that waits, and continue it."""
        if self.agent is not None:
            OwnedGoals(self.workspace).require(self.agent, as_user, correlation_id)

        def resume(hook: TransactionHook) -> Reply:
            user, tenant = as_user
            return self.workspace.goals.answer(correlation_id, answer, user=user, tenant=tenant, hook=hook)

        return self._run_checked(as_user.tenant, correlation_id, resume)

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
        from remit.identity.callers import PersonCaller  # noqa: PLC0415 - as above

        person = PersonCaller(person_at_terminal(self.workspace.environ), "admin")
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
        return reply
