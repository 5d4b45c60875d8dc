"""The rollback operation: rolls the run of a plan back later, by a signed order, from its backups.

It uses the engine of a plan, with steps in the opposite direction: stage, switch, verify, clear. The stored outcome
tells what the plan left, never a file of the project. A backup is used only with the hash that the outcome records.
"""

import logging
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final, Literal

from remit.authority.rollback_order import AllowedRollback, verify_rollback
from remit.authority.statuses import sign_rollback_outcome
from remit.contracts.plans.error_codes import plan_error
from remit.contracts.plans.outcome import Kept, RollbackOutcome
from remit.contracts.plans.rollback import RollbackManifest, RollbackOrder
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, UsageError, as_remit_error
from remit.core.faultpoints import reach
from remit.core.ids import DEFAULT_TENANT
from remit.crypto.signing import Keyring, Signer
from remit.effects.plans.steps import Result, StepProgress, note_clearing, note_undo, note_wave, read_progress
from remit.execution.decision import Denial, PolicyDecision
from remit.execution.engine import Note, Notes, Operation, Preview, ReportWriteError
from remit.execution.journal import RequestIds
from remit.plans.apply.environment import PlanEnvironment
from remit.plans.apply.open_transactions import OpenTransactions
from remit.plans.apply.verify_and_undo import (
    RunResult,
    incomplete_error,
    require_as_planned,
    require_idle_databases,
    require_originals_unchanged,
    undo_run,
)
from remit.plans.engines.database_files import closing
from remit.plans.model.folders import make_folders, remove_folders, remove_set_aside, sets_aside, sync_folders
from remit.plans.model.remote_part import read_commit
from remit.plans.reports.execution_report import refusal_of
from remit.plans.rollback.checkpoint import (
    RollbackCheckpoint,
    digest_of_order,
    load_rollback_outcome,
    parse_checkpoint,
    render_checkpoint,
)
from remit.plans.rollback.preview import (
    FindDriftedRows,
    RollbackPreview,
    RollbackTarget,
    back_up_drifted_files,
    find_remaining_folders,
    forces_rows,
    manifest_with_notes,
    preview_rollback,
)
from remit.plans.runtime.progress import Waves
from remit.plans.runtime.runner import PlanRunner, StepRunResult, StepTimes
from remit.plans.storage.backups import open_backups
from remit.plans.storage.drift import changed_nothing, find_irreversible_rows, is_due
from remit.plans.storage.manifest import fold, made_folders
from remit.plans.storage.row_images import open_rows
from remit.plans.storage.run_folder import MANIFEST, ReportFolder, render_report_file

_LOG: Final = logging.getLogger("remit.plans")
_LONGEST_REASON: Final = 1_000


@dataclass(frozen=True, slots=True)
class RollbackRequest:
    """An order that is not verified. An order from a checkpoint gives no authority."""

    order: RollbackOrder
    digest: str
    checkpoint: RollbackCheckpoint | None = None


