"""What those who wrote the policies want people to read whom one stops: `@reason("...")`. Part of no answer."""

from collections.abc import Collection, Mapping

from remit.contracts.goals.access import AccessSnapshot
from remit.core.errors import render_line
from remit.goals.access.cedar_access_engine import policy_tree
from remit.goals.access.policy_text import split_policies


def policy_reasons(snapshot: AccessSnapshot, policies: Collection[str]) -> Mapping[str, str]:
    """By id, for those of these policies that give one. Nothing else of a policy is ever shown."""
    found: dict[str, str] = {}
    for file in sorted(snapshot.files) if policies else ():
        for statement in split_policies(file, snapshot.files[file]):
            annotations = policy_tree(statement).get("annotations", {})
            name, reason = annotations.get("id"), annotations.get("reason")
            if name in policies and isinstance(reason, str) and reason.strip():
                found[name] = render_line(reason.strip())
    return found
