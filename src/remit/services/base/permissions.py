"""What each caller may ask for: one table, for every way in. Whatever is not in it is refused.

A person has it by role, an agent by a capability of its token; where that is none, no token gives it, whatever it says.
That something may be asked for does not say that it happens: the road decides that, by its own authority.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from remit.contracts.browser.capabilities import ServiceCapability
from remit.core.errors import Reason, RefusedError
from remit.identity.callers import AgentCaller, Caller
from remit.identity.models import Role


class Right(StrEnum):
    SEE = "see"
    SEE_OWN = "see_own"
    PREVIEW = "preview"
    LOOK = "look"
    PROPOSE = "propose"
    DECIDE = "decide"
    CANCEL = "cancel"
    APPLY = "apply"
    UNDO = "undo"
    LEASE = "lease"
    RUN_TASK = "run_task"
    BROWSE = "browse"
    ASK = "ask"
    CONFIRM = "confirm"
    ISSUE_TOKEN = "issue_token"  # noqa: S105 - the name of a right
    REVOKE_TOKEN = "revoke_token"  # noqa: S105 - as above
    CHANGE_CATALOGUE = "change_catalogue"
    INVITE = "invite"


class Permission(NamedTuple):
    """Who has a right, and what for, in words that a refusal can use."""

    roles: frozenset[Role]
    capability: ServiceCapability | None
    to: str
    any_token: bool = False
    """Every agent has it, for what is its own."""


_ALL: Final[frozenset[Role]] = frozenset({"viewer", "approver", "operator", "admin"})
_DECIDING: Final[frozenset[Role]] = frozenset({"approver", "admin"})
_OPERATING: Final[frozenset[Role]] = frozenset({"operator", "admin"})
_ADMIN: Final[frozenset[Role]] = frozenset({"admin"})

RULES: Final[dict[Right, Permission]] = {
    Right.SEE: Permission(_ALL, None, "see what others did"),
    Right.SEE_OWN: Permission(_ALL, None, "see what became of what it asked for", any_token=True),
    Right.PREVIEW: Permission(_OPERATING, "plan.propose", "see what a plan would do"),
    Right.LOOK: Permission(_ALL, "plan.propose", "see what a proposed plan would do"),
    Right.PROPOSE: Permission(_OPERATING, "plan.propose", "propose a plan"),
    Right.DECIDE: Permission(_DECIDING, None, "approve or deny"),
    # To stop something is on the safe side: whoever could have said no may still do so, until it is done.
    Right.CANCEL: Permission(_DECIDING | _OPERATING, "plan.propose", "withdraw or stop a plan"),
    Right.APPLY: Permission(_OPERATING, "plan.apply", "apply an approved plan"),
    Right.UNDO: Permission(_OPERATING, "plan.undo", "take a plan back"),
    Right.LEASE: Permission(_ADMIN, None, "have a lease signed"),
    Right.RUN_TASK: Permission(_OPERATING, "task.run", "run a leased task"),
    # The road itself asks for the capability of each action; any of them lets an agent up to it.
    Right.BROWSE: Permission(frozenset(), None, "use the browser", any_token=True),
    Right.ASK: Permission(_OPERATING, "goal.ask", "ask for something at the goal door"),
    # A user's own yes to his own goal. The goal door looks whose it is.
    Right.CONFIRM: Permission(_ALL, None, "answer what a goal asked"),
    Right.ISSUE_TOKEN: Permission(_ADMIN, None, "issue tokens"),
    Right.REVOKE_TOKEN: Permission(_ADMIN, None, "revoke tokens"),
    Right.CHANGE_CATALOGUE: Permission(_ADMIN, None, "promote and retire simulations"),
    Right.INVITE: Permission(_ADMIN, None, "invite people and end their sessions"),
}


def has_right(caller: Caller, right: Right) -> bool:
    rule = RULES[right]
    if isinstance(caller, AgentCaller):
        return rule.any_token or (rule.capability is not None and rule.capability in caller.token.caps)
    return caller.role in rule.roles


def require(caller: Caller, right: Right) -> None:
    """Refuses, and says who could."""
    if has_right(caller, right):
        return
    rule = RULES[right]
    if isinstance(caller, AgentCaller):
        if rule.capability is not None:
            raise RefusedError(
                Reason.CAPABILITY_MISSING,
                f"this token does not let its agent {rule.to}",
                where=f"capability {rule.capability}",
                next_step=f"Have one issued that does: remit token issue --cap {rule.capability}",
            )
        raise RefusedError(
            Reason.PERMISSION_DENIED,
            f"to {rule.to} is for a person, and an agent cannot do it",
            where=f"right {right}",
            next_step="Let a person do it, in the console or at a terminal.",
        )
    able = ", ".join(role for role in sorted(rule.roles)) or "nobody but an agent with a token"
    raise RefusedError(
        Reason.PERMISSION_DENIED,
        f"the role {caller.role} cannot {rule.to}",
        where=f"right {right}",
        next_step=f"Who can: {able}. An admin invites people: remit people invite NAME --role ROLE",
    )
