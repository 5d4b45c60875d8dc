"""Goals with several steps for several workers, one of which is killed every few seconds.

Each turn of a goal may be taken by another worker, and some goals are taken by two at once. Of some goals the worker is
killed and nobody goes on with them: what becomes of these, recovery alone decides.
"""

import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.crash.goals.driver import Drive, Driven, Progress, twice
from tests.crash.goals.worker import Job, Work
from tests.crash.steps.office import StepsOffice
from tests.crash.steps.scripts import Script
from tests.crash.steps.turns import MORE, RECOVER

LEFT_ALONE = 0.2
"""How many of the goals whose worker is killed are left to recovery."""


@dataclass
class StepsDriven:
    """What the driver saw."""

    driven: Driven
    left: set[str] = field(default_factory=set)
    turns: int = 0
    ended: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Pace:
    """The least and the most seconds between two kills, and the most kills."""

    least: float
    most: float
    kills: int


def drive_steps(
    office: StepsOffice,
    scripts: Mapping[str, Script],
    work: Work,
    *,
    workers: int,
    pace: Pace,
    seed: int,
    on_progress: Progress = lambda _done, _total: None,
) -> StepsDriven:
    """Every goal has ended or waits for a person afterwards, but for those that are left alone."""
    chance = random.Random(seed)  # noqa: S311 - moments and places, no secret
    jobs = twice([Job(each.correlation_id, str(each.number)) for each in scripts.values()], chance)
    drive = _Steps(office.scratch, jobs, work, chance, on_progress)
    drive.begin(scripts, pace)
    driven = drive.run(workers)
    return StepsDriven(driven, drive.left, drive.turns, drive.ended)


class _Steps(Drive):
    longest_wait = 240.0

    def begin(self, scripts: Mapping[str, Script], pace: Pace) -> None:
        self._scripts = scripts
        self._pace = pace
        self._next_kill = time.monotonic() + self._pause()
        self._at_work: Counter[str] = Counter()
        self._unsettled: set[str] = set()
        self._held: dict[str, str] = {}
        """The goal that each lane's database belongs to, for now."""
        self.left: set[str] = set()
        self.turns = 0
        self.ended: Counter[str] = Counter()

    def choose(self) -> None:
        ready = [worker for worker in self.workers if worker.is_ready]
        if ready and self.seen.killed < self._pace.kills and time.monotonic() >= self._next_kill - 1.0:
            self.doomed = (self._next_kill, self.chance.choice(ready))
            self._next_kill += self._pause()

    def next_job(self) -> Job | None:
        """The next goal whose database no other goal is at."""
        for job in self.jobs:
            lane = self._lane(job)
            if lane is None or self._held.get(lane, job.correlation_id) == job.correlation_id:
                self.jobs.remove(job)
                self._at_work[job.correlation_id] += 1
                if lane is not None:
                    self._held[lane] = job.correlation_id
                return job
        return None

    def answered(self, job: Job, said: str) -> None:
        self._at_work[job.correlation_id] -= 1
        self._unsettled.discard(job.correlation_id)
        self._free(job)
        if job.name == RECOVER:
            return
        self.turns += 1
        if said == MORE and job.correlation_id not in self.left:
            # Not at once: others have their turn, and then often another worker goes on with it.
            self.jobs.insert(min(len(self.jobs), self.chance.randrange(1, 8)), job)
            return
        self.ended[said] += 1
        super().answered(job, said)

    def interrupted(self, job: Job) -> None:
        self._at_work[job.correlation_id] -= 1
        self._unsettled.add(job.correlation_id)
        if job.name != RECOVER and (job.correlation_id in self.left or self.chance.random() < LEFT_ALONE):
            self._leave(job)
        else:
            super().interrupted(job)

    def try_again(self, job: Job, why: str, *, first: bool = False) -> None:
        if not first:
            self._at_work[job.correlation_id] -= 1
            self._unsettled.add(job.correlation_id)
        if job.correlation_id in self.left and job.name != RECOVER:
            self._leave(job)
        else:
            super().try_again(job, why, first=first)

    def _leave(self, job: Job) -> None:
        """Nobody goes on with it. But its database is not used before it was recovered, while others are at work."""
        self.left.add(job.correlation_id)
        if self._lane(job) is not None:
            self.jobs.appendleft(Job(job.correlation_id, RECOVER))
        self.done()

    def _free(self, job: Job) -> None:
        lane, name = self._lane(job), job.correlation_id
        if (
            lane is not None
            and not self._at_work[name]
            and name not in self._unsettled
            and self._held.get(lane) == name
        ):
            del self._held[lane]

    def _lane(self, job: Job) -> str | None:
        script = self._scripts[job.correlation_id]
        return script.lane if script.writes_rows else None

    def _pause(self) -> float:
        return self.chance.uniform(self._pace.least, self._pace.most)
