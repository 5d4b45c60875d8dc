"""What people read of an action that runs a pipeline: each step, how it ended, its rows and its time; the end of what
it said; and what of it can be taken back.

Names and lines are somebody's data, and made printable.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import click

from remit.cli.common.bidi import shown_name
from remit.cli.common.table import terminal_width
from remit.cli.plans.render_sql import render_parameters
from remit.cli.plans.text import render_wait, row
from remit.contracts.plans.pipeline_report import PipelineTold, ToldStep
from remit.contracts.plans.preview import PipelinePreviewed
from remit.core.text import counted

INDENT: Final = "    "
GAP: Final = "  "
LOG_LINES: Final = 10
STEPS: Final = 40
FEW_STEPS: Final = 10
LISTED: Final = 20
_COLOURS: Final = {"failed": "red", "skipped": "yellow"}
_HEADINGS: Final = ("step", "ended", "rows", "took")
_OF_DBT: Final = ("step", "ended", "made", "rows", "took")
_TO_THE_RIGHT: Final = frozenset({"rows", "took"})
_LONGEST_NAME: Final = 60
_LONGEST_MADE: Final = 20


def render_pipeline(told: PipelineTold, *, whole: bool = False) -> Iterator[str]:
    """As it was tried out. `whole`: every step, and all lines that there are."""
    how = "on copies" if told.server is None else "in a transaction that was rolled back"
    yield click.style(f"{shown_name(told.action_id)}: pipeline {told.pipeline} ({told.kind}), {how}", bold=True)
    if told.description:
        yield row("about", shown_name(told.description))
    if isinstance(told, PipelinePreviewed) and told.kind != "sql":  # those of query files stand with the statements
        most, advice = None if whole else STEPS, "--full"
        yield from render_parameters(told.parameters, most, terminal_width(), indent=INDENT, advice=advice)
    yield from _steps(told, None if whole else STEPS)
    yield from render_log(told.log, None if whole else LOG_LINES)
    if told.changes:
        yield row("leaves", ", ".join(map(shown_name, told.changes)))
    if told.server is not None:  # whether there is a way back is said with its tables
        return
    if told.changes or not any(step.state == "failed" for step in told.steps):
        yield row("undo", render_undo(told))


def steps_and_log_not_shown(told: PipelineTold, *, whole: bool) -> int:
    """Lines that `render_pipeline` leaves out: steps, and the beginning of what the pipeline said."""
    if whole:
        return told.left_out
    return max(len(told.steps) - STEPS, 0) + told.left_out + max(len(told.log) - LOG_LINES, 0)


def render_undo(told: PipelineTold) -> str:
    if told.reversible:
        return "yes: all that it changes is kept as it is now"
    return "what Remit saw it change can be put back; what else it caused cannot"


def render_ran(pipelines: Sequence[PipelineTold], *, whole: bool) -> Iterator[str]:
    """Of a run that has ended, whichever way, with its steps; `whole`, or if it failed: many of them, and its log."""
    for number, told in enumerate(pipelines):
        if number == LISTED:
            yield row("", f"and {len(pipelines) - number:,} more; the report has all")
            return
        failed = any(step.state == "failed" for step in told.steps)
        yield row("ran", f"{shown_name(told.action_id)}: pipeline {told.pipeline}: {summarise(told)}")
        yield from _steps(told, STEPS if whole or failed else FEW_STEPS)
        if whole or failed:
            yield from render_log(told.log, LOG_LINES)


def summarise(told: PipelineTold) -> str:
    """`2 of 3 steps`."""
    total = len(told.steps) + told.left_out
    done = sum(step.state == "done" for step in told.steps) + told.left_out
    return counted(total, "step") if done == total else f"{done:,} of {counted(total, 'step')}"


def render_log(log: Sequence[str], most: int | None) -> Iterator[str]:
    """The last lines."""
    shown = log if most is None else log[-most:]
    if cut := len(log) - len(shown):
        yield row("said", f"... {counted(cut, 'line')} before: --full")
    for number, line in enumerate(shown):
        yield row("" if number or cut else "said", shown_name(line))


def _steps(told: PipelineTold, most: int | None) -> Iterator[str]:
    steps = told.steps[:most]
    if not steps:
        return
    headings = _OF_DBT if told.kind == "dbt" else _HEADINGS
    lines = [headings, *(tuple(_cells(step)[name] for name in headings) for step in steps)]
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
    if more := len(told.steps) - len(steps) + told.left_out:
        yield f"{INDENT}... {counted(more, 'more step')}"


def _cells(step: ToldStep) -> dict[str, str]:
    """By the headings. What was made is told of dbt, whose nodes are tables, views and tests."""
    name = shown_name(step.name)
    return {
        "step": name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}...",
        "ended": step.state,
        "made": shown_name(step.words[:_LONGEST_MADE]) if step.state == "done" else "",
        "rows": "" if step.rows is None else f"{step.rows:,}",
        "took": render_wait(step.milliseconds / 1_000) if step.milliseconds else "",
    }
