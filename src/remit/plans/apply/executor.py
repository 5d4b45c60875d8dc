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
    note_back,
    note_clearing,
    note_keep,
    note_wave,
    read_progress,
)
from remit.execution.engine import IncompleteError, Note, Notes
from remit.plans.apply.abandoned import left_to_a_person, tell_what_is_left
from remit.plans.apply.checkpoint import PlanCheckpoint, truncate_errors
from remit.plans.apply.environment import Phase, PlanSetting
from remit.plans.apply.open_transactions import HeldTransactions, not_committed
from remit.plans.apply.outcome import NOT_BEGUN, STANDS, not_begun_results, preflight_results, unknown_results
from remit.plans.apply.verify_and_undo import (
    FileLook,
    RunPlan,
    RunResult,
    as_contradiction,
    incomplete_error,
    require_as_planned,
    require_idle_databases,
    require_untouched_aside,
    undo_run,
)
from remit.plans.engines.row_rules import RuleTimes, check_rows, has_other_rules, without_queries
from remit.plans.model.folders import clear_aside, make_folders, remove_folders, sets_aside, sync_folders
from remit.plans.model.remote_part import Commit, KeptRows, read_commit
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

    setting: PlanSetting
    keyring: Callable[[], Keyring]
    _ran: dict[str, RunResult] = field(default_factory=dict, init=False, repr=False)
    _looks: dict[str, dict[int, FileLook]] = field(default_factory=dict, init=False, repr=False)
    _went_back: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False)
    """With what is not as before all the same, in words."""
    _cleared: set[str] = field(default_factory=set, init=False, repr=False)

    @cached_property
    def held(self) -> HeldTransactions:
        """On database servers, by envelope."""
        return HeldTransactions(self.setting.servers)

    # --- there, or back -----------------------------------------------------------------------------------------------

    def carry_out(
        self,
        plan: Plan,
        begun: PlanCheckpoint,
        prepared: PreparedOutputs,
        require_still_valid: Callable[[], None],
        note: Note,
    ) -> RunResult:
        """All of it, or what its instructions keep of it; or it is taken back before this returns.

        What it changes on a database server is done then, and not yet committed.
        """
        if begun.doomed:
            return self._remember(begun, RunResult("FAILED", preflight_results(begun, self.setting.now())))
        is_gone = any(step.source and step.source not in prepared.files for step in begun.steps.steps)
        if is_gone or (begun.elsewhere is not None and prepared.elsewhere is None):
            return self._remember(
                begun, RunResult("FAILED", not_begun_results(begun), problem=_nothing_prepared(begun))
            )
        # Whoever cancelled before the intent stood was told that it will not run: asked afresh, not now and then.
        self.setting.cancellations.is_recorded(begun.envelope_id)
        reached = WaveProgress(
            begun.steps,
            note,
            lambda: self.setting.is_cancelled(begun.envelope_id),
            require_still_valid,
            self.setting.rules.clock,
        )
        try:
            return self._there_or_back(plan, begun, prepared, reached, note)
        except IncompleteError:
            raise
        except Exception as problem:  # the ledger, most likely: nobody must be told that the world is as before
            raise incomplete_error(_course(begun), problem) from problem
        except BaseException as interrupt:
            self._cancel_in_haste(begun, reached, note, interrupt)
            raise

    def _there_or_back(
        self, plan: Plan, begun: PlanCheckpoint, prepared: PreparedOutputs, reached: WaveProgress, note: Note
    ) -> RunResult:
        rows = None
        try:
            rows = self._begin_elsewhere(begun, prepared.elsewhere)
            carried = self._there(plan, begun, prepared.files, reached)
        except Exception as problem:  # noqa: BLE001 - nothing but going back is right after it
            told = as_remit_error(problem)
            failed = begun.elsewhere is not None and rows is None
            carried = StepRunResult(not_begun_results(begun, NOT_BEGUN) if failed else reached.results(told), told)
        if rows is not None:
            carried = carried._replace(results=(*carried.results, *self._done_elsewhere(begun)))
        fate = decide_fate([_judged(result, begun) for result in carried.results], begun.instructions)
        ended_by = carried.problem or (reached.why_not_on() if fate.verdict != "BACK" else None)
        if fate.verdict == "GOOD" and ended_by is None:
            return self._remember(begun, RunResult("SUCCESS", carried.results, used=carried.used, rows=rows))
        if fate.verdict == "KEEP" and ended_by is None:
            note(note_keep(sorted(RunResult("PARTIAL", carried.results).done), truncate_errors(carried.results)))
            return self._remember(begun, RunResult("PARTIAL", carried.results, used=carried.used))
        return self._back_after_failure(begun, carried, ended_by, reached, note)

    def _begin_elsewhere(self, begun: PlanCheckpoint, wanted: PreparedStatements | None) -> KeptRows | None:
        """Its statements run on the server, what leads back is kept, and the transaction stays open."""
        if begun.elsewhere is None or wanted is None:
            return None
        self._tell(begun, "RUNNING")
        with ReportFolder.open(begun.root, begun.folder) as folder:
            return self.held.begin(begun.envelope_id, wanted, begun.elsewhere, folder)

    def _done_elsewhere(self, begun: PlanCheckpoint) -> tuple[Result, ...]:
        now = self.setting.now()
        return () if begun.elsewhere is None else begun.elsewhere.results("done", now)

    def _there(
        self, plan: Plan, begun: PlanCheckpoint, prepared: Mapping[str, int], reached: WaveProgress
    ) -> StepRunResult:
        config = self.setting.rules.config()
        times = times_of(plan, config)
        reached.set_deadline(times.seconds)
        runner = self.setting.runner(begun.envelope_id, rich=begun.rich, plan_id=begun.plan_id, steps=begun.steps)
        self._tell(begun, "RUNNING")
        make_folders(begun.root, begun.folders)
        if not begun.steps.steps:  # all of it is elsewhere
            return StepRunResult(())
        steps = begun.with_operations(plan)
        in_parallel = begun.instructions.execution_order == "parallel"
        return runner.carry_out(
            steps,
            _course(begun).places_there(),
            times,
            reached.may_go_on,
            lanes=config.limits.max_concurrent_operations if in_parallel else 1,
            restoring={} if any(step.dress for step in begun.steps.steps) else None,
            prepared=prepared,
        )

    def _back_after_failure(
        self,
        begun: PlanCheckpoint,
        carried: StepRunResult,
        problem: RemitError | None,
        reached: WaveProgress,
        note: Note,
    ) -> RunResult:
        results = carried.results
        status = _status_of_failure(results, problem)
        if carried.problem is None:  # the process came to its end, so what it says was not done is not
            numbers = range(len(begun.steps.steps))
            not_done = [result.number for result in results if result.state != "done" and result.number in numbers]
            note(note_wave(reached.wave, not_done))
            reached.not_done = frozenset(not_done)
        note(note_back(status, truncate_errors(results)))
        warnings = self._back(begun, StepProgress(reached.wave, reached.not_done), note)
        whole = problem if problem is not None and not _is_told(problem, results) else None
        return self._remember(begun, RunResult(status, results, problem=whole, warnings=warnings, used=carried.used))

    def _cancel_in_haste(
        self, begun: PlanCheckpoint, reached: WaveProgress, note: Note, interrupt: BaseException
    ) -> None:
        """Somebody interrupted this process. It is taken back, and recorded so, before the interrupt goes on."""
        results = reached.results(EnvironmentFailureError(Reason.CANCELLED, "it was interrupted"))
        try:
            note(note_back("CANCELLED", truncate_errors(results)))
            warnings = self._back(begun, StepProgress(reached.wave, reached.not_done), note)
        except BaseException as problem:  # noqa: BLE001 - interrupted once more, perhaps
            raise incomplete_error(_course(begun), problem) from interrupt
        self._remember(begun, RunResult("CANCELLED", results, warnings=warnings))

    # --- taken up where a process died --------------------------------------------------------------------------------

    def recover_effect(self, begun: PlanCheckpoint, notes: Notes, note: Note) -> RunResult | None:
        """What it had come to is brought to its end; None: it had come to nothing, and everything is as before."""
        if begun.doomed:
            return self._remember(begun, RunResult("FAILED", preflight_results(begun, self.setting.now())))
        progress, commit = read_progress(notes), read_commit(notes)
        if progress.verdict == "back":
            return self._go_on_back(begun, progress, note)
        if progress.verdict == "keep":
            return self._go_on_keeping(begun, progress)
        if progress.clearing:
            return self._go_on_clearing(begun, commit)
        if commit is not None:
            return self._as_committed(begun, commit, progress, note)
        is_whole_here = begun.elsewhere is None  # else its other half died with the process that held it
        if is_whole_here and progress.undone is None and (done := self._finished(begun, progress)) is not None:
            return done
        self._back(begun, progress, note)
        if notes:
            note(note_wave(0, []))  # what was noted holds no longer: whoever runs it again begins with the first wave
        return None

    def _go_on_back(self, begun: PlanCheckpoint, progress: StepProgress, note: Note) -> RunResult:
        warnings = self._back(begun, progress, note)
        known = any(result.state == "failed" for result in progress.results)
        problem = None if known else _cut_off()
        return self._remember(
            begun, RunResult(_status(progress.status), progress.results, problem=problem, warnings=warnings)
        )

    def _go_on_keeping(self, begun: PlanCheckpoint, progress: StepProgress) -> RunResult:
        course = _course(begun)
        kept = paths_of(step for step in begun.steps.steps if step.number in progress.kept)
        sync_folders(begun.root, (place for path, place in course.places_there().items() if path in kept))
        return self._remember(begun, RunResult("PARTIAL", progress.results, verified=progress.clearing))

    def _go_on_clearing(self, begun: PlanCheckpoint, commit: Commit | None = None) -> RunResult:
        """It was whole, verified and reported. Whatever the files are now was made of them since."""
        sync_folders(begun.root, _course(begun).places_there().values())
        rows = commit.rows if commit is not None else None
        return self._remember(begun, RunResult("SUCCESS", self._all_done(begun), verified=True, rows=rows))

    def _as_committed(self, begun: PlanCheckpoint, commit: Commit, progress: StepProgress, note: Note) -> RunResult:
        """The files follow the database, which is asked what became of the transaction."""
        if self.held.fate(begun.envelope_id, commit) == "committed":
            return self._go_on_clearing(begun, commit)
        results = self._all_done(begun)
        note(note_back("ROLLED_BACK", truncate_errors(results)))
        warnings = self._back(begun, progress._replace(wave=len(begun.steps.waves) - 1), note)
        server = begun.elsewhere.server if begun.elsewhere is not None else commit.connection
        problem = not_committed("its process ended before", server, "Approve it again: remit approve")
        return self._remember(begun, RunResult("ROLLED_BACK", results, problem=problem, warnings=warnings))

    def _finished(self, begun: PlanCheckpoint, progress: StepProgress) -> RunResult | None:
        places = _course(begun).places_there()
        if not self._runner(begun).finish(begun.steps, places, progress.wave, progress.not_done):
            return None
        return self._remember(begun, RunResult("SUCCESS", self._all_done(begun)))

    def _all_done(self, begun: PlanCheckpoint) -> tuple[Result, ...]:
        now = self.setting.now()
        steps = tuple(Result(step.number, "done", begun.started_at, now) for step in begun.steps.steps)
        return (*steps, *self._done_elsewhere(begun))

    # --- back ---------------------------------------------------------------------------------------------------------

    def undo(self, begun: PlanCheckpoint, notes: Notes, note: Note) -> None:
        """It was done, and is not to stand."""
        if self.held.is_committed(begun.envelope_id):
            raise EnvironmentFailureError(
                Reason.ROLLBACK_FAILED,
                "the database has committed its part already, so the plan stands",
                where=f"plan {begun.plan_id}",
                next_step="Run `remit recover`: it will record what was done. Then: remit rollback",
            )
        if begun.envelope_id in self._cleared:
            raise EnvironmentFailureError(
                Reason.ROLLBACK_FAILED,
                "the old files were removed already, so the plan stands",
                where=f"plan {begun.plan_id}",
                next_step="Run `remit recover`: it will record what was done. Then: remit rollback",
            )
        ran = self._ran.get(begun.envelope_id)
        note(note_back("ROLLED_BACK", truncate_errors(ran.results if ran else ())))
        progress = read_progress(notes)
        not_done = progress.not_done if ran is None else frozenset(range(len(begun.steps.steps))) - ran.done
        self._back(begun, progress._replace(wave=len(begun.steps.waves) - 1, not_done=not_done), note)

    def _back(self, begun: PlanCheckpoint, progress: StepProgress, note: Note) -> tuple[str, ...]:
        self._tell(begun, "ROLLING_BACK")
        self.held.close(begun.envelope_id)
        warnings = undo_run(_course(begun), self._runner(begun), progress, note)
        self._went_back[begun.envelope_id] = warnings
        return warnings

    # --- at its end ---------------------------------------------------------------------------------------------------

    def verify(self, begun: PlanCheckpoint, made: RunResult) -> None:
        """`VerificationFailedError` if the world is not as the plan says, or a rule of the plan does not hold."""
        self._remember(begun, made)
        if made.status not in STANDS or made.verified:
            return
        self._tell(begun, "VERIFYING", len(made.done))
        course = _course(begun)
        hashed = begun.instructions.verify_hashes
        self._looks[begun.envelope_id] = require_as_planned(course, made.done, begun.originals, hashed=hashed)
        require_idle_databases(course, made.done)
        if begun.steps.rules:
            try:
                self._check_rules(begun, course, len(made.done))
            except RemitError as problem:
                raise as_contradiction(problem) from problem

    def _check_rules(self, begun: PlanCheckpoint, course: RunPlan, done: int) -> None:
        timeouts, places = self.setting.rules.config().timeouts, course.places_there()
        if has_other_rules(begun.steps):
            self._runner(begun).check(without_queries(begun.steps), places, float(timeouts.task))
        check_rows(
            begun.steps,
            places,
            self.setting.workshop(begun.envelope_id, begun.plan_id).engine,
            RuleTimes(float(timeouts.sql), float(timeouts.task)),
            meanwhile=lambda: self._tell(begun, "VERIFYING", done),
        )

    def require_untouched(self, begun: PlanCheckpoint) -> None:
        """`VerificationFailedError` if somebody wrote to a file that was set aside, as long as there is a way back."""
        ran = self._ran[begun.envelope_id]
        if not ran.verified:
            require_untouched_aside(_course(begun), ran.done, begun.originals)

    def commit(self, begun: PlanCheckpoint, note: Note) -> None:
        """What is held on a server, if anything is. `VerificationFailedError` if that surely did not happen."""
        if begun.elsewhere is None or self.held.is_committed(begun.envelope_id):
            return
        ran = self._ran[begun.envelope_id]
        if not ran.verified:  # else an earlier life has
            self.held.commit(begun.envelope_id, begun.elsewhere.connection, ran.rows, note)

    def failure(self, begun: PlanCheckpoint, problem: RemitError) -> RunResult:
        """What is to be recorded of a plan that `problem` ended."""
        ran = self._ran.get(begun.envelope_id)
        if ran is not None and ran.status == "CANCELLED":
            return ran
        went_back = begun.envelope_id in self._went_back
        warnings = self._went_back.get(begun.envelope_id, ())
        if not went_back:  # somebody closed it as it is
            problem, warnings = left_to_a_person(problem, begun), tell_what_is_left(begun)
            if begun.elsewhere is not None:
                warnings = (*warnings, f"Whether {begun.elsewhere.server} has committed its part is not known")
        results = ran.results if ran is not None else unknown_results(begun, went_back=went_back)
        cancelled = problem.reason is Reason.CANCELLED  # while its rules were checked
        status: PlanStatus = ("CANCELLED" if cancelled else "ROLLED_BACK") if went_back else "FAILED"
        return RunResult(status, results, problem=problem, warnings=warnings)

    def clear_up(self, begun: PlanCheckpoint, note: Note) -> None:
        """It stands: what only the way back needed goes."""
        if sets_aside(begun.steps):
            note(note_clearing())
            reach("plan.clearing")
        self._cleared.add(begun.envelope_id)
        clear_aside(begun.root, begun.places(), begun.steps)
        kept = begun.kept_folders(self._ran[begun.envelope_id].done)
        remove_folders(begun.root, [folder for folder in begun.folders if folder not in kept])

    def looks(self, begun: PlanCheckpoint) -> dict[int, FileLook] | None:
        """The files as they were verified, if they were."""
        return self._looks.get(begun.envelope_id)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _remember(self, begun: PlanCheckpoint, ran: RunResult) -> RunResult:
        self._ran[begun.envelope_id] = ran
        return ran

    def _runner(self, begun: PlanCheckpoint) -> PlanRunner:
        return self.setting.runner(begun.envelope_id, rich=begun.rich, steps=begun.steps)

    def _tell(self, begun: PlanCheckpoint, phase: Phase, done: int = 0) -> None:
        self.setting.tell(begun.envelope_id, begun.plan_id, phase, done, len(begun.steps.steps))


