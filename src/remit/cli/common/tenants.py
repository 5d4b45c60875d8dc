"""Whose goals a command is about: as `--tenant` says, or as there is only one answer."""

from typing import Final

import click

from remit.core.errors import Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT
from remit.ledger.goal_queries import tenants_with
from remit.services.base.tenants import choose_tenant as _choose
from remit.services.base.tenants import list_some
from remit.workspace.workspace import Workspace

tenant_option: Final = click.option(
    "--tenant", "tenant_id", help="For whom; not needed where remit.yaml has one tenant only, or one called default."
)
goals_tenant_option: Final = click.option(
    "--tenant", "tenant_id", help="Whose goal; not needed where only one tenant has a goal of this correlation."
)


def choose_tenant(workspace: Workspace, requested: str | None) -> str:
    """For something new: the one that is named, the only one there is, or the one called `default`."""
    return _choose(workspace, requested, "--tenant")


def tenant_of_goal(workspace: Workspace, requested: str | None, correlation_id: str) -> str:
    """For a goal that there is. A tenant that remit.yaml no longer has must be named."""
    return find_tenant(workspace, requested, correlation_id) or _not_found_error(correlation_id)


def find_tenant(workspace: Workspace, requested: str | None, correlation_id: str) -> str | None:
    """None if nobody has such a goal; as it is given, whether there is one or not."""
    if requested is not None:
        return requested
    with workspace.store.reading() as connection:
        found = tenants_with(connection, {*workspace.config.tenants, DEFAULT_TENANT}, correlation_id)
    if len(found) > 1:
        raise RefusedError(
            Reason.MALFORMED,
            "several tenants have a goal of this correlation",
            where=f"correlation {correlation_id}",
            next_step=f"Name the tenant: --tenant with one of {list_some(found)}",
        )
    return found[0] if found else None


def _not_found_error(correlation_id: str) -> str:
    raise RefusedError(
        Reason.STATE_MISSING,
        "there is no goal of this correlation",
        where=f"correlation {correlation_id}",
        next_step="The command that asked has printed it; `remit ledger show --tenant TENANT` lists what there is.",
    )
