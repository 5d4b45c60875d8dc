"""The tasks of one workspace: issues leases, runs tasks in the sandbox, recovers them after a crash, restores files.

The first task that needs the sandbox starts it, with all effects that are registered by then. The first task also
recovers tasks that a crash interrupted.
"""

import functools
import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from remit.authority.results import UNKNOWN_EXECUTOR
from remit.contracts.config.config import SystemConfig
from remit.contracts.tasks.result import ExecutionResult
from remit.contracts.tasks.task import LeaseToken, TaskManifest
from remit.core.errors import Reason, RefusedError, UsageError
from remit.core.ids import DEFAULT_TENANT, Clock
from remit.crypto.signing import Keyring, Signer
from remit.effects.registry import Registry
from remit.effects.tasks import capabilities as file_capabilities
from remit.effects.tasks import capabilities as no_effect_capability
from remit.execution.engine import ExecutionContext, Preview, run_operation
from remit.execution.journal import Journal, RequestIds
from remit.execution.recovery import Recovered, recover
from remit.fs.state_dir import StateDirectory
from remit.ledger.entry import NewEntry
from remit.ledger.writer import Ledger
from remit.sandbox.host import SandboxHost
from remit.sandbox.manager import Fleet
from remit.store.claims import ClaimCompleted, ClaimHeld, ClaimKey, read_claim
from remit.store.process_identity import remove_stale_locks
from remit.tasks.checkpoint import TaskCheckpoint, parse_checkpoint
from remit.tasks.kernel import Kernel
from remit.tasks.operation import TaskOperation, TaskPreview, TaskRequest, TaskRules, executor_of
from remit.tasks.restore import build_restore_task, require_undoable, restore_task_id

MANY_ATTEMPTS: Final = 1_000
_LOG: Final = logging.getLogger("remit.tasks")


@dataclass(frozen=True)
class TaskKeys:
    """The keys that tasks use. Each one is loaded when it is needed, so a rotation takes effect immediately."""

    keyring: Callable[[], Keyring]
    executor: Callable[[], Signer]
    kernel: Callable[[], Signer]