def _course(begun: PlanCheckpoint) -> RunPlan:
    return RunPlan(begun.root, begun.steps, begun.first_states(), begun.folders)


def _nothing_prepared(begun: PlanCheckpoint) -> RemitError:
    """It was taken up by another process than the one that had run its SQL."""
    return EnvironmentFailureError(
        Reason.EFFECT_FAILED,
        "what was prepared died with the process that had begun it; nothing was changed",
        where=f"plan {begun.plan_id}",
        next_step="Approve it again: remit approve",
    )


def _judged(result: Result, begun: PlanCheckpoint) -> JudgedStep:
    reason = Reason(result.error["reason"]) if result.error else None
    steps = begun.steps.steps
    action_id = steps[result.number].action_id if result.number < len(steps) else ""
    return JudgedStep(result.number, result.state, reason, action_id)


def _status_of_failure(results: Collection[Result], problem: RemitError | None) -> PlanStatus:
    reasons = {Reason(result.error["reason"]) for result in results if result.error}
    if Reason.CANCELLED in reasons or (problem is not None and problem.reason is Reason.CANCELLED):
        return "CANCELLED"
    return "ROLLED_BACK" if any(result.state == "done" for result in results) else "FAILED"


def _is_told(problem: RemitError, results: Collection[Result]) -> bool:
    """Whether a step's failure says the same already."""
    return any(result.error is not None and result.error["reason"] == problem.reason for result in results)


def _status(word: str) -> PlanStatus:
    match word:
        case "FAILED" | "ROLLED_BACK" | "CANCELLED" | "PARTIAL" | "SUCCESS":
            return word
    raise EnvironmentFailureError(Reason.STORE_OUTDATED, "a note of this run cannot be read")


def _cut_off() -> RemitError:
    """Why it was taken back died with the process that knew."""
    return EnvironmentFailureError(Reason.EFFECT_FAILED, "it was being taken back when its process ended")
