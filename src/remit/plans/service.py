"""The plans of one workspace: preview, approve, apply, cancel, recover, roll back and prune them."""

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, NamedTuple

from remit.authority.envelope import digest_of_envelope, issue_envelope
from remit.authority.rollback_order import issue_rollback
from remit.contracts.config.config import CONFIG_NAME
from remit.contracts.plans.envelope import Approvals, Envelope
from remit.contracts.plans.error_response import ErrorResponse
from remit.contracts.plans.outcome import PlanOutcome, PlanRefusal, RollbackOutcome
from remit.contracts.plans.plan import Plan
from remit.contracts.plans.status import StatusUpdate
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, UsageError
from remit.core.ids import DEFAULT_TENANT, Clock, render_time
from remit.crypto.signing import Keyring, Signer
from remit.execution.decision import PolicyDecision
from remit.execution.engine import ExecutionContext, IncompleteError, Parsed, Preview, run_operation
from remit.execution.recovery import Recovered, recover
from remit.fs.state_dir import StateDirectory
from remit.ledger.entry import NewEntry
from remit.ledger.writer import Batch, Ledger
from remit.plans.apply.environment import CANCEL_POLL_SECONDS, Cancellations, PlanEnvironment, PlanRules
from remit.plans.apply.outcome import EFFECTIVE_STATUSES
from remit.plans.approval_checks import OutdatedPreviewError, reject_unused_allowances, require_applicable
from remit.plans.draft_operation import DraftOperation, draft_of
from remit.plans.engines.database_files import sweep
from remit.plans.model.callbacks import NO_HOOKS, LaterRollback, PlanHooks
from remit.plans.operation import PlanOperation, PlanRequest, request_of
from remit.plans.policy.executes import runs_something, uses_server
from remit.plans.policy.required_approvals import uncovered
from remit.plans.preview.document import PlanPreview
from remit.plans.preview.inputs import find_changed_input
from remit.plans.preview.planned_effect import RecordedPreview, recorded
from remit.plans.preview.store import PreviewStore
from remit.plans.reports.archive import archive
from remit.plans.reports.execution_report import refusal_of
from remit.plans.reports.executor_log import ExecutorLog
from remit.plans.reports.publish import clear_half_written
from remit.plans.rollback.operation import RollbackOperation
from remit.plans.run_queries import RunQueries
from remit.plans.storage.drift import is_due, resolve_checkpoints
from remit.plans.storage.pruning import prunable, prune
from remit.plans.storage.run_folder import MANIFEST, REPORTS
from remit.sandbox.manager import Fleet
from remit.store.claims import ClaimCompleted
from remit.store.process_identity import remove_stale_locks

CANCELLED: Final = "envelope.cancelled"
CANCEL_PATIENCE: Final = 60.0
"""Seconds that `cancel` waits for the outcome of a running plan."""
_COMPUTED: Final = "the preview was computed"
_LOG: Final = logging.getLogger("remit.plans")


@dataclass(frozen=True)
class PlanKeys:
    """Functions that load each key when it is needed, so that a rotated key is used at once."""

    keyring: Callable[[], Keyring]
    executor: Callable[[], Signer]
    protocol: Callable[[], Signer]


class Pruned(NamedTuple):
    """A report folder whose backups were removed, or would be removed in a dry run."""

    folder: str
    what: str
    size: int
    why: str


