"""Sentences about a preview that the terminal and the console show in the same words."""

from remit.contracts.plans.pipeline_report import PipelineTold
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.core.text import counted, render_size


def describe_undo(document: PlanPreviewDocument) -> str:
    """Return what can be undone after the run, and the size of the backups. Empty if no change would stay."""
    if not document.would_change or not document.undo:
        return ""
    if not document.backup_bytes:  # new files only, or rows that are backed up when the plan is applied
        return document.undo
    return f"{document.undo.removesuffix('.')} ({render_size(document.backup_bytes)})."


def describe_pipeline_undo(report: PipelineTold) -> str:
    """Return whether a pipeline that ran on copies can be undone."""
    if report.reversible:
        return "yes: everything that it changes is backed up as it is now"
    return "only files: a rollback restores the files above, but no other effect of the code"


def describe_kept_outputs(document: PlanPreviewDocument) -> str:
    """Return `2 files, 14.0 KB, until applied`. Empty if no SQL and no pipeline made a file."""
    if not document.outputs:
        return ""
    size = render_size(sum(output.size for output in document.outputs))
    return f"{counted(len(document.outputs), 'file')}, {size}, until applied"


def describe_deadline(document: PlanPreviewDocument, decide_until: str | None = None) -> str:
    """Return until when the preview can be approved, to the minute. Empty if it cannot be approved.

    `decide_until` is the end of the time for a decision about a proposal: a preview that was computed again may be
    stored for longer.
    """
    ends = [time for time in (document.expires_at, decide_until) if time is not None]
    if document.expires_at is None or document.cannot_be_approved:
        return ""
    return f"can be approved until {min(ends)[:16].replace('T', ' ')} UTC"
