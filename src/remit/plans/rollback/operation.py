"""The rollback door: the run of a plan taken back later, by a signed order, from its backups.

The same engine as the plan's, with steps that lead the other way: stage, switch, verify, clear. What the plan left is
found in the stored outcome, never in a file of the project; a backup is used only if it has the hash recorded there.
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
from remit.contracts.plans.outcome import Kept, RollbackOutcome
from remit.contracts.plans.rollback import RollbackManifest, RollbackOrder
from remit.core.errors import EnvironmentFailureError, Reason, RemitError, UsageError, as_remit_error
from remit.core.faultpoints import reach
from remit.core.ids import DEFAULT_TENANT
from remit.crypto.signing import Keyring, Signer
from remit.effects.plans.steps import Result, StepProgress, note_back, note_clearing, note_wave, read_progress
from remit.execution.decision import Denial, PolicyDecision
from remit.execution.engine import Note, Notes, Operation, Preview, ReportWriteError
from remit.execution.journal import RequestIds
from remit.plans.apply.environment import PlanSetting
from remit.plans.apply.open_transactions import HeldTransactions
from remit.plans.apply.verify_and_undo import (
    RunResult,
    incomplete_error,
    require_as_planned,
    require_idle_databases,
    require_untouched_aside,
    undo_run,
)
from remit.plans.engines.database_files import closing
from remit.plans.model.folders import clear_aside, make_folders, remove_folders, sets_aside, sync_folders
from remit.plans.model.remote_part import read_commit
from remit.plans.reports.execution_report import refusal_of
from remit.plans.rollback.checkpoint import (
    BegunRollback,
    digest_of_order,
    load_rollback_outcome,
    parse_begun,
    render_begun,
)
from remit.plans.rollback.preview import (
    AskRows,
    RollbackPreview,
    Taken,
    forces_rows,
    keep_what_is_there,
    kept_folders,
    look_back,
    noted,
)
from remit.plans.runtime.progress import Waves
from remit.plans.runtime.runner import PlanRunner, StepRunResult, StepTimes
from remit.plans.storage.backups import open_backups
from remit.plans.storage.drift import changed_nothing, is_due, rows_kept
from remit.plans.storage.manifest import fold, made_folders
from remit.plans.storage.row_images import open_rows
from remit.plans.storage.run_folder import MANIFEST, ReportFolder, render_paper

_LOG: Final = logging.getLogger("remit.plans")
_LONGEST_REASON: Final = 1_000


@dataclass(frozen=True, slots=True)
class RollbackRequest:
    """Nobody has vouched for the order. One that was read back from a checkpoint counts for nothing any more."""

    order: RollbackOrder
    digest: str
    begun: BegunRollback | None = None


@dataclass(frozen=True)
class RollbackOperation(Operation[RollbackRequest, AllowedRollback, BegunRollback, RunResult, RollbackOutcome]):
    """`taken` finds a run by its envelope's id."""

    keyring: Callable[[], Keyring]
    signer: Callable[[], Signer]
    setting: PlanSetting
    taken: Callable[[str], Taken]
    name: str = field(default="rollback", init=False)
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

    def verify_authority(self, request: RollbackRequest, now: datetime) -> AllowedRollback:
        return verify_rollback(request.order, self.keyring(), now)

    def decide(self, request: RollbackRequest) -> PolicyDecision:
        if request.begun is not None:
            return self._decide_begun(request.begun)
        order, taken = request.order, self.taken(request.order.envelope_id)
        denials: list[Denial] = []
        if taken.manifest.manifest_id != order.manifest_id:
            denials.append(Denial(Reason.BINDING_MISMATCH, "the order is for another run", where=order.manifest_id))
        if taken.manifest.status == "EXPIRED" and not order.force:
            denials.append(
                Denial(
                    Reason.ROLLBACK_EXPIRED,
                    f"this run could be taken back until {taken.manifest.expires_at}",
                    where=f"envelope {order.envelope_id}",
                    next_step="If its backups are still there: --force",
                )
            )
        if not denials and not is_due(taken.manifest, order.checkpoints) and not _is_first_of_nothing(taken.manifest):
            stays = rows_kept(taken.manifest, order.checkpoints)
            why = f": {stays.irreversible}" if stays is not None else ""
            denials.append(Denial(Reason.MISUSE, f"there is nothing left to restore{why}", where=order.envelope_id))
        return PolicyDecision((f"rollback order {order.order_id}",), tuple(denials))

    def preview(self, granted: AllowedRollback) -> RollbackPreview:
        order = granted.order
        return look_back(order, self.taken(order.envelope_id), self.setting.rules.root(), self._asking(order))

    def consent(self, granted: AllowedRollback, preview: Preview, now: datetime) -> str:
        return f"rollback order {granted.order.order_id}"

    def checkpoint(self, granted: AllowedRollback, preview: Preview) -> str:
        if not isinstance(preview, RollbackPreview):
            raise UsageError(Reason.MISUSE, "a rollback's preview was made by another door")
        order, taken, root = granted.order, self.taken(granted.order.envelope_id), self.setting.rules.root()
        keep_what_is_there(order, taken, root, preview)
        begun = BegunRollback(order, root, taken.folder, taken.manifest, preview.steps, preview.first, preview.folders)
        return render_begun(begun)

    def require_still_valid(self, granted: AllowedRollback, now: datetime) -> None:
        verify_rollback(granted.order, self.keyring(), now)

    def load_checkpoint(self, checkpoint: str) -> tuple[RollbackRequest, BegunRollback]:
        begun = parse_begun(checkpoint)
        return RollbackRequest(begun.order, digest_of_order(begun.order), begun), begun

    # --- 8 ------------------------------------------------------------------------------------------------------------

    def release(self, granted: AllowedRollback) -> None:
        self._held.close(granted.order.order_id)

    def effect(self, granted: AllowedRollback, begun: BegunRollback, note: Note) -> RunResult:
        reached = Waves(note)
        try:
            return self._all_or_error(begun, reached)
        except BaseException as problem:
            self._back_in_doubt(begun, reached, note, problem)
            if isinstance(problem, Exception):
                raise as_remit_error(problem) from problem
            raise

    def _all_or_error(self, begun: BegunRollback, reached: Waves) -> RunResult:
        self._begin_rows(begun)
        carried = self._carry_out(begun, reached)
        failed = next((result for result in carried.results if result.state != "done"), None)
        if carried.problem is not None:
            raise carried.problem
        if failed is not None:  # the process came to its end, so what it says was not done is not
            reached.note_not_done(carried.results)
            raise _error_of(failed)
        return RunResult("SUCCESS", carried.results, used=carried.used)

    def _begin_rows(self, begun: BegunRollback) -> None:
        """What it changed on a server is put back there, and not yet committed."""
        if (rows := begun.rows()) is None:
            return
        seconds = float(self.setting.rules.config().timeouts.task)
        with ReportFolder.open(begun.root, begun.folder) as folder, closing(open_rows(folder, rows)) as images:
            self._held.begin_undo(
                begun.order.order_id, rows.connection, images, force=forces_rows(begun.order), seconds=seconds
            )

    def _back_in_doubt(self, begun: BegunRollback, reached: Waves, note: Note, problem: BaseException) -> None:
        try:
            note(note_back("FAILED", ()))
            self._back(begun, StepProgress(reached.wave, reached.not_done), note)
        except BaseException as second:  # noqa: BLE001 - interrupted once more, perhaps
            raise incomplete_error(begun.course(), second) from problem

    def _carry_out(self, begun: BegunRollback, reached: Waves) -> StepRunResult:
        if not begun.steps.steps:  # every file is as before already
            return StepRunResult(())
        config = self.setting.rules.config()
        times = StepTimes(
            (float(config.timeouts.file_operation),) * len(begun.steps.steps), float(config.timeouts.task)
        )
        make_folders(begun.root, begun.folders)
        used = {step.source for step in begun.steps.steps if step.source}
        checkpoints = [checkpoint for checkpoint in begun.chosen() if checkpoint.checkpoint_id in used]
        with ExitStack() as stack:
            folder = stack.enter_context(ReportFolder.open(begun.root, begun.folder))
            given = open_backups(folder, checkpoints)
            for descriptor in given.values():
                stack.callback(os.close, descriptor)
            places = begun.course().places_there()
            return self._runner(begun).carry_out(begun.steps, places, times, reached.may_go_on, restoring=given)

    def recover_effect(self, begun: BegunRollback, notes: Notes, note: Note) -> RunResult | None:
        rows = begun.rows()
        if not begun.steps.steps and rows is None:
            return RunResult("SUCCESS", ())
        progress, commit = read_progress(notes), read_commit(notes)
        is_committed = False
        if commit is not None and progress.verdict is None and not progress.clearing:
            is_committed = self._held.fate(begun.order.order_id, commit) == "committed"
            progress = progress._replace(wave=len(begun.steps.waves) - 1)
        if progress.clearing or is_committed:  # it was whole and verified: the files were changed since, if they were
            sync_folders(begun.root, begun.course().places_there().values())
            return RunResult("SUCCESS", self._all_done(begun), verified=True)
        # With rows, its other half died with the process that held it.
        if rows is None and progress.verdict is None and progress.undone is None:
            places = begun.course().places_there()
            if self._runner(begun).finish(begun.steps, places, progress.wave, progress.not_done):
                return RunResult("SUCCESS", self._all_done(begun))
        self._back(begun, progress, note)
        if notes:
            note(note_wave(0, []))
        return None

    def _all_done(self, begun: BegunRollback) -> tuple[Result, ...]:
        now = self.setting.now()
        return tuple(Result(step.number, "done", now, now) for step in begun.steps.steps)

    def undo(self, begun: BegunRollback, notes: Notes, note: Note) -> None:
        if begun.order.order_id in self._cleared or self._held.is_committed(begun.order.order_id):
            raise EnvironmentFailureError(
                Reason.ROLLBACK_FAILED,
                "what the plan had left was removed already, so the rollback stands",
                where=f"rollback {begun.order.order_id}",
                next_step="Run `remit recover`: it will record what was done.",
            )
        note(note_back("FAILED", ()))
        progress = read_progress(notes)
        self._back(begun, progress._replace(wave=len(begun.steps.waves) - 1), note)

    def _back(self, begun: BegunRollback, progress: StepProgress, note: Note) -> None:
        self._held.close(begun.order.order_id)
        undo_run(begun.course(), self._runner(begun), progress, note)

    def _runner(self, begun: BegunRollback) -> PlanRunner:
        return self.setting.runner(begun.order.order_id, rich=False, steps=begun.steps)

    # --- 9, 10 --------------------------------------------------------------------------------------------------------

    def verify_effect(self, begun: BegunRollback, made: RunResult) -> None:
        if made.verified:
            self._cleared.add(begun.order.order_id)
        else:
            require_as_planned(begun.course(), made.done, {}, hashed=True)
            require_idle_databases(begun.course(), made.done)

    def succeed(self, request: RollbackRequest, begun: BegunRollback, made: RunResult) -> RollbackOutcome:
        kept = kept_folders(begun)
        restored = [item.checkpoint_id for item in begun.chosen() if item.checkpoint_id not in kept]
        if (rows := begun.rows()) is not None:
            restored.append(rows.checkpoint_id)
        if (stays := rows_kept(begun.manifest, begun.order.checkpoints)) is not None:
            kept[stays.checkpoint_id] = f"Cannot be taken back: {stays.irreversible}"[:_LONGEST_REASON]
        status: Literal["EXECUTED", "PARTIAL"] = "PARTIAL" if kept else "EXECUTED"
        reasons = [Kept(checkpoint_id=checkpoint_id, reason=why) for checkpoint_id, why in kept.items()]
        draft = self._signed(begun.order, begun.manifest, status, restored, reasons, ())
        manifest = fold(noted(begun), (draft,), self.setting.rules.clock())
        return self._signed(begun.order, manifest, status, restored, reasons, (), at=draft.executed_at)

    def fail(
        self, request: RollbackRequest, problem: RemitError, begun: BegunRollback | None = None
    ) -> RollbackOutcome:
        manifest = begun.manifest if begun is not None else self.taken(request.order.envelope_id).manifest
        error = refusal_of(problem, request.order.order_id, self.setting.rules.clock)
        if begun is not None:
            error = error.model_copy(update={"recovery_action": "ROLLED_BACK"})
        return self._signed(request.order, manifest, "FAILED" if begun else "REFUSED", (), (), (error,))

    def publish(self, begun: BegunRollback, outcome: RollbackOutcome) -> None:
        if outcome.status == "FAILED":
            self._publish_again(begun)
            return
        try:
            with ReportFolder.open(begun.root, begun.folder) as folder:
                folder.write({MANIFEST: render_paper(outcome.manifest)})
        except (RemitError, OSError) as problem:
            told = as_remit_error(problem)
            raise ReportWriteError(told.reason, told.what, where=told.where, next_step=told.next_step) from problem
        if begun.order.order_id not in self._cleared:
            done = frozenset(step.number for step in begun.steps.steps)
            require_untouched_aside(begun.course(), done, {})  # once more: writing papers takes its time

    def _publish_again(self, begun: BegunRollback) -> None:
        """The manifest from before: what a rollback that came to nothing has written of itself is not so."""
        try:
            with ReportFolder.open(begun.root, begun.folder) as folder:
                if folder.read(MANIFEST) is not None:
                    folder.write({MANIFEST: render_paper(begun.manifest)})
        except (RemitError, OSError) as problem:
            _LOG.warning("the manifest of a run could not be written again", extra={"why": str(problem)})

    def commit(self, begun: BegunRollback, outcome: RollbackOutcome, note: Note) -> None:
        order_id, rows = begun.order.order_id, begun.rows()
        done_before = order_id in self._cleared or self._held.is_committed(order_id)
        if outcome.status != "FAILED" and rows is not None and not done_before:
            self._held.commit(order_id, rows.connection, None, note)

    def clear_up(self, begun: BegunRollback, outcome: RollbackOutcome, note: Note) -> None:
        if outcome.status == "FAILED":
            return
        if sets_aside(begun.steps):
            note(note_clearing())
            reach("rollback.clearing")
        self._cleared.add(begun.order.order_id)
        clear_aside(begun.root, begun.course().places(), begun.steps)
        folders = made_folders(begun.manifest, begun.order.checkpoints)
        remove_folders(begun.root, [path for item, path in folders.items() if item in outcome.restored])

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
    def _held(self) -> HeldTransactions:
        """On database servers, by order."""
        return HeldTransactions(self.setting.servers)

    def _asking(self, order: RollbackOrder) -> AskRows:
        seconds = float(self.setting.rules.config().timeouts.task)
        return lambda rows, images: self._held.look_back(order.order_id, rows.connection, images, seconds)

    def _signed(
        self,
        order: RollbackOrder,
        manifest: RollbackManifest,
        status: str,
        restored: Collection[str],
        kept: Collection[Kept],
        errors: Collection[Any],
        at: str = "",
    ) -> RollbackOutcome:
        unsigned = {
            "order_id": order.order_id,
            "envelope_id": order.envelope_id,
            "manifest_id": manifest.manifest_id,
            "status": status,
            "restored": list(restored),
            "kept": [item.tree() for item in kept],
            "manifest": manifest.tree(),
            "errors": [error.tree() for error in errors],
            "executed_at": at or self.setting.now(),
        }
        return sign_rollback_outcome(self.signer(), unsigned)

    def _decide_begun(self, begun: BegunRollback) -> PolicyDecision:
        if begun.root == self.setting.rules.root():
            return PolicyDecision((f"begun under rollback order {begun.order.order_id}",))
        return PolicyDecision(
            denials=(Denial(Reason.PATH_REFUSED, "this was begun in another folder", where=begun.root),)
        )


def _is_first_of_nothing(manifest: RollbackManifest) -> bool:
    """Of a run that changed nothing, the first rollback is recorded like every other: it restores nothing."""
    return changed_nothing(manifest) and manifest.status == "ACTIVE"


def _error_of(result: Result) -> RemitError:
    error = result.error or {"reason": Reason.EFFECT_FAILED.value, "what": result.reason}
    words = {name: error.get(name, "") for name in ("where", "next_step")}
    return EnvironmentFailureError(Reason(error["reason"]), error.get("what", ""), **words)
