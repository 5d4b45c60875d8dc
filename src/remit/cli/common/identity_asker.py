"""Who asks with `remit ask`: the person at the terminal, for a user whom he names, or an agent by its token.

What an agent asks for is its own, by the desk's rules and in the desk's record: it finds it again by HTTP and MCP, and
what somebody else asked for is not there.
"""

from collections.abc import Callable
from dataclasses import dataclass

from remit.cli.common.identity_acting_as import TOKEN_VARIABLE, agent_by
from remit.core.errors import Reason, Refused
from remit.core.ids import uuid7
from remit.goals.core import Also, nothing_else
from remit.goals.service import Reply
from remit.identity.callers import AgentCaller
from remit.services.base.permissions import Right, require
from remit.services.goals.actor_check import Witness
from remit.services.goals.answers import User, speaker
from remit.services.goals.ownership import OwnGoals
from remit.workspace.workspace import Workspace


def asker_here(workspace: Workspace, user_id: str | None, tenant_id: str | None) -> "Asker":
    """An agent with a token asks for the user whom that names, and for nobody else."""
    if not workspace.environ.get(TOKEN_VARIABLE):
        return Asker(workspace, user_id, tenant_id)
    agent = agent_by(workspace, None)
    require(agent, Right.ASK)
    named = speaker(agent)
    if (user_id or named.user, tenant_id or named.tenant) != (named.user, named.tenant):
        raise Refused(
            Reason.CONSTRAINT_VIOLATED,
            "this token lets its agent ask for another user only",
            where="--user, --tenant",
            next_step="Leave them away: the token says for whom.",
        )
    return Asker(workspace, named.user, named.tenant, agent)


@dataclass(frozen=True)
class Asker:
    """`user` and `tenant` as they were named, or as the token says."""

    workspace: Workspace
    user: str | None
    tenant: str | None
    agent: AgentCaller | None = None

    def ask(
        self,
        text: str,
        speaker: User,
        language: str,
        *,
        correlation_id: str | None = None,
        reply_to: str | None = None,
    ) -> Reply:
        """A new goal, or the same one again under its id."""

        def ask(own: str, also: Also) -> Reply:
            user, tenant = speaker
            return self.workspace.goals.ask(
                text, user=user, tenant=tenant, language=language, correlation_id=own, reply_to=reply_to, also=also
            )

        return self._new(speaker, correlation_id, reply_to, ask)

    def take_back(self, original: str, speaker: User, language: str, *, correlation_id: str | None) -> Reply:
        """By a goal of its own."""

        def take_back(own: str, also: Also) -> Reply:
            user, tenant = speaker
            return self.workspace.goals.take_back(
                original, user=user, tenant=tenant, language=language, correlation_id=own, also=also
            )

        return self._new(speaker, correlation_id, original, take_back)

    def answer(self, correlation_id: str, answer: str | None, speaker: User) -> Reply:
        """Go on with it."""
        if self.agent is not None:
            OwnGoals(self.workspace).require(self.agent, speaker, correlation_id)

        def go_on(also: Also) -> Reply:
            user, tenant = speaker
            return self.workspace.goals.answer(correlation_id, answer, user=user, tenant=tenant, also=also)

        return self._heard(speaker.tenant, correlation_id, go_on)

    def _new(
        self, speaker: User, correlation_id: str | None, known: str | None, run: Callable[[str, Also], Reply]
    ) -> Reply:
        """`known` is the goal that this one replies to, or takes back."""
        correlation = correlation_id or uuid7(self.workspace.clock())
        if self.agent is not None:
            own = OwnGoals(self.workspace)
            if known is not None:
                own.require(self.agent, speaker, known)
            own.require_new(self.agent, speaker.tenant, correlation)
        return self._heard(speaker.tenant, correlation, lambda also: run(correlation, also))

    def _heard(self, tenant: str, correlation_id: str, run: Callable[[Also], Reply]) -> Reply:
        """For an agent: recorded as its own with the first decision, and none is made once its token is revoked."""
        if self.agent is None:
            reply = run(nothing_else)
        else:
            witness = Witness(self.agent, tenant, correlation_id)
            reply = witness.checked(run(witness))
            OwnGoals(self.workspace).require_free(self.agent, tenant, correlation_id)  # of two at once, it is one's
        self.workspace.approvals.bell.ring()  # a question may wait for somebody now
        return reply
