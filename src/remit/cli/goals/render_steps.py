"""The steps of a goal with several of them, as a list for a person, and the preview of the action that waits."""

from collections.abc import Iterator
from typing import Final

import click

from remit.cli.common.bidi import display_name, display_text
from remit.cli.common.options import speaks_unicode
from remit.cli.plans.render_diff import render_diff
from remit.contracts.services.goal_preview import GoalPreview
from remit.contracts.services.goal_steps import GoalStep, GoalSteps

_MARKS: Final = {
    "not started": ("·", "-", None),
    "running": ("…", "~", "yellow"),
    "waiting": ("?", "?", "yellow"),
    "done": ("✓", "+", "green"),
    "failed": ("✗", "x", "red"),
    "refused": ("✗", "x", "red"),
    "rolled back": ("↩", "<", "cyan"),
}
"""The mark of each state, its form without Unicode, and its colour."""
_WAITS: Final = {"confirmation": "waits for the user's answer", "approval": "waits for the approval of another person"}


def render_steps(steps: GoalSteps) -> Iterator[str]:
    """Yield one line for each step, and one for the effects that remain after the end."""
    names = [f"{each.name}: {each.title}" for each in steps.steps]
    widest = max(map(len, names), default=0)
    for each, name in zip(steps.steps, names, strict=True):
        unicode_mark, plain_mark, colour = _MARKS[each.state]
        mark = unicode_mark if speaks_unicode() else plain_mark
        state = click.style(f"{mark} {_state(each)}", fg=colour) if colour else f"{mark} {_state(each)}"
        yield f"  {each.place:>2}. {display_text(name.ljust(widest))}  {state}"
        for reason in filter(None, (each.reason if each.state != "waiting" else None, _rollback_problem(each))):
            yield f"      {display_text(reason)}"
    if steps.waiting is not None and steps.waiting.step is None:
        yield f"      rollback: {_WAITS[steps.waiting.waiting_for]}"
    if steps.outcome in {"ABORTED_PARTIAL", "COMPLETED"} and steps.remaining and steps.outcome != "COMPLETED":
        yield f"  remains: {', '.join(map(display_name, steps.remaining))}"


def render_goal_preview(preview: GoalPreview) -> Iterator[str]:
    """Yield what the action would do: its lines, its diffs, and why it would be refused as things are now."""
    for number, line in enumerate(preview.lines):
        yield f"  {'does:' if number == 0 else '':<6} {display_text(line)}"
    for each in preview.diffs:
        for text in render_diff(each.diff, left_out=each.left_out):
            yield f"         {text}"
    if preview.problem is not None:
        yield f"  {'note:':<6} {click.style(display_text(preview.problem), fg='red')}"


def _state(step: GoalStep) -> str:
    attempts = f", {step.attempts} attempts" if step.attempts > 1 else ""
    waits = f", {_WAITS[step.waiting.waiting_for]}" if step.waiting is not None else ""
    undone = f", its rollback: {step.rollback}" if step.rollback is not None and step.state != "rolled back" else ""
    state = "" if step.state == "waiting" and waits else step.state
    return f"{state}{attempts}{undone}{waits}".removeprefix(", ")


def _rollback_problem(step: GoalStep) -> str | None:
    return f"Its rollback: {step.rollback_reason}" if step.rollback_reason and step.rollback != "waiting" else None
