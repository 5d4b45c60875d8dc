"""The rules that say which constraint of a token works with which capability. Pure.

A constraint that no check enforces is worse than none, because a person reads it and relies on it. So a token is
refused, when it is issued and again when it is used, in two cases: if no check enforces one of its constraints, or if
it also has a capability that could do the limited action without a check.
"""

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from remit.contracts.browser.capabilities import BROWSER_CAPABILITIES, CALL, SERVICE_CAPABILITIES

READ: Final = "plan.read"
_CAN_SEND: Final = ("browser.click", "browser.type", "browser.submit", "browser.purchase")


class ConstraintRule(NamedTuple):
    """One constraint, with the capabilities that it works with and those that would bypass it.

    `works_with` has the capabilities for which a check enforces the constraint. A token with the constraint needs one
    of them. `not_beside` has capabilities, or prefixes of them, that could do the same thing without a check. A token
    with the constraint must have none of them. The constraint does not concern any other capability.
    """

    constraint: str
    says: str
    works_with: tuple[str, ...]
    not_beside: tuple[str, ...]


CONSTRAINT_RULES: Final = (
    ConstraintRule("domains", "which hosts the browser may reach", BROWSER_CAPABILITIES, ("goal.ask",)),
    ConstraintRule("max_purchase", "which price a request of the browser may name", _CAN_SEND, ("goal.ask", CALL)),
    ConstraintRule(
        "max_actions",
        "how many actions in the browser there may be",
        BROWSER_CAPABILITIES,
        (*SERVICE_CAPABILITIES, CALL),
    ),
    ConstraintRule("user", "for whom the agent asks for goals", ("goal.ask",), ()),
    ConstraintRule("tenant", "for whom the agent asks for goals", ("goal.ask",), ()),
    ConstraintRule("paths", "which files previews show to the agent", (READ,), ()),
    ConstraintRule("connections", "of which connections previews show rows to the agent", (READ,), ()),
)


class UncheckedConstraint(NamedTuple):
    """A constraint that a person cannot rely on: its name, the reason, and the next step."""

    constraint: str
    why: str
    next_step: str


def unchecked_constraints(caps: Collection[str], constraints: Collection[str]) -> Iterator[UncheckedConstraint]:
    """Yield the constraints of a token that no check enforces with its capabilities."""
    known = {rule.constraint: rule for rule in CONSTRAINT_RULES}
    for name in constraints:
        rule = known.get(name)
        if rule is None:
            yield UncheckedConstraint(name, f"nothing checks {name}", f"Leave {name} out.")
            continue
        works_with = ", ".join(rule.works_with)
        what = f"{name} says {rule.says} and works with {works_with}"
        passing = [cap for cap in caps if cap.startswith(rule.not_beside)]
        if not set(rule.works_with) & set(caps):
            yield UncheckedConstraint(
                name,
                f"{what}: nothing checks it for {', '.join(caps)}",
                f"Leave {name} out, or name such a capability.",
            )
        elif passing:
            yield UncheckedConstraint(
                name,
                f"{what}: nothing checks it for {', '.join(passing)}",
                f"Issue two tokens: one with {name}, and one for {', '.join(passing)} without it.",
            )