class Plans:
    """The interface to the plans of one workspace. `rules` and `fleet` are shared by all of them."""

    def __init__(
        self,
        state: StateDirectory,
        rules: PlanRules,
        keys: PlanKeys,
        ledger: Callable[[], Ledger],
        fleet: Fleet,
    ) -> None:
        self._state = state
        self._rules = rules
        self._keys = keys
        self._ledger = ledger
        self._fleet = fleet
        self._clock = rules.clock
        self._run_queries = RunQueries(ledger, keys.keyring, rules, state.hosts)
        self.previews = PreviewStore(ledger, keys.keyring, state, rules.config, rules.clock)
        self._recovering = threading.Lock()
        self._recovered = False

    def preview(
        self,
        plan: bytes | Plan,
        hooks: PlanHooks = NO_HOOKS,
        *,
        fresh: bool = False,
        readable_if_full: bool = False,
    ) -> RecordedPreview:
        """Return the preview of the plan for the files as they are now. Raises `RefusedError`.

        A stored preview is used if no input changed since and it has not expired. Otherwise, and with `fresh`, the
        preview is computed, stored and recorded for `hooks.actor`. A preview with rows of a database server, or with a
        problem, is computed each time. With `readable_if_full`, a preview past the quota is stored without its outputs.
        """
        parsed = Plan.parse(plan) if isinstance(plan, bytes) else plan
        if not fresh and (found := self._find_current(parsed)) is not None:
            return found
        computed = self._compute(parsed, hooks)
        try:
            self.previews.save(computed, hooks.actor, readable_if_full=readable_if_full)
        finally:
            computed.prepared.close()
        return recorded(computed, parsed, computed.document)

    def approve(  # noqa: PLR0913 - each argument is passed by name
        self,
        plan: bytes | Plan,
        approvals: Approvals,
        life: timedelta,
        actor: str | None = None,
        *,
        even_if_it_fails: bool = False,
        as_seen: str | None = None,
        also: Callable[[Batch, Envelope], None] = lambda _batch, _envelope: None,
        hooks: PlanHooks = NO_HOOKS,
    ) -> Envelope:
        """Sign and record an envelope for this plan and the files as they are now.

        Refuses a plan of which an action would fail. With `even_if_it_fails`, refuses it only if the plan would stop at
        its first error. `as_seen` is the digest of the stored preview that the approver saw. It is approved as it is
        stored, without computing it again, and refused if an input changed since. `also` runs in the transaction that
        records the envelope.
        """
        parsed = Plan.parse(plan) if isinstance(plan, bytes) else plan
        with ExitStack() as stack:
            preview, record_preview = self._preview_to_approve(parsed, as_seen, hooks, stack, actor)
            refusal = _find_refusal(preview, approvals, even_if_it_fails=even_if_it_fails)
            if refusal is not None:
                self._ledger().transact(record_preview)  # the next attempt need not compute it again
            else:
                return self._sign(preview, record_preview, approvals, life, actor, also)
        raise refusal

    def _sign(
        self,
        preview: RecordedPreview,
        record_preview: Callable[[Batch], None],
        approvals: Approvals,
        life: timedelta,
        actor: str | None,
        also: Callable[[Batch, Envelope], None],
    ) -> Envelope:
        """Sign the envelope, and record it with the preview in one transaction."""
        envelope = issue_envelope(
            self._keys.protocol(),
            preview.plan,
            preview.config_digest,
            preview.inputs,
            approvals,
            self._clock(),
            life,
            preview_digest=preview.digest,
        )
        issued = _issued_entry(envelope, approvals, actor)

        def record(batch: Batch) -> None:
            record_preview(batch)
            batch.append(issued)
            self.previews.refer(batch, preview.digest, envelope.expires_at)
            also(batch, envelope)

        self._ledger().transact(record)
        return envelope

    def _preview_to_approve(
        self, plan: Plan, as_seen: str | None, hooks: PlanHooks, stack: ExitStack, actor: str | None
    ) -> tuple[RecordedPreview, Callable[[Batch], None]]:
        """Return the preview that is approved, and the work that records it if it was computed just now."""
        found = self._find_current(plan) if as_seen is None else self._find_as_seen(plan, as_seen)
        if found is not None:
            return found, lambda _batch: None
        computed = self._compute(plan, hooks)
        stack.callback(computed.prepared.close)
        if as_seen is not None and computed.digest != as_seen:
            raise OutdatedPreviewError(plan.plan_id)
        record = stack.enter_context(self.previews.keeping(computed, hooks.actor or actor))
        return recorded(computed, plan, computed.document), record

    def _compute(self, plan: Plan, hooks: PlanHooks) -> PlanPreview:
        """Compute a preview. The caller closes its prepared files."""
        operation = DraftOperation(self._environment(hooks))
        found = run_operation(operation, Parsed(draft_of(plan)), self._execution_context(), dry_run=True)
        if not isinstance(found, PlanPreview):
            raise UsageError(Reason.MISUSE, "a dry run did not end in a preview")
        return found

    def _find_current(self, plan: Plan) -> RecordedPreview | None:
        """Return a stored preview of the plan that is as it would be computed now."""
        config, root = self._rules.config(), self._rules.root()
        if uses_server(plan, config):
            return None
        for stored in self.previews.of_plan(plan.digest(), config.digest()):
            planned = stored.planned(plan, config, root)
            is_whole = self.previews.outputs.has(planned.digest, planned.outputs)
            changed = find_changed_input(planned, root, config, _COMPUTED, stored.row.computed_at)
            if is_whole and not planned.problems and changed is None:
                return recorded(planned, plan, stored.document)
        return None

    def _find_as_seen(self, plan: Plan, as_seen: str) -> RecordedPreview | None:
        """Return the stored preview with this digest. Refuses it if an input changed since. None if none is stored."""
        stored = self.previews.find(as_seen)
        if stored is None or stored.prepared_text is None:
            return None
        if stored.row.plan_digest != plan.digest():
            raise OutdatedPreviewError(plan.plan_id, "", "this is the digest of a preview of another plan")
        now = render_time(self._clock())
        if now >= max(stored.row.expires_at, stored.row.kept_until, stored.row.proposed_until):
            raise OutdatedPreviewError(plan.plan_id, "", f"the preview expired at {stored.row.expires_at[:19]}Z")
        config, root = self._rules.config(), self._rules.root()
        if stored.row.config_digest != config.digest():
            raise OutdatedPreviewError(plan.plan_id, CONFIG_NAME, "the configuration changed since the preview")
        planned = stored.planned(plan, config, root)
        changed = find_changed_input(planned, root, config, _COMPUTED, stored.row.computed_at)
        if changed is not None:
            raise OutdatedPreviewError(plan.plan_id, changed.path, changed.how)
        if not self.previews.outputs.has(planned.digest, planned.outputs):
            return None
        return recorded(planned, plan, stored.document)

    def apply(self, envelope: bytes | Envelope, hooks: PlanHooks = NO_HOOKS) -> PlanOutcome | PlanRefusal:
        """Carry out an approved plan, once. An invalid envelope is returned as a refusal, not raised."""
        phases: dict[str, str] = {}
        stored: list[bool] = []

        def on_stored() -> None:
            stored.append(True)
            hooks.on_stored()

        def on_status(update: StatusUpdate) -> None:
            phases.setdefault(update.phase, update.at)
            hooks.on_status(update)

        try:
            request = request_of(Envelope.parse(envelope) if isinstance(envelope, bytes) else envelope)
            if not self._recovered:
                self._recover_once(hooks, excluded=(request.envelope_id,))
            operation = self._operation(replace(hooks, on_status=on_status))
            outcome = run_operation(
                operation,
                Parsed(request),
                self._execution_context(),
                on_refusal=hooks.on_refusal,
                on_stored=on_stored,
                actor=hooks.actor,
            )
        except IncompleteError as problem:
            error = manual_recovery_error(problem, self._clock).tree()
            ExecutorLog(self._rules.root(), self._clock).write("plan.unsettled", level="error", error=error)
            raise
        except RefusedError as problem:  # only for bytes that cannot be parsed; other refusals are recorded
            hooks.on_refusal(problem)
            return PlanRefusal(envelope_id="unknown", errors=(refusal_of(problem, "unknown", self._clock),))
        if isinstance(outcome, Preview):
            raise UsageError(Reason.MISUSE, "a full run ended in a preview")
        self._report(outcome, phases)
        self._release_outputs(request, outcome)
        if stored and isinstance(outcome, PlanOutcome) and (later := self.later_rollback(outcome)) is not None:
            hooks.on_taken_back(later)
        return outcome

    def later_rollback(self, outcome: PlanOutcome) -> LaterRollback | None:
        """Return the last rollback that restored anything of this run, if any. The outcome itself never changes."""
        rollbacks = [one for one in self._run_queries.rollbacks_of(outcome) if one.status in {"EXECUTED", "PARTIAL"}]
        if not rollbacks:
            return None
        last = rollbacks[-1]
        return LaterRollback(last.order_id, last.executed_at, whole=last.manifest.status == "EXECUTED")

    def recover(
        self, *, excluded: Collection[str] = (), presumed_dead: Collection[str] = (), abandoned: Collection[str] = ()
    ) -> list[Recovered[PlanOutcome]]:
        """Finish or undo the plans of processes that died."""
        recovered = recover(
            self._operation(),
            self._execution_context(),
            excluded=excluded,
            presumed_dead=presumed_dead,
            abandoned=abandoned,
        )
        remove_stale_locks(self._state.hosts)
        sweep(self._state.work)
        plan_reports = [_require_plan_outcome(report) for report in recovered]
        for outcome in (report.outcome for report in plan_reports):
            if outcome is not None:
                clear_half_written(outcome, self._rules.root())
        return plan_reports

    def cancel(
        self, envelope_id: str, actor: str | None = None, patience: float = CANCEL_PATIENCE
    ) -> PlanOutcome | None:
        """Cancel a running plan, which undoes it, or invalidate an unused approval.

        Returns the outcome of the plan, also if it had ended before; None if it was never started. Refuses an unknown
        id. Raises `IN_PROGRESS` if the plan has not ended after `patience` seconds. It still ends later.
        """
        if (
            not self._run_queries.is_recorded(envelope_id, "envelope.issued")
            and self._run_queries.claim(envelope_id) is None
        ):
            raise RefusedError(
                Reason.STATE_MISSING,
                "this workspace issued no envelope with this id",
                where=f"envelope {envelope_id}",
                next_step="`remit ledger show` lists the issued envelopes.",
            )
        if not isinstance(self._run_queries.claim(envelope_id), ClaimCompleted):
            event = NewEntry(DEFAULT_TENANT, CANCELLED, envelope_id, {"envelope_id": envelope_id}, actor=actor)

            def cancel(batch: Batch) -> None:
                batch.append(event)
                self.previews.end_reference_of(batch, envelope_id)

            self._ledger().transact(cancel)
        return self._wait_for_outcome(envelope_id, patience)

    def rollback(
        self,
        report: str,
        *,
        checkpoints: Collection[str] = (),
        force: bool = False,
        drift: str | None = None,
        hooks: PlanHooks = NO_HOOKS,
    ) -> RollbackOutcome:
        """Roll back a run. `report` is `last`, a report folder, or the id of an envelope or a report.

        `checkpoints` has ids of the manifest, or paths of files and folders in the plan. None means all.

        `force` also restores files that changed since. `drift` is the digest of the drifted files that the caller saw;
        it limits `force` to these. Without it, `force` restores changed rows too.
        """
        self._recover_once(hooks)
        target = self._run_queries.rollback_target(self._run_queries.find(report))
        manifest_path = os.path.join(self._rules.root(), *REPORTS, target.folder, MANIFEST)
        checkpoints = resolve_checkpoints(target.manifest, checkpoints, manifest_path)
        has_more = is_due(target.manifest, checkpoints)
        earlier = self._run_queries.rollbacks_of(target.outcome)
        if not has_more and earlier:
            hooks.on_stored()
            return earlier[-1]
        order = issue_rollback(
            self._keys.protocol(),
            target.outcome.status.envelope_id,
            target.manifest.manifest_id,
            len(earlier) + 1,
            checkpoints,
            self._clock(),
            force=force,
            drift=drift if force else None,
        )
        outcome = run_operation(
            self._rollback_operation(),
            (order.canonical(),),
            self._execution_context(),
            on_refusal=hooks.on_refusal,
            on_stored=hooks.on_stored,
            actor=hooks.actor,
        )
        if isinstance(outcome, Preview):
            raise UsageError(Reason.MISUSE, "a full run ended in a preview")
        log = ExecutorLog(self._rules.root(), self._clock)
        log.write("rollback.ended", order_id=outcome.order_id, status=outcome.status, restored=list(outcome.restored))
        return outcome

    def recover_rollbacks(
        self, *, presumed_dead: Collection[str] = (), abandoned: Collection[str] = ()
    ) -> list[Recovered[RollbackOutcome]]:
        """Finish or undo the rollbacks of processes that died."""
        return recover(
            self._rollback_operation(), self._execution_context(), presumed_dead=presumed_dead, abandoned=abandoned
        )

    def _release_outputs(self, request: PlanRequest, outcome: PlanOutcome | PlanRefusal) -> None:
        """Remove the kept outputs of a plan that was applied. If that fails, `remit prune` removes them later."""
        envelope = request.envelope
        is_applied = isinstance(outcome, PlanOutcome) and outcome.status.status in EFFECTIVE_STATUSES
        if envelope is None or envelope.preview_digest is None or not is_applied or not runs_something(envelope.plan):
            return
        try:
            if self.previews.outputs.exists(envelope.preview_digest):
                self.previews.release(envelope.preview_digest)
        except RemitError as problem:
            _LOG.warning("the kept outputs of a preview could not be removed", extra={"why": str(problem)})

    def prune(self, *, dry_run: bool = False) -> list[Pruned]:
        """Remove backups of rolled-back and expired runs, the folders of runs that never started, and stored previews
        that no approval needs.
        """
        root, known = self._rules.root(), self._run_queries.known_folders()
        pruned = []
        for item in prunable(root, known, self._clock()):
            size = item.size if dry_run else prune(root, item)
            if not dry_run and size == 0 and item.size > 0:
                continue  # another process uses it by now
            if not dry_run:
                payload = {"folder": item.name, "bytes": size, "why": item.why}
                self._ledger().append(NewEntry(DEFAULT_TENANT, "plan.pruned", item.name[:200], payload))
            pruned.append(Pruned(item.name, item.what, size, item.why))
        previews = self.previews.prune(dry_run=dry_run)
        return [*pruned, *(Pruned(one.preview_digest, "preview", one.size, one.why) for one in previews)]

    # --- internal -----------------------------------------------------------------------------------------------------

    def _wait_for_outcome(self, envelope_id: str, patience: float) -> PlanOutcome | None:
        deadline = time.monotonic() + patience
        while True:
            found = self._run_queries.claim(envelope_id)
            if found is None:
                return None
            if isinstance(found, ClaimCompleted):
                return self._run_queries.outcome_of(found)
            if time.monotonic() > deadline:
                raise _still_running(envelope_id)
            time.sleep(CANCEL_POLL_SECONDS)

    def _rollback_operation(self) -> RollbackOperation:
        return RollbackOperation(
            self._keys.keyring, self._keys.executor, self._environment(), self._run_queries.rollback_target
        )

    def _operation(self, hooks: PlanHooks = NO_HOOKS) -> PlanOperation:
        return PlanOperation(self._keys.keyring, self._keys.executor, self._environment(hooks), self.previews)

    def _environment(self, hooks: PlanHooks = NO_HOOKS) -> PlanEnvironment:
        cancellations = Cancellations(lambda envelope_id: self._run_queries.is_recorded(envelope_id, CANCELLED))
        return PlanEnvironment(self._rules, self._fleet, cancellations, self._state.work, hooks)

    def _execution_context(self) -> ExecutionContext:
        return ExecutionContext(self._ledger(), self._clock, self._state.hosts)

    def _recover_once(self, hooks: PlanHooks, excluded: Collection[str] = ()) -> None:
        with self._recovering:
            if self._recovered:
                return
            reports: list[Recovered[Any]] = [*self.recover(excluded=excluded), *self.recover_rollbacks()]
            for report in reports:
                if report.problem is not None:
                    _LOG.warning("a plan could not be recovered", extra={"key": report.key, "why": str(report.problem)})
            self._recovered = True
            if reports:
                hooks.on_settled(reports)

    def _report(self, outcome: PlanOutcome | PlanRefusal, phases: Mapping[str, str]) -> None:
        """Log the outcome and archive its report. Both are copies of recorded data, so a failure is only logged."""
        root = self._rules.root()
        log = ExecutorLog(root, self._clock)
        if isinstance(outcome, PlanRefusal):
            errors = [error.tree() for error in outcome.errors]
            log.write("plan.refused", level="warning", envelope_id=outcome.envelope_id, errors=errors)
            return
        status = outcome.status
        level = "info" if status.status == "SUCCESS" else "error"
        errors = [error.tree() for error in outcome.errors]
        log.write("plan.ended", level=level, status=status.tree(), phases=dict(phases), errors=errors)
        try:
            archive(root, outcome)
        except RemitError as problem:
            _LOG.warning("a report could not be archived", extra={"why": str(problem)})


