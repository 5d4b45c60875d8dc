"""The tenant of a command: from `--tenant`, or the only tenant that is possible."""

from typing import Final

import click

from remit.core.errors import Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT
from remit.ledger.goal_queries import tenants_with
from remit.services.base.tenants import choose_tenant as _choose
from remit.services.base.tenants import list_some
from remit.workspace.workspace import Workspace

tenant_option: Final = click.option(
    "--tenant", "tenant_id", help="The tenant. Not necessary if remit.yaml has only one, or one named default."
)
goals_tenant_option: Final = click.option(
    "--tenant", "tenant_id", help="The tenant of the goal. Not necessary if only one tenant has this goal."
)


def choose_tenant(workspace: Workspace, requested: str | None) -> str:
    """Return the tenant for something new: the requested one, the only one, or the one named `default`."""
    return _choose(workspace, requested, "--tenant")


def tenant_of_goal(workspace: Workspace, requested: str | None, correlation_id: str) -> str:
    """Return the tenant of an existing goal. A tenant that remit.yaml no longer has must be requested by name."""
    return find_tenant(workspace, requested, correlation_id) or _not_found_error(correlation_id)


def find_tenant(workspace: Workspace, requested: str | None, correlation_id: str) -> str | None:
    """Return the tenant that has this goal, or None. A requested tenant is returned without a check."""
    if requested is not None:
        return requested
    with workspace.store.reading() as connection:
        found = tenants_with(connection, {*workspace.config.tenants, DEFAULT_TENANT}, correlation_id)
    if len(found) > 1:
        raise RefusedError(
            Reason.MALFORMED,
            "several tenants have a goal with this correlation id",
            where=f"correlation {correlation_id}",
            next_step=f"Name the tenant: --tenant with one of {list_some(found)}",
        )
    return found[0] if found else None


def _not_found_error(correlation_id: str) -> str:
    raise RefusedError(
        Reason.STATE_MISSING,
        "there is no goal with this correlation id",
        where=f"correlation {correlation_id}",
        next_step="`remit ask` printed the id of the goal. To list the entries: remit ledger show --tenant TENANT",
    )
