"""The steps of a goal on its page: one picture and one line for each, in words. It only reads what the services say."""

from typing import Final, NamedTuple

from remit.contracts.services.common import GoalAnswer
from remit.contracts.services.goal_steps import GoalStep, GoalSteps
from remit.core.text import counted
from remit.web.console.graphs import Graph, GraphBox, lay_out

_ROLLBACKS: Final = {
    "running": "being rolled back",
    "waiting": "its rollback waits",
    "done": "rolled back",
    "failed": "rollback failed",
    "refused": "rollback refused",
}
_DRAWN: Final = {
    **dict.fromkeys(("running", "being rolled back"), "running"),
    "done": "completed",
    "rolled back": "undone",
    **dict.fromkeys(("failed", "refused", "rollback failed", "rollback refused"), "failed"),
    "not run": "skipped",
}
"""The style of a box by its words. A step that waits is drawn like one that runs."""
_TONES: Final = {"running": "live", "completed": "good", "undone": "care", "failed": "bad"}
_OUTCOMES: Final = {
    "RUNNING": "The goal has not ended.",
    "WAITING": "The goal has not ended: it waits for a person.",
    "COMPLETED": "Every step was done.",
    "ABORTED_ROLLED_BACK": "The goal was stopped, and the steps that were done were rolled back. No effect remains.",
    "ABORTED_PARTIAL": "The goal was stopped, and effects of it remain.",
    "REFUSED": "The goal was refused. It has no effect.",
    "ROLLED_BACK": "Every step was done, and all of them were rolled back later. No effect remains.",
}
_ENDED: Final = frozenset({"COMPLETED", "ABORTED_ROLLED_BACK", "ABORTED_PARTIAL", "REFUSED", "ROLLED_BACK"})


class StepShown(NamedTuple):
    """One step, with its state in words."""

    step: GoalStep
    words: str
    drawn: str

    @property
    def tone(self) -> str:
        return _TONES.get(self.drawn, "")

    @property
    def attempts_text(self) -> str:
        """How often the step was tried. Empty for one attempt, which needs no words."""
        return f"tried {self.step.attempts} times" if self.step.attempts > 1 else ""


class StepsShown(NamedTuple):
    steps: tuple[StepShown, ...]
    picture: Graph | None
    outcome: str
    progress: str
    remaining: str
    """What remains of a goal that ended before its last step. Empty if nothing does."""


def show_steps(goal: GoalAnswer) -> StepsShown | None:
    """Return the steps of a goal for its page. None for a goal with a single step."""
    told = goal.steps
    if told is None:
        return None
    steps = tuple(_show(each, told) for each in told.steps)
    done = sum(each.step.state == "done" and each.step.rollback is None for each in steps)
    return StepsShown(
        steps,
        _draw(steps),
        _OUTCOMES[told.outcome],
        f"{done} of {counted(len(steps), 'step')} done",
        _remaining(steps, told),
    )


def _show(step: GoalStep, told: GoalSteps) -> StepShown:
    words = _words(step, told)
    return StepShown(step, words, "running" if "wait" in words else _DRAWN.get(words, ""))


def _words(step: GoalStep, told: GoalSteps) -> str:
    if step.rollback is not None:
        return _ROLLBACKS[step.rollback]
    if step.state == "waiting":
        needs_answer = step.waiting is not None and step.waiting.waiting_for == "confirmation"
        return "waits for an answer" if needs_answer else "waits for approval"
    if step.state == "not started" and told.outcome in _ENDED:
        return "not run"
    return step.state


def _draw(steps: tuple[StepShown, ...]) -> Graph | None:
    return lay_out(
        [
            GraphBox(
                each.step.name,
                f"{each.step.place}. {each.step.title or each.step.name}",
                each.words,
                each.drawn,
                tuple(each.step.depends_on),
            )
            for each in steps
        ]
    )


def _remaining(steps: tuple[StepShown, ...], told: GoalSteps) -> str:
    if told.outcome != "ABORTED_PARTIAL":
        return ""
    titles = {each.step.name: f"{each.step.title} ({each.step.name})" for each in steps}
    return "; ".join(titles.get(name, name) for name in told.remaining)