def _find_refusal(preview: RecordedPreview, approvals: Approvals, *, even_if_it_fails: bool) -> RefusedError | None:
    """Return why this preview cannot be approved with these allowances, or None."""
    try:
        require_applicable(preview, even_if_it_fails=even_if_it_fails)
        denials = uncovered(preview.findings, preview.needs, approvals)
        PolicyDecision(() if denials else ("the approval names all that it must",), denials).require()
        reject_unused_allowances(preview, approvals)
    except RefusedError as refusal:
        return refusal
    return None


def _issued_entry(envelope: Envelope, approvals: Approvals, actor: str | None) -> NewEntry:
    payload = {
        "envelope_id": envelope.envelope_id,
        "envelope_digest": digest_of_envelope(envelope),
        "plan_id": envelope.plan.plan_id,
        "plan_digest": envelope.plan_digest,
        "config_digest": envelope.config_digest,
        "preview_digest": envelope.preview_digest,
        "inputs": len(envelope.inputs),
        "approvals": approvals.tree(),
        "expires_at": envelope.expires_at,
    }
    task_id = envelope.envelope_id
    return NewEntry(DEFAULT_TENANT, "envelope.issued", task_id, payload, task_id=task_id, actor=actor)


def _require_plan_outcome(report: Recovered[PlanOutcome | PlanRefusal]) -> Recovered[PlanOutcome]:
    """Require an outcome. Recovery handles only plans that were started, and these cannot end in a refusal."""
    outcome = report.outcome
    if isinstance(outcome, PlanRefusal):
        raise UsageError(Reason.MISUSE, "a plan that was started ended in a refusal")
    return Recovered(report.key, report.began_at, outcome, report.took_effect, report.problem, report.unknown)


def manual_recovery_error(problem: IncompleteError, clock: Clock) -> ErrorResponse:
    """Return the error response for a run that a person must finish manually."""
    error = refusal_of(problem, problem.where or "plan", clock)
    return error.model_copy(update={"recovery_action": "MANUAL_REQUIRED"})


def preview_outdated_error(plan_id: str, path: str, compute: str, how: str = "") -> RefusedError:
    """Return the error for an outdated preview.

    `path` is what changed: a file or a connection. `compute` is the command to run. `how` says what changed there.
    """
    what = (
        how or "a file that the plan names, a row that it would change, or the configuration changed since the preview"
    )
    return RefusedError(
        Reason.HASH_MISMATCH,
        f"{what}; nothing was approved",
        where=f"plan {plan_id}" + (f", {path}" if path else ""),
        next_step=f"Compute the preview again, and decide by the new preview: {compute}",
    )


def _still_running(envelope_id: str) -> RemitError:
    return EnvironmentFailureError(
        Reason.IN_PROGRESS,
        "the plan has not ended yet",
        where=f"envelope {envelope_id}",
        next_step="It ends as soon as it can. Cancel it again to see the outcome. If its process died: remit recover",
    )
