"""`remit task`."""

from datetime import timedelta
from pathlib import Path
from typing import IO

import click

from remit.cli.shown import json_option, output_option, show_json, workspace_option, written_output
from remit.contracts.task import LeaseToken, TaskManifest
from remit.errors import Refused
from remit.road import Preview
from remit.untrusted import read_bounded
from remit.workspace import Workspace


@click.group()
def task() -> None:
    """Lease and run one task."""


@task.command()
@click.argument("manifest", type=click.File("rb"))
@output_option
@click.option("--minutes", type=click.IntRange(1, 60), default=5, show_default=True, help="How long the lease lives.")
@workspace_option
@json_option
def lease(manifest: IO[bytes], output: Path | None, minutes: int, directory: Path, as_json: bool) -> None:
    """The kernel's side: sign a lease for MANIFEST (a JSON file, or - for standard input)."""
    raw = read_bounded(manifest, TaskManifest.bounds, source=manifest.name)
    # The output first: a lease that is signed and recorded, and then cannot be handed over, is authority gone astray.
    with written_output(output, spare=(manifest.name,)) as out:
        with Workspace.open(directory) as workspace:
            token = workspace.issue_lease(raw, life=timedelta(minutes=minutes))
        if output is not None:
            out.write(token.canonical() + b"\n")
    if output is None or as_json:
        show_json(token.tree())
    else:
        click.echo(f"Lease {token.lease_id} for task {token.task_id} until {token.expires_at}, in {output}")


@task.command()
@click.argument("manifest", type=click.File("rb"))
@click.option("--lease", "lease_file", type=click.File("rb"), required=True, help="The lease for this manifest.")
@click.option("--dry-run", is_flag=True, help="Check everything, claim and do nothing.")
@workspace_option
@json_option
@click.pass_context
def run(
    ctx: click.Context, manifest: IO[bytes], lease_file: IO[bytes], dry_run: bool, directory: Path, as_json: bool
) -> None:
    """Run MANIFEST under its lease and print the signed result.

    Exit code 0 when it succeeded, now or before; 1 when it ran and failed; 2 when it was refused and nothing ran.
    """
    raw = read_bounded(manifest, TaskManifest.bounds, source=manifest.name)
    token = read_bounded(lease_file, LeaseToken.bounds, source=lease_file.name)
    refusals: list[Refused] = []
    with Workspace.open(directory) as workspace:
        go = workspace.preview_task if dry_run else workspace.execute_task
        outcome = go(raw, token, on_refusal=refusals.append)
    if isinstance(outcome, Preview):
        if as_json:
            show_json({"preview": outcome.summary, "digest": outcome.digest})
        else:
            click.echo(f"Would run: {outcome.summary}")
        return
    if dry_run and not as_json:
        click.echo("Already done; the stored result:", err=True)
    show_json({"already_done": True, "result": outcome.tree()} if dry_run and as_json else outcome.tree())
    if outcome.error is not None:
        ctx.exit(2 if refusals else 1)
