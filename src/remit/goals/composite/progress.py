"""What a goal with several steps does next, from the rows of the ledger and nothing else. Pure.

The steps run one after the other. A step that fails without any effect may be tried again, as its policy says. The
first failure that is not tried again, and a refusal, end the sequence: the completed steps are rolled back in reverse
order. A rollback that does not succeed ends everything, and a person must look at it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from remit.core.ids import parse_time
from remit.goals.composite.layout import WHOLE, PlannedStep, is_undo, rollback_id_of
from remit.ledger.goal_queries import Recorded

Ending = Literal["COMPLETED", "ABORTED_ROLLED_BACK", "ABORTED_PARTIAL", "REFUSED", "ROLLED_BACK"]
ENDINGS: Final[dict[str, Ending]] = {
    "COMPLETED": "COMPLETED",
    "ABORTED_ROLLED_BACK": "ABORTED_ROLLED_BACK",
    "ABORTED_PARTIAL": "ABORTED_PARTIAL",
    "REFUSED": "REFUSED",
    "ROLLED_BACK": "ROLLED_BACK",
}
BY_A_PERSON: Final = frozenset(
    {
        "CONFIRMATION_REFUSED",
        "CONFIRMATION_EXPIRED",
        "CONFIRMATION_AMBIGUOUS",
        "ACCESS_SCOPE_VIOLATION",
        "ACCESS_AP_REQUIRED",
    }
)
"""The reason codes of a step that a person refused, did not answer in time, or was not allowed."""
_DISPATCHED: Final = frozenset({"DISPATCHED", "RETRIED"})
_FIRST: Final = 1


@dataclass(frozen=True, slots=True)
class StepProgress:
    """The state of one step: its last event, and how often it was tried."""

    step: PlannedStep
    event: str = ""
    attempts: int = 0
    failure: Recorded | None = None
    """The row of the last attempt, if it failed."""
    rollback: str = ""
    """The last event of its rollback. Empty if there is none."""
    reason_code: str = ""
    """The reason code of its last event."""

    @property
    def has_run(self) -> bool:
        return self.attempts > 0

    @property
    def is_refused_by_a_person(self) -> bool:
        """Whether it was refused before its action began. Anything else that stops a step is a failure."""
        return self.event == "REFUSED" and not self.has_run and self.reason_code in BY_A_PERSON

    @property
    def may_remain(self) -> bool:
        """Whether an effect of the step may still be there."""
        if self.step.only_reads:
            return False
        if self.event == "FAILED" and self.failure is not None:
            return self.failure.row.effect != "NONE"
        return self.event in {"SUCCEEDED", *_DISPATCHED}


@dataclass(frozen=True, slots=True)
class RunStep:
    """Run the gates of this step, or continue it: it is new, it waits for a person, or its dispatch has no outcome."""

    step: PlannedStep


@dataclass(frozen=True, slots=True)
class RetryStep:
    """Dispatch this step once more, not before `at`."""

    step: PlannedStep
    attempt: int
    at: datetime


@dataclass(frozen=True, slots=True)
class AskUndo:
    """Continue the question whether the whole goal is rolled back."""

    step_id: str


@dataclass(frozen=True, slots=True)
class RollBackStep:
    """Run the rollback simulation of this completed step, or continue it."""

    step: PlannedStep


@dataclass(frozen=True, slots=True)
class End:
    """Nothing is left to do. `remaining` are the names of the steps whose effect is, or may be, still there."""

    ending: Ending
    remaining: tuple[str, ...] = ()
    is_recorded: bool = False


Move = RunStep | RetryStep | AskUndo | RollBackStep | End


def read_progress(steps: Sequence[PlannedStep], rows: Iterable[Recorded]) -> tuple[StepProgress, ...]:
    """Return the state of each step, in the order of the steps."""
    events: dict[str, list[Recorded]] = {}
    for each in rows:
        events.setdefault(each.row.step_id, []).append(each)
    return tuple(_progress(step, events) for step in steps)


def next_move(steps: Sequence[PlannedStep], rows: Sequence[Recorded], *, keep: bool) -> Move:
    """Return the next thing to do. `keep`: completed steps stay if a person refuses a later step."""
    progress = read_progress(steps, rows)
    state = next((each for each in reversed(rows) if each.row.step_id == WHOLE), None)
    if state is not None and state.row.event in ENDINGS:
        undo = next((each for each in reversed(rows) if is_undo(each.row.step_id) and each.seq > state.seq), None)
        if undo is None or undo.row.event == "REFUSED":
            return End(ENDINGS[state.row.event], _remaining(progress), is_recorded=True)
        return _roll_back(progress, "ROLLED_BACK") if undo.row.event == "UNDO_ALLOWED" else AskUndo(undo.row.step_id)
    for each in progress:
        if each.event in {"SUCCEEDED", "ROLLED_BACK"} and not each.rollback:
            continue
        if each.event == "FAILED" and (again := _retry(each)) is not None:
            return again
        if each.event not in {"FAILED", "REFUSED"} and not each.rollback:
            return RunStep(each.step)
        return _abort(progress, each, keep=keep)
    return End("COMPLETED")


def retry_problem(failure: Recorded, step: PlannedStep, attempts: int) -> str:
    """Say why a failed attempt is not followed by another. Empty if the policy of the step allows one."""
    policy = step.retry
    if failure.row.event != "FAILED":
        return "the last attempt did not fail"
    if failure.row.effect != "NONE":
        return "it is not certain that the last attempt had no effect"
    if attempts >= policy.max_attempts:
        return "the step has no attempt left"
    if policy.codes and failure.row.reason_code not in policy.codes:
        return "the policy of the step does not name this failure"
    return ""


def retry_time(failure: Recorded, step: PlannedStep, attempts: int) -> datetime:
    """Return the time before which the next attempt does not start."""
    return parse_time(failure.created_at) + timedelta(milliseconds=step.retry.backoff_ms[attempts - 1])


def _progress(step: PlannedStep, events: dict[str, list[Recorded]]) -> StepProgress:
    own = events.get(step.step_id, [])
    back = events.get(rollback_id_of(step.step_id), [])
    if not own:
        return StepProgress(step)
    last = own[-1]
    attempts = sum(each.row.event in _DISPATCHED for each in own)
    failure = last if last.row.event == "FAILED" else None
    rollback = back[-1].row.event if back else ""
    return StepProgress(step, last.row.event, attempts, failure, rollback, last.row.reason_code or "")


def _retry(progress: StepProgress) -> RetryStep | None:
    if progress.failure is None or retry_problem(progress.failure, progress.step, progress.attempts):
        return None
    at = retry_time(progress.failure, progress.step, progress.attempts)
    return RetryStep(progress.step, progress.attempts + _FIRST, at)


def _abort(progress: Sequence[StepProgress], cause: StepProgress, *, keep: bool) -> Move:
    """Return the next rollback, or the end. `cause` is the step that did not succeed, or one with a begun rollback."""
    stopped = next((each for each in progress if each.event in {"FAILED", "REFUSED"}), cause)
    if keep and stopped.is_refused_by_a_person:
        remaining = _remaining(progress)
        return End("ABORTED_PARTIAL" if remaining else "REFUSED", remaining)
    return _roll_back(progress, "ABORTED_ROLLED_BACK" if any(each.has_run for each in progress) else "REFUSED")


def _roll_back(progress: Sequence[StepProgress], ending: Ending) -> RollBackStep | End:
    """Return the next rollback, in reverse order, or the end. A rollback that did not succeed ends it."""
    for each in reversed(progress):
        if each.event != "SUCCEEDED":
            continue
        if each.rollback in {"FAILED", "REFUSED"}:
            break
        return RollBackStep(each.step)
    remaining = _remaining(progress)
    return End("ABORTED_PARTIAL" if remaining else ending, remaining)


def _remaining(progress: Sequence[StepProgress]) -> tuple[str, ...]:
    return tuple(each.step.name for each in progress if each.may_remain)
