"""The executor of a plan that has begun: carried out or undone, resumed where a process died, verified at its end.

It holds no code that changes the content of a file. It sends steps to a sandboxed process (`plans/runtime/runner.py`),
and the code that runs there is in `effects`, which knows no key and no ledger:

`effects/plans/apply.py`        the steps of a plan, wave by wave, and their undo
`effects/plans/handlers.py`     one handler for each kind of action, such as FILE_MODIFY
`effects/edits`                 one function for each edit of FILE_MODIFY; `registry_plain.py` and `registry_full.py`
                                list them

So a new edit is a model in `contracts/plans/operations.py`, a function in `effects/edits` and a row in a registry. A
new kind of file action is a class in `contracts/plans/plan.py`, a handler, and a row in `_MOVES` of
`plans/runtime/steps.py`.

What to do when a step failed (keep or undo) is decided in `plans/policy/failure_handling.py`. What is changed on a
database server is held open by `open_transactions.py` and committed last. A call of `reach`
marks a fault point, with a name that begins with `plan.`: see `core/faultpoints.py`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

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
from remit.plans.runtime.runner import PlanRunner, StepRunResult, paths_of
from remit.plans.runtime.steps import times_of
from remit.plans.storage.run_folder import ReportFolder


@dataclass(frozen=True)
class PlanExecutor:
    """Of the plans that this process works on. It keeps, by envelope, what their checkpoints and notes do not tell."""

    environment: PlanEnvironment
    keyring: Callable[[], Keyring]
    _results: dict[str, RunResult] = field(default_factory=dict, init=False, repr=False)
    _verified_files: dict[str, dict[int, ObservedFile]] = field(default_factory=dict, init=False, repr=False)
    _undo_warnings: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False)
    """With what is not as before all the same, in words."""
    _cleared: set[str] = field(default_factory=set, init=False, repr=False)

    @cached_property
    def transactions(self) -> OpenTransactions:
        """On database servers, by envelope."""
        return OpenTransactions(self.environment.servers)

    # --- there, or back -----------------------------------------------------------------------------------------------

    def execute(
        self,
        plan: Plan,
        checkpoint: PlanCheckpoint,
        prepared: PreparedOutputs,
        require_still_valid: Callable[[], None],
        note: Note,
    ) -> RunResult:
        """All of it, or what its instructions keep of it; or it is taken back before this returns.

        What it changes on a database server is done then, and not yet committed.
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
        # Whoever cancelled before the intent stood was told that it will not run: asked afresh, not now and then.
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
        except Exception as problem:  # the ledger, most likely: nobody must be told that the world is as before
            raise incomplete_error(_run_plan(checkpoint), problem) from problem
        except BaseException as interrupt:
            self._undo_after_interrupt(checkpoint, progress, note, interrupt)
            raise

    def _execute_or_undo(
        self, plan: Plan, checkpoint: PlanCheckpoint, prepared: PreparedOutputs, progress: WaveProgress, note: Note
    ) -> RunResult:
        rows = None
        try:
            rows = self._begin_remote(checkpoint, prepared.remote)
            executed = self._execute_steps(plan, checkpoint, prepared.files, progress)
        except Exception as problem:  # noqa: BLE001 - nothing but going back is right after it
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

    def _begin_remote(self, checkpoint: PlanCheckpoint, statements: PreparedStatements | None) -> RowBackup | None:
        """Its statements run on the server, what leads back is kept, and the transaction stays open."""
        if checkpoint.remote is None or statements is None:
            return None
        self._report_status(checkpoint, "RUNNING")
        with ReportFolder.open(checkpoint.root, checkpoint.folder) as folder:
            return self.transactions.begin(checkpoint.envelope_id, statements, checkpoint.remote, folder)

    def _remote_results(self, checkpoint: PlanCheckpoint) -> tuple[Result, ...]:
        now = self.environment.now()
        return () if checkpoint.remote is None else checkpoint.remote.results("done", now)

    def _execute_steps(
        self, plan: Plan, checkpoint: PlanCheckpoint, prepared: Mapping[str, int], progress: WaveProgress
    ) -> StepRunResult:
        config = self.environment.rules.config()
        times = times_of(plan, config)
        progress.set_deadline(times.seconds)
        runner = self.environment.runner(
            checkpoint.envelope_id,
            needs_parsers=checkpoint.needs_parsers,
            plan_id=checkpoint.plan_id,
            steps=checkpoint.steps,
        )
        self._report_status(checkpoint, "RUNNING")
        make_folders(checkpoint.root, checkpoint.folders)
        if not checkpoint.steps.steps:  # all of it is elsewhere
            return StepRunResult(())
        steps = checkpoint.with_operations(plan)
        in_parallel = checkpoint.instructions.execution_order == "parallel"
        return runner.execute(
            steps,
            _run_plan(checkpoint).existing_places(),
            times,
            progress.check_next_wave,
            lanes=config.limits.max_concurrent_operations if in_parallel else 1,
            restoring={} if any(step.metadata for step in checkpoint.steps.steps) else None,
            prepared=prepared,
        )

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
        if executed.problem is None:  # the process came to its end, so what it says was not done is not
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
        """Somebody interrupted this process. It is taken back, and recorded so, before the interrupt goes on."""
        results = progress.results(EnvironmentFailureError(Reason.CANCELLED, "it was interrupted"))
        try:
            note(note_undo("CANCELLED", truncate_errors(results)))
            warnings = self._undo(checkpoint, StepProgress(progress.wave, progress.not_done), note)
        except BaseException as problem:  # noqa: BLE001 - interrupted once more, perhaps
            raise incomplete_error(_run_plan(checkpoint), problem) from interrupt
        self._remember(checkpoint, RunResult("CANCELLED", results, warnings=warnings))

    # --- taken up where a process died --------------------------------------------------------------------------------

    def recover_effect(self, checkpoint: PlanCheckpoint, notes: Notes, note: Note) -> RunResult | None:
        """What it had come to is brought to its end; None: it had come to nothing, and everything is as before."""
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
        is_whole_here = checkpoint.remote is None  # else its other half died with the process that held it
        if is_whole_here and progress.undone is None and (done := self._finish_steps(checkpoint, progress)) is not None:
            return done
        self._undo(checkpoint, progress, note)
        if notes:
            note(note_wave(0, []))  # what was noted holds no longer: whoever runs it again begins with the first wave
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
        """It was whole, verified and reported. Whatever the files are now was made of them since."""
        sync_folders(checkpoint.root, _run_plan(checkpoint).existing_places().values())
        rows = commit.rows if commit is not None else None
        return self._remember(
            checkpoint, RunResult("SUCCESS", self._done_results(checkpoint), verified=True, rows=rows)
        )

    def _resume_after_commit(
        self, checkpoint: PlanCheckpoint, commit: Commit, progress: StepProgress, note: Note
    ) -> RunResult:
        """The files follow the database, which is asked what became of the transaction."""
        if self.transactions.fate(checkpoint.envelope_id, commit) == "committed":
            return self._resume_cleanup(checkpoint, commit)
        results = self._done_results(checkpoint)
        note(note_undo("ROLLED_BACK", truncate_errors(results)))
        warnings = self._undo(checkpoint, progress._replace(wave=len(checkpoint.steps.waves) - 1), note)
        server = checkpoint.remote.server if checkpoint.remote is not None else commit.connection
        problem = not_committed_error("its process ended before", server, "Approve it again: remit approve")
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

    # --- back ---------------------------------------------------------------------------------------------------------

    def undo(self, checkpoint: PlanCheckpoint, notes: Notes, note: Note) -> None:
        """It was done, and is not to stand."""
        if self.transactions.is_committed(checkpoint.envelope_id):
            raise EnvironmentFailureError(
                Reason.ROLLBACK_FAILED,
                "the database has committed its part already, so the plan stands",
                where=f"plan {checkpoint.plan_id}",
                next_step="Run `remit recover`: it will record what was done. Then: remit rollback",
            )
        if checkpoint.envelope_id in self._cleared:
            raise EnvironmentFailureError(
                Reason.ROLLBACK_FAILED,
                "the old files were removed already, so the plan stands",
                where=f"plan {checkpoint.plan_id}",
                next_step="Run `remit recover`: it will record what was done. Then: remit rollback",
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

    # --- at its end ---------------------------------------------------------------------------------------------------

    def verify(self, checkpoint: PlanCheckpoint, run_result: RunResult) -> None:
        """`VerificationFailedError` if the world is not as the plan says, or a rule of the plan does not hold."""
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
        """`VerificationFailedError` if somebody wrote to a file that was set aside, as long as there is a way back."""
        run_result = self._results[checkpoint.envelope_id]
        if not run_result.verified:
            require_originals_unchanged(_run_plan(checkpoint), run_result.done, checkpoint.originals)

    def commit(self, checkpoint: PlanCheckpoint, note: Note) -> None:
        """What is held on a server, if anything is. `VerificationFailedError` if that surely did not happen."""
        if checkpoint.remote is None or self.transactions.is_committed(checkpoint.envelope_id):
            return
        run_result = self._results[checkpoint.envelope_id]
        if not run_result.verified:  # else an earlier life has
            self.transactions.commit(checkpoint.envelope_id, checkpoint.remote.connection, run_result.rows, note)

    def failure(self, checkpoint: PlanCheckpoint, problem: RemitError) -> RunResult:
        """What is to be recorded of a plan that `problem` ended."""
        run_result = self._results.get(checkpoint.envelope_id)
        if run_result is not None and run_result.status == "CANCELLED":
            return run_result
        is_undone = checkpoint.envelope_id in self._undo_warnings
        warnings = self._undo_warnings.get(checkpoint.envelope_id, ())
        if not is_undone:  # somebody closed it as it is
            problem, warnings = manual_repair_error(problem, checkpoint), describe_leftovers(checkpoint)
            if checkpoint.remote is not None:
                warnings = (*warnings, f"Whether {checkpoint.remote.server} has committed its part is not known")
        results = run_result.results if run_result is not None else unknown_results(checkpoint, is_undone=is_undone)
        cancelled = problem.reason is Reason.CANCELLED  # while its rules were checked
        status: PlanStatus = ("CANCELLED" if cancelled else "ROLLED_BACK") if is_undone else "FAILED"
        return RunResult(status, results, problem=problem, warnings=warnings)

    def clear_up(self, checkpoint: PlanCheckpoint, note: Note) -> None:
        """It stands: what only the way back needed goes."""
        if sets_aside(checkpoint.steps):
            note(note_clearing())
            reach("plan.clearing")
        self._cleared.add(checkpoint.envelope_id)
        remove_set_aside(checkpoint.root, checkpoint.places(), checkpoint.steps)
        in_use = checkpoint.needed_folders(self._results[checkpoint.envelope_id].done)
        remove_folders(checkpoint.root, [folder for folder in checkpoint.folders if folder not in in_use])

    def verified_files(self, checkpoint: PlanCheckpoint) -> dict[int, ObservedFile] | None:
        """The files as they were verified, if they were."""
        return self._verified_files.get(checkpoint.envelope_id)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _remember(self, checkpoint: PlanCheckpoint, run_result: RunResult) -> RunResult:
        self._results[checkpoint.envelope_id] = run_result
        return run_result

    def _runner(self, checkpoint: PlanCheckpoint) -> PlanRunner:
        return self.environment.runner(
            checkpoint.envelope_id, needs_parsers=checkpoint.needs_parsers, steps=checkpoint.steps
        )

    def _report_status(self, checkpoint: PlanCheckpoint, phase: Phase, done: int = 0) -> None:
        self.environment.report_status(
            checkpoint.envelope_id, checkpoint.plan_id, phase, done, len(checkpoint.steps.steps)
        )


def _run_plan(checkpoint: PlanCheckpoint) -> RunPlan:
    return RunPlan(checkpoint.root, checkpoint.steps, checkpoint.first_states(), checkpoint.folders)


def _outputs_lost_error(checkpoint: PlanCheckpoint) -> RemitError:
    """It was taken up by another process than the one that had run its SQL."""
    return EnvironmentFailureError(
        Reason.EFFECT_FAILED,
        "what was prepared died with the process that had begun it; nothing was changed",
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
    """Whether a step's failure says the same already."""
    return any(result.error is not None and result.error["reason"] == problem.reason for result in results)


def _parse_status(text: str) -> PlanStatus:
    match text:
        case "FAILED" | "ROLLED_BACK" | "CANCELLED" | "PARTIAL" | "SUCCESS":
            return text
    raise EnvironmentFailureError(Reason.STORE_OUTDATED, "a note of this run cannot be read")


def _interrupted_undo_error() -> RemitError:
    """Why it was taken back died with the process that knew."""
    return EnvironmentFailureError(Reason.EFFECT_FAILED, "it was being taken back when its process ended")
