"""The report files of a run: rendered from its stored outcome, and written durably."""

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
    """The digests of the reports in canonical form, as a `CompletionStatus` carries them."""

    report_digest: str
    change_log_digest: str
    manifest_digest: str | None


def digest_reports(report: ExecutionReport, change_log: ChangeLog, manifest: RollbackManifest | None) -> Digests:
    return Digests(report.digest(), change_log.digest(), None if manifest is None else manifest.digest())


def render_report_files(outcome: PlanOutcome, manifest: RollbackManifest | None = None) -> dict[str, bytes]:
    """Render the report files, by name. `manifest` replaces that of the outcome if a rollback has changed it since.

    The status is the last entry and is written last. If it exists, the other files are the ones that it signs.
    """
    files = {EXECUTION_REPORT: render_report_file(outcome.report), CHANGE_LOG: render_report_file(outcome.change_log)}
    current = manifest or outcome.manifest
    if current is not None:
        files[MANIFEST] = render_report_file(current)
    return {**files, STATUS: render_report_file(outcome.status)}


def publish(folder: ReportFolder, outcome: PlanOutcome) -> None:
    """Write the report files. They are durable on return, and writing them again changes nothing.

    Raises `EnvironmentFailureError` if the disk is full or the folder cannot be written.
    """
    folder.write(render_report_files(outcome))
    reach("plan.published")


def clear_half_written(outcome: PlanOutcome, root: str) -> None:
    """Remove partly written reports of a killed process, after another process has recovered its run."""
    with contextlib.suppress(RemitError), ReportFolder.open(root, outcome.status.folder.rpartition("/")[2]) as folder:
        folder.clear_half_written()


def restore_reports(folder: ReportFolder, outcome: PlanOutcome, manifest: RollbackManifest | None = None) -> list[str]:
    """Write reports that are missing or differ from the stored outcome. Return their names. See
    `render_report_files`.
    """
    files = render_report_files(outcome, manifest)
    differing = {name: content for name, content in files.items() if folder.read(name) != content}
    if differing:
        folder.write(differing)
    return sorted(differing)
