"""The preview and the outcome of a plan as text for people.

The text is rendered from the preview and the outcome, never from a text that an agent wrote about itself. Names are
made printable, so that no name can add a line of its own.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import click

from remit.cli.common.bidi import display_name
from remit.cli.plans.change_list import (
    VERBS,
    is_database,
    list_changes,
    render_bytes,
    render_file,
    render_heading,
    render_table,
    would_change,
)
from remit.cli.plans.render_diff import count_lines, render_diff
from remit.cli.plans.render_pipeline import count_hidden_steps_and_log, is_code, render_pipeline, render_ran
from remit.cli.plans.render_sql import (
    changes_server,
    count_parameter_lines,
    count_text_lines,
    render_done,
    render_previewed,
    rows_changed,
)
from remit.cli.plans.text import (
    flag_for,
    is_skipped,
    quoted,
    render_problem,
    render_size,
    render_status,
    render_wait,
    row,
)
from remit.contracts.plans.change_log import Change
from remit.contracts.plans.outcome import PlanOutcome
from remit.contracts.plans.preview import PlanPreviewDocument, PreviewedFile
from remit.contracts.plans.report import ExecutionReport, SkippedAction
from remit.contracts.plans.rollback import RollbackManifest
from remit.contracts.plans.sql_report import SqlTold
from remit.core.text import counted
from remit.fs.paths import plain_spelling
from remit.plans.apply.abandoned import is_of_unknown_effect
from remit.plans.apply.verify_and_undo import NOT_RESTORED
from remit.plans.reports.diff_lines import count_omitted_lines

DIFF_LINES: Final = 40
MAX_LISTED: Final = 20
MAX_NAMED: Final = 3
"""If there are more names for one line than this, the line gives only their number."""
RISK_COLOURS: Final = {"LOW": "green", "MEDIUM": "yellow", "HIGH": "red", "CRITICAL": "red"}
UNDONE_STATES: Final = frozenset({"ROLLED_BACK", "CANCELLED"})
_DEPENDENCY_OF: Final = re.compile(r"^Dependency (\S+) (failed|was skipped)$")
_STOPPED_AFTER: Final = re.compile(r"^Stopped after (\S+) failed$")
FINAL_STATES: Final = {
    "ROLLED_BACK": "Rolled back: everything is as before.",
    "FAILED": "Nothing was changed.",
    "CANCELLED": "Cancelled: everything is as before.",
}

Allowed = Mapping[str, Sequence[str]]
"""The allowed names, by kind of approval."""
NOTHING_ALLOWED: Final[Allowed] = {}


def render_final_state(report: ExecutionReport) -> str:
    """Return one sentence about the files after a run that did not succeed. Empty if changes of the run are left."""
    sentence = FINAL_STATES.get(report.status, "")
    if is_of_unknown_effect(report):
        return "Unknown effect: some of its changes may have been made, and others not."
    if sentence and any(NOT_RESTORED in warning for warning in report.warnings):
        return f"{sentence.partition(':')[0]}: the plan's changes are undone; other processes changed files meanwhile."
    return sentence


# --- before ----------------------------------------------------------------------------------------------------------


def render_preview(
    document: PlanPreviewDocument,
    allowed: Allowed = NOTHING_ALLOWED,
    *,
    max_lines: int | None = DIFF_LINES,
    idle: Sequence[str] = (),
) -> Iterator[str]:
    """Render the list of changes, the diffs, and the facts that a person needs before they approve.

    `max_lines` limits the lines of each diff: 0 shows no diffs, None shows every line. The effect of SQL is always
    shown. `allowed` has the approvals that are given already. `idle` has the actions that change nothing.
    """
    yield render_heading(document)
    if not would_change(document):
        yield from _problems(document)
        yield from _render_pipelines(document, max_lines)
        if document.files:
            yield from ("", f"What {'the' if document.breaks_rule else 'the other'} actions would do:")
    by = {report.action_id: f"the query files of pipeline {report.pipeline}" for report in document.pipelines}
    changes = list_changes(document)
    if len(changes) > 1 or max_lines == 0:
        yield from render_table(document, changes)
    if would_change(document):
        yield from _render_pipelines(document, max_lines)
    for file, report in changes:
        if report is not None:
            yield ""
            yield from render_previewed(
                report, file, document.files, _statement_limit(max_lines), by.get(report.action_id, "")
            )
        elif file is not None and max_lines != 0:
            yield ""
            yield click.style(render_file(file), bold=True)
            yield from _render_file_diff(file, document, max_lines)
    yield ""
    if idle:
        yield row("remark", f"{_list_some(idle)} {'changes' if len(idle) == 1 else 'change'} nothing")
    yield from render_verdict(document, allowed)


def _render_file_diff(file: PreviewedFile, document: PlanPreviewDocument, max_lines: int | None) -> Iterator[str]:
    if is_database(file, document):
        yield f"A database, {render_bytes(file)}"
    yield from render_diff(file.diff, max_lines, left_out=file.diff_left_out, advice="--full")


def _statement_limit(max_lines: int | None) -> int | None:
    """Return the limit for statements. They are shown even without diffs, because a database has no diff."""
    return DIFF_LINES if max_lines == 0 else max_lines


def _render_pipelines(document: PlanPreviewDocument, max_lines: int | None) -> Iterator[str]:
    for report in document.pipelines:
        yield ""
        yield from render_pipeline(report, whole=max_lines is None)


def count_hidden_lines(document: PlanPreviewDocument, max_lines: int | None) -> int:
    """Count the lines of diffs, statements and pipelines that `render_preview` leaves out."""
    sql = [(len(report.statements), report.left_out) for report in document.sql]
    sql += [(count_text_lines(report.texts), 0) for report in document.sql]
    sql += [(count_parameter_lines(report.parameters), 0) for report in document.sql]
    sql += [(count_parameter_lines(report.parameters), 0) for report in document.pipelines if report.kind != "sql"]
    by_sql = {report.action_id for report in document.sql}  # their statements are shown, never a diff
    diffs = [
        (0, count_lines(file.diff) + file.diff_left_out)
        if file.action_id in by_sql
        else (count_lines(file.diff), file.diff_left_out)
        for file in document.files
    ]
    pipelines = sum(count_hidden_steps_and_log(report, whole=max_lines is None) for report in document.pipelines)
    return _count_hidden(diffs, max_lines) + _count_hidden(sql, _statement_limit(max_lines)) + pipelines


def _count_hidden(lines: Iterable[tuple[int, int]], max_lines: int | None) -> int:
    return sum(left_out + (max(count - max_lines, 0) if max_lines is not None else 0) for count, left_out in lines)


def render_verdict(document: PlanPreviewDocument, allowed: Allowed = NOTHING_ALLOWED) -> Iterator[str]:
    """Render the risk, the approvals by name with their options, the problems, and whether the plan can be undone."""
    why = f": {', '.join(map(display_name, document.risk_reasons))}" if document.risk_reasons else ""
    yield row("risk", click.style(document.risk, fg=RISK_COLOURS[document.risk]) + why)
    yield from _approvals(document, allowed)
    for rule in document.rules:
        yield row("checks", display_name(rule))
    yield from _findings(document)
    if would_change(document):
        yield from _problems(document)
    if (document.files or any(map(changes_server, document.sql))) and would_change(document):
        yield row("undo", f"{_render_undo_scope(document)}; {render_size(document.backup_bytes)} of backups")
    if document.folders:
        yield row("folders", f"{counted(len(document.folders), 'folder')} created: {_list_some(document.folders)}")


def _render_undo_scope(document: PlanPreviewDocument) -> str:
    """Say what can be undone. The files of a pipeline of code can be restored, but its other effects cannot."""
    code = [report.action_id for report in document.pipelines if is_code(report)]
    partly = [display_name(name) for name in document.needs.irreversible if name in code]
    lasting = [display_name(name) for name in document.needs.irreversible if name not in code]
    parts = [f"cannot be undone: {', '.join(lasting)}"] if lasting else []
    parts += [f"only the listed files of these actions can be undone: {', '.join(partly)}"] if partly else []
    return "; ".join(parts) or "everything can be undone"


def _problems(document: PlanPreviewDocument) -> Iterator[str]:
    """Render the actions that would fail, those that would then be skipped, and the consequence for the plan."""
    for problem in document.problems:
        if not is_skipped(problem):
            yield row(click.style("problem", fg="red"), render_problem(problem), width=len("problem"))
    skipped = [problem for problem in document.problems if is_skipped(problem)]
    for problem in skipped[:MAX_LISTED]:
        yield row("skipped", f"{display_name(problem.details.action_id or '')}: {display_name(problem.message)}")
    if len(skipped) > MAX_LISTED:
        yield row("", f"and {len(skipped) - MAX_LISTED:,} more")
    if document.consequence:
        yield row(click.style("then", fg="red"), display_name(document.consequence), width=len("then"))


def _approvals(document: PlanPreviewDocument, allowed: Allowed) -> Iterator[str]:
    missing = set(list_missing_approvals(document, allowed))
    for kind, names in list_needed_approvals(document).items():
        for name in names:
            if (kind, name) in missing:
                yield row("needs", f"{kind}: {display_name(name)}   give: {flag_for(kind)} {quoted(name)}")
            else:
                yield row("allowed", f"{kind}: {display_name(name)}")


def _findings(document: PlanPreviewDocument) -> Iterator[str]:
    for finding in document.findings:
        place = ", ".join(display_name(part) for part in (finding.path, finding.where) if part)
        yield row("found", f"{place}: {finding.rule}: {display_name(finding.what)}")
    for remark in document.remarks:
        yield row("remark", f"{display_name(remark.path)}: {display_name(remark.what)}")


def list_missing_approvals(document: PlanPreviewDocument, allowed: Allowed) -> list[tuple[str, str]]:
    """List the approvals by name that the plan needs and `allowed` does not have, as kind and name."""
    return [
        (kind, name)
        for kind, names in list_needed_approvals(document).items()
        for name in names
        if name not in normalise_names(kind, allowed.get(kind, ()))
    ]


def normalise_names(kind: str, names: Sequence[str]) -> Sequence[str]:
    return names if kind == "irreversible" else [plain_spelling(name) for name in names]


def list_needed_approvals(document: PlanPreviewDocument) -> dict[str, Sequence[str]]:
    """Return the names that an approval must give, by the word in the option."""
    needs = document.needs
    kinds: dict[str, Sequence[str]] = {
        "protected": needs.protected,
        "executable": needs.executable,
        "content": needs.content,
        "irreversible": needs.irreversible,
    }
    return {kind: names for kind, names in kinds.items() if names}


# --- after -----------------------------------------------------------------------------------------------------------


def render_outcome(
    outcome: PlanOutcome,
    *,
    diffs: bool = True,
    is_last: bool = True,
    is_in_force: bool = True,
    waited: float | None = None,
) -> Iterator[str]:
    """Render the status, the changes, the cost, and the command that undoes them.

    `is_last`: no plan has run since. `is_in_force`: the plan was not rolled back. `waited`: the seconds that the user
    waited.
    """
    report, log = outcome.report, outcome.change_log
    counts = report.actions_summary
    done = f"{counts.completed:,} of {counted(counts.total, 'action')}"
    if report.status in UNDONE_STATES and counts.completed:
        done += " done, then undone"
    files = (
        f", {counted(log.files_affected_count, 'file')}{_render_line_counts(log.changes, report)}"
        if log.changes
        else ""
    )
    yield f"{render_status(report.status)}  {display_name(report.plan_id)}: {done}{files}"
    yield from _failures(outcome)
    yield from _changes(log.changes, diffs=diffs, folder=outcome.status.folder)
    if log.changes or report.status == "SUCCESS":  # changes that were undone are not listed
        yield from render_done(_sql_of_actions(report), whole=diffs)
    on_server = {each.action_id: rows_changed(each) for each in report.sql if each.server is not None}
    yield from render_ran(report.pipelines, on_server, whole=diffs)
    messages = {error.message for error in outcome.errors}
    for warning in report.warnings:
        if not any(message in warning for message in messages):  # a rule that failed is a warning and an error
            yield row("warning", display_name(warning))
    backup_size = render_size(_backup_bytes(outcome.manifest))
    run_duration = f"{report.duration_ms - report.prepared_ms:,} ms"
    shown_duration = run_duration if waited is None else f"{render_wait(waited)} in all, {run_duration} for the run"
    if report.prepared_ms:
        shown_duration += f", and {report.prepared_ms:,} ms for SQL and pipelines when the preview was computed"
    yield row("took", f"{shown_duration}; {backup_size} of backups")
    yield row("report", f"{display_name(outcome.status.folder)}/")
    if is_in_force:
        yield from _render_undo(outcome, "last" if is_last else quoted(outcome.status.envelope_id))


def _sql_of_actions(report: ExecutionReport) -> list[SqlTold]:
    """Return the SQL reports of actions in the order of execution.

    The statements of pipelines are left out, because their files are listed.
    """
    by_pipelines = {each.action_id for each in report.pipelines}
    order = {each.action_id: place for place, each in enumerate(report.actions_completed)}
    found = [each for each in report.sql if each.action_id not in by_pipelines]
    return sorted(found, key=lambda each: order.get(each.action_id, len(order)))


def _failures(outcome: PlanOutcome) -> Iterator[str]:
    failed = {action.action_id for action in outcome.report.actions_failed}
    # The errors of failed actions come first, then those about the plan as a whole.
    for problem in sorted(outcome.errors, key=lambda each: each.details.action_id not in failed):
        if not is_skipped(problem):
            yield row(click.style("failed", fg="red"), render_problem(problem), width=len("failed"))
    yield from _skipped(outcome.report.actions_skipped)
    if sentence := render_final_state(outcome.report):
        yield row("left", sentence)
    elif outcome.report.status == "PARTIAL":
        yield row("left", "The completed changes stay, because the plan says rollback_on_failure: false.")


def _skipped(skipped: Sequence[SkippedAction]) -> Iterator[str]:
    """Render the skipped actions by reason. Many actions with one reason are shown as a number."""
    by_reason: dict[str, list[str]] = {}
    for action in skipped:
        by_reason.setdefault(action.reason, []).append(action.action_id)
    for reason, names in islice(by_reason.items(), MAX_LISTED):
        quoted_names = (f'"{display_name(name)}"' for name in names)
        who = ", ".join(quoted_names) if len(names) <= MAX_NAMED else counted(len(names), "action")
        yield row("skipped", f"{who}: {display_name(_quote_id(reason))}")
    if len(by_reason) > MAX_LISTED:
        yield row("", f"and {sum(map(len, islice(by_reason.values(), MAX_LISTED, None))):,} more")


def _quote_id(reason: str) -> str:
    """Put the id of an action in the stored reason of a skipped action into quotes."""
    reason = _DEPENDENCY_OF.sub(r'its dependency "\1" \2', reason)
    return _STOPPED_AFTER.sub(r'Stopped after "\1" failed', reason)


def _changes(changes: Sequence[Change], *, diffs: bool, folder: str) -> Iterator[str]:
    lines_left = DIFF_LINES
    hidden: list[int] = []
    for number, change in enumerate(changes):
        if number == MAX_LISTED and not diffs:
            yield row("", f"and {len(changes) - number:,} more; the change log has all")
            return
        to = f" -> {display_name(change.new_path)}" if change.new_path else ""
        yield row(f"{VERBS[change.operation]}d", f"{display_name(change.file_path)}{to}")
        summary = change.diff_summary
        if diffs and lines_left > 0:
            shown = render_diff(summary.preview, lines_left, left_out=count_omitted_lines(summary))
            lines_left -= len(shown)
            yield from (f"    {line}" for line in shown)
        elif diffs and (lines := count_lines(summary.preview) + count_omitted_lines(summary)):
            hidden.append(lines)
    if hidden:
        shown_lines, files = counted(sum(hidden), "more line"), counted(len(hidden), "file")
        yield row("", f"and {shown_lines} of the diffs of {files}, see {display_name(folder)}/change_log.json")


def _render_undo(outcome: PlanOutcome, name: str) -> Iterator[str]:
    manifest = outcome.manifest
    if manifest is None or manifest.status != "ACTIVE":
        return
    rows = manifest.rows
    if rows is not None and rows.irreversible is not None:
        server = display_name(rows.server)
        yield row("remains", f"the changes on {server} cannot be undone: {display_name(rows.irreversible)}")
    if not manifest.checkpoints and (rows is None or rows.irreversible is not None):
        return
    until = f"until {manifest.expires_at[:10]}" if manifest.expires_at else ""
    script = manifest.auto_rollback_script
    files = "or, for the files: " if rows is not None else "or: "
    by_hand = f"{files}python3 -I {quoted(script)}" if script and manifest.checkpoints else ""
    code = ", ".join(display_name(each.action_id) for each in outcome.report.pipelines if is_code(each))
    only = f"restores the files, not other effects of {code}" if code else ""
    more = "; ".join(part for part in (until, only, by_hand) if part)
    yield row("undo", f"remit rollback {name}" + (f"   ({more})" if more else ""))


# --- words -----------------------------------------------------------------------------------------------------------


def _render_line_counts(changes: Iterable[Change], report: ExecutionReport) -> str:
    """Render the lines added and removed. Databases have no lines, including those that a pipeline wrote."""
    by_sql = {each.action_id for each in report.sql}
    by_pipelines = {each.action_id for each in report.pipelines}
    summaries = [
        change.diff_summary
        for change in changes
        if change.action_id not in by_sql and not (change.action_id in by_pipelines and _is_without_lines(change))
    ]
    added, removed = sum(one.lines_added for one in summaries), sum(one.lines_removed for one in summaries)
    return f", +{added:,} -{removed:,} lines" if summaries else ""


def _is_without_lines(change: Change) -> bool:
    return not change.diff_summary.lines_added and not change.diff_summary.lines_removed


def _backup_bytes(manifest: RollbackManifest | None) -> int:
    if manifest is None:
        return 0
    rows = manifest.rows.original_size if manifest.rows is not None else None
    return sum(each.original_size or 0 for each in manifest.checkpoints) + (rows or 0)


def _list_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
    return ", ".join(display_name(name) for name in names[:MAX_LISTED]) + more
