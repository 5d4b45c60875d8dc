"""`remit migrate`."""

from pathlib import Path

import click

from remit.cli.shown import json_option, show_json, workspace_option
from remit.store.migrate import migrate as migrate_store
from remit.workspace import Workspace


@click.command()
@workspace_option
@json_option
def migrate(directory: Path, as_json: bool) -> None:
    """Bring the store's tables up to date.

    Nothing else in Remit ever changes them: after an update, commands refuse to work until this has run.
    """
    with Workspace.open(directory) as workspace:
        applied = migrate_store(workspace.store, workspace.clock)
    if as_json:
        show_json({"applied": applied})
    elif applied:
        click.echo(f"Applied: {', '.join(applied)}")
    else:
        click.echo("Already up to date.")
