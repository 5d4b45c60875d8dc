"""`remit slo`: measures the service levels of goals, and gates a release on them."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from remit.cli.common.bidi import display_name
from remit.cli.common.options import counted, json_option, show_json, show_table, workspace_option
from remit.cli.common.progress import showing_progress
from remit.contracts.config.config import CONFIG_NAME
from remit.contracts.goals.slo import WAIVERS_NAME
from remit.core.ids import system_clock

if TYPE_CHECKING:
    from remit.contracts.goals.slo import SloWaiver
    from remit.goals.slo import FigureVerdict, OwnGoals, Rate
    from remit.testing.goal_load import LoadResult

GOALS: Final = 300
CALLERS: Final = 8

goals_option: Final = click.option(
    "--goals", type=click.IntRange(20, 1_000_000), default=GOALS, show_default=True, help="The number of goals to run."
)
callers_option: Final = click.option(
    "--callers",
    type=click.IntRange(1, 64),
    default=CALLERS,
    show_default=True,
    help="The number of callers that request goals at the same time.",
)
database_option: Final = click.option(
    "--database-variable",
    metavar="NAME",
    help="Keep the ledger of the run in PostgreSQL. The environment variable NAME contains its address.",
)


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def slo(ctx: click.Context, as_json: bool) -> None:
    """Measure how fast and reliably goals run, and gate a release.

    A goal is a request of a user in plain words (`remit ask`). The command makes a temporary workspace and runs many
    goals in it. Each goal is requested, confirmed and run, and copies a file in the sandbox. Some goals are requested
    twice. The command compares the times and the errors with their limits, the service levels. Without a command: run.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(run, as_json=as_json)


@slo.command()
@goals_option
@callers_option
@database_option
@json_option
@click.pass_context
def run(ctx: click.Context, goals: int, callers: int, database_variable: str | None, as_json: bool) -> None:
    """Measure the service levels under load, and show the verdicts.

    Exit code 0 if every level is kept, 1 otherwise. Waivers are not used.
    """
    load = _load(goals, callers, database_variable, quiet=as_json)
    ctx.exit(_print_verdicts(load, _judge(load, [], ()), [], as_json=as_json))


