"""`remit init`."""

import os
from pathlib import Path

import click

from remit.cli.shown import json_option, show_json
from remit.ids import system_clock
from remit.workspace import initialise


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.option(
    "--database-variable",
    metavar="NAME",
    help="Keep the ledger in PostgreSQL; the environment variable NAME holds its address.",
)
@json_option
def init(directory: Path, database_variable: str | None, as_json: bool) -> None:
    """Make a workspace: remit.yaml here, keys and ledger in the state directory.

    With DIRECTORY, there instead of here. Running it again completes what is missing and changes nothing else.
    """
    directory.mkdir(parents=True, exist_ok=True)
    workspace, fresh = initialise(directory, os.environ, system_clock, url_variable=database_variable)
    with workspace:
        document = {
            "root": str(workspace.root),
            "state": str(workspace.state.path),
            "store": workspace.store.describe(),
            "new": fresh,
        }
    if as_json:
        show_json(document)
        return
    click.echo(f"{'New' if fresh else 'Existing'} workspace at {document['root']}")
    click.echo(f"  keys and ledger: {document['state']} (keep this folder out of agents' reach)")
    click.echo(f"  store:           {document['store']}")
    click.echo("Next: remit doctor")
