"""The changes of a plan in a line each, under one that sums them up."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from remit.cli.sql_view import changes_server, render_subject, rows_changed, summarise
from remit.cli.table import counted
from remit.contracts.plan_preview import PlanPreviewDocument, PreviewedFile
from remit.contracts.sql_told import SqlTold
from remit.printable import printable

WORDS: Final = {"CREATE": "create", "MODIFY": "change", "DELETE": "delete", "RENAME": "rename"}


def render_heading(document: PlanPreviewDocument) -> str:
    name, files = f"Plan {printable(document.plan_id)}", document.files
    if not would_stand(document):
        return f"{name}: nothing would be changed"
    elsewhere = [told for told in document.sql if changes_server(told)]
    if not files and not elsewhere:
        return f"{name}: nothing to change"
    actions = counted(len({file.action_id for file in files}), "change")
    paths = counted(len({file.path for file in files}), "file")
    parts = [f"{actions} to {paths}"] if files else []
    if any(file.action_id not in {told.action_id for told in document.sql} for file in files):
        added, removed = sum(file.lines_added for file in files), sum(file.lines_removed for file in files)
        parts.append(f"+{added:,} -{removed:,} lines")
    if elsewhere:
        rows = sum(map(rows_changed, elsewhere))
        parts.append(f"{counted(rows, 'row')} on {printable(elsewhere[0].server or '')}")
    if changing := [told for told in document.sql if told.changes_database and told.server is None]:
        rows = sum(map(rows_changed, changing))
        parts.append(f"{counted(rows, 'row')} by SQL" if rows else "tables by SQL")
    return f"{name}: {', '.join(parts)}"


def would_stand(document: PlanPreviewDocument) -> bool:
    return document.would_end in {"SUCCESS", "PARTIAL"}


def render_table(
    files: Sequence[PreviewedFile], sql: Mapping[str, SqlTold], reading: Sequence[SqlTold]
) -> Iterator[str]:
    """Lines added and removed; of SQL, statements and rows."""
    rows = [
        (named(file), f"+{file.lines_added:,}", f"-{file.lines_removed:,}", sql.get(file.action_id)) for file in files
    ]
    rows += [(render_subject(told), "", "", told) for told in reading]
    names, added, removed = (max((len(str(cells[column])) for cells in rows), default=0) for column in range(3))
    for name, plus, minus, told in rows:
        counts = summarise(told) if told else f"{plus.rjust(added)}  {minus.rjust(removed)}"
        yield f"  {name.ljust(names)}  {counts}"


def named(file: PreviewedFile) -> str:
    to = f" -> {printable(file.new_path)}" if file.new_path else ""
    was, becomes = file.mode_before, file.mode_after
    mode = f", mode {was} -> {becomes}" if was and becomes and was != becomes else ""
    return f"{printable(file.action_id)}: {WORDS[file.operation]} {printable(file.path)}{to}{mode}"
