"""The service for leased tasks. It runs tasks, reads their state by id, and issues leases for an admin."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

from remit.contracts.services.common import Progress, TaskAnswer, describe_error
from remit.contracts.tasks.result import ExecutionResult
from remit.contracts.tasks.task import LeaseToken, TaskManifest
from remit.core.canonical import digest_bytes
from remit.core.errors import Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT
from remit.execution.refusals import about_task
from remit.identity.callers import AgentCaller, Caller
from remit.masking import mask_json
from remit.services.agent_tasks import DIGEST_WITHHELD, has_content_digest, require_not_protected, result_for_agent
from remit.services.base.context import ServiceContext, require_wait
from remit.services.base.jobs import Job
from remit.services.base.ownership import (
    TASK_REQUESTED,
    find_requester,
    not_found_error,
    require_owner,
    task_request_entry,
)
from remit.services.base.permissions import Right, has_right, require
from remit.store.claims import ClaimCompleted, ClaimHeld

MAX_LEASE_LIFE: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class _TaskRun:
    result: ExecutionResult
    stored: bool
    refused: RefusedError | None


@dataclass(frozen=True, slots=True)
class StartedTask:
    """A task that was started."""

    task_id: str
    job: Job[_TaskRun]
    redact: Callable[[TaskAnswer], TaskAnswer] = lambda answer: answer
    """Removes the parts of an answer that the caller may not see."""

    def answer(self) -> TaskAnswer:
        """Return the current state of the task."""
        if self.job.is_running:
            return self.redact(TaskAnswer(state="running", task_id=self.task_id, progress=self.job.progress))
        return self.redact(_build_answer(self.task_id, self.job.result()))


class TaskService:
    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def run(self, caller: Caller, manifest: bytes, lease: bytes, wait: float = 0.0) -> TaskAnswer:
        """Run a leased task. The ledger records the caller with the intent, so that the caller can read it later."""
        with self._context.workspace.refusals.recording("task", caller.id, about_task(manifest)):
            require_wait(wait)
            started = self.start(caller, manifest, lease)
        started.job.wait(wait)
        return started.answer()

    def start(self, caller: Caller, manifest: bytes, lease: bytes) -> StartedTask:
        """Start a leased task, for a caller that waits by itself. Returns quickly; the job does the work."""
        with self._context.workspace.refusals.recording("task", caller.id, about_task(manifest)):
            return self._start(caller, manifest, lease)

    def _start(self, caller: Caller, manifest: bytes, lease: bytes) -> StartedTask:
        require(caller, Right.RUN_TASK)
        parsed = TaskManifest.parse(manifest, source="manifest")
        request_entry = task_request_entry(caller, parsed.task_id, parsed.capability_id)
        is_agent = isinstance(caller, AgentCaller)

        def execute(job: Job[_TaskRun]) -> _TaskRun:
            if is_agent:
                with self._context.workspace.refusals.recording_in_job("task", caller.id, about_task(manifest)):
                    require_not_protected(self._context.workspace, parsed, lease)
            refusals: list[RefusedError] = []
            stored: list[bool] = []
            result = self._context.workspace.tasks.execute(
                manifest,
                lease,
                on_refusal=refusals.append,
                on_stored=lambda: stored.append(True),
                on_progress=lambda done, total: job.report_progress("bytes", done, total),
                leased=request_entry,
                actor=caller.actor,
            )
            return _TaskRun(result, bool(stored), refusals[0] if refusals else None)

        # The key includes both documents: only the same task with the same lease is answered by the same run.
        key = f"task:{'agent' if is_agent else 'person'}:{digest_bytes(manifest)}:{digest_bytes(lease)}"
        job = self._context.jobs.start(key, execute, subject=f"task:{parsed.task_id}", owner=caller.id)
        return StartedTask(parsed.task_id, job, partial(self._redact_for, caller))

    def get(self, caller: Caller, task_id: str, wait: float = 0.0) -> TaskAnswer:
        """Return the state of a task, and its recorded result. The result is masked for callers without `run_task`."""
        require(caller, Right.SEE_OWN)
        require_wait(wait)
        job = self._context.jobs.find(f"task:{task_id}")
        if job is not None and job.owner == caller.id:
            job.wait(wait)
        found = self._context.find_claim("task", task_id)
        missing = not_found_error("task", task_id)
        if found is None:
            if job is None or job.owner != caller.id:
                raise missing
            # A refused task is not stored, but this process remembers it for a while.
            if job.is_running:
                return TaskAnswer(state="running", task_id=task_id)
            return self._redact_for(caller, _build_answer(task_id, job.result()))
        with self._context.workspace.store.reading_pooled() as connection:
            require_owner(caller, find_requester(connection, DEFAULT_TENANT, task_id, TASK_REQUESTED), missing)
        if isinstance(found, ClaimHeld):
            return self._redact_for(caller, TaskAnswer(state="running", task_id=task_id, progress=_progress(job)))
        result = self._result(caller, found)
        return self._redact_for(caller, TaskAnswer(state="done", task_id=task_id, stored=True, result=result))

    def _redact_for(self, caller: Caller, answer: TaskAnswer) -> TaskAnswer:
        """Remove the size and the digest of files from an answer for an agent, which may not read those files."""
        if not isinstance(caller, AgentCaller):
            return answer
        answer = answer.model_copy(update={"progress": None})
        if answer.result is None or not has_content_digest(answer.result):
            return answer
        result = result_for_agent(self._context.workspace, answer.result)
        return answer.model_copy(update={"result": result, "withheld": DIGEST_WITHHELD})

    def lease(self, caller: Caller, manifest: bytes, life: timedelta) -> LeaseToken:
        """Sign a lease for exactly this task."""
        with self._context.workspace.refusals.recording("lease", caller.id, about_task(manifest)):
            return self._lease(caller, manifest, life)

    def _lease(self, caller: Caller, manifest: bytes, life: timedelta) -> LeaseToken:
        require(caller, Right.LEASE)
        if not timedelta(0) < life <= MAX_LEASE_LIFE:
            raise RefusedError(
                Reason.MALFORMED,
                "the life of a lease is not between one second and one day",
                where="life",
                next_step="Give a number of seconds, such as 300.",
            )
        return self._context.workspace.tasks.issue_lease(manifest, life, actor=caller.actor)

    def _result(self, caller: Caller, done: ClaimCompleted) -> ExecutionResult:
        text = self._context.read_outcome(done)
        if has_right(caller, Right.RUN_TASK):
            return ExecutionResult.parse(text.encode(), source="a stored result")
        return ExecutionResult.from_tree(mask_json(json.loads(text)), source="a stored result")


def _build_answer(task_id: str, ran: _TaskRun) -> TaskAnswer:
    answer = TaskAnswer(state="done", task_id=task_id, result=ran.result, stored=ran.stored)
    if ran.refused is None:
        return answer
    return answer.model_copy(update={"state": "refused", "refused": describe_error(ran.refused)})


def _progress(job: Job[object] | None) -> Progress | None:
    return job.progress if job is not None and job.is_running else None