class Tasks:
    """The tasks of one workspace.

    Capabilities can be added to `registry` before the first task. One that is registered later gets its own sandbox.
    """

    def __init__(
        self,
        state: StateDirectory,
        config: SystemConfig,
        bases: Callable[[], tuple[str, ...]],
        keys: TaskKeys,
        ledger: Callable[[], Ledger],
        fleet: Fleet,
        clock: Clock,
    ) -> None:
        self.registry = Registry([no_effect_capability.CAPABILITY, *file_capabilities.CAPABILITIES])
        self.kernel = Kernel(keys.kernel, keys.keyring, lambda name: self._executor(name) or UNKNOWN_EXECUTOR, clock)
        self._confined = config.sandbox == "required"
        self._seconds = float(config.timeouts.file_operation)
        self._rules = TaskRules(functools.cache(bases), state.snapshots, config.limits.max_file_bytes, self._confined)
        self._state = state
        self._ledger = ledger
        self._keys = keys
        self._clock = clock
        self._fleet = fleet
        self._recovering = threading.Lock()
        self._recovered = False

    def issue_lease(
        self, manifest: bytes, life: timedelta, *, correlation_id: str | None = None, actor: str | None = None
    ) -> LeaseToken:
        """Sign a lease for this manifest, and record it with the actor who requested it."""
        parsed = TaskManifest.parse(manifest)
        lease = self.kernel.issue_lease(parsed, life)
        self._ledger().append(_issued(lease, parsed, correlation_id, actor))
        return lease

    def lease_and_execute(
        self, manifest: bytes, life: timedelta, *, correlation_id: str, seconds: float
    ) -> ExecutionResult:
        """Issue a lease and run the task with it, for a caller that does not pass the lease on.

        The lease of a new task is recorded together with its intent, in one transaction.
        """
        parsed = TaskManifest.parse(manifest)
        if self._claim(parsed.task_id) is not None:
            lease = self.issue_lease(manifest, life, correlation_id=correlation_id).canonical()
            return self.execute(manifest, lease, correlation_id=correlation_id, seconds=seconds)
        made = self.kernel.issue_lease(parsed, life)
        leased = _issued(made, parsed, correlation_id)
        return self.execute(manifest, made.canonical(), correlation_id=correlation_id, seconds=seconds, leased=leased)

    def execute(  # noqa: PLR0913 - each one is used by some caller
        self,
        manifest: bytes,
        lease: bytes,
        *,
        on_refusal: Callable[[RefusedError], None] = lambda _: None,
        on_stored: Callable[[], None] = lambda: None,
        on_progress: Callable[[int, int], None] | None = None,
        correlation_id: str | None = None,
        seconds: float | None = None,
        leased: NewEntry | None = None,
        actor: str | None = None,
    ) -> ExecutionResult:
        if not self._recovered:
            self._recover_once(excluded=(TaskManifest.parse(manifest).task_id,))
        limit = None if seconds is None else min(seconds, self._seconds)
        operation = self.operation(on_progress, correlation_id, limit, leased)
        outcome = run_operation(
            operation, (manifest, lease), self._context(), on_refusal=on_refusal, on_stored=on_stored, actor=actor
        )
        if isinstance(outcome, Preview):
            raise UsageError(Reason.MISUSE, "a full run ended in a preview")
        return outcome

    def preview(
        self, manifest: bytes, lease: bytes, *, on_refusal: Callable[[RefusedError], None] = lambda _: None
    ) -> ExecutionResult | Preview:
        return run_operation(self.operation(), (manifest, lease), self._context(), dry_run=True, on_refusal=on_refusal)

    def inspect(self, manifest: TaskManifest) -> TaskPreview:
        """Preview a task for a person who has not confirmed it. Refuses a task that the rules do not allow.

        It needs no lease, because it starts no process and changes and records nothing.
        """
        operation, request = self.operation(), TaskRequest(manifest, b"")
        operation.decide(request).require()
        return operation.inspect(request)

    def recover(
        self, *, excluded: Collection[str] = (), presumed_dead: Collection[str] = (), abandoned: Collection[str] = ()
    ) -> list[Recovered[ExecutionResult]]:
        recovered = recover(
            self.operation(),
            self._context(),
            excluded=excluded,
            presumed_dead=presumed_dead,
            abandoned=abandoned,
        )
        remove_stale_locks(self._state.hosts)
        return recovered

    def restore(
        self,
        raw: bytes,
        life: timedelta,
        *,
        on_refusal: Callable[[RefusedError], None] = lambda _: None,
        on_stored: Callable[[], None] = lambda: None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> ExecutionResult:
        """Reverse the effect of a task by a new task. A second call returns the result of the first one."""
        result, checkpoint = self._verify_recorded(raw)
        task, is_new = self._next_attempt(result)
        if is_new:
            require_undoable(result, checkpoint.before, self._rules.bases())
        manifest, correlation_id = task.canonical(), result.task_id
        lease = self.issue_lease(manifest, life, correlation_id=correlation_id)
        token = lease.canonical()
        return self.execute(
            manifest,
            token,
            on_refusal=on_refusal,
            on_stored=on_stored,
            on_progress=on_progress,
            correlation_id=correlation_id,
        )

    def _next_attempt(self, result: ExecutionResult) -> tuple[TaskManifest, bool]:
        """Return the task that reverses this result, and whether it is new.

        After a failed attempt the task gets another id. It also gets another id if another task already uses the first
        one. Otherwise a caller could block the restore by using its id first.
        """
        for number in range(1, MANY_ATTEMPTS):
            task = build_restore_task(result, restore_task_id(result.task_id, number))
            found = self._claim(task.task_id)
            if found is None:
                return task, True
            if found.request_digest == task.digest() and not _has_failed(found):
                return task, False
        raise RefusedError(
            Reason.IDEMPOTENCY_CONFLICT,
            f"{MANY_ATTEMPTS:,} attempts to restore this have failed",
            where=f"result of {result.task_id}",
            next_step="`remit ledger show --correlation` with the task's id shows why.",
        )

    def _verify_recorded(self, raw: bytes) -> tuple[ExecutionResult, TaskCheckpoint]:
        """Verify a recorded result of this workspace, as the kernel does. Return it with the checkpoint of its task."""
        named = ExecutionResult.parse(raw, source="result")
        done = self._claim(named.task_id)
        if not isinstance(done, ClaimCompleted):
            raise RefusedError(
                Reason.STATE_MISSING,
                "this workspace has no outcome of that task",
                where=f"result of {named.task_id}",
                next_step="Restore it in the workspace where the task ran.",
            )
        trace = RequestIds(DEFAULT_TENANT, done.correlation_id, "task", named.task_id, done.request_digest)
        journal = Journal(self._ledger(), trace, self._state.hosts, 0)
        journal.require_intended(done)
        checkpoint = parse_checkpoint(done.checkpoint)
        stored = journal.verify_stored(done)
        result = self.kernel.accept(raw, checkpoint.manifest.canonical(), at=stored.recorded_at)
        if result.canonical() != stored.text.encode():
            raise RefusedError(
                Reason.EVIDENCE_INVALID,
                "this is not the recorded result of that task",
                where=f"result of {named.task_id}",
                next_step="`remit task run` with the same manifest returns the recorded result.",
            )
        return result, checkpoint

    def _claim(self, task_id: str) -> ClaimCompleted | ClaimHeld | None:
        with self._ledger().store.reading_pooled() as connection:
            return read_claim(connection, ClaimKey(DEFAULT_TENANT, "task", task_id))

    def _recover_once(self, excluded: Collection[str]) -> None:
        with self._recovering:
            if self._recovered:
                return
            if not self._confined:
                _LOG.warning("effects are not confined by the kernel (sandbox: unsafe-none)")
            for report in self.recover(excluded=excluded):
                if report.problem is not None:
                    _LOG.warning(
                        "a task could not be settled", extra={"task_id": report.key, "why": str(report.problem)}
                    )
            self._recovered = True

    def _context(self) -> ExecutionContext:
        return ExecutionContext(self._ledger(), self._clock, self._state.hosts)

    def _executor(self, capability_id: str) -> str | None:
        return executor_of(self.registry, capability_id, confined=self._confined)

    def operation(
        self,
        on_progress: Callable[[int, int], None] | None = None,
        correlation_id: str | None = None,
        seconds: float | None = None,
        leased: NewEntry | None = None,
    ) -> TaskOperation:
        return TaskOperation(
            self._keys.keyring,
            self._keys.executor,
            self.registry,
            self._rules,
            self._sandbox,
            on_progress=on_progress,
            correlation_id=correlation_id,
            seconds=seconds,
            leased=leased,
        )

    def _sandbox(self) -> SandboxHost:
        return self._fleet.host_for(self.registry.effects())


def _issued(
    lease: LeaseToken, manifest: TaskManifest, correlation_id: str | None, actor: str | None = None
) -> NewEntry:
    return NewEntry(
        DEFAULT_TENANT,
        "lease.issued",
        correlation_id or manifest.task_id,
        {"lease_id": lease.lease_id, "expires_at": lease.expires_at, "manifest_digest": manifest.digest()},
        task_id=manifest.task_id,
        capability_id=manifest.capability_id,
        actor=actor,
    )


def _has_failed(claimed: ClaimCompleted | ClaimHeld) -> bool:
    return isinstance(claimed, ClaimCompleted) and ExecutionResult.parse(claimed.result.encode()).status == "FAILURE"
