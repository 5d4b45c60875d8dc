"""Goals for several workers, some given twice, while workers are killed at random moments and replaced."""

import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from remit.core.ids import uuid7
from remit.testing.goal_workspace import GoalWorkspace
from tests.crash.goals.worker import AGAIN, READY, Job, Work, Worker, complete, speaking, start

MOST_TRIES = 60
TWICE = 0.1
"""How many of the goals are given twice: half of these to two workers at once, the others again later."""
LONGEST_WAIT = 60.0
MOMENTS = 0.06
"""A worker is killed so many seconds, at most, after it was chosen: about as long as a goal takes."""

Progress = Callable[[int, int], None]


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
    on_progress: Progress = lambda _done, _total: None,
) -> Driven:
    """Every goal has an outcome afterwards, or a problem says which has none."""
    chance = random.Random(seed)  # noqa: S311 - moments and places, no secret
    made = [Job(uuid7(scratch.clock()), f"goal-{number}") for number in range(goals)]
    drive = KilledByCount(scratch, twice(made, chance), complete, chance, on_progress)
    drive.plan(kills, workers)
    return drive.run(workers)


def twice(made: list[Job], chance: random.Random) -> list[Job]:
    """The jobs in order, and some of them a second time."""
    again = set(chance.sample(range(len(made)), round(len(made) * TWICE)))
    jobs: list[Job] = []
    for number, job in enumerate(made):
        jobs += [job, job] if number in again and number % 2 else [job]
    for number in sorted(again):
        if number % 2 == 0:
            jobs.insert(chance.randrange(number, len(jobs) + 1), made[number])
    return jobs


class Drive:
    """The jobs, the workers and who does what. When a worker is killed, `choose` says."""

    longest_wait = LONGEST_WAIT

    def __init__(
        self, scratch: GoalWorkspace, jobs: Iterable[Job], work: Work, chance: random.Random, on_progress: Progress
    ) -> None:
        self._scratch = scratch
        self._work = work
        self._on_progress = on_progress
        self._tries: Counter[Job] = Counter()
        self._progressed = time.monotonic()
        self.chance = chance
        self.jobs = deque(jobs)
        self.total = len(self.jobs)
        self.workers: list[Worker] = []
        self.doomed: tuple[float, Worker] | None = None
        self.seen = Driven({job.correlation_id: job.name for job in self.jobs})

    def choose(self) -> None:
        """Set `doomed`, if it is time: who is killed next, and when."""
        raise NotImplementedError

    def next_job(self) -> Job | None:
        """One for a worker without work."""
        return self.jobs.popleft() if self.jobs else None

    def answered(self, job: Job, said: str) -> None:  # noqa: ARG002 - other drivers use the job
        """A worker has done this job."""
        self.seen.codes[said] += 1
        self.done()

    def interrupted(self, job: Job) -> None:
        """The worker of this job is killed."""
        self.try_again(job, "killed", first=True)

    def run(self, workers: int) -> Driven:
        began = self._progressed = time.monotonic()
        while len(self.workers) < workers:
            self.workers.append(start(self._scratch, self.workers, self._work))
        try:
            while self.seen.asked < self.total and not self._is_stuck():
                self._turn()
        finally:
            for worker in self.workers:
                worker.bury()  # its jobs have an end, so it ends
        self.seen.seconds = time.monotonic() - began
        return self.seen

    def _turn(self) -> None:
        for worker in self.workers:
            if worker.is_ready and worker.job is None and (job := self.next_job()) is not None:
                worker.give(job)
        if self.doomed is None:
            self.choose()
        wait = 1.0 if self.doomed is None else self.doomed[0] - time.monotonic()
        for worker in speaking(self.workers, min(wait, 1.0)):
            self._hear(worker)
        if self.doomed is not None and time.monotonic() >= self.doomed[0]:
            worker, self.doomed = self.doomed[1], None
            self._kill(worker)

    def _hear(self, worker: Worker) -> None:
        said, job = worker.answer(), worker.job
        if not said:
            self.seen.problems.append(f"a worker died that nobody had killed, at {job}")
            self._kill(worker)
        elif said == READY:
            worker.is_ready = True
        elif job is not None:
            worker.job = None
            self._progressed = time.monotonic()
            if said.startswith(AGAIN):
                self.try_again(job, said.removeprefix(AGAIN))
            else:
                self.answered(job, said)

    def _kill(self, worker: Worker) -> None:
        self.seen.killed += 1
        self.seen.killed_at_work += worker.job is not None
        if self.doomed is not None and self.doomed[1] is worker:
            self.doomed = None
        worker.kill()
        if worker.job is not None:
            self.interrupted(worker.job)
        self.workers.remove(worker)
        self.workers.append(start(self._scratch, self.workers, self._work))

    def try_again(self, job: Job, why: str, *, first: bool = False) -> None:
        self._tries[job] += 1
        self.seen.tried_again[why] += 1
        if self._tries[job] > MOST_TRIES:
            self.seen.problems.append(f"{job.correlation_id}: no outcome after {MOST_TRIES} tries, at last: {why}")
            self.done()
        elif first:
            self.jobs.appendleft(job)
        else:
            self.jobs.append(job)

    def done(self) -> None:
        self.seen.asked += 1
        self._on_progress(self.seen.asked, self.total)

    def _is_stuck(self) -> bool:
        stuck = time.monotonic() - self._progressed > self.longest_wait
        if stuck:
            self.seen.problems.append(f"nothing came to an end for {self.longest_wait:.0f} seconds")
        return stuck


class KilledByCount(Drive):
    """Kills after so many jobs: a share of them, whatever time they take."""

    def plan(self, kills: int, workers: int) -> None:
        # Somewhere along the way, a little before the end: what was killed last is to be gone on with, too.
        places = (self.chance.randrange(1, max(2, self.total - workers)) for _ in range(kills))
        self._kills = deque(sorted(places))

    def choose(self) -> None:
        ready = [worker for worker in self.workers if worker.is_ready]
        if self._kills and self.seen.asked >= self._kills[0] and ready:
            self._kills.popleft()
            self.doomed = (time.monotonic() + self.chance.random() * MOMENTS, self.chance.choice(ready))
