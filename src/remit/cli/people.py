"""`remit people`."""

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from remit.cli.common.bidi import display_name
from remit.cli.common.options import json_option, show_json, show_table, workspace_option
from remit.cli.token import Life, echo_unlisted_user
from remit.core.ids import render_time
from remit.identity.models import ROLES, Role
from remit.identity.person import person_at_terminal
from remit.services.base.server_lock import find_server
from remit.services.base.tenants import tenant_of_user
from remit.workspace.workspace import Workspace

if TYPE_CHECKING:
    from remit.identity.models import Listed


@click.group()
def people() -> None:
    """Invite people to the console, list them, and remove them.

    A viewer can see everything, in all tenants. An approver can also approve and deny. An operator can also propose,
    apply and roll back plans, run tasks and ask for goals, but not approve. Both can withdraw and stop plans. An admin
    can do all of this, issue tokens and leases, promote simulations, and invite people.
    """


@people.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), default="viewer", show_default=True, help="The role of the person.")
@click.option("--user", help="The user of goals that this person is.")
@click.option("--tenant", help="The tenant of that user. Not necessary if there is only one.")
@click.option(
    "--life", type=Life(), default="15m", show_default=True, help="How long the link is valid, such as 15m, 8h or 1d."
)
@workspace_option
@json_option
def invite(
    name: str, role: Role, user: str | None, tenant: str | None, life: timedelta, directory: Path, as_json: bool
) -> None:
    """Print a link with which NAME can log in once.

    The first person who opens the link is logged in as NAME, so send it only to NAME. If the role is not the same as
    before, all sessions of NAME end at once. If you invite NAME again without --user, the user stays the same.
    """
    with Workspace.open(directory) as workspace:
        actor = person_at_terminal(workspace.environ)
        tenant = tenant_of_user(workspace, user, tenant, "--")
        made = workspace.people.invite(name, role, actor=actor.id, user=user, tenant=tenant, life=life)
        echo_unlisted_user(workspace, user, tenant)
        served = find_server(workspace.state)
    server = served.url if served else None
    invitation: dict[str, str | None] = {
        "person": made.person_id,
        "role": made.role,
        "expires_at": render_time(made.expires_at),
    }
    invitation |= {"user": made.user, "tenant": made.tenant} if made.user else {}
    if as_json:
        show_json({**invitation, "link": f"{server}{made.path}" if server else None, "path": made.path})
        return
    if server is None:
        click.echo("note: no server is running (remit serve); put its address before this path", err=True)
    until = f"{made.expires_at:%Y-%m-%d %H:%M} UTC"
    who = f", the user {display_name(made.user)} of {display_name(made.tenant or '')}" if made.user else ""
    click.echo(
        f"For {display_name(made.person_id)}, as {made.role}{who}; the link works once, until {until}:", err=True
    )
    click.echo(f"{server or ''}{made.path}")


@people.command("list")
@workspace_option
@json_option
def list_people(directory: Path, as_json: bool) -> None:
    """List the people who were invited or have logged in, with their roles."""
    with Workspace.open(directory) as workspace:
        found = workspace.people.listed()
    if as_json:
        show_json([asdict(one) for one in found])
    elif found:
        rows = [
            (one.id, one.role, _describe_user(one), one.sessions, one.open_links, _time(one.last_login))
            for one in found
        ]
        show_table(("person", "role", "asks for", "sessions", "open links", "last login"), rows)
    else:
        click.echo("There are no people yet. Invite a person: remit people invite NAME --role viewer")


@people.command()
@click.argument("name")
@workspace_option
@json_option
def remove(name: str, directory: Path, as_json: bool) -> None:
    """Remove NAME: end all sessions and links at once.

    The ledger keeps every entry about this person.
    """
    with Workspace.open(directory) as workspace:
        actor = person_at_terminal(workspace.environ)
        person_id = workspace.people.remove(name, actor=actor.id)
    if as_json:
        show_json({"person": person_id, "state": "removed"})
    else:
        click.echo(f"{person_id} is removed")
    if person_id.startswith("oidc:"):
        click.echo("note: the identity provider still has this person, so the person can log in again", err=True)


def _describe_user(one: "Listed") -> str:
    return f"{one.user} of {one.tenant}" if one.user else ""


def _time(text: str | None) -> str:
    return f"{text[:19]}Z" if text else "never"
