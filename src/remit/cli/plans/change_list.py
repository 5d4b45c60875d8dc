"""The changes of a plan in a line each, under one that sums them up."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from remit.cli.common.bidi import shown_name
from remit.cli.plans.render_sql import (
    changes_server,
    render_subject,
    reshaped,
    rows_changed,
    some_tables,
    summarise,
)
from remit.contracts.plans.preview import PlanPreviewDocument, PreviewedFile
from remit.contracts.plans.sql_report import SqlTold
from remit.core.text import counted

WORDS: Final = {"CREATE": "create", "MODIFY": "change", "DELETE": "delete", "RENAME": "rename"}


def render_heading(document: PlanPreviewDocument) -> str:
    name, files = f"Plan {shown_name(document.plan_id)}", document.files
    if not would_stand(document):
        return f"{name}: nothing would be changed"
    elsewhere = [told for told in document.sql if changes_server(told)]
    if not files and not elsewhere:
        return f"{name}: nothing to change"
    actions = counted(len({file.action_id for file in files}), "change")
    paths = counted(len({file.path for file in files}), "file")
    parts = [f"{actions} to {paths}"] if files else []
    by_sql = {told.action_id for told in document.sql}
    if any(file.action_id not in by_sql and not is_database(file, document) for file in files):
        added, removed = sum(file.lines_added for file in files), sum(file.lines_removed for file in files)
        parts.append(f"+{added:,} -{removed:,} lines")
    if elsewhere:
        parts += _on_a_server(elsewhere)
    if changing := [told for told in document.sql if told.changes_database and told.server is None]:
        rows = sum(map(rows_changed, changing))
        parts.append(f"{counted(rows, 'row')} by SQL" if rows else "tables by SQL")
    return f"{name}: {', '.join(parts)}"


def _on_a_server(elsewhere: Sequence[SqlTold]) -> Iterator[str]:
    """`5 rows on shop at ...`; `tables changed on shop: orders, drafts`."""
    rows = sum(map(rows_changed, elsewhere))
    tables = list(dict.fromkeys(name for told in elsewhere for name in reshaped(told)))
    if rows or not tables:
        yield f"{counted(rows, 'row')} on {shown_name(elsewhere[0].server or '')}"
    if tables:
        yield f"tables changed on {shown_name(elsewhere[0].connection)}: {some_tables(tables)}"


def would_stand(document: PlanPreviewDocument) -> bool:
    return document.would_end in {"SUCCESS", "PARTIAL"}


def render_table(document: PlanPreviewDocument, reading: Sequence[SqlTold]) -> Iterator[str]:
    """Lines added and removed; of SQL, statements and rows; of a database that a pipeline left, bytes."""
    sql: Mapping[str, SqlTold] = {told.action_id: told for told in document.sql}
    rows = [
        (named(file), f"+{file.lines_added:,}", f"-{file.lines_removed:,}", _counts(file, document, sql))
        for file in document.files
    ]
    rows += [(render_subject(told), "", "", summarise(told)) for told in reading]
    names, added, removed = (max((len(cells[column]) for cells in rows), default=0) for column in range(3))
    for name, plus, minus, counts in rows:
        yield f"  {name.ljust(names)}  {counts or f'{plus.rjust(added)}  {minus.rjust(removed)}'}"


def _counts(file: PreviewedFile, document: PlanPreviewDocument, sql: Mapping[str, SqlTold]) -> str:
    """Of what has no lines."""
    if told := sql.get(file.action_id):
        return summarise(told)
    return render_bytes(file) if is_database(file, document) else ""


def is_database(file: PreviewedFile, document: PlanPreviewDocument) -> bool:
    """Whether a pipeline left it, and there is nothing of it to be shown: of any other file there would be."""
    by_pipelines = {told.action_id for told in document.pipelines}
    return file.action_id in by_pipelines and not file.diff and not file.diff_left_out and bool(file.size_after)


def render_bytes(file: PreviewedFile) -> str:
    return f"{file.size_before or 0:,} -> {file.size_after or 0:,} bytes"


def named(file: PreviewedFile) -> str:
    to = f" -> {shown_name(file.new_path)}" if file.new_path else ""
    was, becomes = file.mode_before, file.mode_after
    mode = f", mode {was} -> {becomes}" if was and becomes and was != becomes else ""
    return f"{shown_name(file.action_id)}: {WORDS[file.operation]} {shown_name(file.path)}{to}{mode}"
