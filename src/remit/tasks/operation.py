"""The task operation: a registered executor runs a manifest under a lease in a sandbox. The result is signed."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from remit.authority.lease import Lease, parse_lease, verify_lease
from remit.authority.results import UNCONFINED, UNKNOWN_EXECUTOR, sign_failure, sign_success, verify_result
from remit.contracts.base import Contract
from remit.contracts.tasks.result import ExecutionError, ExecutionResult
from remit.contracts.tasks.task import LeaseToken, TaskManifest, TransferInputs
from remit.core.canonical import digest_bytes
from remit.core.errors import RECOVER_ADVICE, EnvironmentFailureError, Reason, RefusedError, RemitError, task_code
from remit.core.faultpoints import reach
from remit.core.ids import DEFAULT_TENANT
from remit.crypto.signing import Keyring, Signer
from remit.effects.registry import Capability, Registry
from remit.execution.decision import PolicyDecision
from remit.execution.engine import IncompleteError, Note, Notes, Operation, Preview
from remit.execution.journal import RequestIds
from remit.fs.openat import FileIdentity
from remit.fs.paths import Located
from remit.ledger.entry import NewEntry
from remit.ledger.writer import Batch
from remit.sandbox.host import EffectResult, PrewarmedProcess, SandboxHost
from remit.sandbox.orders import FolderGrant, Order
from remit.tasks.checkpoint import TaskCheckpoint, parse_checkpoint, render_checkpoint, render_preview
from remit.tasks.inspect import contradiction_error, inspect_after, inspect_before
from remit.tasks.policy import close_inputs, decide_task, locate_paths, new_part_name
from remit.tasks.snapshots import open_snapshot, take_snapshot

Call = Literal["run", "finish", "undo"]


@dataclass(frozen=True)
class TaskRequest:
    """An unverified task request.

    The lease stays bytes until it is verified, so that a malformed lease is refused like any other invalid lease.
    """

    manifest: TaskManifest
    lease: bytes

    @functools.cached_property
    def digest(self) -> str:
        return self.manifest.digest()


@dataclass(frozen=True, slots=True)
class LeasedTask:
    """A task whose lease was verified."""

    request: TaskRequest
    lease: Lease
    token: LeaseToken
    prewarmed: list[PrewarmedProcess] = field(default_factory=list, compare=False)
    """The process that was started early for the effect. It waits from the checkpoint until the effect."""

    @property
    def manifest(self) -> TaskManifest:
        return self.request.manifest


@dataclass(frozen=True, slots=True)
class TaskPreview(Preview):
    """A preview with the identities of the inspected files. The effect must find the same files."""

    before: Mapping[str, FileIdentity]


class EffectOutput(NamedTuple):
    """The output of an effect, in the model that its capability declares."""

    output: Contract
    signed: ExecutionResult | None = None
    """The result, if it was signed while the process ended. It is used only after the effect was verified."""


@dataclass(frozen=True, slots=True)
class TaskRules:
    """The values of the workspace's config that concern tasks."""

    bases: Callable[[], tuple[str, ...]]
    snapshots: Path
    max_file_bytes: int
    confined: bool


