"""The operation of an approved plan. A plan is applied and verified as a whole, or undone as a whole.

The engine (`execution/engine.py`) calls one method of `PlanOperation` for each step. The methods are short; the work is
done in the modules below.

parse, verify_authority    `contracts/plans/envelope.py` is the signed document; `authority/envelope.py` verifies it.
decide                     `plans/policy/plan.py`. Add a policy check that does not need the disk to `decide_plan`.
preview                    `plans/preview/store.py` finds the preview that was approved, and `plans/preview/approved.py`
                           checks it. `plans/preview/build.py` computed it. Add a check that needs the files
                           there. A check that needs their content goes to `effects/plans/simulate.py`.
                           `plans/preparation` runs SQL and pipelines on copies.
consent                    `plans/approval_checks.py`. `plans/policy/required_approvals.py` says what an approval must
                           name.
checkpoint                 `plans/apply/checkpoint.py`; `plans/storage` writes the backups and the rollback manifest.
effect, recover_effect, undo,
verify_effect, commit,
clear_up                   `plans/apply/executor.py`
succeed, fail              `plans/apply/outcome.py`, which builds the reports with `plans/reports`
publish                    `plans/reports/publish.py`

To add a field to the report, change these places:

- `ExecutionReport` in `contracts/plans/report.py`, with a default, and in its `_LEFT_OUT_WHERE_EMPTY`: otherwise the
  stored reports of earlier versions no longer match their signatures
- `FinishedRun` in `plans/reports/run_data.py`, and `build_outcome` in `plans/apply/outcome.py`, which fills it
- `build_report` in `plans/reports/execution_report.py`
- for people: `cli/plans/render.py` and the console's `run.html`; for agents: `services/plans/agent_views.py`
- the checkpoint, if the report of a run that is resumed after a crash needs the value

`plans/service.py` runs this operation. Related operations: `draft_operation.py` (the preview before an approval) and
`plans/rollback/operation.py` (the rollback of a run).
"""

import logging
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final, Literal

from remit.authority.envelope import ApprovedPlan, digest_of_envelope, verify_again, verify_envelope
from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.envelope import Envelope
from remit.contracts.plans.error_codes import plan_error
from remit.contracts.plans.outcome import PlanOutcome, PlanRefusal
from remit.contracts.plans.plan import Plan
from remit.core.errors import Reason, RefusedError, RemitError, UsageError, as_remit_error
from remit.core.ids import DEFAULT_TENANT, parse_time, render_time
from remit.crypto.signing import Keyring, Signer
from remit.effects.plans.database_files import is_marked
from remit.effects.plans.steps import Ids
from remit.execution.decision import Denial, PolicyDecision
from remit.execution.engine import Note, Notes, Operation, Preview, ReportWriteError
from remit.execution.journal import RequestIds
from remit.execution.protected_paths import is_forbidden
from remit.fs import openat as beneath
from remit.ledger.writer import Batch
from remit.plans.apply.checkpoint import (
    PlanCheckpoint,
    parse_checkpoint,
    render_checkpoint,
    with_ownership,
)
from remit.plans.apply.environment import PlanEnvironment
from remit.plans.apply.executor import PlanExecutor
from remit.plans.apply.outcome import (
    EFFECTIVE_STATUSES,
    action_rows,
    build_outcome,
    build_run_manifest,
    load_plan_outcome,
    server_rows,
)
from remit.plans.apply.verify_and_undo import RunResult
from remit.plans.approval_checks import require_same_inputs
from remit.plans.engines.database_files import require_none_busy
from remit.plans.model.folders import opened
from remit.plans.model.remote_part import RemotePart
from remit.plans.policy.executes import runs_on_files
from remit.plans.policy.plan import decide_plan
from remit.plans.policy.remote_sql import server_of
from remit.plans.policy.required_approvals import uncovered
from remit.plans.policy.timeouts import plan_seconds
from remit.plans.preparation.pipeline_scratch import describe_changed_folder
from remit.plans.preparation.prepared import Engines, PreparedOutputs
from remit.plans.preparation.remote_sql import PlanContext, PreparedStatements, prepare_statements
from remit.plans.preview.approved import load_approved, require_idle_databases
from remit.plans.preview.build import PreviewTools, preview_plan
from remit.plans.preview.inputs import ChangedInput, changed_input_error
from remit.plans.preview.planned_effect import (
    PlannedEffect,
    PlannedOutput,
    outputs_of,
)
from remit.plans.preview.store import PreviewStore
from remit.plans.reports.execution_report import refusal_of
from remit.plans.reports.publish import publish, restore_reports
from remit.plans.reports.truncate import truncate_pipelines, without_log
from remit.plans.runtime.runner import paths_of
from remit.plans.runtime.steps import needs_parsers
from remit.plans.storage.backups import back_up_files
from remit.plans.storage.manifest import write_rollback_files
from remit.plans.storage.run_folder import REPORTS, ReportFolder, folder_name

