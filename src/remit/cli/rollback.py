"""`remit rollback`, `remit cancel` and `remit prune`: what comes after a plan, or instead of it."""

from pathlib import Path

import click

from remit.checkpoint.outputs import BACKUPS, DRIFTED, REPORTS
from remit.cli.failing import DoorRefused
from remit.cli.plan_summary import render_outcome, render_rollback
from remit.cli.plan_words import render_size, row
from remit.cli.run_list import full_name
from remit.cli.runs import complete_run, find_run
from remit.cli.shown import counted, json_option, show_json, show_table, workspace_option
from remit.errors import Refused
from remit.printable import printable
from remit.workspace import Workspace


@click.command()
@click.argument("report", metavar="REPORT", shell_complete=complete_run)
@click.option(
    "--checkpoint",
    "checkpoints",
    multiple=True,
    metavar="ID",
    help="Restore this checkpoint of the manifest only. May be repeated.",
)
@click.option("--force", is_flag=True, help="Also where a file was changed since; what stands there is kept aside.")
@workspace_option
@json_option
@click.pass_context
def rollback(
    ctx: click.Context, report: str, checkpoints: tuple[str, ...], force: bool, directory: Path, as_json: bool
) -> None:
    """Take back what a plan did, whole or in part.

    REPORT is `last`, a name that `remit runs` shows, a report folder, an envelope id or a report id. All backups are
    checked before the first file is restored; a file that somebody changed since is left alone, and named, unless
    --force. Exit code 0 when all of it is restored, now or before; 1 when it failed; 2 when it was refused and nothing
    was touched.
    """
    stored: list[bool] = []
    refusals: list[Refused] = []
    with Workspace.open(directory) as workspace:
        name = find_run(workspace, report)
        before = set_aside(workspace) if force else set()
        outcome = workspace.rollback(
            name,
            checkpoints=checkpoints,
            force=force,
            on_refusal=refusals.append,
            on_stored=lambda: stored.append(True),
        )
        kept_aside = sorted(set_aside(workspace) - before) if force else []
    if outcome.status == "REFUSED" and refusals:
        raise DoorRefused(refusals[0], [error.tree() for error in outcome.errors])
    if as_json:
        show_json(outcome.tree())
    else:
        if stored:
            click.echo("Already taken back before; there is nothing left to restore. The stored outcome:", err=True)
        for line in render_rollback(outcome):
            click.echo(line)
        for path in kept_aside:
            click.echo(row("kept", f"what stood there, as {printable(path)}"))
    ctx.exit({"REFUSED": 2, "FAILED": 1}.get(outcome.status, 0))


def set_aside(workspace: Workspace) -> set[str]:
    """Copies of files that somebody had changed, as forced rollbacks kept them: paths below the root."""
    root = (workspace.root / workspace.config.root).resolve()
    return {str(path.relative_to(root)) for path in root.joinpath(*REPORTS).glob(f"*/{BACKUPS}/*{DRIFTED}*")}


@click.command()
@click.argument("envelope_id", metavar="ENVELOPE_ID")
@workspace_option
@json_option
@click.pass_context
def cancel(ctx: click.Context, envelope_id: str, directory: Path, as_json: bool) -> None:
    """Stop a plan that is running, and have it taken back; or make an unused envelope void.

    Waits up to a minute for the end. Exit code 0 when it was cancelled; 1 when it was too late: the outcome is shown; 2
    when there is no such envelope.
    """
    with Workspace.open(directory) as workspace:
        envelope_id = full_name(workspace, envelope_id)
        outcome = workspace.cancel(envelope_id)
    if as_json:
        show_json({"envelope_id": envelope_id, "outcome": outcome.status.tree() if outcome else None})
    elif outcome is None:
        click.echo(f"Envelope {envelope_id} was not used, and is void from now on.")
    else:
        if outcome.status.status != "CANCELLED":
            click.echo(
                "Too late to cancel: the plan had ended already, and nothing was done now. It ended as:", err=True
            )
        for line in render_outcome(outcome, diffs=False, is_last=False):
            click.echo(line)
    ctx.exit(0 if outcome is None or outcome.status.status == "CANCELLED" else 1)


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@workspace_option
@json_option
def prune(dry_run: bool, directory: Path, as_json: bool) -> None:
    """Remove backups that nobody can need any more: of plans taken back, or past their retention.

    Reports, change logs and manifests stay. What can still be taken back is never removed.
    """
    with Workspace.open(directory) as workspace:
        pruned = workspace.prune(dry_run=dry_run)
    if as_json:
        show_json([{"folder": each.folder, "why": each.why, "bytes": each.size} for each in pruned])
        return
    word = "Would remove" if dry_run else "Removed"
    if not pruned:
        click.echo("There is nothing to remove.")
        return
    show_table(("folder", "why", "size"), [(each.folder, each.why, render_size(each.size)) for each in pruned])
    total = render_size(sum(each.size for each in pruned))
    click.echo(f"{word} the backups of {counted(len(pruned), 'run')}: {total}")