@dataclass(frozen=True)
class TaskOperation(Operation[TaskRequest, LeasedTask, TaskCheckpoint, EffectOutput, ExecutionResult]):
    """The operation of tasks. It has the kernel's public key and the executor's private key.

    It never has the kernel's private key. Both keys are loaded when they are needed, so a rotation or a revocation
    takes effect immediately. The sandbox is started by the first task that reaches step 4.
    """

    keyring: Callable[[], Keyring]
    signer: Callable[[], Signer]
    registry: Registry
    rules: TaskRules
    sandbox: Callable[[], SandboxHost]
    on_progress: Callable[[int, int], None] | None = None
    correlation_id: str | None = None
    """The correlation of the request that the task belongs to, if it belongs to one."""
    seconds: float | None = None
    """The time limit that the caller chose, if it is shorter than the time limit of every task."""
    leased: NewEntry | None = None
    """The entry of a lease that was issued for this run only. It is written together with the intent."""
    name: str = field(default="task", init=False)
    counts_refusals_as: str = field(default="task", init=False)

    def parse(self, raw: tuple[bytes, ...]) -> TaskRequest:
        manifest, lease = raw
        return TaskRequest(TaskManifest.parse(manifest), lease)

    def trace(self, request: TaskRequest) -> RequestIds:
        manifest = request.manifest
        return RequestIds(
            tenant_id=DEFAULT_TENANT,
            correlation_id=self.correlation_id or manifest.task_id,
            scope=self.name,
            key=manifest.task_id,
            request_digest=request.digest,
            task_id=manifest.task_id,
            capability_id=manifest.capability_id,
            authority=lambda: digest_bytes(parse_lease(request.lease).signature.encode()),
        )

    def verify_authority(self, request: TaskRequest, now: datetime) -> LeasedTask:
        return self._verify_lease(request, parse_lease(request.lease), now)

    def decide(self, request: TaskRequest) -> PolicyDecision:
        return decide_task(request.manifest, self.registry, self.rules.bases)

    def preview(self, granted: LeasedTask) -> TaskPreview:
        found = self.inspect(granted.request)
        self.sandbox()  # refuses the task if there is no sandbox
        return found

    def inspect(self, request: TaskRequest) -> TaskPreview:
        """Inspect the files of a task, without any authority. It changes and records nothing."""
        manifest, capability = request.manifest, self._require_capability(request.manifest)
        located = self._locate(manifest)
        before = inspect_before(located, capability.paths, self.rules.max_file_bytes)
        with self._open_snapshot(manifest, capability):  # refuses a snapshot that is missing or damaged
            return TaskPreview(render_preview(manifest, capability, located, before), request.digest, before)

    def consent(self, granted: LeasedTask, preview: Preview, now: datetime) -> str:
        """Return the lease as the consent. The kernel's lease permits this task, so no other approval is needed."""
        return f"lease {granted.lease.lease_id}"

    def checkpoint(self, granted: LeasedTask, preview: Preview) -> str:
        manifest, capability = granted.manifest, self._require_capability(granted.manifest)
        before = preview.before if isinstance(preview, TaskPreview) else {}
        snapshot = None
        if capability.snapshot is not None:
            place = self._locate(manifest)[capability.snapshot]
            snapshot = take_snapshot(
                place, self.rules.snapshots, self.rules.max_file_bytes, before[capability.snapshot]
            )
        return render_checkpoint(TaskCheckpoint(manifest, before, snapshot, new_part_name()))

    def prewarm(self, granted: LeasedTask, checkpoint: TaskCheckpoint) -> None:
        self.release(granted)
        if (
            self._require_capability(checkpoint.manifest).restores is None
        ):  # a restore needs its snapshot, which is open during the call only
            granted.prewarmed.append(self.sandbox().prewarm(self.order(checkpoint, "run")))

    def release(self, granted: LeasedTask) -> None:
        while granted.prewarmed:
            granted.prewarmed.pop().dismiss()

    def require_still_valid(self, granted: LeasedTask, now: datetime) -> None:
        self._verify_lease(granted.request, granted.token, now)

    def consume_authority(self, granted: LeasedTask, batch: Batch, now: datetime) -> None:
        if self.leased is not None:
            batch.append(self.leased)

    def recheck_authority(self, granted: LeasedTask, batch: Batch, now: datetime) -> None:
        if self.leased is not None:
            batch.require_still_valid(self.leased.actor, self.leased.tenant_id)

    def load_checkpoint(self, text: str) -> tuple[TaskRequest, TaskCheckpoint]:
        checkpoint = parse_checkpoint(text)
        return TaskRequest(checkpoint.manifest, b""), checkpoint

    def effect(self, granted: LeasedTask, checkpoint: TaskCheckpoint, note: Note) -> EffectOutput:
        noted: list[Mapping[str, Any]] = []
        answers: list[EffectOutput] = []

        def remember(what: Mapping[str, Any]) -> None:
            note(what)
            noted.append(what)

        def sign(output: dict[str, Any] | None) -> None:
            parsed = self._parse_output(checkpoint.manifest, output)
            answers.append(EffectOutput(parsed, self._sign_success(checkpoint.manifest, parsed)))

        try:
            self._call(checkpoint, "run", on_note=remember, meanwhile=sign, prewarmed=granted.prewarmed)
        except RefusedError:  # nothing was changed
            raise
        except BaseException as problem:
            made = self._undo_or_finish(checkpoint, tuple(noted), note, problem)
            if made is None:
                raise
            return made
        return answers[0]

    def recover_effect(self, checkpoint: TaskCheckpoint, notes: Notes, note: Note) -> EffectOutput | None:
        output = self._call(checkpoint, "finish", notes, note).output
        return None if output is None else EffectOutput(self._parse_output(checkpoint.manifest, output))

    def undo(self, checkpoint: TaskCheckpoint, notes: Notes, note: Note) -> None:
        self._call(checkpoint, "undo", notes, note)
        reach("road.undone")

    def verify_effect(self, checkpoint: TaskCheckpoint, made: EffectOutput) -> None:
        capability, located = self._require_capability(checkpoint.manifest), self._locate(checkpoint.manifest)
        found = inspect_after(located, capability.paths, checkpoint.before)
        if capability.inputs is TransferInputs:
            source, made_file = checkpoint.before["source_path"], found["destination_path"]
            if made_file.size != source.size:
                raise contradiction_error(
                    "the destination has another size than the source had", located["destination_path"]
                )

    def succeed(self, request: TaskRequest, checkpoint: TaskCheckpoint, made: EffectOutput) -> ExecutionResult:
        return made.signed or self._sign_success(request.manifest, made.output)

    def fail(
        self, request: TaskRequest, problem: RemitError, checkpoint: TaskCheckpoint | None = None
    ) -> ExecutionResult:
        manifest = request.manifest
        error = ExecutionError(error_code=task_code(problem.reason), message=str(problem))
        return sign_failure(self.signer(), self._executor_id(manifest), manifest.task_id, manifest.capability_id, error)

    def store_outcome(self, outcome: ExecutionResult) -> str:
        return outcome.canonical().decode()

    def load_outcome(self, stored: str, recorded_at: str) -> ExecutionResult:
        try:
            result = ExecutionResult.parse(stored.encode(), source="stored result")
            verify_result(result, self.keyring(), recorded_at)
        except RefusedError as problem:  # a fault of the stored data, not of the caller's lease
            raise EnvironmentFailureError(
                Reason.EVIDENCE_INVALID,
                f"the stored result cannot be verified: {problem.what}",
                where=problem.where,
                next_step="`remit ledger verify` shows what was changed. `remit keys list` shows the revoked keys.",
            ) from None
        return result

    def _sign_success(self, manifest: TaskManifest, output: Contract) -> ExecutionResult:
        return sign_success(
            self.signer(), self._executor_id(manifest), manifest.task_id, manifest.capability_id, output
        )

    def _undo_or_finish(
        self, checkpoint: TaskCheckpoint, notes: Notes, note: Note, problem: BaseException
    ) -> EffectOutput | None:
        """Undo the failed effect and return None. If that is impossible, finish the effect and return its output.

        Raises:
            IncompleteError: Neither was possible. Recovery continues the task.
        """
        if isinstance(problem, RemitError) and problem.reason is Reason.SANDBOX_UNAVAILABLE:
            return None  # the effect never started
        made: EffectOutput | None = None
        try:
            try:
                self._call(checkpoint, "undo", notes, note)
            except EnvironmentFailureError:
                made = self.recover_effect(checkpoint, notes, note) if isinstance(problem, Exception) else None
                if made is None:
                    raise
        except BaseException as second:  # noqa: BLE001 - the user may interrupt a second time
            raise IncompleteError(
                Reason.EFFECT_FAILED,
                f"the effect failed ({problem}), and its undo did not complete ({second})",
                where=checkpoint.manifest.task_id,
                next_step=RECOVER_ADVICE,
            ) from problem
        reach("road.undone")
        return made

    def order(self, checkpoint: TaskCheckpoint, call: Call, notes: Notes = ()) -> Order:
        """Return the order for the sandbox: to run the effect, or to finish or undo an interrupted one."""
        manifest, capability = checkpoint.manifest, self._require_capability(checkpoint.manifest)
        located = self._locate(manifest)
        return Order(
            effect=capability.effect,
            call=call,
            task_id=manifest.task_id,
            capability_id=manifest.capability_id,
            inputs=close_inputs(manifest, capability),
            reversible=manifest.constraints.reversible,
            part_name=checkpoint.part_name,
            places={name: FolderGrant(*place, use=capability.paths[name]) for name, place in located.items()},
            before={name: identity.as_json() for name, identity in checkpoint.before.items()},
            checkpoint={"snapshot": checkpoint.snapshot},
            notes=notes,
            network=capability.network,
            restores=capability.restores is not None,
            seconds=self.seconds if call == "run" else None,  # an undo has no time limit of its own
        )

    def _call(
        self,
        checkpoint: TaskCheckpoint,
        call: Call,
        notes: Notes = (),
        on_note: Note | None = None,
        *,
        meanwhile: Callable[[dict[str, Any] | None], None] | None = None,
        prewarmed: list[PrewarmedProcess] | None = None,
    ) -> EffectResult:
        if prewarmed:
            with prewarmed.pop() as ready:
                return ready.run(on_progress=self.on_progress, on_note=on_note, meanwhile=meanwhile)
        order = self.order(checkpoint, call, notes)
        with self._open_snapshot(checkpoint.manifest, self._require_capability(checkpoint.manifest)) as (given, meta):
            if meta is not None:
                order = replace(order, checkpoint={**order.checkpoint, "meta": meta})
            return self.sandbox().run(
                order, given=given, on_progress=self.on_progress, on_note=on_note, meanwhile=meanwhile
            )

    @contextlib.contextmanager
    def _open_snapshot(
        self, manifest: TaskManifest, capability: Capability
    ) -> Iterator[tuple[Mapping[str, int], dict[str, Any] | None]]:
        """Open and verify the snapshot that the effect restores. Yields its bytes as a descriptor, and its metadata.

        Raises:
            RefusedError: The reference is malformed, or the snapshot was changed or damaged.
            EnvironmentFailureError: The snapshot does not exist.
        """
        if capability.restores is None:
            yield {}, None
            return
        reference = close_inputs(manifest, capability)[capability.restores]
        descriptor, meta = open_snapshot(self.rules.snapshots, reference)
        try:
            yield {"snapshot": descriptor}, meta
        finally:
            os.close(descriptor)

    def _parse_output(self, manifest: TaskManifest, output: dict[str, Any] | None) -> Contract:
        """Parse the output of the effect as its capability declares it. Task and capability come from the manifest."""
        about = {"task_id": manifest.task_id, "capability_id": manifest.capability_id}
        try:
            return self._require_capability(manifest).output.from_tree(
                {**(output or {}), **about}, source="the effect's output"
            )
        except RefusedError as problem:
            raise EnvironmentFailureError(
                Reason.EFFECT_FAILED,
                f"the output of the effect is not as its capability declares: {problem.what}",
                where=problem.where,
                next_step="This is a bug in the executor. Report it to its author.",
            ) from None

    def _verify_lease(self, request: TaskRequest, token: LeaseToken, now: datetime) -> LeasedTask:
        manifest = request.manifest
        executor_id = self.executor_of(manifest.capability_id) or token.executor_id
        lease = verify_lease(token, manifest, self.keyring(), executor_id, now, digest=request.digest)
        return LeasedTask(request, lease, token)

    def _locate(self, manifest: TaskManifest) -> dict[str, Located]:
        return locate_paths(manifest, self._require_capability(manifest), self.rules.bases)

    def _require_capability(self, manifest: TaskManifest) -> Capability:
        found = self.registry.get(manifest.capability_id)
        if found is None:
            raise RefusedError(Reason.CAPABILITY_UNSUPPORTED, "the capability is no longer registered")
        return found

    def _executor_id(self, manifest: TaskManifest) -> str:
        return self.executor_of(manifest.capability_id) or UNKNOWN_EXECUTOR

    def executor_of(self, capability_id: str) -> str | None:
        return executor_of(self.registry, capability_id, confined=self.rules.confined)


def executor_of(registry: Registry, capability_id: str, *, confined: bool) -> str | None:
    """Return the id of the executor of a capability, or None. The id shows if the executor runs unconfined."""
    found = registry.get(capability_id)
    if found is None:
        return None
    return found.executor_id if confined else found.executor_id + UNCONFINED
