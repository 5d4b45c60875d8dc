"""The executor of started plans: it executes a plan, undoes it after a failure, resumes it after a crash, verifies it.

It runs on the host and contains no code that changes the content of a file. It sends the steps of a plan to a
sandboxed process (`plans/runtime/runner.py`). The code that runs there is in `effects`, which has no access to a key
or to the ledger:

`effects/plans/apply.py`        applies the steps of a plan, wave by wave
`effects/plans/undo.py`         undoes them, and finishes a wave that a crash interrupted
`effects/plans/handlers.py`     one handler for each kind of action, such as FILE_MODIFY
`effects/edits`                 one function for each edit of FILE_MODIFY; `registry_plain.py` and `registry_full.py`
                                list them

To add an edit, write a model in `contracts/plans/operations.py` and a function in `effects/edits`, and add a row to a
registry. To add a kind of file action, write a class in `contracts/plans/plan.py` (and add it to `ActionType` and
`Action`) with its operation in `contracts/plans/operations.py`, write a handler, and add a row to `_MOVES` in
`plans/runtime/steps.py` and to `_OPERATIONS` in `services/plans/agent_preview.py`. `_MOVES` maps the kind to one of the
moves that exist. A new kind of move also needs `simulate`, `staging`, `apply` and `undo` in `effects/plans`, and
`plans/storage/manifest.py`.

`plans/policy/failure_handling.py` decides what happens after a failed step: the changes are kept or undone. A plan can
also change rows on a database server. `open_transactions.py` holds that transaction open while the files change, and
commits it last.

Each call of `reach` here marks a fault point whose name begins with `plan.` (see `core/faultpoints.py`).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from remit.contracts.plans.plan import Plan
from remit.contracts.plans.status import PlanStatus
from remit.core.errors import EnvironmentFailureError, Reason, RemitError, as_remit_error
from remit.core.faultpoints import reach
from remit.crypto.signing import Keyring
from remit.effects.plans.steps import (
    Result,
    StepProgress,
    note_clearing,
    note_partial,
    note_undo,
    note_wave,
    read_progress,
)
from remit.execution.engine import IncompleteError, Note, Notes
from remit.plans.apply.abandoned import describe_leftovers, manual_repair_error
from remit.plans.apply.checkpoint import PlanCheckpoint, truncate_errors
from remit.plans.apply.environment import Phase, PlanEnvironment
from remit.plans.apply.open_transactions import OpenTransactions, not_committed_error
from remit.plans.apply.outcome import (
    EFFECTIVE_STATUSES,
    NOT_STARTED,
    not_started_results,
    preflight_results,
    unknown_results,
)
from remit.plans.apply.verify_and_undo import (
    ObservedFile,
    RunPlan,
    RunResult,
    as_verification_error,
    incomplete_error,
    require_as_planned,
    require_idle_databases,
    require_originals_unchanged,
    undo_run,
)
from remit.plans.engines.row_rules import RuleTimes, check_rows, has_other_rules, without_queries
from remit.plans.model.folders import make_folders, remove_folders, remove_set_aside, sets_aside, sync_folders
from remit.plans.model.remote_part import Commit, RowBackup, read_commit
from remit.plans.policy.failure_handling import JudgedStep, decide_fate
from remit.plans.preparation.prepared import PreparedOutputs
from remit.plans.preparation.remote_sql import PreparedStatements
from remit.plans.runtime.progress import WaveProgress
from remit.plans.runtime.runner import PlanRunner, StepRun, StepRunResult, paths_of
from remit.plans.runtime.steps import times_of
from remit.plans.storage.run_folder import ReportFolder

_USED: Final = (
    "This run was interrupted before, and everything is undone. Its approval is used, so preview the plan again with"
    " `remit preview`, and approve it again."
)


@dataclass(frozen=True)
class PlanExecutor:
    """Executes, resumes, undoes and verifies started plans.

    The engine calls these methods through `plans/operation.py`. A run is described by its checkpoint and by its notes,
    which are durable: `note` records one, and a process that recovers the run reads them all. The fields below hold, by
    envelope id, what this process knows beyond them.
    """

    environment: PlanEnvironment
    keyring: Callable[[], Keyring]
    _results: dict[str, RunResult] = field(default_factory=dict, init=False, repr=False)
    _verified_files: dict[str, dict[int, ObservedFile]] = field(default_factory=dict, init=False, repr=False)
    _undo_warnings: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False)
    """The runs that were undone. The texts name files that the undo could not restore."""
    _cleared: set[str] = field(default_factory=set, init=False, repr=False)
    _waiting: dict[str, StepRun] = field(default_factory=dict, init=False, repr=False)
    """The runs whose process waits for the intent. `release` closes them."""

    @cached_property
    def transactions(self) -> OpenTransactions:
        """The open transactions on database servers, by envelope id."""
        return OpenTransactions(self.environment.servers)

    # --- execute, or undo --------------------------------------------------------------------------------------------

    def execute(
        self,
        plan: Plan,
        checkpoint: PlanCheckpoint,
        prepared: PreparedOutputs,
        require_still_valid: Callable[[], None],
        note: Note,
    ) -> RunResult:
        """Execute the steps of a plan. After a failure or a cancellation, undo them before returning.

        The plan's instructions may keep the completed steps of a plan in which others failed. The result is then
        PARTIAL.
        Changes on a database server are executed but not yet committed when this returns. `commit` does that later.

        Raises `IncompleteError` if the undo does not complete. The run can then be recovered.
        """
        if checkpoint.doomed:
            return self._remember(
                checkpoint, RunResult("FAILED", preflight_results(checkpoint, self.environment.now()))
            )
        is_output_missing = any(step.source and step.source not in prepared.files for step in checkpoint.steps.steps)
        if is_output_missing or (checkpoint.remote is not None and prepared.remote is None):
            return self._remember(
                checkpoint,
                RunResult("FAILED", not_started_results(checkpoint), problem=_outputs_lost_error(checkpoint)),
            )
        # A caller who cancelled before the intent was recorded was assured that the plan does not run. So read the
        # ledger now.
        self.environment.cancellations.is_recorded(checkpoint.envelope_id)
        progress = WaveProgress(
            checkpoint.steps,
            note,
            lambda: self.environment.is_cancelled(checkpoint.envelope_id),
            require_still_valid,
            self.environment.rules.clock,
        )
        try:
            return self._execute_or_undo(plan, checkpoint, prepared, progress, note)
        except IncompleteError:
            raise
        except Exception as problem:  # most likely the ledger: do not report that the files are as before
            raise incomplete_error(_run_plan(checkpoint), problem) from problem
        except BaseException as interrupt:
            self._undo_after_interrupt(checkpoint, progress, note, interrupt)
            raise

    def _execute_or_undo(
        self, plan: Plan, checkpoint: PlanCheckpoint, prepared: PreparedOutputs, progress: WaveProgress, note: Note
    ) -> RunResult:
        rows = None
        try:
            rows = self._keep_rows(checkpoint, prepared.remote)
            executed = self._execute_steps(plan, checkpoint, prepared.files, progress)
        except Exception as problem:  # noqa: BLE001 - after any failure, the run must be undone
            error = as_remit_error(problem)
            failed = checkpoint.remote is not None and rows is None
            executed = StepRunResult(
                not_started_results(checkpoint, NOT_STARTED) if failed else progress.results(error), error
            )
        if rows is not None:
            executed = executed._replace(results=(*executed.results, *self._remote_results(checkpoint)))
        fate = decide_fate([_judge_step(result, checkpoint) for result in executed.results], checkpoint.instructions)
        ended_by = executed.problem or (progress.abort_reason() if fate.verdict != "BACK" else None)
        if fate.verdict == "GOOD" and ended_by is None:
            return self._remember(checkpoint, RunResult("SUCCESS", executed.results, used=executed.used, rows=rows))
        if fate.verdict == "KEEP" and ended_by is None:
            note(note_partial(sorted(RunResult("PARTIAL", executed.results).done), truncate_errors(executed.results)))
            return self._remember(checkpoint, RunResult("PARTIAL", executed.results, used=executed.used))
        return self._undo_after_failure(checkpoint, executed, ended_by, progress, note)

    def begin_remote(self, checkpoint: PlanCheckpoint, statements: PreparedStatements | None) -> None:
        """Run the statements of the plan on its server. The transaction stays open."""
        if checkpoint.remote is not None and statements is not None:
            files = sum(original.state.size for original in checkpoint.originals.values())
            self.transactions.begin(checkpoint.envelope_id, statements, checkpoint.remote, backup_bytes=files)

    def _keep_rows(self, checkpoint: PlanCheckpoint, statements: PreparedStatements | None) -> RowBackup | None:
        """Store the before-images of the rows that the open transaction changes.

        The transaction of a run that is resumed ended with its process, so the statements run again.
        """
        if checkpoint.remote is None or statements is None:
            return None
        self._report_status(checkpoint, "RUNNING")
        if not self.transactions.is_open(checkpoint.envelope_id):
            try:
                self.begin_remote(checkpoint, statements)
            except RemitError as problem:  # its advice is for an approval that is not used yet
                raise problem.with_changes(next_step=_USED) from problem
        with ReportFolder.open(checkpoint.root, checkpoint.folder) as folder:
            return self.transactions.back_up_rows(checkpoint.envelope_id, checkpoint.remote, folder)

    def _remote_results(self, checkpoint: PlanCheckpoint) -> tuple[Result, ...]:
        now = self.environment.now()
        return () if checkpoint.remote is None else checkpoint.remote.results("done", now)

    def _execute_steps(
        self, plan: Plan, checkpoint: PlanCheckpoint, prepared: Mapping[str, int], progress: WaveProgress
    ) -> StepRunResult:
        config = self.environment.rules.config()
        progress.set_deadline(times_of(plan, config).seconds)
        runner = self._runner(checkpoint, shows_progress=True)
        self._report_status(checkpoint, "RUNNING")
        make_folders(checkpoint.root, checkpoint.folders)
        if not checkpoint.steps.steps:  # the plan only changes a database server
            return StepRunResult(())
        run = self._waiting.get(checkpoint.envelope_id) or self._prepare(runner, plan, checkpoint, prepared)
        lanes = config.limits.max_concurrent_operations if _is_parallel(checkpoint) else 1
        return runner.execute(run, progress.check_next_wave, lanes=lanes)

    def prewarm(self, plan: Plan, checkpoint: PlanCheckpoint, prepared: Mapping[str, int]) -> None:
        """Start the process that `execute` needs, so that it is ready when the intent is recorded.

        It gets its order now if that is possible: if its folders exist, and one process runs all steps.
        """
        if not checkpoint.steps.steps:
            return
        runner = self._runner(checkpoint, shows_progress=True)
        if not checkpoint.folders and not _is_parallel(checkpoint) and checkpoint.remote is None:
            run = self._prepare(runner, plan, checkpoint, prepared)
            run.prewarm()
            self._waiting[checkpoint.envelope_id] = run

    def _prepare(
        self, runner: PlanRunner, plan: Plan, checkpoint: PlanCheckpoint, prepared: Mapping[str, int]
    ) -> StepRun:
        return runner.prepare(
            checkpoint.with_operations(plan),
            _run_plan(checkpoint).existing_places(),
            times_of(plan, self.environment.rules.config()),
            restoring={} if any(step.metadata for step in checkpoint.steps.steps) else None,
            prepared=prepared,
        )

    def release(self, envelope_id: str) -> None:
        """End what waits for a request that has ended: its open transaction, and its process."""
        self.transactions.close(envelope_id)
        if (waiting := self._waiting.pop(envelope_id, None)) is not None:
            waiting.close()

    def _undo_after_failure(
        self,
        checkpoint: PlanCheckpoint,
        executed: StepRunResult,
        problem: RemitError | None,
        progress: WaveProgress,
        note: Note,
    ) -> RunResult:
        results = executed.results
        status = _status_of_failure(results, problem)
        if executed.problem is None:  # the process ended normally, so its results say exactly which steps are not done
            numbers = range(len(checkpoint.steps.steps))
            not_done = [result.number for result in results if result.state != "done" and result.number in numbers]
            note(note_wave(progress.wave, not_done))
            progress.not_done = frozenset(not_done)
        note(note_undo(status, truncate_errors(results)))
        warnings = self._undo(checkpoint, StepProgress(progress.wave, progress.not_done), note)
        whole = problem if problem is not None and not _is_reported_by_a_step(problem, results) else None
        return self._remember(
            checkpoint, RunResult(status, results, problem=whole, warnings=warnings, used=executed.used)
        )

    def _undo_after_interrupt(
        self, checkpoint: PlanCheckpoint, progress: WaveProgress, note: Note, interrupt: BaseException
    ) -> None:
        """Undo the run after an interrupt of this process, and record it as cancelled. The caller then re-raises."""
        results = progress.results(EnvironmentFailureError(Reason.CANCELLED, "the process was interrupted"))
        try:
            note(note_undo("CANCELLED", truncate_errors(results)))
            warnings = self._undo(checkpoint, StepProgress(progress.wave, progress.not_done), note)
        except BaseException as problem:  # noqa: BLE001 - perhaps a second interrupt
            raise incomplete_error(_run_plan(checkpoint), problem) from interrupt
        self._remember(checkpoint, RunResult("CANCELLED", results, warnings=warnings))

    # --- resume after a crash ----------------------------------------------------------------------------------------

    def recover_effect(self, checkpoint: PlanCheckpoint, notes: Notes, note: Note) -> RunResult | None:
        """Finish or undo a run whose process died, as its notes require.

        Returns the result of the run. Returns None if the run is undone and no failure was noted. All files are then as
        before, and a caller with a valid authority may start the run again.
        """
        if checkpoint.doomed:
            return self._remember(
                checkpoint, RunResult("FAILED", preflight_results(checkpoint, self.environment.now()))
            )
        progress, commit = read_progress(notes), read_commit(notes)
        if progress.verdict == "back":
            return self._resume_undo(checkpoint, progress, note)
        if progress.verdict == "keep":
            return self._resume_partial(checkpoint, progress)
        if progress.clearing:
            return self._resume_cleanup(checkpoint, commit)
        if commit is not None:
            return self._resume_after_commit(checkpoint, commit, progress, note)
        is_whole_here = checkpoint.remote is None  # else the open transaction ended with the process that held it
        if is_whole_here and progress.undone is None and (done := self._finish_steps(checkpoint, progress)) is not None:
            return done
        self._undo(checkpoint, progress, note)
        if notes:
            note(note_wave(0, []))  # earlier notes are no longer valid: a process that runs it again starts at wave 0
        return None

    def _resume_undo(self, checkpoint: PlanCheckpoint, progress: StepProgress, note: Note) -> RunResult:
        warnings = self._undo(checkpoint, progress, note)
        is_explained = any(result.state == "failed" for result in progress.results)
        problem = None if is_explained else _interrupted_undo_error()
        return self._remember(
            checkpoint, RunResult(_parse_status(progress.status), progress.results, problem=problem, warnings=warnings)
        )

    def _resume_partial(self, checkpoint: PlanCheckpoint, progress: StepProgress) -> RunResult:
        run_plan = _run_plan(checkpoint)
        in_use = paths_of(step for step in checkpoint.steps.steps if step.number in progress.kept)
        sync_folders(checkpoint.root, (place for path, place in run_plan.existing_places().items() if path in in_use))
        return self._remember(checkpoint, RunResult("PARTIAL", progress.results, verified=progress.clearing))

    def _resume_cleanup(self, checkpoint: PlanCheckpoint, commit: Commit | None = None) -> RunResult:
        """Finish a run that was complete, verified and reported. Later changes of its files are not its concern."""
        sync_folders(checkpoint.root, _run_plan(checkpoint).existing_places().values())
        rows = commit.rows if commit is not None else None
        return self._remember(
            checkpoint, RunResult("SUCCESS", self._done_results(checkpoint), verified=True, rows=rows)
        )

    def _resume_after_commit(
        self, checkpoint: PlanCheckpoint, commit: Commit, progress: StepProgress, note: Note
    ) -> RunResult:
        """Finish or undo a run whose commit was about to be sent. The server reports whether it committed; the files
        follow.
        """
        if self.transactions.fate(checkpoint.envelope_id, commit) == "committed":
            return self._resume_cleanup(checkpoint, commit)
        results = self._done_results(checkpoint)
        note(note_undo("ROLLED_BACK", truncate_errors(results)))
        warnings = self._undo(checkpoint, progress._replace(wave=len(checkpoint.steps.waves) - 1), note)
        server = checkpoint.remote.server if checkpoint.remote is not None else commit.connection
        problem = not_committed_error("the process of this run ended before", server, "Approve it again: remit approve")
        return self._remember(checkpoint, RunResult("ROLLED_BACK", results, problem=problem, warnings=warnings))

    def _finish_steps(self, checkpoint: PlanCheckpoint, progress: StepProgress) -> RunResult | None:
        places = _run_plan(checkpoint).existing_places()
        if not self._runner(checkpoint).finish(checkpoint.steps, places, progress.wave, progress.not_done):
            return None
        return self._remember(checkpoint, RunResult("SUCCESS", self._done_results(checkpoint)))

    def _done_results(self, checkpoint: PlanCheckpoint) -> tuple[Result, ...]:
        now = self.environment.now()
        steps = tuple(Result(step.number, "done", checkpoint.started_at, now) for step in checkpoint.steps.steps)
        return (*steps, *self._remote_results(checkpoint))

    # --- undo --------------------------------------------------------------------------------------------------------

    def undo(self, checkpoint: PlanCheckpoint, notes: Notes, note: Note) -> None:
        """Undo a run that was executed and did not pass a later step of the engine.

        Raises `EnvironmentFailureError` if it cannot be undone any more: the database has committed, or rollback data
        of
        the undo was removed.
        """
        if self.transactions.is_committed(checkpoint.envelope_id):
            raise EnvironmentFailureError(
                Reason.ROLLBACK_FAILED,
                "the database has already committed its part, so the plan cannot be undone",
                where=f"plan {checkpoint.plan_id}",
                next_step="Run `remit recover` to record the outcome. Then: remit rollback",
            )
        if checkpoint.envelope_id in self._cleared:
            raise EnvironmentFailureError(
                Reason.ROLLBACK_FAILED,
                "the old files were already removed, so the plan cannot be undone",
                where=f"plan {checkpoint.plan_id}",
                next_step="Run `remit recover` to record the outcome. Then: remit rollback",
            )
        run_result = self._results.get(checkpoint.envelope_id)
        note(note_undo("ROLLED_BACK", truncate_errors(run_result.results if run_result else ())))
        progress = read_progress(notes)
        not_done = (
            progress.not_done if run_result is None else frozenset(range(len(checkpoint.steps.steps))) - run_result.done
        )
        self._undo(checkpoint, progress._replace(wave=len(checkpoint.steps.waves) - 1, not_done=not_done), note)

    def _undo(self, checkpoint: PlanCheckpoint, progress: StepProgress, note: Note) -> tuple[str, ...]:
        self._report_status(checkpoint, "ROLLING_BACK")
        self.transactions.close(checkpoint.envelope_id)
        warnings = undo_run(_run_plan(checkpoint), self._runner(checkpoint), progress, note)
        self._undo_warnings[checkpoint.envelope_id] = warnings
        return warnings

    # --- verify, commit, clean up ------------------------------------------------------------------------------------

    def verify(self, checkpoint: PlanCheckpoint, run_result: RunResult) -> None:
        """Verify that the files are as the plan says and that its rules hold.

        Raises `VerificationFailedError` if not. A run that was undone, or that was verified before a crash, is not
        verified.
        """
        self._remember(checkpoint, run_result)
        if run_result.status not in EFFECTIVE_STATUSES or run_result.verified:
            return
        self._report_status(checkpoint, "VERIFYING", len(run_result.done))
        run_plan = _run_plan(checkpoint)
        hashed = checkpoint.instructions.verify_hashes
        self._verified_files[checkpoint.envelope_id] = require_as_planned(
            run_plan, run_result.done, checkpoint.originals, hashed=hashed
        )
        require_idle_databases(run_plan, run_result.done)
        if checkpoint.steps.rules:
            try:
                self._check_rules(checkpoint, run_plan, len(run_result.done))
            except RemitError as problem:
                raise as_verification_error(problem) from problem

    def _check_rules(self, checkpoint: PlanCheckpoint, run_plan: RunPlan, done: int) -> None:
        timeouts, places = self.environment.rules.config().timeouts, run_plan.existing_places()
        if has_other_rules(checkpoint.steps):
            self._runner(checkpoint).check(without_queries(checkpoint.steps), places, float(timeouts.task))
        check_rows(
            checkpoint.steps,
            places,
            self.environment.engines(checkpoint.envelope_id, checkpoint.plan_id).engine,
            RuleTimes(float(timeouts.sql), float(timeouts.task)),
            meanwhile=lambda: self._report_status(checkpoint, "VERIFYING", done),
        )

    def verify_originals(self, checkpoint: PlanCheckpoint) -> None:
        """Raise `VerificationFailedError` if another process wrote to a file that was set aside. Called while undo is
        possible.
        """
        run_result = self._results[checkpoint.envelope_id]
        if not run_result.verified:
            require_originals_unchanged(_run_plan(checkpoint), run_result.done, checkpoint.originals)

    def commit(self, checkpoint: PlanCheckpoint, note: Note) -> None:
        """Commit the open transaction on a database server, if there is one.

        Raises `VerificationFailedError` if it was certainly not committed, and `IncompleteError` if that is unknown.
        """
        if checkpoint.remote is None or self.transactions.is_committed(checkpoint.envelope_id):
            return
        run_result = self._results[checkpoint.envelope_id]
        if not run_result.verified:  # else an earlier process has committed it
            self.transactions.commit(checkpoint.envelope_id, checkpoint.remote.connection, run_result.rows, note)

    def failure(self, checkpoint: PlanCheckpoint, problem: RemitError) -> RunResult:
        """Return the result to record for a plan that `problem` ended."""
        run_result = self._results.get(checkpoint.envelope_id)
        if run_result is not None and run_result.status == "CANCELLED":
            return run_result
        is_undone = checkpoint.envelope_id in self._undo_warnings
        warnings = self._undo_warnings.get(checkpoint.envelope_id, ())
        if not is_undone:  # a person closed it without an undo
            problem, warnings = manual_repair_error(problem, checkpoint), describe_leftovers(checkpoint)
            if checkpoint.remote is not None:
                warnings = (*warnings, f"It is unknown whether {checkpoint.remote.server} has committed its part")
        results = run_result.results if run_result is not None else unknown_results(checkpoint, is_undone=is_undone)
        cancelled = problem.reason is Reason.CANCELLED  # cancelled while its rules were checked
        status: PlanStatus = ("CANCELLED" if cancelled else "ROLLED_BACK") if is_undone else "FAILED"
        return RunResult(status, results, problem=problem, warnings=warnings)

    def clear_up(self, checkpoint: PlanCheckpoint, note: Note) -> None:
        """Remove what only an undo needs: the files set aside, and folders that the plan did not use.

        This is noted first. From then on the run is finished, and no longer undone.
        """
        if sets_aside(checkpoint.steps):
            note(note_clearing())
            reach("plan.clearing")
        self._cleared.add(checkpoint.envelope_id)
        remove_set_aside(checkpoint.root, checkpoint.places(), checkpoint.steps)
        in_use = checkpoint.needed_folders(self._results[checkpoint.envelope_id].done)
        remove_folders(checkpoint.root, [folder for folder in checkpoint.folders if folder not in in_use])

    def verified_files(self, checkpoint: PlanCheckpoint) -> dict[int, ObservedFile] | None:
        """Return the files as they were verified, or None if they were not."""
        return self._verified_files.get(checkpoint.envelope_id)

    # --- internal -----------------------------------------------------------------------------------------------------

    def _remember(self, checkpoint: PlanCheckpoint, run_result: RunResult) -> RunResult:
        self._results[checkpoint.envelope_id] = run_result
        return run_result

    def _runner(self, checkpoint: PlanCheckpoint, *, shows_progress: bool = False) -> PlanRunner:
        return self.environment.runner(
            checkpoint.envelope_id,
            needs_parsers=checkpoint.needs_parsers,
            plan_id=checkpoint.plan_id if shows_progress else "",
            steps=checkpoint.steps,
        )

    def _report_status(self, checkpoint: PlanCheckpoint, phase: Phase, done: int = 0) -> None:
        self.environment.report_status(
            checkpoint.envelope_id, checkpoint.plan_id, phase, done, len(checkpoint.steps.steps)
        )


def _run_plan(checkpoint: PlanCheckpoint) -> RunPlan:
    return RunPlan(checkpoint.root, checkpoint.steps, checkpoint.first_states(), checkpoint.folders)


def _is_parallel(checkpoint: PlanCheckpoint) -> bool:
    return checkpoint.instructions.execution_order == "parallel"


def _outputs_lost_error(checkpoint: PlanCheckpoint) -> RemitError:
    """Return the error for a run that another process recovered: the results of its SQL are lost."""
    return EnvironmentFailureError(
        Reason.EFFECT_FAILED,
        "the prepared results were lost when the process that made them ended; nothing was changed",
        where=f"plan {checkpoint.plan_id}",
        next_step="Approve it again: remit approve",
    )


def _judge_step(result: Result, checkpoint: PlanCheckpoint) -> JudgedStep:
    reason = Reason(result.error["reason"]) if result.error else None
    steps = checkpoint.steps.steps
    action_id = steps[result.number].action_id if result.number < len(steps) else ""
    return JudgedStep(result.number, result.state, reason, action_id)


def _status_of_failure(results: Collection[Result], problem: RemitError | None) -> PlanStatus:
    reasons = {Reason(result.error["reason"]) for result in results if result.error}
    if Reason.CANCELLED in reasons or (problem is not None and problem.reason is Reason.CANCELLED):
        return "CANCELLED"
    return "ROLLED_BACK" if any(result.state == "done" for result in results) else "FAILED"


def _is_reported_by_a_step(problem: RemitError, results: Collection[Result]) -> bool:
    """Whether the failure of a step already reports this problem."""
    return any(result.error is not None and result.error["reason"] == problem.reason for result in results)


def _parse_status(text: str) -> PlanStatus:
    match text:
        case "FAILED" | "ROLLED_BACK" | "CANCELLED" | "PARTIAL" | "SUCCESS":
            return text
    raise EnvironmentFailureError(Reason.STORE_OUTDATED, "a note of this run cannot be read")


def _interrupted_undo_error() -> RemitError:
    """Return the error of a run that was undone for an unknown reason: the process that knew it died."""
    return EnvironmentFailureError(Reason.EFFECT_FAILED, "the process of this run ended during its undo")