_LOG: Final = logging.getLogger("remit.plans")


@dataclass(frozen=True)
class PlanRequest:
    """An unverified request to apply a plan. A request that is loaded from a checkpoint has no envelope."""

    envelope_id: str
    digest: str
    envelope: Envelope | None = None
    checkpoint: PlanCheckpoint | None = None


def request_of(envelope: Envelope) -> PlanRequest:
    return PlanRequest(envelope.envelope_id, digest_of_envelope(envelope), envelope)


@dataclass(frozen=True)
class PlanOperation(Operation[PlanRequest, ApprovedPlan, PlanCheckpoint, RunResult, PlanOutcome | PlanRefusal]):
    """The engine's steps for an approved plan.

    It holds the protocol layer's public key and the executor's private key. It never holds the protocol layer's private
    key, so it cannot approve a plan.
    """

    keyring: Callable[[], Keyring]
    signer: Callable[[], Signer]
    environment: PlanEnvironment
    previews: PreviewStore
    _outputs: dict[str, dict[str, int]] = field(default_factory=dict, init=False, repr=False)
    """The open files that SQL and pipelines produced, by envelope id. Kept from the preview until the request ends."""
    _statements: dict[str, PreparedStatements] = field(default_factory=dict, init=False, repr=False)
    """The statements to run on a database server, by envelope id. Kept for the same time."""
    name: str = field(default="plan", init=False)
    counts_refusals_as: str = field(default="apply", init=False)
    try_again: str = field(default="If the plan is still wanted, approve it again: remit approve", init=False)

    @cached_property
    def _executor(self) -> PlanExecutor:
        return PlanExecutor(self.environment, self.keyring)

    # --- steps 1 to 5: nothing is changed -----------------------------------------------------------------------------

    def parse(self, raw: tuple[bytes, ...]) -> PlanRequest:
        """Parse the bytes of an envelope. Its signature is not verified here."""
        (document,) = raw
        return request_of(Envelope.parse(document))

    def trace(self, request: PlanRequest) -> RequestIds:
        """Return the ids of the request. The envelope's id is the idempotency key, so an envelope is applied once."""
        return RequestIds(
            tenant_id=DEFAULT_TENANT,
            correlation_id=request.envelope_id,
            scope=self.name,
            key=request.envelope_id,
            request_digest=request.digest,
            task_id=request.envelope_id,
        )

    def describe_refusal(self, request: PlanRequest, problem: RefusedError) -> Mapping[str, Any]:
        named = plan_error(problem.reason)
        described = {"operation": self.counts_refusals_as, "code": named.code, "type": named.kind}
        if request.envelope is None:
            return described
        return {**described, "plan_id": request.envelope.plan.plan_id, "plan_digest": request.envelope.plan_digest}

    def verify_authority(self, request: PlanRequest, now: datetime) -> ApprovedPlan:
        """Verify the envelope's signature, its expiry, and that it was issued for this plan and this configuration."""
        self.environment.report_status(request.envelope_id, _plan_id(request), "CHECKING", 0, 0)
        if request.envelope is None:
            raise UsageError(Reason.MISUSE, "a request that was loaded from a checkpoint has no authority")
        envelope = request.envelope
        digest = self.environment.rules.config_digest()
        return verify_envelope(envelope, digest, self.keyring(), now, plan_digest=envelope.plan.digest())

    def decide(self, request: PlanRequest) -> PolicyDecision:
        """Check the plan against the policy. For a run that is resumed, check its root and its paths."""
        if request.envelope is not None:
            envelope, rules = request.envelope, self.environment.rules
            return decide_plan(envelope.plan, rules.config(), rules.root(), envelope.approvals)
        return self._decide_on_resume(request.checkpoint)

    def preview(self, granted: ApprovedPlan) -> PlannedEffect:
        """Return the preview that was approved, if its inputs are as they were. Nothing of it is executed again.

        An envelope without one is of an earlier version, or of a protocol layer outside of Remit. Its preview is
        computed here, once. What SQL and pipelines produced is open until `release`; `effect` uses it.
        """
        envelope = granted.envelope
        self._require_not_void(envelope.envelope_id)
        engines = self.environment.engines(envelope.envelope_id, envelope.plan.plan_id)
        self._require_urls(envelope.plan, engines)
        self.release(granted)  # the engine repeats the preview if another process was faster
        try:
            return self._load_preview(envelope, engines) or self._compute_preview(envelope, engines)
        except RemitError as problem:
            if problem.reason is Reason.CANCELLED:
                raise self._cancelled_error(envelope.envelope_id) from problem
            raise

    def release(self, granted: ApprovedPlan) -> None:
        """Close the open transactions and the prepared files, and end a process that waits."""
        self._executor.release(granted.envelope.envelope_id)
        self._discard_prepared(granted.envelope.envelope_id)

    def consent(self, granted: ApprovedPlan, preview: Preview, now: datetime) -> str:
        """Check that the envelope approves exactly this effect: the same inputs, and every approval that is needed."""
        envelope, plan_preview = granted.envelope, _as_planned(preview)
        self._require_not_cancelled(envelope.envelope_id)
        require_none_busy(one.problem for one in plan_preview.all_actions if one.problem is not None)
        require_same_inputs(envelope, plan_preview, lambda path: self._describe_folder(path, envelope))
        denials = uncovered(plan_preview.findings, plan_preview.needs, envelope.approvals)
        PolicyDecision(() if denials else ("the approval names all that it must",), denials).require()
        return f"envelope {envelope.envelope_id}"

    # --- steps 6 and 7: rollback data is durable before the intent is recorded ----------------------------------------

    def checkpoint(self, granted: ApprovedPlan, preview: Preview) -> str:
        """Make the report folder, write the backups and the rollback manifest, and return the checkpoint as text.

        Recovery uses only this text, the notes of the effect, and the files in that folder. If this method fails, it
        removes what it wrote.
        """
        plan_preview, envelope, config = _as_planned(preview), granted.envelope, self.environment.rules.config()
        self.environment.report_status(
            envelope.envelope_id, envelope.plan.plan_id, "CHECKPOINT", 0, len(plan_preview.steps.steps)
        )
        require_idle_databases(plan_preview, self.environment.rules.root())
        now = self.environment.rules.clock()
        checkpoint = PlanCheckpoint(
            request_digest=granted.digest,
            plan_id=envelope.plan.plan_id,
            ids=Ids(envelope.envelope_id, *(str(uuid.uuid4()) for _ in range(3))),
            root=self.environment.rules.root(),
            folder=folder_name(now, envelope.envelope_id),
            started_at=render_time(now),
            instructions=envelope.plan.execution_instructions,
            rollback_days=config.retention.rollback_days,
            needs_parsers=needs_parsers(envelope.plan, config),
            doomed=plan_preview.doomed,
            steps=plan_preview.steps,
            first=plan_preview.first,
            originals={},
            folders=() if plan_preview.doomed else plan_preview.folders,
            diffs=plan_preview.diffs,
            sql=plan_preview.sql_reports,
            remote=plan_preview.remote,
            pipelines=truncate_pipelines([without_log(pipeline) for pipeline in plan_preview.pipeline_reports]),
            prepared_ms=sum(plan_preview.milliseconds.values()),
        )
        with ReportFolder.make(checkpoint.root, checkpoint.folder) as folder:
            try:
                if plan_preview.doomed:
                    folder.write({})  # writes no file, but makes the folder durable
                else:
                    checkpoint = self._back_up(checkpoint, plan_preview, config, folder)
                self._require_not_cancelled(envelope.envelope_id)
            except BaseException:
                folder.discard()
                raise
        return render_checkpoint(checkpoint)

    def _back_up(
        self, checkpoint: PlanCheckpoint, plan_preview: PlannedEffect, config: SystemConfig, folder: ReportFolder
    ) -> PlanCheckpoint:
        places = checkpoint.places()
        new_bytes = sum(step.after.size for step in checkpoint.steps.steps if step.after and step.move != "rename")
        new_bytes += checkpoint.remote.image_bytes if checkpoint.remote is not None else 0
        databases = {step.path for step in checkpoint.steps.steps if is_marked(step)}
        all_places = [places[path] for path in range(len(places))]
        originals = back_up_files(
            all_places, plan_preview.to_back_up, folder, config.limits, new_bytes, databases=databases
        )
        checkpoint = with_ownership(checkpoint, originals)
        planned = [step.number for step in checkpoint.steps.steps if step.problem is None]
        write_rollback_files(folder, build_run_manifest(checkpoint, planned, checkpoint.started_at))
        return checkpoint

    def prewarm(self, granted: ApprovedPlan, checkpoint: PlanCheckpoint) -> None:
        """Start the sandbox and run the statements on the server, so that the approval is not used if one fails.

        The transaction of the statements stays open. It is committed last. This is after `consent`, since statements
        run that a rollback may not undo, and after the backups, so that rows are locked for a shorter time.
        """
        if checkpoint.doomed:
            return
        self._executor.prewarm(granted.envelope.plan, checkpoint, self._outputs.get(checkpoint.envelope_id, {}))
        try:
            self._executor.begin_remote(checkpoint, self._statements.get(checkpoint.envelope_id))
        except RemitError as problem:
            if problem.reason is Reason.CANCELLED:
                raise self._cancelled_error(checkpoint.envelope_id) from problem
            raise

    def require_still_valid(self, granted: ApprovedPlan, now: datetime) -> None:
        """Verify the envelope again, with the current configuration and time."""
        verify_again(granted, self.environment.rules.config_digest(), self.keyring(), now)

    def consume_authority(self, granted: ApprovedPlan, batch: Batch, now: datetime) -> None:
        """End the approval's reference to its preview. The outputs stay open in this process."""
        if granted.envelope.preview_digest is not None:
            self.previews.end_reference(batch, granted.envelope.preview_digest)

    def discard(self, text: str) -> None:
        """Remove the report folder of a checkpoint whose intent was never recorded, and end its transaction."""
        checkpoint = parse_checkpoint(text)
        self._executor.release(checkpoint.envelope_id)
        try:
            with ReportFolder.open(checkpoint.root, checkpoint.folder) as folder:
                folder.discard()
            with opened(checkpoint.root, REPORTS) as reports:
                beneath.remove_folder(reports, checkpoint.folder)
        except RemitError as problem:  # `remit prune` removes it later
            _LOG.warning("a report folder could not be removed", extra={"why": str(problem)})

    def load_checkpoint(self, text: str) -> tuple[PlanRequest, PlanCheckpoint]:
        """Parse a checkpoint. The returned request has no envelope, so it has no authority."""
        checkpoint = parse_checkpoint(text)
        return PlanRequest(checkpoint.envelope_id, checkpoint.request_digest, None, checkpoint), checkpoint

    # --- steps 8 and 9: apply, verify, report, commit; or undo --------------------------------------------------------

    def effect(self, granted: ApprovedPlan, checkpoint: PlanCheckpoint, note: Note) -> RunResult:
        """Apply the plan in the sandbox. The envelope is verified again while the plan runs."""

        def require_still_valid() -> None:
            self.require_still_valid(granted, self.environment.rules.clock())

        ready = self._ready_outputs(granted.envelope, checkpoint)
        return self._executor.execute(granted.envelope.plan, checkpoint, ready, require_still_valid, note)

    def recover_effect(self, checkpoint: PlanCheckpoint, notes: Notes, note: Note) -> RunResult | None:
        """Finish or undo a run whose process died. Return None if it was undone or had changed nothing."""
        return self._executor.recover_effect(checkpoint, notes, note)

    def undo(self, checkpoint: PlanCheckpoint, notes: Notes, note: Note) -> None:
        """Undo all changes of the run."""
        self._executor.undo(checkpoint, notes, note)

    def verify_effect(self, checkpoint: PlanCheckpoint, run_result: RunResult) -> None:
        """Check that the files are as the preview showed them. The host checks this itself, outside the sandbox."""
        self._executor.verify(checkpoint, run_result)

    def succeed(self, request: PlanRequest, checkpoint: PlanCheckpoint, run_result: RunResult) -> PlanOutcome:
        """Build and sign the outcome of a run that ended."""
        return self._outcome(checkpoint, run_result)

    def fail(
        self, request: PlanRequest, problem: RemitError, checkpoint: PlanCheckpoint | None = None
    ) -> PlanOutcome | PlanRefusal:
        """Build a refusal if no intent was recorded (no `checkpoint`), otherwise the signed outcome of a failed run."""
        if checkpoint is None:
            error = refusal_of(problem, request.envelope_id, self.environment.rules.clock)
            status: Literal["REFUSED", "CANCELLED"] = "CANCELLED" if problem.reason is Reason.CANCELLED else "REFUSED"
            return PlanRefusal(status=status, envelope_id=request.envelope_id, errors=(error,))
        return self._outcome(checkpoint, self._executor.failure(checkpoint, problem))

    def publish(self, checkpoint: PlanCheckpoint, outcome: PlanOutcome | PlanRefusal) -> None:
        """Write the reports. If that fails, a run that changed something is undone; after a failed run it is logged."""
        if isinstance(outcome, PlanRefusal):
            return
        self.environment.report_status(
            checkpoint.envelope_id,
            checkpoint.plan_id,
            "REPORTING",
            len(checkpoint.steps.steps),
            len(checkpoint.steps.steps),
        )
        try:
            with ReportFolder.open(checkpoint.root, checkpoint.folder) as folder:
                publish(folder, outcome)
        except (RemitError, OSError) as problem:
            error = as_remit_error(problem)
            if outcome.status.status in EFFECTIVE_STATUSES:
                raise ReportWriteError(
                    error.reason, error.what, where=error.where, next_step=error.next_step
                ) from problem
            _LOG.warning("the reports of a plan could not be written", extra={"why": str(error)})
        if outcome.status.status in EFFECTIVE_STATUSES:
            self._executor.verify_originals(checkpoint)  # again, because another process can write in the meantime

    def commit(self, checkpoint: PlanCheckpoint, outcome: PlanOutcome | PlanRefusal, note: Note) -> None:
        """Commit the transaction on the database server, if the plan has one."""
        if isinstance(outcome, PlanOutcome) and outcome.status.status in EFFECTIVE_STATUSES:
            self._executor.commit(checkpoint, note)

    def clear_up(self, checkpoint: PlanCheckpoint, outcome: PlanOutcome | PlanRefusal, note: Note) -> None:
        """Remove the files that only an undo needs. After this, the run can no longer be undone, only rolled back."""
        if isinstance(outcome, PlanRefusal) or outcome.status.status not in EFFECTIVE_STATUSES:
            return
        self._executor.clear_up(checkpoint, note)

    # --- steps 10 and 11: the outcome is recorded and returned --------------------------------------------------------

    def store_outcome(self, outcome: PlanOutcome | PlanRefusal) -> str:
        """Return the text that is stored with the claim: the outcome with all reports."""
        return outcome.canonical().decode()

    def show_outcome(self, outcome: PlanOutcome | PlanRefusal, stored: str) -> Mapping[str, Any]:
        """Return the part of the outcome that the ledger shows: the signed status, and a row for each action.

        The reports themselves are stored with the claim.
        """
        if isinstance(outcome, PlanRefusal):
            raise UsageError(Reason.MISUSE, "a refusal was passed as the outcome of a run")
        shown: dict[str, Any] = {"status": outcome.status.tree(), "actions": action_rows(outcome)}
        return {**shown, "rows": server_rows(outcome)} if server_rows(outcome) else shown

    def load_outcome(self, stored: str, recorded_at: str) -> PlanOutcome:
        """Verify and return a stored outcome. Write its report files again if they are missing."""
        outcome = load_plan_outcome(stored, self.keyring())
        try:
            with ReportFolder.open(self.environment.rules.root(), outcome.status.folder.rpartition("/")[2]) as folder:
                if folder.read("status.json") is None:
                    restore_reports(folder, outcome)
        except RemitError as problem:  # only people read these files; the ledger has the outcome
            _LOG.warning("the reports of a plan could not be written again", extra={"why": str(problem)})
        return outcome

    # --- internal -----------------------------------------------------------------------------------------------------

    def _require_urls(self, plan: Plan, engines: Engines) -> None:
        """Require a valid URL for each PostgreSQL connection of the plan, before any file or row is read.

        An agent learns of this refusal, so it must not depend on files or rows.
        """
        config = self.environment.rules.config()
        for name in dict.fromkeys(server_of(action, config) for action in plan.action_plan):
            if name is None:
                continue
            try:
                engines.servers.find(name)
            except RemitError as problem:
                raise problem.with_changes(next_step=f"{problem.advice} The approval stays valid.") from None

    def _describe_folder(self, path: str, envelope: Envelope) -> str:
        """Return which files of a folder that a pipeline reads were changed since the approval, if it is a folder."""
        rules = self.environment.rules
        if not os.path.isdir(os.path.join(rules.root(), path)):
            return ""
        approved_at = parse_time(envelope.issued_at).timestamp()
        return describe_changed_folder(rules.root(), path, rules.config(), "the plan was approved", approved_at)

    def _load_preview(self, envelope: Envelope, engines: Engines) -> PlannedEffect | None:
        """Return the stored preview that the envelope names, with its outputs open and its statements ready.

        None if it must be computed: see `load_approved`. An envelope without one always needs that.
        """
        if envelope.preview_digest is None:
            return None
        rules, stored = self.environment.rules, self.previews.find(envelope.preview_digest)
        planned = load_approved(envelope, stored, rules.config(), rules.root())
        if planned is None:
            return None
        self._open_outputs(envelope, planned.outputs)
        self._statements.update(self._statements_of(envelope, engines, planned.remote))
        return planned

    def _compute_preview(self, envelope: Envelope, engines: Engines) -> PlannedEffect:
        rules, plan = self.environment.rules, envelope.plan
        config = rules.config()
        if runs_on_files(plan, config) and not config.approvals.allow_without_preview:
            raise RefusedError(
                Reason.BINDING_MISMATCH,
                "this approval names no stored preview, so SQL and pipelines would run again now, and could make other"
                " files than the approver saw",
                where=f"envelope {envelope.envelope_id}, preview_digest",
                next_step="Preview the plan with `remit preview`, and approve it again. Or allow it in remit.yaml, for"
                " approvals of an earlier version or of an outside protocol layer: approvals.allow_without_preview.",
            )
        runner = self.environment.runner(envelope.envelope_id, needs_parsers=needs_parsers(plan, config))
        preview = preview_plan(
            plan,
            config,
            rules.root(),
            PreviewTools(runner, engines, in_earnest=True),
            plan_digest=envelope.plan_digest,
            at=self.environment.now(),
        )
        self._outputs[envelope.envelope_id] = preview.prepared.descriptors
        if preview.statements is not None:
            self._statements[envelope.envelope_id] = preview.statements
        return preview

    def _ready_outputs(self, envelope: Envelope, checkpoint: PlanCheckpoint) -> PreparedOutputs:
        """Return what the effect takes from the preview. A process that resumes the run opens the kept files again."""
        envelope_id = checkpoint.envelope_id
        if envelope_id not in self._outputs and envelope.preview_digest is not None:
            with suppress(RemitError):  # the executor reports outputs that are missing
                self._open_outputs(envelope, outputs_of(checkpoint.steps.steps, checkpoint.steps.paths))
                engines = self.environment.engines(envelope_id, checkpoint.plan_id)
                self._statements.update(self._statements_of(envelope, engines, checkpoint.remote))
        return PreparedOutputs(self._outputs.get(envelope_id, {}), self._statements.get(envelope_id))

    def _open_outputs(self, envelope: Envelope, outputs: Sequence[PlannedOutput]) -> None:
        self._outputs[envelope.envelope_id] = self.previews.outputs.open(envelope.preview_digest or "", outputs)

    def _statements_of(
        self, envelope: Envelope, engines: Engines, remote: RemotePart | None
    ) -> dict[str, PreparedStatements]:
        """Return the statements for a database server. `prewarm` runs them and compares the rows."""
        if remote is None:
            return {}
        rules, plan = self.environment.rules, envelope.plan
        config = rules.config()
        first = remote.actions[0].number if remote.actions else 0
        context = PlanContext(plan, config, rules.root())
        found = prepare_statements(context, engines.servers, float(plan_seconds(plan, config)), first_number=first)
        if found is None:
            return {}
        statements, read = found
        approved = {item.path: item.input_digest for item in envelope.inputs}
        for path, digest in read.items():  # what was read just now is what runs, so exactly this must be approved
            if approved.get(path) != digest:
                raise changed_input_error(ChangedInput(path, "this file was changed since the plan was approved"))
        return {envelope.envelope_id: statements}

    def _discard_prepared(self, envelope_id: str) -> None:
        opened = self._outputs.pop(envelope_id, {})
        while opened:
            os.close(opened.popitem()[1])
        self._statements.pop(envelope_id, None)

    def _decide_on_resume(self, checkpoint: PlanCheckpoint | None) -> PolicyDecision:
        """Allow a run to be resumed only in the root where it was started, and only on paths that are not forbidden."""
        if checkpoint is None or checkpoint.root != self.environment.rules.root():
            denial = Denial(
                Reason.PATH_REFUSED,
                "this plan was started in another root folder",
                where=checkpoint.root if checkpoint else "",
                next_step="Set `root` in remit.yaml to its earlier value, and run: remit recover",
            )
            return PolicyDecision(denials=(denial,))
        config = self.environment.rules.config()
        changed = paths_of(checkpoint.steps.steps)
        why = {
            place.path: is_forbidden(place.below, config) for n, place in checkpoint.places().items() if n in changed
        }
        denials = tuple(Denial(Reason.PATH_REFUSED, reason, where=path) for path, reason in why.items() if reason)
        return PolicyDecision((f"started under envelope {checkpoint.envelope_id}",), denials)

    def _require_not_void(self, envelope_id: str) -> None:
        """Refuse an approval that was cancelled before this request, like any other void approval."""
        if self.environment.cancellations.is_recorded(envelope_id):
            raise RefusedError(
                Reason.REVOKED,
                "this approval was cancelled",
                where=f"envelope {envelope_id}",
                next_step="If the plan is still wanted, approve it again.",
            )

    def _require_not_cancelled(self, envelope_id: str) -> None:
        if self.environment.hooks.is_cancelled() or self.environment.cancellations.is_recorded(envelope_id):
            raise self._cancelled_error(envelope_id)

    def _cancelled_error(self, envelope_id: str) -> RefusedError:
        """Return the error for a plan that was cancelled before its intent was recorded."""
        is_void = self.environment.cancellations.is_recorded(envelope_id)
        what = "the plan was cancelled before anything was changed"
        return RefusedError(
            Reason.CANCELLED,
            f"{what}, and its approval was cancelled too" if is_void else what,
            where=f"envelope {envelope_id}",
            next_step="If the plan is still wanted, approve it again."
            if is_void
            else "The approval was not used. If the plan is still wanted, apply it again.",
        )

    def _outcome(self, checkpoint: PlanCheckpoint, run_result: RunResult) -> PlanOutcome:
        return build_outcome(
            checkpoint,
            run_result,
            self.signer(),
            self.environment.rules.clock,
            confined=self.environment.rules.config().sandbox == "required",
            verified_files=self._executor.verified_files(checkpoint),
        )


def _plan_id(request: PlanRequest) -> str:
    if request.envelope is not None:
        return request.envelope.plan.plan_id
    return request.checkpoint.plan_id if request.checkpoint is not None else request.envelope_id


def _as_planned(preview: Preview) -> PlannedEffect:
    if not isinstance(preview, PlannedEffect):
        raise UsageError(Reason.MISUSE, "the preview of a plan was made by another operation")
    return preview