@dataclass(frozen=True)
class RollbackOperation(Operation[RollbackRequest, AllowedRollback, RollbackCheckpoint, RunResult, RollbackOutcome]):
    """The engine's steps for a rollback. `target` returns a run by the id of its envelope."""

    keyring: Callable[[], Keyring]
    signer: Callable[[], Signer]
    environment: PlanEnvironment
    target: Callable[[str], RollbackTarget]
    name: str = field(default="rollback", init=False)
    counts_refusals_as: str = field(default="rollback", init=False)
    try_again: str = field(default="If it is still wanted, ask for it again: remit rollback", init=False)
    _cleared: set[str] = field(default_factory=set, init=False, repr=False)

    def parse(self, raw: tuple[bytes, ...]) -> RollbackRequest:
        (document,) = raw
        order = RollbackOrder.parse(document)
        return RollbackRequest(order, digest_of_order(order))

    def trace(self, request: RollbackRequest) -> RequestIds:
        order = request.order
        return RequestIds(
            tenant_id=DEFAULT_TENANT,
            correlation_id=order.envelope_id,
            scope=self.name,
            key=order.order_id,
            request_digest=request.digest,
            task_id=order.envelope_id,
        )

    def describe_refusal(self, request: RollbackRequest, problem: RefusedError) -> Mapping[str, Any]:
        named = plan_error(problem.reason)
        order = {"envelope_id": request.order.envelope_id}
        return {"operation": self.counts_refusals_as, "code": named.code, "type": named.kind, **order}

    def verify_authority(self, request: RollbackRequest, now: datetime) -> AllowedRollback:
        return verify_rollback(request.order, self.keyring(), now)

    def decide(self, request: RollbackRequest) -> PolicyDecision:
        if request.checkpoint is not None:
            return self._decide_on_resume(request.checkpoint)
        order, target = request.order, self.target(request.order.envelope_id)
        denials: list[Denial] = []
        if target.manifest.manifest_id != order.manifest_id:
            denials.append(Denial(Reason.BINDING_MISMATCH, "the order is for another run", where=order.manifest_id))
        if target.manifest.status == "EXPIRED" and not order.force:
            denials.append(
                Denial(
                    Reason.ROLLBACK_EXPIRED,
                    f"this run could be rolled back until {target.manifest.expires_at}",
                    where=f"envelope {order.envelope_id}",
                    next_step="If its backups still exist: remit rollback --force",
                )
            )
        if (
            not denials
            and not is_due(target.manifest, order.checkpoints)
            and not _is_first_without_changes(target.manifest)
        ):
            irreversible = find_irreversible_rows(target.manifest, order.checkpoints)
            why = f": {irreversible.irreversible}" if irreversible is not None else ""
            denials.append(
                Denial(Reason.ROLLBACK_IMPOSSIBLE, f"there is nothing left to restore{why}", where=order.envelope_id)
            )
        return PolicyDecision((f"rollback order {order.order_id}",), tuple(denials))

    def preview(self, granted: AllowedRollback) -> RollbackPreview:
        order = granted.order
        return preview_rollback(
            order, self.target(order.envelope_id), self.environment.rules.root(), self._drifted_rows_finder(order)
        )

    def consent(self, granted: AllowedRollback, preview: Preview, now: datetime) -> str:
        return f"rollback order {granted.order.order_id}"

    def checkpoint(self, granted: AllowedRollback, preview: Preview) -> str:
        if not isinstance(preview, RollbackPreview):
            raise UsageError(Reason.MISUSE, "this preview was not made by the rollback operation")
        order, target, root = granted.order, self.target(granted.order.envelope_id), self.environment.rules.root()
        back_up_drifted_files(order, target, root, preview)
        checkpoint = RollbackCheckpoint(
            order, root, target.folder, target.manifest, preview.steps, preview.first, preview.folders
        )
        return render_checkpoint(checkpoint)

    def require_still_valid(self, granted: AllowedRollback, now: datetime) -> None:
        verify_rollback(granted.order, self.keyring(), now)

    def load_checkpoint(self, text: str) -> tuple[RollbackRequest, RollbackCheckpoint]:
        checkpoint = parse_checkpoint(text)
        return RollbackRequest(checkpoint.order, digest_of_order(checkpoint.order), checkpoint), checkpoint

    # --- 8 ------------------------------------------------------------------------------------------------------------

    def release(self, granted: AllowedRollback) -> None:
        self._transactions.close(granted.order.order_id)

    def effect(self, granted: AllowedRollback, checkpoint: RollbackCheckpoint, note: Note) -> RunResult:
        waves = Waves(note)
        try:
            return self._execute_all(checkpoint, waves)
        except BaseException as problem:
            self._undo_after_failure(checkpoint, waves, note, problem)
            if isinstance(problem, Exception):
                raise as_remit_error(problem) from problem
            raise

    def _execute_all(self, checkpoint: RollbackCheckpoint, waves: Waves) -> RunResult:
        self._begin_rows(checkpoint)
        executed = self._execute_steps(checkpoint, waves)
        failed = next((result for result in executed.results if result.state != "done"), None)
        if executed.problem is not None:
            raise executed.problem
        if failed is not None:  # the process ended normally, so its report of what was not done is right
            waves.note_not_done(executed.results)
            raise _error_of(failed)
        return RunResult("SUCCESS", executed.results, used=executed.used)

    def _begin_rows(self, checkpoint: RollbackCheckpoint) -> None:
        """Restore the rows on the server in an open transaction, which is committed later."""
        if (rows := checkpoint.rows()) is None:
            return
        seconds = float(self.environment.rules.config().timeouts.task)
        with (
            ReportFolder.open(checkpoint.root, checkpoint.folder) as folder,
            closing(open_rows(folder, rows)) as images,
        ):
            self._transactions.begin_undo(
                checkpoint.order.order_id, rows.connection, images, force=forces_rows(checkpoint.order), seconds=seconds
            )

    def _undo_after_failure(
        self, checkpoint: RollbackCheckpoint, waves: Waves, note: Note, problem: BaseException
    ) -> None:
        try:
            note(note_undo("FAILED", ()))
            self._undo(checkpoint, StepProgress(waves.wave, waves.not_done), note)
        except BaseException as second:  # noqa: BLE001 - possibly a second interrupt
            raise incomplete_error(checkpoint.run_plan(), second) from problem

    def _execute_steps(self, checkpoint: RollbackCheckpoint, waves: Waves) -> StepRunResult:
        if not checkpoint.steps.steps:  # every file is already as before the plan
            return StepRunResult(())
        config = self.environment.rules.config()
        times = StepTimes(
            (float(config.timeouts.file_operation),) * len(checkpoint.steps.steps), float(config.timeouts.task)
        )
        make_folders(checkpoint.root, checkpoint.folders)
        used = {step.source for step in checkpoint.steps.steps if step.source}
        checkpoints = [file for file in checkpoint.chosen() if file.checkpoint_id in used]
        with ExitStack() as stack:
            folder = stack.enter_context(ReportFolder.open(checkpoint.root, checkpoint.folder))
            backups = open_backups(folder, checkpoints)
            for descriptor in backups.values():
                stack.callback(os.close, descriptor)
            places = checkpoint.run_plan().existing_places()
            runner = self._runner(checkpoint)
            run = runner.prepare(checkpoint.steps, places, times, restoring=backups)
            return runner.execute(run, waves.check_next_wave)

    def recover_effect(self, checkpoint: RollbackCheckpoint, notes: Notes, note: Note) -> RunResult | None:
        rows = checkpoint.rows()
        if not checkpoint.steps.steps and rows is None:
            return RunResult("SUCCESS", ())
        progress, commit = read_progress(notes), read_commit(notes)
        is_committed = False
        if commit is not None and progress.verdict is None and not progress.clearing:
            is_committed = self._transactions.fate(checkpoint.order.order_id, commit) == "committed"
            progress = progress._replace(wave=len(checkpoint.steps.waves) - 1)
        if progress.clearing or is_committed:  # it was complete and verified. Any difference is a later change
            sync_folders(checkpoint.root, checkpoint.run_plan().existing_places().values())
            return RunResult("SUCCESS", self._done_results(checkpoint), verified=True)
        # With rows, the open transaction ended with the process that held it, so the files cannot be finished alone.
        if rows is None and progress.verdict is None and progress.undone is None:
            places = checkpoint.run_plan().existing_places()
            if self._runner(checkpoint).finish(checkpoint.steps, places, progress.wave, progress.not_done):
                return RunResult("SUCCESS", self._done_results(checkpoint))
        self._undo(checkpoint, progress, note)
        if notes:
            note(note_wave(0, []))
        return None

    def _done_results(self, checkpoint: RollbackCheckpoint) -> tuple[Result, ...]:
        now = self.environment.now()
        return tuple(Result(step.number, "done", now, now) for step in checkpoint.steps.steps)

    def undo(self, checkpoint: RollbackCheckpoint, notes: Notes, note: Note) -> None:
        if checkpoint.order.order_id in self._cleared or self._transactions.is_committed(checkpoint.order.order_id):
            raise EnvironmentFailureError(
                Reason.ROLLBACK_FAILED,
                "the files that the plan left are removed already, so the rollback cannot be undone",
                where=f"rollback {checkpoint.order.order_id}",
                next_step="Run `remit recover`. It records what was done.",
            )
        note(note_undo("FAILED", ()))
        progress = read_progress(notes)
        self._undo(checkpoint, progress._replace(wave=len(checkpoint.steps.waves) - 1), note)

    def _undo(self, checkpoint: RollbackCheckpoint, progress: StepProgress, note: Note) -> None:
        self._transactions.close(checkpoint.order.order_id)
        undo_run(checkpoint.run_plan(), self._runner(checkpoint), progress, note)

    def _runner(self, checkpoint: RollbackCheckpoint) -> PlanRunner:
        return self.environment.runner(checkpoint.order.order_id, needs_parsers=False, steps=checkpoint.steps)

    # --- 9, 10 --------------------------------------------------------------------------------------------------------

    def verify_effect(self, checkpoint: RollbackCheckpoint, run_result: RunResult) -> None:
        if run_result.verified:
            self._cleared.add(checkpoint.order.order_id)
        else:
            require_as_planned(checkpoint.run_plan(), run_result.done, {}, hashed=True)
            require_idle_databases(checkpoint.run_plan(), run_result.done)

    def succeed(
        self, request: RollbackRequest, checkpoint: RollbackCheckpoint, run_result: RunResult
    ) -> RollbackOutcome:
        not_restored = find_remaining_folders(checkpoint)
        restored = [item.checkpoint_id for item in checkpoint.chosen() if item.checkpoint_id not in not_restored]
        if (rows := checkpoint.rows()) is not None:
            restored.append(rows.checkpoint_id)
        if (irreversible := find_irreversible_rows(checkpoint.manifest, checkpoint.order.checkpoints)) is not None:
            not_restored[irreversible.checkpoint_id] = f"Cannot be rolled back: {irreversible.irreversible}"[
                :_LONGEST_REASON
            ]
        status: Literal["EXECUTED", "PARTIAL"] = "PARTIAL" if not_restored else "EXECUTED"
        reasons = [Kept(checkpoint_id=checkpoint_id, reason=why) for checkpoint_id, why in not_restored.items()]
        draft = self._sign_outcome(checkpoint.order, checkpoint.manifest, status, restored, reasons, ())
        manifest = fold(manifest_with_notes(checkpoint), (draft,), self.environment.rules.clock())
        return self._sign_outcome(checkpoint.order, manifest, status, restored, reasons, (), at=draft.executed_at)

    def fail(
        self, request: RollbackRequest, problem: RemitError, checkpoint: RollbackCheckpoint | None = None
    ) -> RollbackOutcome:
        manifest = checkpoint.manifest if checkpoint is not None else self.target(request.order.envelope_id).manifest
        error = refusal_of(problem, request.order.order_id, self.environment.rules.clock)
        if checkpoint is not None:
            error = error.model_copy(update={"recovery_action": "ROLLED_BACK"})
        return self._sign_outcome(request.order, manifest, "FAILED" if checkpoint else "REFUSED", (), (), (error,))

    def publish(self, checkpoint: RollbackCheckpoint, outcome: RollbackOutcome) -> None:
        if outcome.status == "FAILED":
            self._restore_manifest(checkpoint)
            return
        try:
            with ReportFolder.open(checkpoint.root, checkpoint.folder) as folder:
                folder.write({MANIFEST: render_report_file(outcome.manifest)})
        except (RemitError, OSError) as problem:
            error = as_remit_error(problem)
            raise ReportWriteError(error.reason, error.what, where=error.where, next_step=error.next_step) from problem
        if checkpoint.order.order_id not in self._cleared:
            done = frozenset(step.number for step in checkpoint.steps.steps)
            require_originals_unchanged(checkpoint.run_plan(), done, {})  # again, since writing the report took time

    def _restore_manifest(self, checkpoint: RollbackCheckpoint) -> None:
        """Write the manifest from before again. A failed rollback may have written itself into it."""
        try:
            with ReportFolder.open(checkpoint.root, checkpoint.folder) as folder:
                if folder.read(MANIFEST) is not None:
                    folder.write({MANIFEST: render_report_file(checkpoint.manifest)})
        except (RemitError, OSError) as problem:
            _LOG.warning("the manifest of a run could not be written again", extra={"why": str(problem)})

    def commit(self, checkpoint: RollbackCheckpoint, outcome: RollbackOutcome, note: Note) -> None:
        order_id, rows = checkpoint.order.order_id, checkpoint.rows()
        done_before = order_id in self._cleared or self._transactions.is_committed(order_id)
        if outcome.status != "FAILED" and rows is not None and not done_before:
            self._transactions.commit(order_id, rows.connection, None, note)

    def clear_up(self, checkpoint: RollbackCheckpoint, outcome: RollbackOutcome, note: Note) -> None:
        if outcome.status == "FAILED":
            return
        if sets_aside(checkpoint.steps):
            note(note_clearing())
            reach("rollback.clearing")
        self._cleared.add(checkpoint.order.order_id)
        remove_set_aside(checkpoint.root, checkpoint.run_plan().places(), checkpoint.steps)
        folders = made_folders(checkpoint.manifest, checkpoint.order.checkpoints)
        remove_folders(checkpoint.root, [path for item, path in folders.items() if item in outcome.restored])

    def store_outcome(self, outcome: RollbackOutcome) -> str:
        return outcome.canonical().decode()

    def show_outcome(self, outcome: RollbackOutcome, stored: str) -> Mapping[str, Any]:
        return {
            "manifest_id": outcome.manifest_id,
            "status": outcome.status,
            "restored": list(outcome.restored),
            "kept": [item.tree() for item in outcome.kept],
            "key_id": outcome.key_id,
            "signature": outcome.signature,
        }

    def load_outcome(self, stored: str, recorded_at: str) -> RollbackOutcome:
        return load_rollback_outcome(stored, self.keyring())

    # --- inside -------------------------------------------------------------------------------------------------------

    @cached_property
    def _transactions(self) -> OpenTransactions:
        """The open transactions on database servers, by order."""
        return OpenTransactions(self.environment.servers)

    def _drifted_rows_finder(self, order: RollbackOrder) -> FindDriftedRows:
        seconds = float(self.environment.rules.config().timeouts.task)
        return lambda rows, images: self._transactions.find_drifted_rows(
            order.order_id, rows.connection, images, seconds
        )

    def _sign_outcome(
        self,
        order: RollbackOrder,
        manifest: RollbackManifest,
        status: str,
        restored: Collection[str],
        not_restored: Collection[Kept],
        errors: Collection[Any],
        at: str = "",
    ) -> RollbackOutcome:
        unsigned = {
            "order_id": order.order_id,
            "envelope_id": order.envelope_id,
            "manifest_id": manifest.manifest_id,
            "status": status,
            "restored": list(restored),
            "kept": [item.tree() for item in not_restored],
            "manifest": manifest.tree(),
            "errors": [error.tree() for error in errors],
            "executed_at": at or self.environment.now(),
        }
        return sign_rollback_outcome(self.signer(), unsigned)

    def _decide_on_resume(self, checkpoint: RollbackCheckpoint) -> PolicyDecision:
        if checkpoint.root == self.environment.rules.root():
            return PolicyDecision((f"started under rollback order {checkpoint.order.order_id}",))
        return PolicyDecision(
            denials=(Denial(Reason.PATH_REFUSED, "this was started in another folder", where=checkpoint.root),)
        )


def _is_first_without_changes(manifest: RollbackManifest) -> bool:
    """Whether this is the first rollback of a run that changed nothing. It is recorded, and restores nothing."""
    return changed_nothing(manifest) and manifest.status == "ACTIVE"


def _error_of(result: Result) -> RemitError:
    error = result.error or {"reason": Reason.EFFECT_FAILED.value, "what": result.reason}
    details = {name: error.get(name, "") for name in ("where", "next_step")}
    return EnvironmentFailureError(Reason(error["reason"]), error.get("what", ""), **details)
