"""Whose user somebody is, where nobody said: the only tenant there is, or the one called `default`."""

from typing import Final

from remit.core.errors import Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT
from remit.workspace.workspace import Workspace

MAX_NAMED: Final = 5


def choose_tenant(workspace: Workspace, requested: str | None, where: str = "tenant") -> str:
    """For something new. `where` is what the caller names it with."""
    if requested is not None:
        return requested
    tenants = sorted(workspace.config.tenants)
    if len(tenants) == 1:
        return tenants[0]
    if DEFAULT_TENANT in tenants:
        return DEFAULT_TENANT
    raise RefusedError(
        Reason.MALFORMED,
        "there are several tenants" if tenants else "remit.yaml names no tenant, so nobody can ask for anything",
        where=where,
        next_step=f"Give {where}, one of: {list_some(tenants)}"
        if tenants
        else "Name one: tenants: {acme: {users: [mia]}}",
    )


def tenant_of_user(workspace: Workspace, user: str | None, tenant: str | None, option: str = "") -> str | None:
    """The tenant that goes with a user; None where no user is named. `option` is written before a field's name."""
    if user is not None:
        return choose_tenant(workspace, tenant, f"{option}tenant")
    if tenant is not None:
        raise RefusedError(
            Reason.MALFORMED,
            "a tenant is named, and no user of it",
            where=f"{option}user",
            next_step=f"Give {option}user as well, or leave {option}tenant away.",
        )
    return None


def list_some(names: list[str]) -> str:
    return ", ".join(names[:MAX_NAMED]) + (f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else "")
