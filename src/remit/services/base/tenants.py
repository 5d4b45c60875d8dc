"""The tenant of a user if none is given: the only tenant that exists, or the one called `default`."""

from typing import Final

from remit.core.errors import Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT
from remit.workspace.workspace import Workspace

MAX_NAMED: Final = 5


def choose_tenant(workspace: Workspace, requested: str | None, where: str = "tenant") -> str:
    """Return the requested tenant, or the default one. `where` is the name of the field or option, for messages."""
    if requested is not None:
        return requested
    tenants = sorted(workspace.config.tenants)
    if len(tenants) == 1:
        return tenants[0]
    if DEFAULT_TENANT in tenants:
        return DEFAULT_TENANT
    raise RefusedError(
        Reason.MALFORMED,
        "there are several tenants" if tenants else "remit.yaml names no tenant, and goals need one",
        where=where,
        next_step=f"Give {where}, one of: {list_some(tenants)}"
        if tenants
        else "Add one to remit.yaml, such as `tenants: {acme: {users: [mia]}}`.",
    )


def tenant_of_user(workspace: Workspace, user: str | None, tenant: str | None, option: str = "") -> str | None:
    """Return the tenant of a user, or None if no user is named. Messages put `option` before the name of a field."""
    if user is not None:
        return choose_tenant(workspace, tenant, f"{option}tenant")
    if tenant is not None:
        raise RefusedError(
            Reason.MALFORMED,
            "a tenant is given without a user",
            where=f"{option}user",
            next_step=f"Give {option}user as well, or leave out {option}tenant.",
        )
    return None


def describe_unlisted_user(workspace: Workspace, user: str | None, tenant: str | None) -> str | None:
    """Return a note about a user that the tenant does not list. None if it lists the user, or no user is named."""
    if user is None or tenant is None:
        return None
    found = workspace.config.tenants.get(tenant)
    if found is not None and user in found.users:
        return None
    return f"remit.yaml does not list the user {user} of {tenant} under `tenants`; until then every goal is refused"


def list_some(names: list[str]) -> str:
    return ", ".join(names[:MAX_NAMED]) + (f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else "")
