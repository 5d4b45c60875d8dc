"""`remit intake`: lists and exports requests that no simulation covers yet."""

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
    """List and export what users asked for and no simulation covers yet.

    Users ask in their own words (`remit ask`). The list helps the people who write simulations, which are the actions
    that users can ask for. The most frequent requests come first. Secrets in them are masked. Without a command: list.
    """
    if ctx.invoked_subcommand is None:
        _list(tenant_id, directory, as_json=as_json)


@intake.command("list")
@tenant_option
@workspace_option
@json_option
def list_items(tenant_id: str | None, directory: Path, as_json: bool) -> None:
    """List the requests, the most frequent first."""
    _list(tenant_id, directory, as_json=as_json)


@intake.command()
@tenant_option
@output_option
@click.option("--force", is_flag=True, help="Replace an existing file.")
@workspace_option
@json_option
def export(tenant_id: str | None, output: Path | None, force: bool, directory: Path, as_json: bool) -> None:
    """Write all requests as JSON Lines, one request on each line."""
    if output is None and as_json:
        raise click.UsageError("With --json, give a file with -o: only one of them can go to standard output.")
    if output is not None and output.is_file() and not force:
        raise RefusedError(
            Reason.ARGUMENT_INVALID,
            "this file exists already; nothing was done",
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
        click.echo(f"There are no requests of {display_name(tenant)} that need a simulation.")
        return
    from rich.text import Text  # noqa: PLC0415 - loads slowly, and only tables need it

    rows = [
        (
            item.count,
            # display_text isolates right-to-left words. In a plain string, the table would spell out the marks.
            Text(display_text(item.utterances[0] or item.intent)),
            ", ".join(item.languages),
            item.last_at[:19].replace("T", " "),
            item.correlations[-1],
        )
        for item in items
    ]
    show_table(("times", "request", "languages", "last", "goal"), rows, prose=("request",))
    click.echo("To cover a request, write a simulation: remit catalogue --help")


def _tree(tenant: str, item: IntakeItem) -> dict[str, Any]:
    return {"tenant_id": tenant, **asdict(item)}
