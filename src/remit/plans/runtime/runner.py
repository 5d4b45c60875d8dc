"""Runs the steps of a plan in sandboxed processes: simulates, executes and undoes them, and checks the plan's rules.

The host sends the plan, receives messages and answers questions. A message about a step is untrusted data. The host
compares it with hashes that it computed itself, before and after the run.
"""

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, NamedTuple

from remit.core.errors import RemitError, as_remit_error
from remit.core.ids import Clock
from remit.effects.plans.steps import PlanStep, Result, StepPlan, encode_plan
from remit.effects.registry import PathUse
from remit.fs.paths import Located
from remit.plans.model.callbacks import NO_HOOKS
from remit.plans.model.simulation_result import SimulatedStep, protocol_error, read_simulated_step
from remit.plans.runtime.staged_files import StagedFiles
from remit.plans.runtime.step_results import CheckNextWave, StepResults
from remit.sandbox.host import InterruptedTaskError, PrewarmedProcess, SandboxHost
from remit.sandbox.memfd import sealed
from remit.sandbox.orders import FolderGrant, Order, Usage


class EffectNames(NamedTuple):
    """The names of the three effects for a plan."""

    simulate: str
    execute: str
    check: str


PLAIN_EFFECTS: Final = EffectNames(
    *(f"remit.effects.plans.entry_plain:{name}" for name in ("SIMULATE", "APPLY", "CHECK"))
)
FULL_EFFECTS: Final = EffectNames(
    *(f"remit.effects.plans.entry_full:{name}" for name in ("SIMULATE", "APPLY", "CHECK"))
)


class StepTimes(NamedTuple):
    """Seconds for each step, and for all steps together."""

    paces: tuple[float, ...] = ()
    seconds: float | None = None


class StepRunResult(NamedTuple):
    """One result for each step, and the error that ended the run early, unless only a step failed."""

    results: tuple[Result, ...]
    problem: RemitError | None = None
    used: Usage | None = None


_ANY_TIME: Final = StepTimes()


