"""One worker: a process with a workspace of its own, that carries out goals which it is told of, one after another."""

import contextlib
import os
import select
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from remit.core.errors import RemitError
from remit.testing.goal_workspace import GoalWorkspace, complete_goal
from remit.workspace.workspace import Workspace

READY = "ready"
AGAIN = "again "
"""What an answer begins with if nothing can be said of the goal now: somebody else is at it, or has just died at it."""


@dataclass(frozen=True)
class Job:
    """A goal, asked for once."""

    correlation_id: str
    name: str


Work = Callable[[Workspace, Job], str]
"""What a worker does with a job, and the word that it says then."""


def complete(workspace: Workspace, job: Job) -> str:
    """The whole of a goal with a single step, and its reason code."""
    return complete_goal(workspace.goals, job.correlation_id, job.name).reason_code


@dataclass
class Worker:
    pid: int
    jobs: int
    answers: int
    job: Job | None = None
    is_ready: bool = False

    def give(self, job: Job) -> None:
        self.job = job
        os.write(self.jobs, f"{job.correlation_id} {job.name}\n".encode())

    def answer(self) -> str:
        """A word that has come; empty if the worker is gone."""
        return os.read(self.answers, 4_096).decode().rstrip("\n")

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.bury()

    def bury(self) -> None:
        os.close(self.jobs)
        os.close(self.answers)
        os.waitpid(self.pid, 0)


def start(scratch: GoalWorkspace, others: list[Worker], work: Work) -> Worker:
    """Forked, not started: whoever calls this has Remit loaded, one thread, and no workspace open."""
    for_jobs, jobs = os.pipe()
    answers, for_answers = os.pipe()
    pid = os.fork()
    if pid == 0:
        for descriptor in (jobs, answers, *(end for other in others for end in (other.jobs, other.answers))):
            os.close(descriptor)
        _work(scratch, for_jobs, for_answers, work)
    os.close(for_jobs)
    os.close(for_answers)
    return Worker(pid, jobs, answers)


def _work(scratch: GoalWorkspace, jobs: int, answers: int, work: Work) -> NoReturn:
    """Until nobody is left to say what to do. Nothing of the process that this one is forked from runs after it."""
    code = 1
    try:
        with contextlib.suppress(BrokenPipeError):
            with scratch.open() as workspace, os.fdopen(jobs, encoding="utf-8") as lines:
                os.write(answers, f"{READY}\n".encode())
                for line in lines:
                    try:
                        said = work(workspace, Job(*line.split()))
                    except RemitError as problem:
                        said = f"{AGAIN}{problem.reason.value}: {problem.what}"
                    os.write(answers, f"{said[:3_000]}\n".encode())
            code = 0
    except BaseException:  # noqa: BLE001 - the driver learns of it, because the worker is gone
        traceback.print_exc()
    finally:
        os._exit(code)


def speaking(workers: list[Worker], seconds: float) -> list[Worker]:
    """Those that have something to say, or have died."""
    if not workers:
        return []
    ready, _, _ = select.select([worker.answers for worker in workers], [], [], max(seconds, 0))
    return [worker for worker in workers if worker.answers in ready]
