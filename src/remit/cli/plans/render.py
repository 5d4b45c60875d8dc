"""What people read of a plan: before it runs, after it ran, and after it was taken back.

Everything is rendered from the preview and the outcome, never from a text that an agent wrote about itself; names are
made printable, so that none of them can write a line of its own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import click

from remit.cli.common.bidi import shown_name
from remit.cli.plans.change_list import (
    WORDS,
    is_database,
    named,
    render_bytes,
    render_heading,
    render_table,
    would_stand,
)
from remit.cli.plans.render_diff import count_lines, render_diff
from remit.cli.plans.render_pipeline import render_pipeline, render_ran, steps_and_log_not_shown
from remit.cli.plans.render_sql import (
    changes_server,
    count_parameter_lines,
    count_text_lines,
    render_done,
    render_previewed,
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
LISTED: Final = 20
NAMED: Final = 3
"""More names for one thing than that are only counted."""
RISK_COLOURS: Final = {"LOW": "green", "MEDIUM": "yellow", "HIGH": "red", "CRITICAL": "red"}
LEFT_AS: Final = {
    "ROLLED_BACK": "Rolled back: everything is as before.",
    "FAILED": "Nothing was changed.",
    "CANCELLED": "Cancelled: everything is as before.",
}

Allowed = Mapping[str, Sequence[str]]
"""Names, by the kind of the approval."""
NOTHING_ALLOWED: Final[Allowed] = {}


def left_as(report: ExecutionReport) -> str:
    """What a run that did not succeed has left, in one sentence; empty where something of it stands."""
    sentence = LEFT_AS.get(report.status, "")
    if is_of_unknown_effect(report):
        return "Unknown effect: some of its changes may stand, and others not."
    if sentence and any(NOT_RESTORED in warning for warning in report.warnings):
        return f"{sentence.partition(':')[0]}: everything of the plan's is gone; see what others changed meanwhile."
    return sentence


# --- before ----------------------------------------------------------------------------------------------------------


def render_preview(
    document: PlanPreviewDocument,
    allowed: Allowed = NOTHING_ALLOWED,
    *,
    most: int | None = DIFF_LINES,
    idle: Sequence[str] = (),
) -> Iterator[str]:
    """Every change in one line, the diffs, then what a person must know before saying yes.

    Of each diff at most so many lines; 0: no diffs; None: all of them. What SQL does is shown in any case. `allowed`:
    approvals that were given already; `idle`: actions that change nothing.
    """
    yield render_heading(document)
    if not would_stand(document):
        yield from _problems(document)
        yield from _ran_on_copies(document, most)
        if document.files:
            yield from ("", "What the others are meant to do:")
    sql = {told.action_id: told for told in document.sql}
    by = {told.action_id: f"the query files of pipeline {told.pipeline}" for told in document.pipelines}
    reading = [told for told in document.sql if told.action_id not in {file.action_id for file in document.files}]
    if len(document.files) + len(reading) > 1 or most == 0:
        yield from render_table(document, reading)
    if would_stand(document):
        yield from _ran_on_copies(document, most)
    for file in document.files:
        if told := sql.get(file.action_id):
            yield ""
            yield from render_previewed(told, file, document.files, _of_sql(most), by.get(told.action_id, ""))
        elif most != 0:
            yield ""
            yield click.style(named(file), bold=True)
            yield from _shown(file, document, most)
    for told in reading:
        yield ""
        yield from render_previewed(told, None, (), _of_sql(most), by.get(told.action_id, ""))
    yield ""
    if idle:
        yield row("remark", f"{_some(idle)} {'changes' if len(idle) == 1 else 'change'} nothing")
    yield from render_verdict(document, allowed)


def _shown(file: PreviewedFile, document: PlanPreviewDocument, most: int | None) -> Iterator[str]:
    if is_database(file, document):
        yield f"A database, {render_bytes(file)}"
    yield from render_diff(file.diff, most, left_out=file.diff_left_out, advice="--full")


def _of_sql(most: int | None) -> int | None:
    """Lines of statements: there is no diff of a database that could be left out."""
    return DIFF_LINES if most == 0 else most


def _ran_on_copies(document: PlanPreviewDocument, most: int | None) -> Iterator[str]:
    for told in document.pipelines:
        yield ""
        yield from render_pipeline(told, whole=most is None)


def lines_not_shown(document: PlanPreviewDocument, most: int | None) -> int:
    """Of the diffs, the statements and what pipelines did, exactly as `render_preview` cuts them."""
    sql = [(len(told.statements), told.left_out) for told in document.sql]
    sql += [(count_text_lines(told.texts), 0) for told in document.sql]
    sql += [(count_parameter_lines(told.parameters), 0) for told in document.sql]
    sql += [(count_parameter_lines(told.parameters), 0) for told in document.pipelines if told.kind != "sql"]
    by_sql = {told.action_id for told in document.sql}  # of which the statements are shown, and never a diff
    diffs = [
        (0, count_lines(file.diff) + file.diff_left_out)
        if file.action_id in by_sql
        else (count_lines(file.diff), file.diff_left_out)
        for file in document.files
    ]
    pipelines = sum(steps_and_log_not_shown(told, whole=most is None) for told in document.pipelines)
    return _hidden(diffs, most) + _hidden(sql, _of_sql(most)) + pipelines


def _hidden(lines: Iterable[tuple[int, int]], most: int | None) -> int:
    return sum(left_out + (max(count - most, 0) if most is not None else 0) for count, left_out in lines)


def render_verdict(document: PlanPreviewDocument, allowed: Allowed = NOTHING_ALLOWED) -> Iterator[str]:
    """Risk, what needs an approval of its own and how to give it, problems, and whether there is a way back."""
    yield row("risk", click.style(document.risk, fg=RISK_COLOURS[document.risk]))
    yield from _approvals(document, allowed)
    for rule in document.rules:
        yield row("checks", shown_name(rule))
    yield from _findings(document)
    if would_stand(document):
        yield from _problems(document)
    lasting = [shown_name(name) for name in document.needs.irreversible]
    undo = f"cannot be undone: {', '.join(lasting)}" if lasting else "everything can be undone"
    if (document.files or any(map(changes_server, document.sql))) and would_stand(document):
        yield row("undo", f"{undo}; {render_size(document.backup_bytes)} of backups")
    if document.folders:
        yield row("folders", f"{counted(len(document.folders), 'folder')} made: {_some(document.folders)}")


def _problems(document: PlanPreviewDocument) -> Iterator[str]:
    """What would fail; what would then be skipped; and what becomes of the rest."""
    for problem in document.problems:
        if not is_skipped(problem):
            yield row(click.style("problem", fg="red"), render_problem(problem), width=len("problem"))
    skipped = [problem for problem in document.problems if is_skipped(problem)]
    for problem in skipped[:LISTED]:
        yield row("skipped", f"{shown_name(problem.details.action_id or '')}: {shown_name(problem.message)}")
    if len(skipped) > LISTED:
        yield row("", f"and {len(skipped) - LISTED:,} more")
    if document.consequence:
        yield row(click.style("then", fg="red"), shown_name(document.consequence), width=len("then"))


def _approvals(document: PlanPreviewDocument, allowed: Allowed) -> Iterator[str]:
    missing = set(not_allowed(document, allowed))
    for kind, names in needed(document).items():
        for name in names:
            if (kind, name) in missing:
                yield row("needs", f"{kind}: {shown_name(name)}   give: {flag_for(kind)} {quoted(name)}")
            else:
                yield row("allowed", f"{kind}: {shown_name(name)}")


def _findings(document: PlanPreviewDocument) -> Iterator[str]:
    for finding in document.findings:
        place = ", ".join(shown_name(word) for word in (finding.path, finding.where) if word)
        yield row("found", f"{place}: {finding.rule}: {shown_name(finding.what)}")
    for remark in document.remarks:
        yield row("remark", f"{shown_name(remark.path)}: {shown_name(remark.what)}")


def not_allowed(document: PlanPreviewDocument, allowed: Allowed) -> list[tuple[str, str]]:
    """What an approval must name and this one does not: the kind, and the name."""
    return [
        (kind, name)
        for kind, names in needed(document).items()
        for name in names
        if name not in spelled_plainly(kind, allowed.get(kind, ()))
    ]


def spelled_plainly(kind: str, names: Sequence[str]) -> Sequence[str]:
    return names if kind == "irreversible" else [plain_spelling(name) for name in names]


def needed(document: PlanPreviewDocument) -> dict[str, Sequence[str]]:
    """What an approval must name, by the word in its flag."""
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
    outcome: PlanOutcome, *, diffs: bool = True, is_last: bool = True, stands: bool = True, waited: float | None = None
) -> Iterator[str]:
    """How it ended, what was changed, what it took, and the way back. `is_last`: no plan has run since; `stands`: it
    was not taken back; `waited`: the seconds that somebody waited for it.
    """
    report, log = outcome.report, outcome.change_log
    counts = report.actions_summary
    done = f"{counts.completed:,} of {counted(counts.total, 'action')}"
    files = f", {counted(log.files_affected_count, 'file')}{_lines_of(log.changes, report)}" if log.changes else ""
    yield f"{render_status(report.status)}  {shown_name(report.plan_id)}: {done}{files}"
    yield from _failures(outcome)
    yield from _changes(log.changes, diffs=diffs)
    if log.changes or report.status == "SUCCESS":  # what was taken back has come to nothing
        yield from render_done(_sql_of_actions(report), whole=diffs)
    yield from render_ran(report.pipelines, whole=diffs)
    told = {error.message for error in outcome.errors}
    for warning in report.warnings:
        if not any(message in warning for message in told):  # a rule that failed is a warning and an error
            yield row("warning", shown_name(warning))
    kept = render_size(_backup_bytes(outcome.manifest))
    took = f"{report.duration_ms:,} ms"
    felt = took if waited is None else f"{render_wait(waited)}, {took} of it for the run itself"
    yield row("cost", f"{felt}; {kept} of backups")
    yield row("report", f"{shown_name(outcome.status.folder)}/")
    if stands:
        yield from _way_back(outcome, "last" if is_last else quoted(outcome.status.envelope_id))


def _sql_of_actions(report: ExecutionReport) -> list[SqlTold]:
    """But for the statements of pipelines, which are told by their files."""
    by_pipelines = {told.action_id for told in report.pipelines}
    return [told for told in report.sql if told.action_id not in by_pipelines]


def _failures(outcome: PlanOutcome) -> Iterator[str]:
    failed = {action.action_id for action in outcome.report.actions_failed}
    # The action that failed first; then what the others say about the plan as a whole.
    for problem in sorted(outcome.errors, key=lambda each: each.details.action_id not in failed):
        if not is_skipped(problem):
            yield row(click.style("failed", fg="red"), render_problem(problem), width=len("failed"))
    yield from _skipped(outcome.report.actions_skipped)
    if sentence := left_as(outcome.report):
        yield row("left", sentence)
    elif outcome.report.status == "PARTIAL":
        yield row("left", "What was done stays, as the plan asks for: rollback_on_failure is false.")


def _skipped(skipped: Sequence[SkippedAction]) -> Iterator[str]:
    """Many for one reason are a number."""
    by_reason: dict[str, list[str]] = {}
    for action in skipped:
        by_reason.setdefault(action.reason, []).append(action.action_id)
    for reason, names in islice(by_reason.items(), LISTED):
        who = ", ".join(map(shown_name, names)) if len(names) <= NAMED else counted(len(names), "action")
        yield row("skipped", f"{who}: {shown_name(reason)}")
    if len(by_reason) > LISTED:
        yield row("", f"and {sum(map(len, islice(by_reason.values(), LISTED, None))):,} more")


def _changes(changes: Sequence[Change], *, diffs: bool) -> Iterator[str]:
    room = DIFF_LINES
    for number, change in enumerate(changes):
        if number == LISTED and not diffs:
            yield row("", f"and {len(changes) - number:,} more; the change log has all")
            return
        to = f" -> {shown_name(change.new_path)}" if change.new_path else ""
        yield row(f"{WORDS[change.operation]}d", f"{shown_name(change.file_path)}{to}")
        if diffs and room > 0:
            shown = render_diff(change.diff_summary.preview, room, left_out=count_omitted_lines(change.diff_summary))
            room -= len(shown)
            yield from (f"    {line}" for line in shown)


def _way_back(outcome: PlanOutcome, name: str) -> Iterator[str]:
    manifest = outcome.manifest
    if manifest is None or manifest.status != "ACTIVE":
        return
    rows = manifest.rows
    if rows is not None and rows.irreversible is not None:
        yield row("stays", f"what it changed on {shown_name(rows.server)}: {shown_name(rows.irreversible)}")
    if not manifest.checkpoints and (rows is None or rows.irreversible is not None):
        return
    until = f"until {manifest.expires_at[:10]}" if manifest.expires_at else ""
    script = manifest.auto_rollback_script
    files = "or, for the files: " if rows is not None else "or: "
    by_hand = f"{files}python3 -I {quoted(script)}" if script and manifest.checkpoints else ""
    more = "; ".join(word for word in (until, by_hand) if word)
    yield row("undo", f"remit rollback {name}" + (f"   ({more})" if more else ""))


# --- words -----------------------------------------------------------------------------------------------------------


def _lines_of(changes: Iterable[Change], report: ExecutionReport) -> str:
    """A database has none, and what a pipeline left may be one."""
    by_sql = {told.action_id for told in report.sql}
    by_pipelines = {told.action_id for told in report.pipelines}
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


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return ", ".join(shown_name(name) for name in names[:LISTED]) + more
