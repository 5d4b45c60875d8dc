"""The progress of a run. Before each wave, the sandboxed process asks it whether the run may continue."""

import time
from collections.abc import Callable, Collection

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.core.ids import Clock, render_time
from remit.effects.plans.steps import Result, StepPlan, note_wave
from remit.execution.engine import Note


class WaveProgress:
    """The progress of one run. `require_still_valid` raises `RefusedError` when the authority has become invalid."""

    def __init__(
        self,
        plan: StepPlan,
        note: Note,
        is_cancelled: Callable[[], bool],
        require_still_valid: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._plan = plan
        self._note = note
        self._is_cancelled = is_cancelled
        self._require_still_valid = require_still_valid
        self._clock = clock
        self._deadline = time.monotonic()
        self.wave = 0
        """The last wave whose switches may have started."""
        self.not_done: frozenset[int] = frozenset()

    def set_deadline(self, seconds: float | None) -> None:
        self._deadline = time.monotonic() + (seconds or 0.0)

    def check_next_wave(self, wave: int, not_done: Collection[int]) -> RemitError | None:
        """Return the reason to stop, or None. The first wave needs no note, because the intent covers it."""
        problem = self.abort_reason()
        if problem is None and wave > 0:
            self._note(note_wave(wave, sorted(not_done)))
            self.wave, self.not_done = wave, frozenset(not_done)
        return problem

    def abort_reason(self) -> RemitError | None:
        """Return an error if the run was cancelled, its authority is invalid, or its time is over."""
        if self._is_cancelled():
            return EnvironmentFailureError(Reason.CANCELLED, "the plan was cancelled")
        if time.monotonic() > self._deadline:
            return EnvironmentFailureError(
                Reason.TIMED_OUT,
                "the plan exceeded its time limit",
                next_step="Split the plan, or raise its limit: `timeout_seconds` of the plan, or timeouts.task.",
            )
        try:
            self._require_still_valid()
        except RefusedError as problem:
            return problem
        return None

    def results(self, problem: RemitError) -> tuple[Result, ...]:
        """Return results when no process reported any: the first step failed, and the others never started."""
        now = render_time(self._clock())
        why = "Cancelled" if problem.reason is Reason.CANCELLED else "Stopped before it started"
        failed = tuple(Result(step.number, "failed", now, now, problem.as_json()) for step in self._plan.steps[:1])
        return (*failed, *(Result(step.number, "skipped", now, now, None, why) for step in self._plan.steps[1:]))


class Waves:
    """The progress of a rollback. A rollback cannot be cancelled, because an undo of it would take as long."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self.wave = 0
        self.not_done: frozenset[int] = frozenset()

    def check_next_wave(self, wave: int, not_done: Collection[int]) -> RemitError | None:
        if wave > 0:
            self._note(note_wave(wave, sorted(not_done)))
            self.wave, self.not_done = wave, frozenset(not_done)
        return None

    def note_not_done(self, results: Collection[Result]) -> None:
        self.not_done = frozenset(result.number for result in results if result.state != "done")
        self._note(note_wave(self.wave, sorted(self.not_done)))
