"""A pipeline action as text for people: each step with its end, rows and time, the last lines of its log, and whether
it can be undone.

Names and log lines are data of other people. They are made printable.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import click

from remit.cli.common.bidi import display_name
from remit.cli.common.table import terminal_width
from remit.cli.plans.render_sql import render_parameters
from remit.cli.plans.text import render_wait, row
from remit.contracts.plans.pipeline_report import PipelineTold, ToldStep
from remit.contracts.plans.preview import PipelinePreviewed
from remit.core.text import counted
from remit.plans.reports.preview_sentences import describe_pipeline_undo

INDENT: Final = "    "
GAP: Final = "  "
LOG_LINES: Final = 10
STEPS: Final = 40
FEW_STEPS: Final = 10
LISTED: Final = 20
NO_ROWS: Final[Mapping[str, int]] = {}
_COLOURS: Final = {"failed": "red", "skipped": "yellow"}
_HEADINGS: Final = ("step", "ended", "rows", "took")
_OF_DBT: Final = ("step", "ended", "made", "rows", "took")
_TO_THE_RIGHT: Final = frozenset({"rows", "took"})
_LONGEST_NAME: Final = 60
_LONGEST_MADE: Final = 20


def render_pipeline(report: PipelineTold, *, whole: bool = False) -> Iterator[str]:
    """Render a pipeline as it ran for the preview. `whole` shows every step and every line of the log."""
    how = "on copies" if report.server is None else "in a transaction that was rolled back"
    yield click.style(f"{display_name(report.action_id)}: pipeline {report.pipeline} ({report.kind}), {how}", bold=True)
    if report.description:
        yield row("about", display_name(report.description))
    if (
        isinstance(report, PipelinePreviewed) and report.kind != "sql"
    ):  # parameters of query files are shown with the statements
        max_lines, advice = None if whole else STEPS, "--full"
        yield from render_parameters(report.parameters, max_lines, terminal_width(), indent=INDENT, advice=advice)
    yield from _steps(report, None if whole else STEPS)
    yield from render_log(report.log, None if whole else LOG_LINES)
    if report.changes:
        yield row("leaves", ", ".join(map(display_name, report.changes)))
    if report.server is not None:  # whether it can be undone is shown with its tables
        return
    if report.changes or not any(step.state == "failed" for step in report.steps):
        yield row("undo", describe_pipeline_undo(report))


def count_hidden_steps_and_log(report: PipelineTold, *, whole: bool) -> int:
    """Count the lines that `render_pipeline` leaves out: steps, and the first lines of the log."""
    if whole:
        return report.left_out
    return max(len(report.steps) - STEPS, 0) + report.left_out + max(len(report.log) - LOG_LINES, 0)


def is_code(report: PipelineTold) -> bool:
    """Whether the pipeline is code. Remit can restore the files that it changes, but sees no other effects of it."""
    return report.server is None and not report.reversible


def render_ran(pipelines: Sequence[PipelineTold], rows: Mapping[str, int] = NO_ROWS, *, whole: bool) -> Iterator[str]:
    """Render the pipelines of a run that has ended. With `whole`, or if one failed, with more steps and the log.

    `rows` has the changed rows of each pipeline on a server, which counts them for all steps together.
    """
    for number, report in enumerate(pipelines):
        if number == LISTED:
            yield row("", f"and {len(pipelines) - number:,} more; the report has all")
            return
        failed = any(step.state == "failed" for step in report.steps)
        changed = f", {counted(rows[report.action_id], 'row')} changed" if report.action_id in rows else ""
        yield row("ran", f"{display_name(report.action_id)}: pipeline {report.pipeline}: {summarise(report)}{changed}")
        yield from _steps(report, STEPS if whole or failed else FEW_STEPS)
        if whole or failed:
            yield from render_log(report.log, LOG_LINES)


def summarise(report: PipelineTold) -> str:
    """Return `2 of 3 steps`."""
    total = len(report.steps) + report.left_out
    done = sum(step.state == "done" for step in report.steps) + report.left_out
    return counted(total, "step") if done == total else f"{done:,} of {counted(total, 'step')}"


def render_log(log: Sequence[str], max_lines: int | None) -> Iterator[str]:
    """Render the last lines of the log."""
    shown = log if max_lines is None else log[-max_lines:]
    if cut := len(log) - len(shown):
        yield row("said", f"... {counted(cut, 'line')} before: --full")
    for number, line in enumerate(shown):
        yield row("" if number or cut else "said", display_name(line))


def _steps(report: PipelineTold, max_lines: int | None) -> Iterator[str]:
    steps = report.steps[:max_lines]
    if not steps:
        return
    cells_of_steps = [_cells(step) for step in steps]
    known = _OF_DBT if report.kind == "dbt" else _HEADINGS
    # The server counts rows and time for all steps together, so the steps of a pipeline there have neither.
    headings = [name for name in known if report.server is None or any(cells[name] for cells in cells_of_steps)]
    lines = [tuple(headings), *(tuple(cells[name] for name in headings) for cells in cells_of_steps)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for number, cells in enumerate(lines):
        padded = [
            cell.rjust(width) if name in _TO_THE_RIGHT else cell.ljust(width)
            for name, cell, width in zip(headings, cells, widths, strict=True)
        ]
        plain = (INDENT + GAP.join(padded)).rstrip()
        if number == 0:
            yield click.style(plain, bold=True)
            continue
        colour = _COLOURS.get(steps[number - 1].state)
        yield click.style(plain, fg=colour) if colour else plain
    if more := len(report.steps) - len(steps) + report.left_out:
        yield f"{INDENT}... {counted(more, 'more step')}"


def _cells(step: ToldStep) -> dict[str, str]:
    """Return the cells by heading. Only dbt has `made`, because its nodes are tables, views and tests."""
    name = display_name(step.name)
    return {
        "step": name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}...",
        "ended": step.state,
        "made": display_name(step.words[:_LONGEST_MADE]) if step.state == "done" else "",
        "rows": "" if step.rows is None else f"{step.rows:,}",
        "took": render_wait(step.milliseconds / 1_000) if step.milliseconds else "",
    }
