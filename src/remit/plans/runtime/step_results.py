"""Results of the steps of a run, as sandboxed processes report them, and the host's answers to their questions."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from remit.core.errors import Reason, RemitError
from remit.core.ids import Clock, render_time
from remit.effects.plans.steps import PlanStep, Result, StepPlan
from remit.plans.model.simulation_result import error_of, protocol_error
from remit.plans.runtime.staged_files import StagedFiles
from remit.sandbox.host import InterruptedTaskError

CheckNextWave = Callable[[int, Collection[int]], RemitError | None]
"""Called before the switches of a wave with the steps of earlier waves that are not done. Returns a reason to stop."""


class StepResults:
    """The results of a run. At the end there is one for each step. Thread-safe."""

    def __init__(
        self, plan: StepPlan, clock: Clock, on_progress: Callable[[int, int], None], staged: StagedFiles
    ) -> None:
        self._plan = plan
        self._staged = staged
        self._clock = clock
        self._on_progress = on_progress
        self._guard = threading.Lock()
        self._started: dict[int, str] = {}
        self._ended: dict[int, Result] = {}
        self._cut_at: int | None = None
        self._wave = 0
        self.stopped: RemitError | None = None
        """The reason why the host stopped the run."""

    def record(self, message: Mapping[str, Any]) -> None:
        number, phase = message["number"], message["phase"]
        now = render_time(self._clock())
        with self._guard:
            if phase == "begun":
                self._started[number] = now
            elif phase == "staged":
                self._staged.start_sync(number, message.get("inode"))
            elif phase in {"done", "failed", "skipped"}:
                self._end(number, phase, message, now)

    def _end(self, number: int, phase: Any, message: Mapping[str, Any], now: str) -> None:
        error = self._error(number, message["error"]) if phase == "failed" else None
        reason = str(message.get("reason", ""))[:500] if phase == "skipped" else ""
        self._ended[number] = Result(number, phase, self._started.get(number, now), now, error, reason)
        self._on_progress(len(self._ended), len(self._plan.steps))

    def _error(self, number: int, error: Mapping[str, str]) -> dict[str, str]:
        """Return the error. If the host already knew that the step could not be done, its own error is used."""
        known = self._plan.steps[number].problem
        return error_of(known if known is not None else error)

    def answer_waves(self, check_next_wave: CheckNextWave) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
        """Return the answers to one process that has all waves. It asks before each wave that has something to do."""

        def answer(question: Mapping[str, Any]) -> Mapping[str, Any]:
            wave = question.get("wave")
            if type(wave) is not int or not self._wave <= wave < len(self._plan.waves):
                raise protocol_error("it asked for a wave that is over or does not exist")
            durable = self.wait_for_staged()  # before the check: the deadline of the plan may pass meanwhile
            self.stopped = check_next_wave(wave, self.not_done(self._plan.waves[:wave]))
            self._wave = wave + 1
            return {"go": self.stopped is None, "durable": durable}

        return answer

    def wait_for_staged(self) -> list[int]:
        """Wait for the syncs of new files that have begun. Return the steps whose new file is durable."""
        return self._staged.wait()

    def not_done(self, waves: Sequence[Sequence[int]]) -> list[int]:
        with self._guard:
            return [number for wave in waves for number in wave if not self._is_done(number)]

    def has_failed(self) -> bool:
        with self._guard:
            return any(result.state == "failed" for result in self._ended.values())

    def without_blocked(self, numbers: Sequence[int]) -> list[int]:
        """Return the steps whose dependencies are done. The others are skipped, with the reason."""
        ready = []
        for number in numbers:
            reason = self._blocked_by(self._plan.steps[number])
            if reason:
                self.record({"number": number, "phase": "skipped", "reason": reason})
            else:
                ready.append(number)
        return ready

    def _blocked_by(self, step: PlanStep) -> str:
        for need in step.needs:
            if not self._is_done(need):
                ended = self._ended.get(need)
                how = "failed" if ended is not None and ended.state == "failed" else "was skipped"
                return f"Dependency {self._plan.steps[need].action_id} {how}"
        return ""

    def _is_done(self, number: int) -> bool:
        ended = self._ended.get(number)
        return ended is not None and ended.state == "done"

    def mark_interrupted(self, problem: InterruptedTaskError) -> None:
        if problem.step is not None and self._cut_at is None:
            self._cut_at = problem.step

    def complete(self, problem: RemitError | None) -> tuple[Result, ...]:
        """Return one result for each step. A problem that ended the run early becomes the failure of the running
        step.
        """
        now = render_time(self._clock())
        if problem is not None:
            at = self._running_step()
            if at is not None:
                error = problem.as_json()
                self._ended[at] = Result(at, "failed", self._started.get(at, now), now, error)
        failed = next((r for r in sorted(self._ended.values()) if r.state == "failed"), None)
        why = f"Stopped after {self._plan.steps[failed.number].action_id} failed" if failed else "Stopped"
        if problem is not None and problem.reason is Reason.CANCELLED:
            why = "Cancelled"
        left = [step.number for step in self._plan.steps if step.number not in self._ended]
        for number in left:
            self._ended[number] = Result(number, "skipped", now, now, None, why)
        return tuple(self._ended[step.number] for step in self._plan.steps)

    def _running_step(self) -> int | None:
        if self._cut_at is not None and self._cut_at not in self._ended:
            return self._cut_at
        open_ones = [number for number in self._started if number not in self._ended]
        left = [step.number for step in self._plan.steps if step.number not in self._ended]
        return next(iter(open_ones or left), None)
