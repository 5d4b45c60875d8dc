"""The task door: a manifest under a lease, run by a registered executor, answered with a signed result."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from remit.authority.lease import Lease, parse_lease, verify_lease
from remit.authority.results import sign_failure, sign_success, verify_result
from remit.authority.signing import Keyring, Signer
from remit.contracts.base import Contract
from remit.contracts.result import ExecutionError, ExecutionResult
from remit.contracts.task import LeaseToken, TaskManifest
from remit.effects.registry import Capability, Registry
from remit.errors import EnvironmentFailed, Reason, Refused, RemitError, task_code
from remit.journal import Trace
from remit.policy.capability import decide_capability
from remit.policy.decision import Decision
from remit.road import Door, Preview

UNKNOWN_EXECUTOR: Final = "remit.unregistered"
DEFAULT_TENANT: Final = "default"


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """Nobody has vouched for any of it. The lease stays bytes until it is verified: a broken one is a bad lease."""

    manifest: TaskManifest
    lease: bytes


@dataclass(frozen=True, slots=True)
class LeasedTask:
    """A task whose lease was verified."""

    manifest: TaskManifest
    lease: Lease
    token: LeaseToken


class TaskDoor(Door[TaskRequest, LeasedTask, Contract, ExecutionResult]):
    """Holds the kernel's public key and the executor's private one; never the kernel's private key.

    Both are asked for when they are needed: a key that was rotated or revoked meanwhile is noticed.
    """

    def __init__(self, keyring: Callable[[], Keyring], signer: Callable[[], Signer], registry: Registry) -> None:
        self._keyring = keyring
        self._signer = signer
        self._registry = registry

    def parse(self, raw: tuple[bytes, ...]) -> TaskRequest:
        manifest, lease = raw
        return TaskRequest(TaskManifest.parse(manifest), lease)

    def trace(self, request: TaskRequest) -> Trace:
        manifest = request.manifest
        return Trace(
            tenant_id=DEFAULT_TENANT,
            correlation_id=manifest.task_id,
            door="task",
            key=manifest.task_id,
            request_digest=manifest.digest(),
            task_id=manifest.task_id,
            capability_id=manifest.capability_id,
        )

    def verify_authority(self, request: TaskRequest, now: datetime) -> LeasedTask:
        return self._verified(request.manifest, parse_lease(request.lease), now)

    def decide(self, granted: LeasedTask) -> Decision:
        return decide_capability(granted.manifest.capability_id, tuple(self._registry))

    def preview(self, granted: LeasedTask) -> Preview:
        manifest = granted.manifest
        return Preview(f"{manifest.capability_id} as task {manifest.task_id}", manifest.digest())

    def consent(self, granted: LeasedTask, preview: Preview, now: datetime) -> str:
        """A lease is the kernel's own consent to this one task: nobody else is asked."""
        return f"lease {granted.lease.lease_id}"

    def checkpoint(self, granted: LeasedTask) -> None:
        """Nothing that is registered today changes anything."""

    def require_alive(self, granted: LeasedTask, now: datetime) -> None:
        self._verified(granted.manifest, granted.token, now)

    def effect(self, granted: LeasedTask) -> Contract:
        return self._capability(granted).run(granted.manifest)

    def resume(self, granted: LeasedTask) -> Contract:
        """Nothing that is registered today changes anything, so doing it again is finishing it."""
        return self.effect(granted)

    def verify_effect(self, granted: LeasedTask, made: Contract) -> None:
        """Nothing was changed, so there is nothing to look at."""

    def succeed(self, request: TaskRequest, made: Contract) -> ExecutionResult:
        manifest = request.manifest
        return sign_success(self._signer(), self._signed_as(manifest), manifest.task_id, manifest.capability_id, made)

    def fail(self, request: TaskRequest, problem: RemitError) -> ExecutionResult:
        manifest = request.manifest
        error = ExecutionError(error_code=task_code(problem.reason), message=str(problem))
        return sign_failure(self._signer(), self._signed_as(manifest), manifest.task_id, manifest.capability_id, error)

    def store_outcome(self, outcome: ExecutionResult) -> str:
        return outcome.canonical().decode()

    def load_outcome(self, stored: str, recorded_at: str) -> ExecutionResult:
        try:
            result = ExecutionResult.parse(stored.encode(), source="stored result")
            verify_result(result, self._keyring(), recorded_at)
        except Refused as problem:  # ours to explain, not the caller's lease to blame
            raise EnvironmentFailed(
                Reason.EVIDENCE_INVALID,
                f"the stored result cannot be vouched for: {problem.what}",
                where=problem.where,
                next_step="`remit ledger verify` tells what was changed; `remit keys list`, which keys were revoked.",
            ) from None
        return result

    def _verified(self, manifest: TaskManifest, token: LeaseToken, now: datetime) -> LeasedTask:
        executor_id = self._executor_id(manifest) or token.executor_id
        return LeasedTask(manifest, verify_lease(token, manifest, self._keyring(), executor_id, now), token)

    def _capability(self, granted: LeasedTask) -> Capability:
        found = self._registry.get(granted.manifest.capability_id)
        if found is None:
            raise Refused(Reason.CAPABILITY_UNSUPPORTED, "the capability vanished from the registry")
        return found

    def _executor_id(self, manifest: TaskManifest) -> str | None:
        found = self._registry.get(manifest.capability_id)
        return found.executor_id if found else None

    def _signed_as(self, manifest: TaskManifest) -> str:
        return self._executor_id(manifest) or UNKNOWN_EXECUTOR
