"""What came of a plan, as it is signed and stored: report, change log, manifest, errors; and read back again."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any, Final

from remit.authority.results import UNCONFINED
from remit.authority.statuses import sign_status, verify_status
from remit.contracts.plans.change_log import Change
from remit.contracts.plans.outcome import PlanOutcome
from remit.contracts.plans.rollback import RollbackManifest
from remit.contracts.plans.status import PlanStatus
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.ids import Clock, parse_time, render_time
from remit.crypto.signing import Keyring, Signer
from remit.effects.plans.steps import Result
from remit.plans.apply.checkpoint import PlanCheckpoint
from remit.plans.apply.verify_and_undo import FileLook, RunResult, look_at_files
from remit.plans.model.remote_part import KeptRows, rows_checkpoint
from remit.plans.reports.change_log import build_change_log
from remit.plans.reports.execution_report import Acted, build_errors, build_report
from remit.plans.reports.publish import digest_papers
from remit.plans.reports.run_data import FinishedRun, time_of
from remit.plans.runtime.runner import paths_of
from remit.plans.storage.manifest import build_manifest, mark_executed, net_changes
from remit.plans.storage.run_folder import REPORTS
from remit.version import __version__

EXECUTOR: Final = "remit.plan"
STANDS: Final[frozenset[str]] = frozenset({"SUCCESS", "PARTIAL"})
"""What was done is there, and is to stay."""
_INTERRUPTED: Final = "Interrupted, and taken back"
NOT_BEGUN: Final = "Stopped before it was begun"
_UNCONFINED_WARNING: Final = "The effects of this run were not confined by the kernel (sandbox: unsafe-none)"


def build_outcome(
    begun: PlanCheckpoint,
    ran: RunResult,
    signer: Signer,
    clock: Clock,
    *,
    confined: bool,
    looks: dict[int, FileLook] | None = None,
) -> PlanOutcome:
    """All papers of the run, and the status that is signed over them. `looks` are the files as they were verified."""
    now = max(render_time(clock()), begun.started_at)
    status = ran.status
    run = FinishedRun(
        plan_id=begun.plan_id,
        ids=begun.ids,
        folder="/".join((*REPORTS, begun.folder)),
        started_at=begun.started_at,
        completed_at=now,
        status=status,
        steps=begun.steps,
        results=ran.results,
        diffs=begun.diffs,
        modified=_modified(begun, ran, looks),
        originals=begun.originals,
        rolled_back=status == "ROLLED_BACK" or (status == "CANCELLED" and bool(ran.done)),
        warnings=ran.warnings if confined else (_UNCONFINED_WARNING, *ran.warnings),
        problem=ran.problem,
        told=begun.told,
        pipelines=begun.pipelines,
        elsewhere=begun.elsewhere.actions if begun.elsewhere is not None else (),
        has_manifest=not begun.doomed,
    )
    report, change_log = build_report(run), build_change_log(run)
    manifest = None if begun.doomed else _manifest_after(begun, ran, status, now)
    signed = sign_status(
        signer,
        {
            "envelope_id": begun.envelope_id,
            "plan_id": begun.plan_id,
            "report_id": begun.ids.report_id,
            "status": status,
            "executor_id": EXECUTOR if confined else EXECUTOR + UNCONFINED,
            "executor_version": __version__,
            "completed_at": now,
            "folder": run.folder,
            **digest_papers(report, change_log, manifest)._asdict(),
        },
    )
    errors = build_errors(run, clock)
    return PlanOutcome(status=signed, report=report, change_log=change_log, manifest=manifest, errors=errors)


def _modified(begun: PlanCheckpoint, ran: RunResult, looks: dict[int, FileLook] | None) -> dict[int, str]:
    """When each file that stands was last modified."""
    if ran.status not in STANDS:
        return {}
    if looks is None:
        touched = paths_of(step for step in begun.steps.steps if step.number in ran.done)
        places = {path: place for path, place in begun.places().items() if path in touched}
        looks = look_at_files(places, hashed=False)
    return {path: time_of(look.mtime_ns) for path, look in looks.items() if look.state is not None}


def preflight_results(begun: PlanCheckpoint, now: str) -> tuple[Result, ...]:
    """Of a plan that was doomed: the first action that cannot be done failed, and nothing was begun."""
    failing = next(one for one in _all_acted(begun) if one.problem is not None)
    why = f"Stopped after {failing.action_id} failed"
    return tuple(
        Result(one.number, "failed", now, now, one.problem)
        if one is failing
        else Result(one.number, "skipped", now, now, None, why)
        for one in _all_acted(begun)
    )


def not_begun_results(begun: PlanCheckpoint, why: str = _INTERRUPTED) -> tuple[Result, ...]:
    """Of a plan that could not be taken up again: its changes were, if there were any, taken back before."""
    now = begun.started_at
    return tuple(Result(one.number, "skipped", now, now, None, why) for one in _all_acted(begun))


def unknown_results(begun: PlanCheckpoint, *, went_back: bool) -> tuple[Result, ...]:
    return not_begun_results(begun, _INTERRUPTED if went_back else "Interrupted; whether it was done is not known")


def _all_acted(begun: PlanCheckpoint) -> list[Acted]:
    """Every step, and what has none."""
    steps: list[Acted] = [*begun.steps.steps]
    return steps if begun.elsewhere is None else [*begun.elsewhere.actions, *steps]


def manifest_of(
    begun: PlanCheckpoint, done: Collection[int], at: str, rows: KeptRows | None = None
) -> RollbackManifest:
    days = begun.rollback_days
    expires_at = None if days is None else render_time(parse_time(at) + timedelta(days=days))
    changes = net_changes(begun.steps, begun.first_states(), done)
    folder = "/".join((*REPORTS, begun.folder))
    folders = begun.kept_folders(done)
    kept = None if begun.elsewhere is None else rows_checkpoint(begun.elsewhere, rows, begun.ids.manifest_id)
    return build_manifest(
        begun.ids, begun.plan_id, begun.steps.paths, changes, begun.originals, folders, folder, at, expires_at, kept
    )


def _manifest_after(begun: PlanCheckpoint, ran: RunResult, status: PlanStatus, at: str) -> RollbackManifest:
    """Of what stands; or, where all was taken back, of what had been done, all of it restored."""
    if status in STANDS:
        return manifest_of(begun, ran.done, at, ran.rows)
    done = ran.done or frozenset(step.number for step in begun.steps.steps if step.problem is None)
    manifest = manifest_of(begun, done, at)
    is_known = any(result.state != "skipped" or result.reason == _INTERRUPTED for result in ran.results)
    return mark_executed(manifest, at) if is_known else manifest


def action_rows(outcome: PlanOutcome) -> list[list[Any]]:
    """For the ledger: which action, on what, how it ended, and the hashes before and after."""
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
    """For the ledger: what was changed on a server, in names and counts; nothing, where nothing was."""
    rows = outcome.manifest.rows if outcome.manifest is not None else None
    if rows is None:
        return {}
    tables = [[one.table, one.inserted, one.updated, one.deleted] for one in rows.tables]
    return {"connection": rows.connection, "tables": tables, "irreversible": rows.irreversible}


def _file_row(change: Change) -> list[Any]:
    return [change.file_path, change.new_path, change.before_state.file_hash, change.after_state.file_hash]


def load_plan_outcome(stored: str, keyring: Keyring) -> PlanOutcome:
    """A stored outcome: signed by an executor of ours, with the very papers that the signature speaks of."""
    try:
        outcome = PlanOutcome.parse(stored.encode(), source="stored outcome")
        verify_status(outcome.status, keyring)
    except RefusedError as problem:
        raise _not_vouched_for(problem.what, problem.where) from None
    status = outcome.status
    said = (status.report_digest, status.change_log_digest, status.manifest_digest)
    if said != digest_papers(outcome.report, outcome.change_log, outcome.manifest):
        raise _not_vouched_for("its papers are not those that were signed", status.envelope_id)
    return outcome


def _not_vouched_for(what: str, where: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.EVIDENCE_INVALID,
        f"the stored outcome cannot be vouched for: {what}",
        where=where,
        next_step="`remit ledger verify` tells what was changed; `remit keys list`, which keys were revoked.",
    )
