"""`remit migrate`."""

from contextlib import closing
from pathlib import Path

import click

from remit.cli.common.options import json_option, show_json, workspace_option
from remit.ledger.presence import require_entries_table
from remit.store.grants import grant_runtime_role
from remit.store.migrations_runner import migrate as migrate_store
from remit.workspace.workspace import Workspace


@click.command()
@click.option(
    "--grant-to",
    "role",
    metavar="ROLE",
    help="PostgreSQL: grant this role what a running Remit needs, and revoke everything else in the schema. It can read"
    " and add rows. It can update claims, approval requests, proposals and previews, within their triggers, and"
    " rewrite agent_execution_current. It cannot change or remove entries of the ledger.",
)
@workspace_option
@json_option
def migrate(role: str | None, directory: Path, as_json: bool) -> None:
    """Bring the store's tables up to date.

    Only this command changes the tables. After an update of Remit, other commands refuse to work until it has run.
    """
    with Workspace.open(directory) as workspace:
        with workspace.store.reading() as connection:
            require_entries_table(connection, workspace.anchors)
        applied = migrate_store(workspace.store, workspace.clock)
        if role is not None:
            with closing(workspace.store.connect()) as connection:
                grant_runtime_role(connection, role)
    if as_json:
        show_json({"applied": applied, "granted_to": role})
        return
    click.echo(f"Applied: {', '.join(applied)}" if applied else "Already up to date.")
    if role is not None:
        click.echo(f"Role {role} can run Remit, and cannot change or remove entries of the ledger.")
