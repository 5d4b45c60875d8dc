"""The papers of a run as files: rendered from its stored outcome, and put in their place, durably."""

import contextlib
from typing import NamedTuple

from remit.contracts.plans.change_log import ChangeLog
from remit.contracts.plans.outcome import PlanOutcome
from remit.contracts.plans.report import ExecutionReport
from remit.contracts.plans.rollback import RollbackManifest
from remit.core.errors import RemitError
from remit.core.faultpoints import reach
from remit.plans.storage.run_folder import (
    CHANGE_LOG,
    EXECUTION_REPORT,
    MANIFEST,
    STATUS,
    ReportFolder,
    render_report_file,
)


class Digests(NamedTuple):
    """As a `CompletionStatus` carries them: of the canonical form."""

    report_digest: str
    change_log_digest: str
    manifest_digest: str | None


def digest_reports(report: ExecutionReport, change_log: ChangeLog, manifest: RollbackManifest | None) -> Digests:
    return Digests(report.digest(), change_log.digest(), None if manifest is None else manifest.digest())


def render_report_files(outcome: PlanOutcome, manifest: RollbackManifest | None = None) -> dict[str, bytes]:
    """By file name. `manifest` in place of the outcome's own, where a rollback has changed it since.

    The status comes last, and is written last: where it is, the others are those that it speaks of.
    """
    files = {EXECUTION_REPORT: render_report_file(outcome.report), CHANGE_LOG: render_report_file(outcome.change_log)}
    current = manifest or outcome.manifest
    if current is not None:
        files[MANIFEST] = render_report_file(current)
    return {**files, STATUS: render_report_file(outcome.status)}


def publish(folder: ReportFolder, outcome: PlanOutcome) -> None:
    """Durable on return; again is the same. EnvironmentFailureError if the disk is full, or the folder cannot be
    written.
    """
    folder.write(render_report_files(outcome))
    reach("plan.published")


def clear_half_written(outcome: PlanOutcome, root: str) -> None:
    """What a process that was killed left of papers, once somebody else has settled its run."""
    with contextlib.suppress(RemitError), ReportFolder.open(root, outcome.status.folder.rpartition("/")[2]) as folder:
        folder.clear_half_written()


def restore_reports(folder: ReportFolder, outcome: PlanOutcome, manifest: RollbackManifest | None = None) -> list[str]:
    """Write again what is missing or differs from what is stored; their names. `manifest` as when they are rendered."""
    files = render_report_files(outcome, manifest)
    differing = {name: content for name, content in files.items() if folder.read(name) != content}
    if differing:
        folder.write(differing)
    return sorted(differing)
