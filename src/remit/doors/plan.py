"""The plan door: an approved plan, carried out in a sandbox, verified and reported; or taken back, all of it."""

import logging
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from remit.authority.envelope import ApprovedPlan, digest_of_envelope, verify_envelope
from remit.authority.signing import Keyring, Signer
from remit.authority.statuses import verify_status
from remit.checkpoint.backups import take_all
from remit.checkpoint.manifest import write_way_back
from remit.checkpoint.outputs import REPORTS, STATUS, ReportFolder, folder_name
from remit.confine import beneath
from remit.contracts.config import SystemConfig
from remit.contracts.envelope import Envelope
from remit.contracts.outcome import PlanOutcome, PlanRefusal
from remit.contracts.status import CompletionStatus, PlanStatus, StatusUpdate
from remit.doors.drafting import needs_parsers, times_of
from remit.doors.folders import clear_aside, is_any_cleared, make_folders, opened, remove_folders, sync_folders
from remit.doors.going import Course, FileLook, Ran, as_contradiction, require_as_planned, stuck, take_back
from remit.doors.plan_outcome import (
    STANDS,
    action_rows,
    build_outcome,
    left_to_a_person,
    load_plan_outcome,
    manifest_of,
    preflight_results,
    unknown_results,
)
from remit.doors.plan_papers import BegunPlan, dressed, parse_begun, render_begun, shortened
from remit.doors.previewing import PlanPreview, preview_plan
from remit.doors.reaching import Reached
from remit.doors.running import NO_HOOKS, PLAIN, RICH, Carried, PlanHooks, Runner, paths_of
from remit.doors.task import DEFAULT_TENANT
from remit.effects.plan_steps import (
    Ids,
    Progress,
    Result,
    note_back,
    note_keep,
    note_wave,
    read_progress,
)
from remit.errors import EnvironmentFailed, Misuse, Reason, Refused, RemitError, as_remit_error
from remit.ids import Clock, render_time
from remit.journal import Trace
from remit.policy.decision import Decision, Denial
from remit.policy.fate import Judged, decide_fate
from remit.policy.findings import uncovered
from remit.policy.plan import decide_plan
from remit.policy.protected import is_forbidden
from remit.reports.papers import publish, restore_papers
from remit.reports.report import refusal_of
from remit.road import Door, Note, Notes, Preview, Unpublished, Unsettled
from remit.sandbox.fleet import Fleet
from remit.sandbox.orders import Build, Quotas

_LOG: Final = logging.getLogger("remit.plans")
_OPEN_FILES: Final = 512


@dataclass(frozen=True)
class PlanRequest:
    """Nobody has vouched for any of it. One that was read back from a checkpoint has no envelope any more."""

    envelope_id: str
    digest: str
    envelope: Envelope | None = None
    begun: BegunPlan | None = None


@dataclass(frozen=True, slots=True)
class PlanRules:
    """What the workspace says about plans."""

    root: Callable[[], str]
    config: Callable[[], SystemConfig]
    clock: Clock


