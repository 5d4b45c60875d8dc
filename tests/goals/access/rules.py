"""Policies and questions for the tests of access."""

from typing import Any, Final

from remit.goals.access.policy import AccessPolicy, AccessQuestion, build_access_policy

TENANTS: Final = {"acme": ("ann", "bob"), "other": ("ann",)}
ACTIONS: Final = ("look", "refund")

POLICIES: Final = """
// Everybody at acme may look.
@id("acme-looks") @description("reading harms nobody")
permit(principal in Tenant::"acme", action == Action::"look", resource);

@id("ann-refunds")
permit(principal == User::"acme/ann", action == Action::"refund", resource);

@id("large-refunds") @verdict("approval_required")
permit(principal in Tenant::"acme", action == Action::"refund", resource)
when { context.amounts.hasTag("amount") && context.amounts.getTag("amount").value.greaterThan(decimal("100.00")) };

@id("nothing-critical")
forbid(principal, action, resource) when { context.risk == Risk::"CRITICAL" };
"""

ALL: Final = '@id("all") permit(principal, action, resource);'


def access(text: str = POLICIES, **more: Any) -> AccessPolicy:
    given: dict[str, Any] = {"files": {"access.cedar": text}, "tenants": TENANTS, "actions": ACTIONS, **more}
    return build_access_policy(**given)


def question(**parts: Any) -> AccessQuestion:
    given: dict[str, Any] = {
        "tenant_id": "acme",
        "user_id": "ann",
        "access_action": "look",
        "simulation_id": "s1",
        "impact": "side_effecting",
        "risk": "LOW",
        "language": "en",
        "fields": {},
        **parts,
    }
    return AccessQuestion(**given)


def euros(value: str) -> dict[str, Any]:
    return {"amount": {"value": value, "currency": "EUR"}}
