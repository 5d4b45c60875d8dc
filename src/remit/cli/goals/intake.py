"""`remit intake`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from remit.cli.common.bidi import display_name, display_text
from remit.cli.common.options import counted, json_option, show_json, show_table, workspace_option
from remit.cli.common.output_file import open_output, output_option
from remit.cli.common.tenants import choose_tenant, tenant_option
from remit.core.errors import Reason, RefusedError
from remit.ledger.goal_queries import IntakeItem
from remit.workspace.workspace import Workspace


@click.group(invoke_without_command=True)
@tenant_option
@workspace_option
@json_option
@click.pass_context
def intake(ctx: click.Context, tenant_id: str | None, directory: Path, as_json: bool) -> None:
    """List and export what was asked for and nothing here can do yet.

    For whoever writes simulations: the most wanted first, in the users' words, masked. Without a command: the list.
    """
    if ctx.invoked_subcommand is None:
        _list(tenant_id, directory, as_json=as_json)


@intake.command("list")
@tenant_option
@workspace_option
@json_option
def list_items(tenant_id: str | None, directory: Path, as_json: bool) -> None:
    """What is wanted, the most often first."""
    _list(tenant_id, directory, as_json=as_json)


@intake.command()
@tenant_option
@output_option
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@workspace_option
@json_option
def export(tenant_id: str | None, output: Path | None, force: bool, directory: Path, as_json: bool) -> None:
    """All of it as JSON Lines: one thing that is wanted on each line."""
    if output is None and as_json:
        raise click.UsageError("Standard output and --json: give a file with -o.")
    if output is not None and output.is_file() and not force:
        raise RefusedError(
            Reason.ARGUMENT_INVALID,
            "this file is there already; nothing was done",
            where=str(output),
            next_step="Give another name, or --force to replace it.",
        )
    with open_output(output) as out, Workspace.open(directory) as workspace:
        tenant = choose_tenant(workspace, tenant_id)
        items = workspace.goals.intake(tenant)
        for item in items:
            out.write(json.dumps(_tree(tenant, item), ensure_ascii=False).encode() + b"\n")
    if as_json:
        show_json({"file": str(output), "tenant_id": tenant, "items": len(items)})
    else:
        destination = display_name(str(output)) if output else "standard output"
        click.echo(f"Wrote {counted(len(items), 'item')} to {destination}", err=output is None)


def _list(tenant_id: str | None, directory: Path, *, as_json: bool) -> None:
    with Workspace.open(directory) as workspace:
        tenant = choose_tenant(workspace, tenant_id)
        items = workspace.goals.intake(tenant)
    if as_json:
        show_json({"tenant_id": tenant, "items": [_tree(tenant, item) for item in items]})
        return
    if not items:
        click.echo(f"Nothing that users of {display_name(tenant)} have asked for is missing.")
        return
    from rich.text import Text  # noqa: PLC0415 - heavy, wanted for tables only

    rows = [
        (
            item.count,
            # Made printable here, and right-to-left words set apart, which a table would spell out.
            Text(display_text(item.utterances[0] or item.intent)),
            ", ".join(item.languages),
            item.last_at[:19].replace("T", " "),
            item.correlations[-1],
        )
        for item in items
    ]
    show_table(("asked", "in the words", "languages", "last", "goal"), rows, prose=("in the words",))
    click.echo("Write a simulation for what is worth it: remit catalogue --help")


def _tree(tenant: str, item: IntakeItem) -> dict[str, Any]:
    return {"tenant_id": tenant, **asdict(item)}