class PlanRunner:
    """Runs one plan for one request. `is_cancelled` is called often, so it must be fast."""

    def __init__(
        self,
        host: SandboxHost,
        effects: EffectNames,
        task_id: str,
        clock: Clock,
        *,
        is_cancelled: Callable[[], bool] = lambda: False,
        on_progress: Callable[[int, int], None] = NO_HOOKS.on_progress,
    ) -> None:
        self._host = host
        self._effects = effects
        self._task_id = task_id
        self._clock = clock
        self._is_cancelled = is_cancelled
        self._on_progress = on_progress

    def simulate(
        self, plan: StepPlan, places: Mapping[int, Located], times: StepTimes, prepared: Mapping[str, int] | None = None
    ) -> tuple[SimulatedStep, ...]:
        """Simulate each step on the current files. Nothing is changed: the process may only read.

        `prepared` are files that exist already and are scanned, by the sources of their steps.
        """
        frames: dict[int, dict[str, Any]] = {}
        texts: dict[int, list[str]] = {}

        def record(message: Mapping[str, Any]) -> None:
            if message["phase"] == "diff":
                texts.setdefault(message["number"], []).append(str(message.get("text", "")))
            elif message["phase"] == "seen":
                frames[message["number"]] = dict(message)

        order = self.order(self._effects.simulate, places, PathUse.READ, times)
        self._run(order, plan, on_step=record, is_cancelled=self._is_cancelled, more=prepared)
        if sorted(frames) != list(range(len(plan.steps))):
            raise protocol_error("it did not report every step")
        return tuple(
            read_simulated_step(frames[step.number], "".join(texts.get(step.number, []))) for step in plan.steps
        )

    def prepare(
        self,
        plan: StepPlan,
        places: Mapping[int, Located],
        times: StepTimes,
        *,
        restoring: Mapping[str, int] | None = None,
        prepared: Mapping[str, int] | None = None,
    ) -> "StepRun":
        """Return the run of a plan, which `execute` executes. No process is started yet.

        `restoring` maps names to descriptors of files to restore from. If it is given, even empty, new files may get
        owners and attributes. `prepared` does the same for files made before the run. The descriptors stay open until
        the run has ended.
        """
        return StepRun(self, plan, places, times, restoring, prepared or {})

    def execute(self, run: "StepRun", check_next_wave: CheckNextWave, *, lanes: int = 1) -> StepRunResult:
        """Execute all steps in order. With several lanes, steps of one wave run in parallel.

        Before the switches of each wave, `check_next_wave` gets the steps of earlier waves that are not done, and
        returns a reason to stop or None. A failed step is a result. Any other error is returned as `problem`, after
        every process has ended; only an interrupt is raised.
        """
        problem: RemitError | None
        with StagedFiles(run.plan, run.places) as staged:
            step_results = StepResults(run.plan, self._clock, self._on_progress, staged)
            if lanes > 1:
                problem = self._execute_in_lanes(run, step_results, check_next_wave, lanes)
            else:
                problem = run.run(run.plan, step_results, step_results.answer_waves(check_next_wave))
        return StepRunResult(step_results.complete(problem), problem, run.used)

    def undo(
        self, plan: StepPlan, places: Mapping[int, Located], wave: int, not_done: Collection[int]
    ) -> tuple[int, ...]:
        """Undo one wave. `not_done` are steps that are known not to be done.

        Returns the steps whose path is not restored because another process put a file there, which is kept.
        """
        inputs = {"wave": wave, "not_done": sorted(not_done)}
        order = self.order(self._effects.execute, places, PathUse.MAKE)
        match self._run(replace(order, call="undo", inputs=inputs), plan):
            case {"left": [*numbers]} if all(type(n) is int and 0 <= n < len(plan.steps) for n in numbers):
                return tuple(numbers)
        raise protocol_error("it did not report which files it left unchanged")

    def finish(self, plan: StepPlan, places: Mapping[int, Located], wave: int, not_done: Collection[int]) -> bool:
        """Return whether an interrupted run had completed. Changes nothing, and makes the state that it finds
        durable.
        """
        inputs = {"wave": wave, "not_done": sorted(not_done)}
        order = self.order(self._effects.execute, places, PathUse.MAKE)
        match self._run(replace(order, call="finish", inputs=inputs), plan):
            case {"forward": bool(forward)}:
                return forward
        raise protocol_error("it did not report the state that it found")

    def check(self, plan: StepPlan, places: Mapping[int, Located], seconds: float) -> None:
        """Check the plan's rules. Raises the error of the first rule that does not hold."""
        self._run(self.order(self._effects.check, places, PathUse.READ, StepTimes((), seconds)), plan)

    def _execute_in_lanes(
        self, run: "StepRun", step_results: "StepResults", check_next_wave: CheckNextWave, lanes: int
    ) -> RemitError | None:
        plan = run.plan
        with ThreadPoolExecutor(lanes, thread_name_prefix="remit-lane") as pool:
            for wave, numbers in enumerate(plan.waves):
                ready = step_results.without_blocked(numbers)
                problem = check_next_wave(wave, step_results.not_done(plan.waves[:wave]))
                if problem is not None:
                    return problem
                problem = self._run_wave(run, step_results, ready, lanes, pool)
                if problem is not None:
                    return problem
                if plan.stop_on_error and step_results.has_failed():
                    return None
        return None

    def _run_wave(
        self,
        run: "StepRun",
        step_results: "StepResults",
        numbers: Sequence[int],
        lanes: int,
        pool: ThreadPoolExecutor,
    ) -> RemitError | None:
        stopping = threading.Event()
        stop_on_error = run.plan.stop_on_error

        def answer(_question: Mapping[str, Any]) -> Mapping[str, Any]:
            durable = step_results.wait_for_staged()
            return {"go": not (stopping.is_set() or (stop_on_error and step_results.has_failed())), "durable": durable}

        def one(share: tuple[int, ...]) -> RemitError | None:
            problem = run.run(run.share(share), step_results, answer, stopping)
            if problem is not None:
                stopping.set()
            return problem

        shares = [tuple(numbers[lane::lanes]) for lane in range(min(lanes, len(numbers)))]
        running: list[Future[RemitError | None]] = [pool.submit(one, share) for share in shares]
        try:
            problems = [future.result() for future in running]
        except BaseException:
            stopping.set()  # the processes are killed at their next check, and the pool waits for that
            raise
        return next((problem for problem in problems if problem is not None), None)

    def _run(
        self,
        order: Order,
        plan: StepPlan,
        *,
        on_step: Callable[[Mapping[str, Any]], None] | None = None,
        is_cancelled: Callable[[], bool] | None = None,
        more: Mapping[str, int] | None = None,
    ) -> dict[str, Any] | None:
        with open_plan(plan, more) as descriptors:
            return self._host.run(order, given=descriptors, on_step=on_step, is_cancelled=is_cancelled).output

    def order(self, effect: str, places: Mapping[int, Located], use: PathUse, times: StepTimes = _ANY_TIME) -> Order:
        return Order(
            effect=effect,
            call="run",
            task_id=self._task_id,
            capability_id="PLAN",
            inputs={},
            reversible=True,
            part_name="",
            places={str(path): FolderGrant(*place, use=use) for path, place in places.items()},
            seconds=times.seconds,
            paces=times.paces,
        )

    @property
    def effects(self) -> EffectNames:
        return self._effects

    @property
    def host(self) -> SandboxHost:
        return self._host

    def is_cancelled(self) -> bool:
        return self._is_cancelled()


