"""A load test of goals through all steps: several callers request and confirm them at once, some of them twice.

Every effect is real: a sandboxed copy and a durable ledger. `remit slo` and the benchmark use it.
"""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from remit.contracts.goals.dispatch import DispatchEnvelope, SimulationOutcome
from remit.core.errors import EnvironmentFailureError, Reason
from remit.core.ids import uuid7
from remit.goals.core import Executor
from remit.goals.service import GoalService
from remit.goals.slo import Rate, rolling_error_rate
from remit.testing.goal_evidence import GoalEvidence, read_evidence
from remit.testing.goal_workspace import TENANT, GoalWorkspace, complete_goal
from remit.workspace.workspace import Workspace

TWICE_AT_ONCE = 10
"""One goal of this many is requested by two callers at once."""
REPEATED_EVERY = 7
"""One goal of this many is requested again after it has ended."""
WARM_UP = 3
"""The number of goals before the measured ones. They start the sandbox and fill the caches."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of a load run. Times are in milliseconds, one for each goal."""

    goals: int
    asked: int
    callers: int
    seconds: float
    dispatch_ms: tuple[float, ...]
    goal_ms: tuple[float, ...]
    ended: Rate
    duplicates: Rate
    codes: dict[str, int]


@dataclass
class _Timed:
    """Wraps the executor, and stores the longest wait for each dispatch.

    A repeated request gets the stored outcome immediately. Only the longest wait counts, so repeats do not improve the
    percentiles.
    """

    inner: Executor
    waits: dict[str, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def dispatch(self, envelope: DispatchEnvelope, attempt: int = 1) -> SimulationOutcome:
        began = time.perf_counter()
        try:
            return self.inner.dispatch(envelope, attempt)
        finally:
            elapsed = (time.perf_counter() - began) * 1_000
            with self.lock:
                self.waits[envelope.idempotency_key] = max(elapsed, self.waits.get(envelope.idempotency_key, 0.0))


@contextmanager
def timed_dispatches(goals: GoalService) -> Iterator[dict[str, float]]:
    """Measure the milliseconds from the decision that allows a dispatch to its outcome, by idempotency key."""
    before = goals.core
    timed = _Timed(before.executor)
    goals.core = replace(before, executor=timed)
    try:
        yield timed.waits
    finally:
        goals.core = before


def run_load(
    scratch: GoalWorkspace,
    *,
    goals: int,
    callers: int,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> LoadResult:
    """Run the load in `callers` threads of one process, like a server."""
    with scratch.open() as workspace:
        for number in range(WARM_UP):
            complete_goal(workspace.goals, uuid7(workspace.clock()), f"warm-{number}")
        began = time.perf_counter()
        with timed_dispatches(workspace.goals) as waits:
            load = _Load(workspace, goals, on_progress)
            load.run(callers)
        seconds = time.perf_counter() - began
        evidence = read_evidence(workspace, scratch)
        _require_all_ended(evidence, goals + WARM_UP, load.codes)
        with workspace.store.reading() as connection:
            ended = rolling_error_rate(connection, (TENANT,), workspace.clock())
    return LoadResult(
        goals=goals,
        asked=load.asked,
        callers=callers,
        seconds=seconds,
        dispatch_ms=tuple(waits.values()),
        goal_ms=tuple(load.first_ms.values()),
        ended=ended,
        duplicates=evidence.duplicates,
        codes=dict(sorted(load.codes.items())),
    )


def _require_all_ended(evidence: GoalEvidence, goals: int, codes: Mapping[str, int]) -> None:
    """Raise if goals did not end. Without this check, a load that a gate has refused would show good figures."""
    ended = sum(event in {"SUCCEEDED", "FAILED"} for event in evidence.current_events.values())
    if ended != goals:
        listed = ", ".join(f"{code} {count:,}" for code, count in sorted(codes.items()))
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            f"the load run is incomplete: {ended:,} of {goals:,} goals were dispatched and ended ({listed})",
            next_step="Check this machine: remit doctor",
        )


class _Load:
    def __init__(self, workspace: Workspace, goals: int, on_progress: Callable[[int, int], None]) -> None:
        self._workspace = workspace
        self._on_progress = on_progress
        self._jobs: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._problems: list[BaseException] = []
        self.asked = 0
        self.first_ms: dict[str, float] = {}
        self.codes: Counter[str] = Counter()
        for number in range(goals):
            correlation_id = uuid7(workspace.clock())
            times = 2 if number % TWICE_AT_ONCE == 0 else 1
            for _ in range(times):
                self._jobs.put((correlation_id, number))
        self._total = self._jobs.qsize()

    def run(self, callers: int) -> None:
        threads = [threading.Thread(target=self._call, name=f"caller {number}") for number in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._problems:
            raise self._problems[0]

    def _call(self) -> None:
        while not self._problems:
            try:
                correlation_id, number = self._jobs.get_nowait()
            except queue.Empty:
                return
            try:
                self._run_timed(correlation_id, number)
            except BaseException as problem:  # noqa: BLE001 - `run` raises it after all threads have ended
                self._problems.append(problem)

    def _run_timed(self, correlation_id: str, number: int) -> None:
        for again in range(2 if number % REPEATED_EVERY == 0 else 1):
            began = time.perf_counter()
            code = _run_once(self._workspace.goals, correlation_id, f"goal-{number}")
            elapsed = (time.perf_counter() - began) * 1_000
            with self._lock:
                self.asked += 1
                self.codes[code] += 1
                if not again:
                    self.first_ms[correlation_id] = max(elapsed, self.first_ms.get(correlation_id, 0.0))
                self._on_progress(self.asked, self._total)


def _run_once(goals: GoalService, correlation_id: str, name: str) -> str:
    try:
        return complete_goal(goals, correlation_id, name).reason_code
    except EnvironmentFailureError as problem:
        if problem.reason is not Reason.IN_PROGRESS:  # another caller runs this goal
            raise
        return Reason.IN_PROGRESS.value