@dataclass
class _Lives:
    """What this process knows of the runs that it works on, by envelope, beyond their checkpoints and notes."""

    ran: dict[str, Ran] = field(default_factory=dict)
    looks: dict[str, dict[int, FileLook]] = field(default_factory=dict)
    went_back: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """With what is not as before all the same, in words."""
    cleared: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class PlanDoor(Door[PlanRequest, ApprovedPlan, BegunPlan, Ran, PlanOutcome | PlanRefusal]):
    """Holds the protocol layer's public key and the executor's private one; never the protocol layer's private key."""

    keyring: Callable[[], Keyring]
    signer: Callable[[], Signer]
    rules: PlanRules
    fleet: Fleet
    is_cancelled: Callable[[str], bool] = lambda _: False
    """By envelope id: whether somebody recorded that it is not to run, or not to its end. Quick to ask."""
    hooks: PlanHooks = NO_HOOKS
    name: str = field(default="plan", init=False)
    _lives: _Lives = field(default_factory=_Lives, init=False, repr=False)

    # --- 1 to 5 -------------------------------------------------------------------------------------------------------

    def parse(self, raw: tuple[bytes, ...]) -> PlanRequest:
        (document,) = raw
        envelope = Envelope.parse(document)
        return PlanRequest(envelope.envelope_id, digest_of_envelope(envelope), envelope)

    def trace(self, request: PlanRequest) -> Trace:
        return Trace(
            tenant_id=DEFAULT_TENANT,
            correlation_id=request.envelope_id,
            door=self.name,
            key=request.envelope_id,
            request_digest=request.digest,
            task_id=request.envelope_id,
        )

    def verify_authority(self, request: PlanRequest, now: datetime) -> ApprovedPlan:
        self._tell(request.envelope_id, _plan_id(request), "CHECKING", 0, 0)
        if request.envelope is None:
            raise Misuse(Reason.MISUSE, "what was read back from a checkpoint has no authority")
        envelope = request.envelope
        digest = self.rules.config().digest()
        return verify_envelope(envelope, digest, self.keyring(), now, plan_digest=envelope.plan.digest())

    def decide(self, request: PlanRequest) -> Decision:
        if request.envelope is not None:
            envelope = request.envelope
            return decide_plan(envelope.plan, self.rules.config(), self.rules.root(), envelope.approvals)
        return self._decide_begun(request.begun)

    def preview(self, granted: ApprovedPlan) -> PlanPreview:
        envelope, config = granted.envelope, self.rules.config()
        runner = self.runner(envelope.envelope_id, rich=needs_parsers(envelope.plan))
        return preview_plan(
            envelope.plan,
            config,
            self.rules.root(),
            runner,
            plan_digest=envelope.plan_digest,
            at=render_time(self.rules.clock()),
        )

    def consent(self, granted: ApprovedPlan, preview: Preview, now: datetime) -> str:
        """The envelope is the yes; this sees that it was to this very effect."""
        envelope, seen = granted.envelope, _plan_preview(preview)
        self._require_not_cancelled(envelope.envelope_id)
        _require_same_inputs(envelope, seen)
        denials = uncovered(seen.findings, seen.needs, envelope.approvals)
        Decision(() if denials else ("the approval names all that it must",), denials).require()
        return f"envelope {envelope.envelope_id}"

    # --- 6, 7 ---------------------------------------------------------------------------------------------------------

    def checkpoint(self, granted: ApprovedPlan, preview: Preview) -> str:
        seen, envelope, config = _plan_preview(preview), granted.envelope, self.rules.config()
        self._tell(envelope.envelope_id, envelope.plan.plan_id, "CHECKPOINT", 0, len(seen.steps.steps))
        now = self.rules.clock()
        begun = BegunPlan(
            request_digest=granted.digest,
            plan_id=envelope.plan.plan_id,
            ids=Ids(envelope.envelope_id, *(str(uuid.uuid4()) for _ in range(3))),
            root=self.rules.root(),
            folder=folder_name(now, envelope.envelope_id),
            started_at=render_time(now),
            instructions=envelope.plan.execution_instructions,
            rollback_days=config.retention.rollback_days,
            rich=needs_parsers(envelope.plan),
            doomed=seen.doomed,
            steps=seen.steps,
            first=seen.first,
            originals={},
            folders=() if seen.doomed else seen.folders,
            diffs={one.number: one.diff for one in seen.seen},
        )
        with ReportFolder.make(begun.root, begun.folder) as folder:
            try:
                if seen.doomed:
                    folder.write({})  # so that it is durable
                else:
                    begun = self._backed_up(begun, seen, config, folder)
            except BaseException:
                folder.discard()
                raise
        return render_begun(begun)

    def _backed_up(self, begun: BegunPlan, seen: PlanPreview, config: SystemConfig, folder: ReportFolder) -> BegunPlan:
        places = begun.places()
        new_bytes = sum(step.after.size for step in begun.steps.steps if step.after and step.move != "rename")
        originals = take_all([places[path] for path in range(len(places))], seen.kept, folder, config.limits, new_bytes)
        begun = dressed(begun, originals)
        planned = [step.number for step in begun.steps.steps if step.problem is None]
        write_way_back(folder, manifest_of(begun, planned, begun.started_at))
        return begun

    def require_alive(self, granted: ApprovedPlan, now: datetime) -> None:
        envelope = granted.envelope
        config_digest = self.rules.config().digest()
        verify_envelope(envelope, config_digest, self.keyring(), now, plan_digest=envelope.plan_digest)

    def discard(self, checkpoint: str) -> None:
        begun = parse_begun(checkpoint)
        try:
            with ReportFolder.open(begun.root, begun.folder) as folder:
                folder.discard()
            with opened(begun.root, REPORTS) as reports:
                beneath.remove_folder(reports, begun.folder)
        except RemitError as problem:  # `remit prune` will find it
            _LOG.warning("a report folder could not be removed", extra={"why": str(problem)})

    def recall(self, checkpoint: str) -> tuple[PlanRequest, BegunPlan]:
        begun = parse_begun(checkpoint)
        return PlanRequest(begun.envelope_id, begun.request_digest, None, begun), begun

    # --- 8 ------------------------------------------------------------------------------------------------------------

    def effect(self, granted: ApprovedPlan, begun: BegunPlan, note: Note) -> Ran:
        if begun.doomed:
            return self._remember(begun, Ran("FAILED", preflight_results(begun, render_time(self.rules.clock()))))
        reached = Reached(
            begun.steps,
            note,
            lambda: self.hooks.is_cancelled() or self.is_cancelled(begun.envelope_id),
            lambda: self.require_alive(granted, self.rules.clock()),
            self.rules.clock,
        )
        try:
            return self._there_or_back(granted, begun, reached, note)
        except Unsettled:
            raise
        except Exception as problem:  # the ledger, most likely: nobody must be told that the world is as before
            raise stuck(_course(begun), problem) from problem
        except BaseException as interrupt:
            self._cancel_in_haste(begun, reached, note, interrupt)
            raise

    def _there_or_back(self, granted: ApprovedPlan, begun: BegunPlan, reached: Reached, note: Note) -> Ran:
        try:
            carried = self._carry_out(granted, begun, reached)
        except Exception as problem:  # noqa: BLE001 - nothing but going back is right after it
            carried = Carried(reached.results(as_remit_error(problem)), as_remit_error(problem))
        fate = decide_fate([_judged(result) for result in carried.results], begun.instructions)
        ended_by = carried.problem or (reached.why_not_on() if fate.verdict != "BACK" else None)
        if fate.verdict == "GOOD" and ended_by is None:
            return self._remember(begun, Ran("SUCCESS", carried.results, used=carried.used))
        if fate.verdict == "KEEP" and ended_by is None:
            note(note_keep(sorted(Ran("PARTIAL", carried.results).done), shortened(carried.results)))
            return self._remember(begun, Ran("PARTIAL", carried.results, used=carried.used))
        return self._go_back(begun, carried, ended_by, reached, note)

    def _carry_out(self, granted: ApprovedPlan, begun: BegunPlan, reached: Reached) -> Carried:
        plan, config = granted.envelope.plan, self.rules.config()
        times = times_of(plan, config)
        reached.set_deadline(times.seconds)
        runner = self.runner(begun.envelope_id, rich=begun.rich, plan_id=begun.plan_id)
        self._tell(begun.envelope_id, begun.plan_id, "RUNNING", 0, len(begun.steps.steps))
        make_folders(begun.root, begun.folders)
        steps = begun.with_operations(plan)
        in_parallel = begun.instructions.execution_order == "parallel"
        return runner.carry_out(
            steps,
            _course(begun).places_there(),
            times,
            reached.may_go_on,
            lanes=config.limits.max_concurrent_operations if in_parallel else 1,
            restoring={} if any(step.dress for step in begun.steps.steps) else None,
        )

    def _go_back(
        self, begun: BegunPlan, carried: Carried, problem: RemitError | None, reached: Reached, note: Note
    ) -> Ran:
        results = carried.results
        status = _status_of_failure(results, problem)
        if carried.problem is None:  # the process came to its end, so what it says was not done is not
            not_done = [result.number for result in results if result.state != "done"]
            note(note_wave(reached.wave, not_done))
            reached.not_done = frozenset(not_done)
        note(note_back(status, shortened(results)))
        warnings = self._back(begun, Progress(reached.wave, reached.not_done), note)
        whole = problem if problem is not None and not _is_told(problem, results) else None
        return self._remember(begun, Ran(status, results, problem=whole, warnings=warnings, used=carried.used))

    def _cancel_in_haste(self, begun: BegunPlan, reached: Reached, note: Note, interrupt: BaseException) -> None:
        """Somebody interrupted this process. It is taken back, and recorded so, before the interrupt goes on."""
        results = reached.results(EnvironmentFailed(Reason.CANCELLED, "it was interrupted"))
        try:
            note(note_back("CANCELLED", shortened(results)))
            warnings = self._back(begun, Progress(reached.wave, reached.not_done), note)
        except BaseException as problem:  # noqa: BLE001 - interrupted once more, perhaps
            raise stuck(_course(begun), problem) from interrupt
        self._remember(begun, Ran("CANCELLED", results, warnings=warnings))

    def settle(self, begun: BegunPlan, notes: Notes, note: Note) -> Ran | None:
        now = render_time(self.rules.clock())
        if begun.doomed:
            return self._remember(begun, Ran("FAILED", preflight_results(begun, now)))
        progress = read_progress(notes)
        if progress.verdict == "back":
            warnings = self._back(begun, progress, note)
            known = any(result.state == "failed" for result in progress.results)
            ran = Ran(
                _status(progress.status), progress.results, problem=None if known else _cut_off(), warnings=warnings
            )
            return self._remember(begun, ran)
        course = _course(begun)
        if progress.verdict == "keep":
            cleared = is_any_cleared(begun.root, course.places(), begun.steps, progress.kept)
            kept = paths_of(step for step in begun.steps.steps if step.number in progress.kept)
            sync_folders(begun.root, (place for path, place in course.places().items() if path in kept))
            verified = cleared and self._is_published(begun)
            return self._remember(begun, Ran("PARTIAL", progress.results, verified=verified))
        if progress.undone is None:
            runner = self.runner(begun.envelope_id, rich=begun.rich)
            found = runner.finish(begun.steps, course.places_there(), progress.wave, progress.not_done)
            if found.forward:
                done = tuple(Result(step.number, "done", begun.started_at, now) for step in begun.steps.steps)
                verified = found.cleared and self._is_published(begun)
                return self._remember(begun, Ran("SUCCESS", done, verified=verified))
        self._back(begun, progress, note)
        if notes:
            note(note_wave(0, []))  # what was noted holds no longer: whoever runs it again begins with the first wave
        return None

    def _is_published(self, begun: BegunPlan) -> bool:
        """Whether the signed status of this very run lies in its folder.

        It is written when the world was verified, and before an old file is removed. That such a file is missing proves
        nothing: anybody can have removed it.
        """
        try:
            with ReportFolder.open(begun.root, begun.folder) as folder:
                status = CompletionStatus.parse(folder.read(STATUS) or b"", source=STATUS)
            verify_status(status, self.keyring())
        except RemitError:
            return False
        ids = (begun.envelope_id, begun.ids.report_id)
        return (status.envelope_id, status.report_id) == ids and status.status in STANDS

    def undo(self, begun: BegunPlan, notes: Notes, note: Note) -> None:
        if begun.envelope_id in self._lives.cleared:
            raise EnvironmentFailed(
                Reason.ROLLBACK_FAILED,
                "the old files were removed already, so the plan stands",
                where=f"plan {begun.plan_id}",
                next_step="Run `remit recover`: it will record what was done. Then: remit rollback",
            )
        ran = self._lives.ran.get(begun.envelope_id)
        note(note_back("ROLLED_BACK", shortened(ran.results if ran else ())))
        progress = read_progress(notes)
        not_done = progress.not_done if ran is None else frozenset(range(len(begun.steps.steps))) - ran.done
        self._back(begun, progress._replace(wave=len(begun.steps.waves) - 1, not_done=not_done), note)

    def _back(self, begun: BegunPlan, progress: Progress, note: Note) -> tuple[str, ...]:
        self._tell(begun.envelope_id, begun.plan_id, "ROLLING_BACK", 0, len(begun.steps.steps))
        runner = self.runner(begun.envelope_id, rich=begun.rich)
        warnings = take_back(_course(begun), runner, progress, note)
        self._lives.went_back[begun.envelope_id] = warnings
        return warnings

    # --- 9 ------------------------------------------------------------------------------------------------------------

    def verify_effect(self, begun: BegunPlan, made: Ran) -> None:
        self._remember(begun, made)
        if made.status not in STANDS or made.verified:
            return
        self._tell(begun.envelope_id, begun.plan_id, "VERIFYING", len(made.done), len(begun.steps.steps))
        course = _course(begun)
        hashed = begun.instructions.verify_hashes
        self._lives.looks[begun.envelope_id] = require_as_planned(course, made.done, begun.originals, hashed=hashed)
        if begun.steps.rules:
            runner = self.runner(begun.envelope_id, rich=begun.rich)
            try:
                runner.check(begun.steps, course.places_there(), float(self.rules.config().timeouts.task))
            except RemitError as problem:
                raise as_contradiction(problem) from problem

    def succeed(self, request: PlanRequest, begun: BegunPlan, made: Ran) -> PlanOutcome:
        return self._outcome(begun, made)

    def fail(
        self, request: PlanRequest, problem: RemitError, begun: BegunPlan | None = None
    ) -> PlanOutcome | PlanRefusal:
        if begun is None:
            error = refusal_of(problem, request.envelope_id, self.rules.clock)
            return PlanRefusal(envelope_id=request.envelope_id, errors=(error,))
        ran = self._lives.ran.get(begun.envelope_id)
        if ran is not None and ran.status == "CANCELLED":
            return self._outcome(begun, ran)
        warnings = self._lives.went_back.get(begun.envelope_id)
        went_back = warnings is not None
        if not went_back:  # somebody closed it as it is
            problem = left_to_a_person(problem, begun)
        results = ran.results if ran is not None else unknown_results(begun, went_back=went_back)
        status: PlanStatus = "ROLLED_BACK" if went_back else "FAILED"
        failed = Ran(status, results, problem=problem, warnings=warnings or ())
        return self._outcome(begun, failed)

    def publish(self, begun: BegunPlan, outcome: PlanOutcome | PlanRefusal) -> None:
        if isinstance(outcome, PlanRefusal):
            return
        self._tell(begun.envelope_id, begun.plan_id, "REPORTING", len(begun.steps.steps), len(begun.steps.steps))
        try:
            with ReportFolder.open(begun.root, begun.folder) as folder:
                publish(folder, outcome)
        except (RemitError, OSError) as problem:
            told = as_remit_error(problem)
            if outcome.status.status in STANDS:
                raise Unpublished(told.reason, told.what, where=told.where, next_step=told.next_step) from problem
            _LOG.warning("the papers of a plan could not be written", extra={"why": str(told)})

    def clear_up(self, begun: BegunPlan, outcome: PlanOutcome | PlanRefusal) -> None:
        if isinstance(outcome, PlanRefusal) or outcome.status.status not in STANDS:
            return
        self._lives.cleared.add(begun.envelope_id)
        ran = self._lives.ran[begun.envelope_id]
        clear_aside(begun.root, begun.places(), begun.steps)
        kept = begun.kept_folders(ran.done)
        remove_folders(begun.root, [folder for folder in begun.folders if folder not in kept])

    # --- 10 -----------------------------------------------------------------------------------------------------------

    def store_outcome(self, outcome: PlanOutcome | PlanRefusal) -> str:
        return outcome.canonical().decode()

    def show_outcome(self, outcome: PlanOutcome | PlanRefusal, stored: str) -> Mapping[str, Any]:
        """The signed status, and a row for each action; the papers themselves stand with the claim."""
        if isinstance(outcome, PlanRefusal):
            raise Misuse(Reason.MISUSE, "a refusal is recorded as such")
        return {"status": outcome.status.tree(), "actions": action_rows(outcome)}

    def load_outcome(self, stored: str, recorded_at: str) -> PlanOutcome:
        outcome = load_plan_outcome(stored, self.keyring())
        try:
            with ReportFolder.open(self.rules.root(), outcome.status.folder.rpartition("/")[2]) as folder:
                if folder.read("status.json") is None:
                    restore_papers(folder, outcome)
        except RemitError as problem:  # for people only: what counts is in the ledger
            _LOG.warning("the papers of a plan could not be written again", extra={"why": str(problem)})
        return outcome

    # --- inside -------------------------------------------------------------------------------------------------------

    def _decide_begun(self, begun: BegunPlan | None) -> Decision:
        """What was begun is finished or taken back where it was begun, and nowhere else."""
        if begun is None or begun.root != self.rules.root():
            denial = Denial(
                Reason.PATH_REFUSED,
                "this plan was begun in another folder",
                where=begun.root if begun else "",
                next_step="Set `root` in remit.yaml as it was, and run: remit recover",
            )
            return Decision(denials=(denial,))
        config = self.rules.config()
        changed = paths_of(begun.steps.steps)
        why = {place.path: is_forbidden(place.below, config) for n, place in begun.places().items() if n in changed}
        denials = tuple(Denial(Reason.PATH_REFUSED, reason, where=path) for path, reason in why.items() if reason)
        return Decision((f"begun under envelope {begun.envelope_id}",), denials)

    def _require_not_cancelled(self, envelope_id: str) -> None:
        if self.is_cancelled(envelope_id):
            raise Refused(
                Reason.REVOKED,
                "this approval was cancelled",
                where=f"envelope {envelope_id}",
                next_step="Approve the plan again if it shall run after all.",
            )

    def runner(self, envelope_id: str, *, rich: bool, plan_id: str = "") -> Runner:
        effects = RICH if rich else PLAIN
        limits, timeouts = self.rules.config().limits, self.rules.config().timeouts
        traffic = max(limits.max_io_bytes, 4 * limits.max_backup_bytes)
        quotas = Quotas(limits.max_memory_bytes, traffic, traffic, float(timeouts.task))
        build = Build(exchanges=True, open_files=_OPEN_FILES, packages=_PARSERS if rich else ())

        def on_progress(done: int, total: int) -> None:
            self.hooks.on_progress(done, total)
            if plan_id:
                self._tell(envelope_id, plan_id, "RUNNING", done, total)

        return Runner(
            self.fleet.host_for(effects, build, quotas),
            effects,
            envelope_id,
            self.rules.clock,
            is_cancelled=lambda: self.hooks.is_cancelled() or self.is_cancelled(envelope_id),
            on_progress=on_progress,
        )

    def _remember(self, begun: BegunPlan, ran: Ran) -> Ran:
        self._lives.ran[begun.envelope_id] = ran
        return ran

    def _outcome(self, begun: BegunPlan, ran: Ran) -> PlanOutcome:
        return build_outcome(
            begun,
            ran,
            self.signer(),
            self.rules.clock,
            confined=self.rules.config().sandbox == "required",
            looks=self._lives.looks.get(begun.envelope_id),
        )

    def _tell(self, envelope_id: str, plan_id: str, phase: Any, done: int, total: int) -> None:
        at = render_time(self.rules.clock())
        self.hooks.on_status(
            StatusUpdate(envelope_id=envelope_id, plan_id=plan_id, phase=phase, done=done, total=total, at=at)
        )