@slo.command()
@goals_option
@callers_option
@database_option
@click.option(
    "--waivers",
    "waiver_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help=f"The file with the waivers. Default: {WAIVERS_NAME} in the workspace, if it exists.",
)
@workspace_option
@json_option
@click.pass_context
def gate(
    ctx: click.Context,
    goals: int,
    callers: int,
    database_variable: str | None,
    waiver_file: Path | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Measure the service levels for a release, and apply waivers.

    The gate also includes the error rate of this workspace in the last 24 hours, with every failure of a goal's
    execution. It shows the times of the workspace's own goals beside those of the load, and judges those of the load.
    Outside a workspace, only the load run decides. Exit code 0 if every level is kept or waived, 1 otherwise.
    """
    from remit.goals.slo import read_waivers  # noqa: PLC0415 - `--help` does not need it

    own, notes, root = _last_day(directory)
    file = waiver_file or (root or directory) / WAIVERS_NAME
    waivers = read_waivers(file) if waiver_file is not None or file.exists() else ()
    load = _load(goals, callers, database_variable, quiet=as_json)
    verdicts = _judge(load, [own.ended] if own is not None else [], waivers)
    ctx.exit(_print_verdicts(load, verdicts, notes, own, as_json=as_json))


def _load(goals: int, callers: int, variable: str | None, *, quiet: bool) -> "LoadResult":
    from remit.testing.goal_load import run_load  # noqa: PLC0415 - `--help` does not need it
    from remit.testing.goal_workspace import scratch_workspace  # noqa: PLC0415 - as above

    with showing_progress(quiet=quiet) as progress, scratch_workspace(url_variable=variable) as scratch:
        progress("creating a workspace", 0, 0, "")
        return run_load(
            scratch, goals=goals, callers=callers, on_progress=lambda done, total: progress("goals", done, total, "")
        )


def _last_day(directory: Path) -> "tuple[OwnGoals | None, list[str], Path | None]":
    """Return the measurements of the last 24 hours, notes for the output, and the root of the workspace.

    The measurements are None if there is no workspace, or if no goal ended there in that time.
    """
    from remit.goals.slo import OwnGoals, own_dispatch_times, rolling_error_rate  # noqa: PLC0415 - as in `gate`
    from remit.workspace.workspace import Workspace  # noqa: PLC0415 - as above

    folder = directory.resolve()
    if not any((each / CONFIG_NAME).is_file() for each in (folder, *folder.parents)):
        return None, ["there is no workspace here, so only the load run decides"], None
    with Workspace.open(directory, environ=os.environ) as workspace:
        tenants = sorted(workspace.config.tenants)
        with workspace.store.reading() as connection:
            now = system_clock()
            rate = rolling_error_rate(connection, tenants, now)
            own = OwnGoals(rate, own_dispatch_times(connection, tenants, now))
        root = workspace.root
    if not rate.total:
        return None, ["no goal ended in the workspace in the last 24 hours, so only the load run decides"], root
    summary = f"in the workspace, {rate.count:,} of {counted(rate.total, 'dispatch', 'dispatches')} failed in 24 hours"
    return own, [summary], root


def _judge(load: "LoadResult", history: "list[Rate]", waivers: "tuple[SloWaiver, ...]") -> "list[FigureVerdict]":
    from remit.goals.slo import Measured, judge  # noqa: PLC0415 - `--help` does not need it

    return judge(Measured(load.dispatch_ms, [load.ended, *history], load.duplicates), waivers, system_clock())


def _print_verdicts(
    load: "LoadResult",
    verdicts: "list[FigureVerdict]",
    notes: list[str],
    own: "OwnGoals | None" = None,
    *,
    as_json: bool,
) -> int:
    from remit.goals.slo import Measured, figures_of, percentile  # noqa: PLC0415 - `--help` does not need it

    of_load = figures_of(Measured(load.dispatch_ms, [load.ended], load.duplicates))
    of_workspace = own.figures() if own is not None else {}
    failed = [verdict for verdict in verdicts if verdict.blocks]
    if as_json:
        show_json(
            {
                "passed": not failed,
                "figures": [
                    {
                        **_tree(verdict),
                        "load": of_load[verdict.figure],
                        "workspace": of_workspace.get(verdict.figure),
                    }
                    for verdict in verdicts
                ],
                "load": _load_tree(load),
                "workspace": _workspace_tree(own) if own is not None else None,
                "notes": notes,
            }
        )
        return 1 if failed else 0
    show_table(
        ("figure", "measured", "at most", "verdict"),
        [
            (each.figure, _format_value(each, each.measured), _format_value(each, each.most), each.verdict)
            for each in verdicts
        ],
    )
    rate = load.goals / load.seconds if load.seconds else 0.0
    click.echo(
        f"{counted(load.goals, 'goal')}, requested {load.asked:,} times by {counted(load.callers, 'caller')};"
        f" {rate:.1f} goals a second; {counted(len(load.dispatch_ms), 'dispatch', 'dispatches')}"
    )
    for note in notes:
        click.echo(display_name(note))
    if own is not None and own.dispatch_ms:
        times = " and ".join(f"p{percent} {percentile(own.dispatch_ms, percent):,.0f} ms" for percent in (95, 99))
        click.echo(
            f"in the workspace, {times} of {counted(len(own.dispatch_ms), 'dispatch', 'dispatches')} in 24 hours"
        )
    click.echo("the times in the table are those of the load; the error rate is the higher one of load and workspace")
    for verdict in verdicts:
        if verdict.verdict == "WAIVED":
            click.echo(f"waived: {verdict.figure}, {display_name(verdict.why)}", err=True)
        elif verdict.blocks:
            click.echo(f"blocked: {verdict.figure}, {display_name(verdict.why)}", err=True)
    return 1 if failed else 0


def _tree(verdict: "FigureVerdict") -> dict[str, Any]:
    return {
        "figure": verdict.figure,
        "measured": verdict.measured,
        "most": verdict.most,
        "verdict": verdict.verdict,
        "why": verdict.why,
        "waiver": verdict.waiver.tree() if verdict.waiver else None,
    }


def _workspace_tree(own: "OwnGoals") -> dict[str, Any]:
    """Return the measurements of the workspace's own goals in the last 24 hours."""
    from remit.goals.slo import percentile  # noqa: PLC0415 - `--help` does not need it

    return {
        "hours": 24,
        "dispatches": len(own.dispatch_ms),
        "dispatch_ms": {f"p{percent}": percentile(own.dispatch_ms, percent) for percent in (50, 95, 99)},
        "ended": {"failed": own.ended.count, "total": own.ended.total},
    }


def _load_tree(load: "LoadResult") -> dict[str, Any]:
    from remit.goals.slo import percentile  # noqa: PLC0415 - `--help` does not need it

    goal_ms = {f"p{percent}": percentile(load.goal_ms, percent) for percent in (50, 95, 99)}
    dispatch_ms = {f"p{percent}": percentile(load.dispatch_ms, percent) for percent in (50, 95, 99)}
    return {
        "goals": load.goals,
        "asked": load.asked,
        "callers": load.callers,
        "seconds": load.seconds,
        "dispatch_ms": dispatch_ms,
        "goal_ms": goal_ms,
        "ended": {"failed": load.ended.count, "total": load.ended.total},
        "duplicates": {"count": load.duplicates.count, "dispatches": load.duplicates.total},
        "codes": load.codes,
    }


def _format_value(verdict: "FigureVerdict", value: float | None) -> str:
    if value is None:
        return "no data"
    return f"{value:,.0f} ms" if verdict.figure.endswith("_ms") else f"{value * 100:.2f} %"
