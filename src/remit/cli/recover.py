"""`remit recover`."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import click

from remit.cli.shown import json_option, show_json, show_table, workspace_option
from remit.contracts.result import ExecutionResult
from remit.errors import Reason, Refused
from remit.recovery import Recovered
from remit.store.claims import unfinished
from remit.workspace import Workspace


@click.command()
@click.option(
    "--dead",
    "presumed_dead",
    multiple=True,
    metavar="TASK",
    help="A task whose process you know to be dead, on another machine or before a reboot. May be repeated.",
)
@click.option(
    "--abandon",
    "abandoned",
    multiple=True,
    metavar="TASK",
    help="A task that cannot be settled, to be closed as a failure of unknown effect. May be repeated.",
)
@workspace_option
@json_option
@click.pass_context
def recover(
    ctx: click.Context, presumed_dead: tuple[str, ...], abandoned: tuple[str, ...], directory: Path, as_json: bool
) -> None:
    """Finish or clear away what a crash left, and record what came of it.

    What a living process is at work on is left alone. Exit code 0 when nothing is left, 1 when something could not be
    settled: the table says what to do.
    """
    with Workspace.open(directory) as workspace:
        _require_unfinished(workspace, (*presumed_dead, *abandoned))
        reports = workspace.recover(presumed_dead=presumed_dead, abandoned=abandoned)
    if as_json:
        show_json([_as_document(report) for report in reports])
    elif not reports:
        click.echo("Nothing was left unfinished.")
    else:
        rows = [(each.key, each.began_at[:19].replace("T", " "), _state(each), _what(each)) for each in reports]
        show_table(("task", "begun", "state", "what"), rows, prose=("what",))
    ctx.exit(1 if any(report.problem for report in reports) else 0)


def _require_unfinished(workspace: Workspace, named: Collection[str]) -> None:
    """A mistyped id must not read as a task that was settled."""
    if not named:
        return
    with workspace.store.reading() as connection:
        known = {claimed.key.key for claimed in unfinished(connection, "task")}
    for task_id in named:
        if task_id not in known:
            raise Refused(
                Reason.STATE_MISSING,
                "no unfinished task has this id; nothing was done",
                where=f"--dead {task_id}",
                next_step="`remit recover` alone shows what it cannot settle by itself.",
            )


def _state(report: Recovered[ExecutionResult]) -> str:
    if report.outcome is None:
        return "unsettled"
    return "finished" if report.took_effect else "cleared"


def _what(report: Recovered[ExecutionResult]) -> str:
    if report.problem is not None:
        return str(report.problem)
    outcome = report.outcome
    if outcome is not None and outcome.error is not None:
        return f"{outcome.capability_id}: {outcome.error.message}"
    return f"{outcome.capability_id}: had taken effect; its result is recorded" if outcome else ""


def _as_document(report: Recovered[ExecutionResult]) -> dict[str, Any]:
    return {
        "task_id": report.key,
        "begun_at": report.began_at,
        "state": _state(report),
        "result": report.outcome.tree() if report.outcome else None,
        "problem": report.problem.as_json() if report.problem else None,
    }