_PARSERS: Final = ("ruamel", "jsonpath", "jsonschema_rs", "re2")
"""What the edits of structured files import."""


def _cut_off() -> RemitError:
    """Why it was taken back died with the process that knew."""
    return EnvironmentFailed(Reason.EFFECT_FAILED, "it was being taken back when its process ended")


def _plan_id(request: PlanRequest) -> str:
    if request.envelope is not None:
        return request.envelope.plan.plan_id
    return request.begun.plan_id if request.begun is not None else request.envelope_id


def _plan_preview(preview: Preview) -> PlanPreview:
    if not isinstance(preview, PlanPreview):
        raise Misuse(Reason.MISUSE, "a plan's preview was made by another door")
    return preview


def _require_same_inputs(envelope: Envelope, seen: PlanPreview) -> None:
    """A file that is gone fails its action; one that is another, or new, was never approved."""
    approved = {item.path: item.input_digest for item in envelope.inputs}
    for item in seen.inputs:
        if approved.get(item.path) != item.input_digest:
            how = "was changed since" if item.path in approved else "was not there when"
            raise Refused(
                Reason.BINDING_MISMATCH,
                f"this file {how} the plan was approved",
                where=item.path,
                next_step="Look at the plan again, with `remit preview`, and approve it again.",
            )


def _course(begun: BegunPlan) -> Course:
    return Course(begun.root, begun.steps, begun.first_states(), begun.folders)


def _judged(result: Result) -> Judged:
    reason = Reason(result.error["reason"]) if result.error else None
    return Judged(result.number, result.state, reason)


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
    raise EnvironmentFailed(Reason.STORE_OUTDATED, "a note of this run cannot be read")
