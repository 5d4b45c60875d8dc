"""The list of a plan's changes: a summary line, then one line for each change."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from remit.cli.common.bidi import display_name
from remit.cli.plans.render_sql import (
    changes_server,
    render_subject,
    reshaped,
    rows_changed,
    some_tables,
    summarise,
)
from remit.contracts.plans.preview import PlanPreviewDocument, PreviewedFile
from remit.contracts.plans.sql_report import SqlPreviewed, SqlTold
from remit.core.text import counted

VERBS: Final = {"CREATE": "create", "MODIFY": "change", "DELETE": "delete", "RENAME": "rename"}


def render_heading(document: PlanPreviewDocument) -> str:
    name, files = f"Plan {display_name(document.plan_id)}", document.files
    if not document.would_change:
        return f"{name}: nothing would be changed"
    remote = [report for report in document.sql if changes_server(report)]
    if not files and not remote:
        return f"{name}: nothing to change"
    actions = counted(len({file.action_id for file in files}), "change")
    paths = counted(len({file.path for file in files}), "file")
    parts = [f"{actions} to {paths}"] if files else []
    by_sql = {report.action_id for report in document.sql}
    if any(file.action_id not in by_sql and not is_database(file, document) for file in files):
        added, removed = sum(file.lines_added for file in files), sum(file.lines_removed for file in files)
        parts.append(f"+{added:,} -{removed:,} lines")
    if remote:
        parts += _render_remote_rows(remote)
    if changing := [report for report in document.sql if report.changes_database and report.server is None]:
        rows = sum(map(rows_changed, changing))
        parts.append(f"{counted(rows, 'row')} by SQL" if rows else "tables by SQL")
    return f"{name}: {', '.join(parts)}"


def _render_remote_rows(remote: Sequence[SqlTold]) -> Iterator[str]:
    """Render `5 rows on shop at ...` and `tables changed on shop: orders, drafts`."""
    rows = sum(map(rows_changed, remote))
    tables = list(dict.fromkeys(name for report in remote for name in reshaped(report)))
    if rows or not tables:
        yield f"{counted(rows, 'row')} on {display_name(remote[0].server or '')}"
    if tables:
        yield f"tables changed on {display_name(remote[0].connection)}: {some_tables(tables)}"


class PreviewedChange(NamedTuple):
    """A change of a file, an action that runs SQL, or both. It has a file, a report, or both."""

    file: PreviewedFile | None
    report: SqlPreviewed | None


def list_changes(document: PlanPreviewDocument) -> list[PreviewedChange]:
    """Return the changes in the order of execution. Statements on a server run before all files are changed."""
    sql = {report.action_id: report for report in document.sql}
    with_file = {file.action_id for file in document.files}
    queries = [report for report in document.sql if report.action_id not in with_file]
    local = [report for report in queries if report.server is None]
    places = {report.action_id: place for place, report in enumerate(document.sql)}
    changes = [PreviewedChange(None, report) for report in queries if report.server is not None]
    for file in document.files:
        report = sql.get(file.action_id)
        while report is not None and local and places[local[0].action_id] < places[report.action_id]:
            changes.append(PreviewedChange(None, local.pop(0)))
        changes.append(PreviewedChange(file, report))
    return [*changes, *(PreviewedChange(None, report) for report in local)]


def render_table(document: PlanPreviewDocument, changes: Sequence[PreviewedChange]) -> Iterator[str]:
    """Render one line for each change. A file has lines added and removed, SQL has statements and rows, and a database
    that a pipeline wrote has its size.
    """
    rows = []
    for file, report in changes:
        if file is not None:
            counts = summarise(report) if report else render_bytes(file) if is_database(file, document) else ""
            rows.append((render_file(file), f"+{file.lines_added:,}", f"-{file.lines_removed:,}", counts))
        elif report is not None:
            rows.append((render_subject(report), "", "", summarise(report)))
    names, added, removed = (max((len(cells[column]) for cells in rows), default=0) for column in range(3))
    for name, plus, minus, counts in rows:
        yield f"  {name.ljust(names)}  {counts or f'{plus.rjust(added)}  {minus.rjust(removed)}'}"


def is_database(file: PreviewedFile, document: PlanPreviewDocument) -> bool:
    """Whether the file is a database that a pipeline wrote: it has content but no diff. Any other file has a diff."""
    by_pipelines = {report.action_id for report in document.pipelines}
    return file.action_id in by_pipelines and not file.diff and not file.diff_left_out and bool(file.size_after)


def render_bytes(file: PreviewedFile) -> str:
    return f"{file.size_before or 0:,} -> {file.size_after or 0:,} bytes"


def render_file(file: PreviewedFile) -> str:
    to = f" -> {display_name(file.new_path)}" if file.new_path else ""
    was, becomes = file.mode_before, file.mode_after
    mode = f", mode {was} -> {becomes}" if was and becomes and was != becomes else ""
    return f"{display_name(file.action_id)}: {VERBS[file.operation]} {display_name(file.path)}{to}{mode}"
