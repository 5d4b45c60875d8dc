"""Which sweeps there are, and how one is run: in a process of its own, whose findings come back as data."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class Job:
    """One sweep. `finds` says that something is wrong on purpose, and must be noticed.

    Every `step`-th point is taken, of those that are to change `place` if one is given.
    """

    scenario: str
    way: str
    layout: str
    step: int = 1
    second: int = 1
    place: str = ""
    sabotage: str = ""
    finds: bool = False
    scenarios: str = "tests.crash.tasks.scenarios"

    def __str__(self) -> str:
        return f"{self.scenario}, {self.layout}, {self.way}{' with ' + self.sabotage if self.sabotage else ''}"


@dataclass(frozen=True, slots=True)
class Report:
    points: int
    calls: dict[str, int]
    places: dict[str, int]
    problems: list[str]
    seconds: float


HONEST: Final = (
    *(Job("counter", way, "ledger apart", place="files,set aside") for way in ("kill", "full")),
    Job("counter", "power", "ledger apart", step=3),
)
PLANTED: Final = (
    Job("counter: in-place write", "kill", "together", place="files,set aside", finds=True),
    Job("counter: no fsync", "power", "together", step=3, finds=True),
    Job("counter: no directory fsync", "power", "ledger apart", step=3, finds=True),
    Job("counter: synchronous=off", "power", "together", step=3, finds=True),
    Job("counter: short write", "full", "together", place="files,set aside", finds=True),
    Job("counter: short copy", "short", "together", place="files,set aside", finds=True),
    Job("counter: doubled effect", "kill", "together", place="files,set aside", finds=True),
)
"""Each bug where it shows. A kill never shows a missing fsync; a ledger on the same disk hides one of a folder."""

SABOTAGED: Final = (
    Job("FILE_COPY", "power", "ledger apart", step=3, sabotage="no fsync of the file", finds=True),
    Job("FILE_MOVE", "power", "ledger apart", step=3, sabotage="no fsync of its folder", finds=True),
    Job("FILE_DELETE", "power", "ledger apart", step=3, sabotage="no fsync of its folder", finds=True),
    Job("FILE_MOVE", "power", "across, ledger apart", step=3, sabotage="no fsync of the ledger", finds=True),
    Job("FILE_DELETE", "power", "ledger apart", step=3, sabotage="no fsync of the snapshot", finds=True),
)
"""The product itself, with calls taken away from it by the supervisor: proof that the judge of tasks is not blind."""

_TASKS: Final = (
    ("FILE_MOVE", "together"),
    ("FILE_MOVE", "across"),
    ("FILE_COPY", "together"),
    ("FILE_DELETE", "together"),
)
_POWER: Final = (
    *_TASKS,
    ("FILE_MOVE", "ledger apart"),
    ("FILE_MOVE", "across, ledger apart"),
    ("FILE_COPY", "ledger apart"),
    ("FILE_DELETE", "ledger apart"),
)
FULL: Final = (
    *(Job(task, way, layout) for way in ("EIO", "full", "short", "ENOSPC") for task, layout in _TASKS),
    *(Job(task, "nested", layout, step=5, second=9) for task, layout in _TASKS),
    *(Job(f"{task}, retried", way, layout, step=3) for way in ("kill", "power") for task, layout in _TASKS),
    *(Job(task, "renumbered", layout, step=3) for task, layout in _TASKS),
    *(Job(task, "kill", layout) for task, layout in _TASKS),
    *(Job(task, "power", layout) for task, layout in _POWER),
)
SLICE: Final = (
    Job("FILE_MOVE", "kill", "across", step=6, place="files,set aside"),
    Job("FILE_MOVE", "power", "ledger apart", place="files,set aside"),
    Job("FILE_COPY", "full", "together", place="files,set aside"),
    Job("FILE_DELETE", "nested", "together", second=90, place="files,set aside"),
)


def run_job(job: Job) -> Report:
    """Run one sweep. A sweep that could not be made is an error, not a finding."""
    command = [sys.executable, "-m", "tests.crash.tasks.sweep", job.scenario, job.way, job.layout]
    command += [f"--step={job.step}", f"--second={job.second}", f"--scenarios={job.scenarios}"]
    command += [f"--place={job.place}"] if job.place else []
    command += [f"--sabotage={job.sabotage}"] if job.sabotage else []
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{job}: {done.stderr[-4000:]}")
    return Report(**json.loads(done.stdout.splitlines()[-1]))
