"""`remit runs`, and the completion of names of runs in the shell."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from remit.cli.common.bidi import display_name
from remit.cli.common.options import json_option, show_json, show_table, workspace_option
from remit.core.errors import Reason, RefusedError, RemitError
from remit.identity.person import person_at_terminal
from remit.services.base.run_list import (
    KnownRun,
    find_envelope_of_proposal,
    list_runs,
    list_unused_envelopes,
    open_run_queries,
    resolve_run_id,
    shorten_run_id,
)
from remit.workspace.workspace import Workspace

MAX_OFFERED: Final = 20
UNDO_WORDS: Final = {
    "DONE": "rolled back",
    "EXPIRED": "expired",
    "NOTHING": "",
    "STAYS": "not possible",
    "UNKNOWN": "not known",
}


@click.command()
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="The number of runs to list.",
)
@workspace_option
@json_option
def runs(limit: int, directory: Path, as_json: bool) -> None:
    """List the plans that ran and their rollbacks, newest first.

    Each run has its status, the number of its files, and the day until which it can be rolled back. The short name of
    an envelope is enough for `remit rollback`. Times are UTC.
    """
    with Workspace.open(directory) as workspace:
        found = list(islice(list_runs(workspace, limit + 1), limit + 1))
    shown = found[:limit]
    if as_json:
        show_json([each.tree() for each in shown])
        return
    if not shown:
        click.echo("No plan has run here yet. To see what a plan would do: remit preview PLAN.json")
        return
    columns = ("when", "what", "plan", "envelope", "status", "files", "undo")
    show_table(columns, [_row(each) for each in shown])
    _print_next_step(shown, is_cut=len(found) > limit)


def find_run(workspace: Workspace, name: str) -> str:
    """Return the argument of `workspace.rollback` for any name of a run. Refuse `last` if no plan has run."""
    if name == "last" and next(list_runs(workspace, 1), None) is None:
        raise RefusedError(
            Reason.STATE_MISSING,
            "no plan has run in this workspace yet, so there is nothing to roll back",
            where=str(workspace.root),
            next_step="If the plan ran in another workspace, name its folder: remit rollback last -C FOLDER",
        )
    full = resolve_run_id(workspace, name)
    if full == "last":  # resolved later, after interrupted runs are recovered
        return full
    try:
        open_run_queries(workspace).find(full)
    except RefusedError as problem:
        envelope_id = find_envelope_of_proposal(workspace, name)
        if envelope_id is not None and envelope_id != full:
            return find_run(workspace, envelope_id)
        advice = "`remit runs` lists the runs. A folder below agent_outputs/reports, a proposal id and `last` work too."
        raise RefusedError(problem.reason, problem.what, where=problem.where, next_step=advice) from None
    return full


def complete_run(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the runs that can still be rolled back. None to an agent, and none after an error."""
    try:
        with Workspace.open(ctx.params.get("directory") or Path()) as workspace:
            person_at_terminal(workspace.environ)
            found = [each for each in list_runs(workspace, MAX_OFFERED) if each.can_be_undone]
    except (RemitError, OSError):
        return []
    items = [CompletionItem("last", help="the newest run")] if found else []
    items += [CompletionItem(each.envelope_id, help=_to_tree(each)) for each in found]
    return [item for item in items if item.value.startswith(incomplete)]


def complete_envelope(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the plans and envelopes that can be cancelled: running plans and unused envelopes. None to an agent."""
    try:
        with Workspace.open(ctx.params.get("directory") or Path()) as workspace:
            person_at_terminal(workspace.environ)
            running = [
                each for each in list_runs(workspace, MAX_OFFERED) if each.status == "RUNNING" and each.what == "plan"
            ]
            unused = list_unused_envelopes(workspace, MAX_OFFERED)
    except (RemitError, OSError):
        return []
    items = [CompletionItem(each.envelope_id, help=_to_tree(each)) for each in running]
    items += [CompletionItem(each, help="not used yet") for each in unused]
    return [item for item in items if item.value.startswith(incomplete)]


def _to_tree(run: KnownRun) -> str:
    return display_name(f"{run.plan_id}, {run.status}, {_minute(run.at)}")


def _row(run: KnownRun) -> Sequence[object]:
    files = "" if run.files is None else f"{run.files:,}"
    return (
        _minute(run.at),
        run.what,
        run.plan_id,
        shorten_run_id(run.envelope_id),
        run.status,
        files,
        _undo(run),
    )


def _undo(run: KnownRun) -> str:
    if not run.can_be_undone:
        return UNDO_WORDS[run.undo]
    until = f"until {run.until[:10]}" if run.until else "any time"
    return f"partly done; {until}" if run.undo == "PARTLY_DONE" else until


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


def _print_next_step(shown: Sequence[KnownRun], *, is_cut: bool) -> None:
    click.echo()
    if is_cut:
        click.echo(f"There are older runs. To see them too: remit runs --limit {10 * len(shown)}")
    if any(run.status == "UNFINISHED" for run in shown):
        click.echo("To finish or undo interrupted runs: remit recover")
    reported = next((run for run in shown if run.what == "plan" and run.report), None)
    if reported is not None:
        click.echo("What a run changed, or why it failed, is in its report folder. Each is named by: remit runs --json")
        click.echo(f"That of {shorten_run_id(reported.envelope_id)}: {display_name(reported.report or '')}/")
    latest = next((run for run in shown if run.can_be_undone), None)
    if latest is None and all(run.undo != "UNKNOWN" for run in shown):
        click.echo("None of these can be rolled back any more.")
    elif latest is not None:
        click.echo(f"To roll one back, by its envelope: remit rollback {shorten_run_id(latest.envelope_id)}")
