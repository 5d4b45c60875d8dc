"""The rights of callers: one table for every interface. A right that is not in it is refused.

A person has a right by role, and an agent by a capability of its token. If the table names no capability, no token
gives the right, unless every token does. A right only permits the request. Whether the effect happens is decided by the
execution engine, with its own authority.
"""

import shlex
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
    COMPUTE = "compute"
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
    """The roles and the capability that have a right, and its description for refusals."""

    roles: frozenset[Role]
    capability: ServiceCapability | None
    to: str
    any_token: bool = False
    """Every agent has the right, for its own requests."""
    also: ServiceCapability | None = None
    """Another capability that gives the right."""


_ALL: Final[frozenset[Role]] = frozenset({"viewer", "approver", "operator", "admin"})
_DECIDING: Final[frozenset[Role]] = frozenset({"approver", "admin"})
_OPERATING: Final[frozenset[Role]] = frozenset({"operator", "admin"})
_ADMIN: Final[frozenset[Role]] = frozenset({"admin"})

RULES: Final[dict[Right, Permission]] = {
    Right.SEE: Permission(_ALL, None, "see the requests of others"),
    Right.SEE_OWN: Permission(_ALL, None, "see the outcome of its own requests", any_token=True),
    Right.PREVIEW: Permission(_OPERATING, "plan.propose", "preview a plan"),
    Right.LOOK: Permission(_ALL, "plan.propose", "see the preview of a proposed plan", also="plan.read"),
    Right.PROPOSE: Permission(_OPERATING, "plan.propose", "propose a plan"),
    # People may compute any preview. An agent causes the computation of its own proposals only.
    Right.COMPUTE: Permission(_OPERATING, "plan.execute_preview", "compute a preview that runs SQL or pipelines"),
    Right.DECIDE: Permission(_DECIDING, None, "approve or deny"),
    # To stop a plan is safe. So everyone who could have denied it may stop it until it is done.
    Right.CANCEL: Permission(_DECIDING | _OPERATING, "plan.propose", "withdraw or stop a plan"),
    Right.APPLY: Permission(_OPERATING, "plan.apply", "apply an approved plan"),
    Right.UNDO: Permission(_OPERATING, "plan.undo", "roll a plan back"),
    Right.LEASE: Permission(_ADMIN, None, "issue a lease"),
    Right.RUN_TASK: Permission(_OPERATING, "task.run", "run a leased task"),
    # The execution engine checks the capability that each action needs.
    Right.BROWSE: Permission(frozenset(), None, "use the browser", any_token=True),
    Right.ASK: Permission(_OPERATING, "goal.ask", "request a goal"),
    # Users confirm their own goals. The goal service checks whose goal it is.
    Right.CONFIRM: Permission(_ALL, None, "answer the question of a goal"),
    Right.ISSUE_TOKEN: Permission(_ADMIN, None, "issue tokens"),
    Right.REVOKE_TOKEN: Permission(_ADMIN, None, "revoke tokens"),
    Right.CHANGE_CATALOGUE: Permission(_ADMIN, None, "promote and retire simulations"),
    Right.INVITE: Permission(_ADMIN, None, "invite people and end their sessions"),
}


def has_right(caller: Caller, right: Right) -> bool:
    rule = RULES[right]
    if isinstance(caller, AgentCaller):
        return rule.any_token or not {rule.capability, rule.also}.isdisjoint(caller.token.caps)
    return caller.role in rule.roles


def require(caller: Caller, right: Right) -> None:
    """Refuse a caller without the right. The refusal names who has it."""
    if has_right(caller, right):
        return
    rule = RULES[right]
    if isinstance(caller, AgentCaller):
        if rule.capability is not None:
            raise RefusedError(
                Reason.CAPABILITY_MISSING,
                f"this token does not let its agent {rule.to}",
                where=f"capability {rule.capability}",
                next_step="Have a token with this capability issued: remit token issue"
                f" --sub {shlex.quote(caller.token.agent_id)} --cap {rule.capability}",
            )
        raise RefusedError(
            Reason.PERMISSION_DENIED,
            f"an agent cannot {rule.to}; only a person can",
            where=f"right {right}",
            next_step="Ask a person to do it, in the console or at a terminal.",
        )
    able = ", ".join(role for role in sorted(rule.roles)) or "agents with a token"
    raise RefusedError(
        Reason.PERMISSION_DENIED,
        f"the role {caller.role} cannot {rule.to}",
        where=f"right {right}",
        next_step=f"Allowed for: {able}. An admin can invite a person: remit people invite NAME --role ROLE",
    )