class StepRun:
    """The run of a plan, and what all of its processes share."""

    def __init__(
        self,
        runner: PlanRunner,
        plan: StepPlan,
        places: Mapping[int, Located],
        times: StepTimes,
        restoring: Mapping[str, int] | None,
        prepared: Mapping[str, int],
    ) -> None:
        self.plan = plan
        self.used: Usage | None = None
        self._runner = runner
        self.places = places
        self._times = times
        self._restoring = restoring
        self._sources = {**prepared, **(restoring or {})}
        self._process: PrewarmedProcess | None = None
        self._waiting = contextlib.ExitStack()

    def prewarm(self) -> None:
        """Start the one process of a run without lanes. It does nothing before the run. The caller calls `close`."""
        with contextlib.ExitStack() as stack:
            self._process = self._start(self.plan, stack)
            self._waiting = stack.pop_all()

    def close(self) -> None:
        """End the process that waits, if it was not used."""
        self._waiting.close()

    def share(self, numbers: Sequence[int]) -> StepPlan:
        """Return a part of one wave. Its dependencies are done. Operations of other steps are removed."""
        selected = frozenset(numbers)
        steps = tuple(
            step._replace(needs=()) if step.number in selected else step._replace(needs=(), operation={})
            for step in self.plan.steps
        )
        return self.plan._replace(steps=steps, waves=(tuple(numbers),))

    def run(
        self,
        plan: StepPlan,
        step_results: "StepResults",
        answer: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        stopping: threading.Event | None = None,
    ) -> RemitError | None:
        """Run one process. An error in it ends the plan, and is returned."""
        runner = self._runner
        try:
            with self._waiting.pop_all() as stack:
                process, self._process = self._process or self._start(plan, stack), None
                finished = process.run(
                    on_ask=answer,
                    on_step=step_results.record,
                    is_cancelled=lambda: runner.is_cancelled() or (stopping is not None and stopping.is_set()),
                )
        except InterruptedTaskError as mark_interrupted:
            self.used = mark_interrupted.usage
            step_results.mark_interrupted(mark_interrupted)
            return mark_interrupted
        except Exception as problem:  # noqa: BLE001 - after any error the process is dead, and the plan is undone
            return as_remit_error(problem)
        self.used = finished.usage
        return step_results.stopped

    def _start(self, plan: StepPlan, stack: contextlib.ExitStack) -> PrewarmedProcess:
        """Send the order. The stack ends the process and closes the plan."""
        runner = self._runner
        touched = paths_of(plan.steps[number] for wave in plan.waves for number in wave)
        places = {path: place for path, place in self.places.items() if path in touched}
        order = runner.order(runner.effects.execute, places, PathUse.MAKE, self._times)
        order = replace(order, restores=self._restoring is not None)
        descriptors = stack.enter_context(open_plan(plan, self._sources))
        return stack.enter_context(runner.host.prewarm(order, given=descriptors))


@contextlib.contextmanager
def open_plan(plan: StepPlan, more: Mapping[str, int] | None = None) -> Iterator[dict[str, int]]:
    """Pass the plan in a file of its own, because it is too large for a frame."""
    with sealed("plan", encode_plan(plan)) as descriptor:
        yield {"plan": descriptor, **(more or {})}


def paths_of(steps: Iterable[PlanStep]) -> set[int]:
    return {path for step in steps for path in (step.path, step.new_path) if path is not None}
