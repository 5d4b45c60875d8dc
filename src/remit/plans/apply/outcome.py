"""The signed and stored outcome of a plan: report, change log, manifest and errors."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any, Final

from remit.authority.results import UNCONFINED
from remit.authority.statuses import sign_status, verify_status
from remit.contracts.plans.change_log import Change
from remit.contracts.plans.outcome import PlanOutcome
from remit.contracts.plans.rollback import RollbackManifest
from remit.contracts.plans.sql_report import MAX_TABLES_TOLD
from remit.contracts.plans.status import PlanStatus
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.ids import Clock, parse_time, render_time
from remit.crypto.signing import Keyring, Signer
from remit.effects.plans.steps import Result
from remit.plans.apply.checkpoint import PlanCheckpoint
from remit.plans.apply.verify_and_undo import ObservedFile, RunResult, observe_files
from remit.plans.model.remote_part import RemotePart, RowBackup, changed_table, rows_checkpoint
from remit.plans.reports.change_log import build_change_log
from remit.plans.reports.execution_report import ReportedAction, build_errors, build_report
from remit.plans.reports.publish import digest_reports
from remit.plans.reports.run_data import FinishedRun, RemoteAction, time_of
from remit.plans.runtime.runner import paths_of
from remit.plans.storage.manifest import build_manifest, mark_executed, net_changes
from remit.plans.storage.run_folder import REPORTS
from remit.version import __version__

EXECUTOR: Final = "remit.plan"
EFFECTIVE_STATUSES: Final[frozenset[str]] = frozenset({"SUCCESS", "PARTIAL"})
"""The statuses of a run whose changes stay in place."""
_INTERRUPTED: Final = "Interrupted, and undone"
NOT_STARTED: Final = "Stopped before it started"
_UNCONFINED_WARNING: Final = "The effects of this run were not confined by the kernel (sandbox: unsafe-none)"


def build_outcome(
    checkpoint: PlanCheckpoint,
    run_result: RunResult,
    signer: Signer,
    clock: Clock,
    *,
    confined: bool,
    verified_files: dict[int, ObservedFile] | None = None,
) -> PlanOutcome:
    """Build all reports of a run and sign its status over them. `verified_files` are the files as verified."""
    now = max(render_time(clock()), checkpoint.started_at)
    status = run_result.status
    run = FinishedRun(
        plan_id=checkpoint.plan_id,
        ids=checkpoint.ids,
        folder="/".join((*REPORTS, checkpoint.folder)),
        started_at=checkpoint.started_at,
        completed_at=now,
        status=status,
        steps=checkpoint.steps,
        results=run_result.results,
        diffs=checkpoint.diffs,
        modified=_modification_times(checkpoint, run_result, verified_files),
        originals=checkpoint.originals,
        rolled_back=status == "ROLLED_BACK" or (status == "CANCELLED" and bool(run_result.done)),
        warnings=run_result.warnings if confined else (_UNCONFINED_WARNING, *run_result.warnings),
        problem=run_result.problem,
        sql=checkpoint.sql,
        pipelines=checkpoint.pipelines,
        prepared_ms=checkpoint.prepared_ms,
        remote=_with_changed_rows(checkpoint.remote, run_result.rows),
        has_manifest=not checkpoint.doomed,
    )
    report, change_log = build_report(run), build_change_log(run)
    manifest = None if checkpoint.doomed else _build_final_manifest(checkpoint, run_result, status, now)
    signed = sign_status(
        signer,
        {
            "envelope_id": checkpoint.envelope_id,
            "plan_id": checkpoint.plan_id,
            "report_id": checkpoint.ids.report_id,
            "status": status,
            "executor_id": EXECUTOR if confined else EXECUTOR + UNCONFINED,
            "executor_version": __version__,
            "completed_at": now,
            "folder": run.folder,
            **digest_reports(report, change_log, manifest)._asdict(),
        },
    )
    errors = build_errors(run, clock)
    return PlanOutcome(status=signed, report=report, change_log=change_log, manifest=manifest, errors=errors)


def _with_changed_rows(remote: RemotePart | None, rows: RowBackup | None) -> tuple[RemoteAction, ...]:
    """Return the actions on a server. The preview counted no rows if it did not run them, so the counts of the run are
    added to the only action that changes rows. The counts of several actions together are in the manifest.
    """
    actions = remote.actions if remote is not None else ()
    changing = [one.number for one in actions if one.told is not None and one.told.changes_database]
    if remote is None or remote.computed == "execute" or rows is None or len(changing) != 1:
        return actions
    tables = tuple(changed_table(*table) for table in rows.tables[:MAX_TABLES_TOLD])
    return tuple(
        one._replace(told=one.told.model_copy(update={"tables": tables}))
        if one.told is not None and one.number in changing
        else one
        for one in actions
    )


def _modification_times(
    checkpoint: PlanCheckpoint, run_result: RunResult, files: dict[int, ObservedFile] | None
) -> dict[int, str]:
    """Return the modification time of each file whose change stays in place."""
    if run_result.status not in EFFECTIVE_STATUSES:
        return {}
    if files is None:
        touched = paths_of(step for step in checkpoint.steps.steps if step.number in run_result.done)
        places = {path: place for path, place in checkpoint.places().items() if path in touched}
        files = observe_files(places, hashed=False)
    return {path: time_of(file.mtime_ns) for path, file in files.items() if file.state is not None}


def preflight_results(checkpoint: PlanCheckpoint, now: str) -> tuple[Result, ...]:
    """Return the results of a plan that cannot succeed: the first impossible action failed, and no other started."""
    failing = next(one for one in _all_actions(checkpoint) if one.problem is not None)
    why = f"Stopped after {failing.action_id} failed"
    return tuple(
        Result(one.number, "failed", now, now, one.problem)
        if one is failing
        else Result(one.number, "skipped", now, now, None, why)
        for one in _all_actions(checkpoint)
    )


def not_started_results(checkpoint: PlanCheckpoint, why: str = _INTERRUPTED) -> tuple[Result, ...]:
    """Return the results of a plan that could not be resumed. Its changes, if there were any, are undone."""
    now = checkpoint.started_at
    return tuple(Result(one.number, "skipped", now, now, None, why) for one in _all_actions(checkpoint))


def unknown_results(checkpoint: PlanCheckpoint, *, is_undone: bool) -> tuple[Result, ...]:
    """Return the results of a plan whose process died and left none."""
    return not_started_results(
        checkpoint, _INTERRUPTED if is_undone else "Interrupted; it is unknown whether it was done"
    )


def _all_actions(checkpoint: PlanCheckpoint) -> list[ReportedAction]:
    """Return every step, and every action that has no step because it runs on a database server."""
    steps: list[ReportedAction] = [*checkpoint.steps.steps]
    return steps if checkpoint.remote is None else [*checkpoint.remote.actions, *steps]


def build_run_manifest(
    checkpoint: PlanCheckpoint, done: Collection[int], at: str, rows: RowBackup | None = None
) -> RollbackManifest:
    """Build the rollback manifest for the completed steps."""
    days = checkpoint.rollback_days
    expires_at = None if days is None else render_time(parse_time(at) + timedelta(days=days))
    changes = net_changes(checkpoint.steps, checkpoint.first_states(), done)
    folder = "/".join((*REPORTS, checkpoint.folder))
    folders = checkpoint.needed_folders(done)
    rows_entry = (
        None if checkpoint.remote is None else rows_checkpoint(checkpoint.remote, rows, checkpoint.ids.manifest_id)
    )
    return build_manifest(
        checkpoint.ids,
        checkpoint.plan_id,
        checkpoint.steps.paths,
        changes,
        checkpoint.originals,
        folders,
        folder,
        at,
        expires_at,
        rows_entry,
    )


def _build_final_manifest(
    checkpoint: PlanCheckpoint, run_result: RunResult, status: PlanStatus, at: str
) -> RollbackManifest:
    """Build the manifest of the changes that stay. For an undone run, list its changes and mark them as restored."""
    if status in EFFECTIVE_STATUSES:
        return build_run_manifest(checkpoint, run_result.done, at, run_result.rows)
    done = run_result.done or frozenset(step.number for step in checkpoint.steps.steps if step.problem is None)
    manifest = build_run_manifest(checkpoint, done, at)
    is_restored = any(result.state != "skipped" or result.reason == _INTERRUPTED for result in run_result.results)
    return mark_executed(manifest, at) if is_restored else manifest


def action_rows(outcome: PlanOutcome) -> list[list[Any]]:
    """Return rows for the ledger: the action, how it ended, its error code, and its file with the hashes before and
    after.
    """
    report = outcome.report
    changes: dict[str, list[Change]] = {}
    for change in outcome.change_log.changes:
        changes.setdefault(change.action_id, []).append(change)
    errors = {error.details.action_id: error.error_code for error in outcome.errors if error.details.action_id}
    ends = [
        *((done.action_id, "done") for done in report.actions_completed),
        *((failed.action_id, "failed") for failed in report.actions_failed),
        *((skipped.action_id, "skipped") for skipped in report.actions_skipped),
    ]
    rows: list[list[Any]] = []
    for action_id, state in ends:
        files = [_file_row(change) for change in changes.get(action_id, ())]
        rows += [[action_id, state, errors.get(action_id), *file] for file in files or [[None] * 4]]
    return rows


def server_rows(outcome: PlanOutcome) -> dict[str, Any]:
    """Return the server changes for the ledger, as names and counts. Empty if no rows were changed."""
    rows = outcome.manifest.rows if outcome.manifest is not None else None
    if rows is None:
        return {}
    tables = [[one.table, one.inserted, one.updated, one.deleted] for one in rows.tables]
    return {"connection": rows.connection, "tables": tables, "irreversible": rows.irreversible}


def _file_row(change: Change) -> list[Any]:
    return [change.file_path, change.new_path, change.before_state.file_hash, change.after_state.file_hash]


def load_plan_outcome(stored: str, keyring: Keyring) -> PlanOutcome:
    """Load a stored outcome. Its signature must be valid, and its reports must be those that were signed."""
    try:
        outcome = PlanOutcome.parse(stored.encode(), source="stored outcome")
        verify_status(outcome.status, keyring)
    except RefusedError as problem:
        raise _unverified_outcome_error(problem.what, problem.where) from None
    status = outcome.status
    signed_digests = (status.report_digest, status.change_log_digest, status.manifest_digest)
    if signed_digests != digest_reports(outcome.report, outcome.change_log, outcome.manifest):
        raise _unverified_outcome_error("its reports differ from those that were signed", status.envelope_id)
    return outcome


def _unverified_outcome_error(what: str, where: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.EVIDENCE_INVALID,
        f"the stored outcome cannot be verified: {what}",
        where=where,
        next_step="Run `remit ledger verify` to find what was changed, and `remit keys list` for revoked keys.",
    )
