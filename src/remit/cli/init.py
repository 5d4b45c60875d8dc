"""`remit init`."""

import os
from pathlib import Path

import click

from remit.cli.common.bidi import display_name
from remit.cli.common.options import json_option, show_json
from remit.core.ids import system_clock
from remit.workspace.create import adopt as adopt_state
from remit.workspace.create import initialise


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.option(
    "--database-variable",
    metavar="NAME",
    help="Keep the ledger in PostgreSQL; the environment variable NAME holds its address.",
)
@click.option(
    "--adopt",
    metavar="STATE",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The folder was moved: bind its old state directory to it.",
)
@click.option("--new", is_flag=True, help="Start an empty ledger, although this folder may have been moved here.")
@json_option
def init(directory: Path, database_variable: str | None, adopt: Path | None, new: bool, as_json: bool) -> None:
    """Create a workspace: remit.yaml, keys and ledger.

    The file remit.yaml is made in this folder, or in DIRECTORY. Keys and ledger are in the state directory. Running it
    again completes what is missing and changes nothing else.
    """
    if adopt is not None and (database_variable or new):
        raise click.UsageError("--adopt takes an existing workspace as it is: leave the other options out.")
    directory.mkdir(parents=True, exist_ok=True)
    if adopt is not None:
        workspace, fresh = adopt_state(directory, adopt, os.environ, system_clock), False
    else:
        workspace, fresh = initialise(directory, os.environ, system_clock, url_variable=database_variable, new=new)
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
    kind_label = "Moved" if adopt is not None else "New" if fresh else "Existing"
    root, state, store = (display_name(str(document[name])) for name in ("root", "state", "store"))
    click.echo(f"{kind_label} workspace at {root}")
    click.echo(f"  keys and ledger: {state} (keep this folder out of agents' reach)")
    click.echo(f"  store:           {store}")
    click.echo("Next: remit doctor")
