"""Goals for several workers, some given twice, while workers are killed at random moments and replaced."""

import random
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from remit.core.ids import uuid7
from remit.testing.goal_workspace import GoalWorkspace
from tests.crash.goals.worker import AGAIN, READY, Job, Worker, speaking, start

MOST_TRIES = 60
TWICE = 0.1
"""How many of the goals are given twice: half of these to two workers at once, the others again later."""
LONGEST_WAIT = 60.0
MOMENTS = 0.06
"""A worker is killed so many seconds, at most, after it was chosen: about as long as a goal takes."""


@dataclass
class Driven:
    """What the driver saw."""

    wanted: dict[str, str]
    asked: int = 0
    killed: int = 0
    killed_at_work: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    tried_again: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


def drive(
    scratch: GoalWorkspace,
    *,
    goals: int,
    workers: int,
    kills: int,
    seed: int,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Driven:
    """Every goal has an outcome afterwards, or a problem says which has none."""
    return _Drive(scratch, goals, workers, kills, seed, on_progress).run()


class _Drive:
    def __init__(
        self,
        scratch: GoalWorkspace,
        goals: int,
        workers: int,
        kills: int,
        seed: int,
        on_progress: Callable[[int, int], None],
    ) -> None:
        self._scratch = scratch
        self._count = workers
        self._chance = random.Random(seed)  # noqa: S311 - moments and places, no secret
        self._on_progress = on_progress
        self._jobs = self._planned(goals)
        self._total = len(self._jobs)
        # Somewhere along the way, a little before the end: what was killed last is to be gone on with, too.
        self._kills = deque(sorted(self._chance.randrange(1, max(2, self._total - workers)) for _ in range(kills)))
        self._tries: Counter[Job] = Counter()
        self._workers: list[Worker] = []
        self._doomed: tuple[float, Worker] | None = None
        self.seen = Driven({job.correlation_id: job.name for job in self._jobs})

    def _planned(self, goals: int) -> deque[Job]:
        made = [Job(uuid7(self._scratch.clock()), f"goal-{number}") for number in range(goals)]
        twice = set(self._chance.sample(range(goals), round(goals * TWICE)))
        jobs: list[Job] = []
        for number, job in enumerate(made):
            jobs += [job, job] if number in twice and number % 2 else [job]
        for number in sorted(twice):
            if number % 2 == 0:
                jobs.insert(self._chance.randrange(number, len(jobs) + 1), made[number])
        return deque(jobs)

    def run(self) -> Driven:
        began = time.monotonic()
        while len(self._workers) < self._count:
            self._workers.append(start(self._scratch, self._workers))
        try:
            while self.seen.asked < self._total and not self._is_stuck(began):
                self._turn()
        finally:
            for worker in self._workers:
                worker.bury()  # its jobs have an end, so it ends
        self.seen.seconds = time.monotonic() - began
        return self.seen

    def _turn(self) -> None:
        for worker in self._workers:
            if worker.is_ready and worker.job is None and self._jobs:
                worker.give(self._jobs.popleft())
        self._choose()
        wait = 1.0 if self._doomed is None else self._doomed[0] - time.monotonic()
        for worker in speaking(self._workers, wait):
            self._hear(worker)
        if self._doomed is not None and time.monotonic() >= self._doomed[0]:
            worker, self._doomed = self._doomed[1], None
            self._kill(worker)

    def _choose(self) -> None:
        if self._doomed is None and self._kills and self.seen.asked >= self._kills[0]:
            ready = [worker for worker in self._workers if worker.is_ready]
            if ready:
                self._kills.popleft()
                self._doomed = (time.monotonic() + self._chance.random() * MOMENTS, self._chance.choice(ready))

    def _hear(self, worker: Worker) -> None:
        said, job = worker.answer(), worker.job
        if not said:
            self.seen.problems.append(f"a worker died that nobody had killed, at {job}")
            self._kill(worker)
        elif said == READY:
            worker.is_ready = True
        elif job is not None:
            worker.job = None
            if said.startswith(AGAIN):
                self._try_again(job, said.removeprefix(AGAIN))
            else:
                self.seen.codes[said] += 1
                self._done()

    def _kill(self, worker: Worker) -> None:
        self.seen.killed += 1
        self.seen.killed_at_work += worker.job is not None
        if worker.job is not None:
            self._try_again(worker.job, "killed", first=True)
        worker.kill()
        self._workers.remove(worker)
        self._workers.append(start(self._scratch, self._workers))

    def _try_again(self, job: Job, why: str, *, first: bool = False) -> None:
        self._tries[job] += 1
        self.seen.tried_again[why] += 1
        if self._tries[job] > MOST_TRIES:
            self.seen.problems.append(f"{job.correlation_id}: no outcome after {MOST_TRIES} tries, at last: {why}")
            self._done()
        elif first:
            self._jobs.appendleft(job)
        else:
            self._jobs.append(job)

    def _done(self) -> None:
        self.seen.asked += 1
        self._progressed = time.monotonic()
        self._on_progress(self.seen.asked, self._total)

    def _is_stuck(self, began: float) -> bool:
        stuck = time.monotonic() - getattr(self, "_progressed", began) > LONGEST_WAIT
        if stuck:
            self.seen.problems.append(f"nothing came to an end for {LONGEST_WAIT:.0f} seconds")
        return stuck
