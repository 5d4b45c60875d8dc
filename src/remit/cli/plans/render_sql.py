"""A SQL action as text for people, as they would review a migration.

It shows each statement, the tables that it reads and writes, the rows that it changed, the rows of its result, and
whether it can be undone. A preview also shows the text of the statements and the values bound to them. The text was
masked when it was read. Names, texts and cells are data of other people, so they are made printable.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import click

from remit.cli.common.bidi import display_name
from remit.cli.common.table import terminal_width
from remit.cli.plans.text import row
from remit.contracts.plans.preview import PreviewedFile
from remit.contracts.plans.sql_report import (
    ChangedTable,
    ShownParameter,
    SqlPreviewed,
    SqlTold,
    ToldColumn,
    ToldStatement,
)
from remit.core.text import counted, printable, render_size, speaks_unicode

_TAB: Final = 4
_NARROWEST: Final = 20


def render_texts(
    texts: Sequence[str], max_lines: int | None, width: int, *, indent: str, gap: str, advice: str = ""
) -> Iterator[str]:
    """Render each statement with its number, at most `max_lines` lines in total. `advice` is the option that shows all.

    Lines are counted as they were written, and each line is shown whole. So the number of lines that are left out does
    not depend on the terminal, and no statement is hidden by a long line of another one.
    """
    digits = len(str(len(texts)))
    width_left = max(width - len(indent) - digits - len(gap), _NARROWEST)
    lines = [
        (str(number) if first else "", line)
        for number, text in enumerate(texts, start=1)
        for first, line in _number_lines(text)
    ]
    for number, line in lines[:max_lines]:
        for first, piece in _split_line(line, width_left):
            yield f"{indent}{number if first else '':>{digits}}{gap}{piece}".rstrip()
    if cut := len(lines) - len(lines[:max_lines]):
        yield f"{indent}... {counted(cut, 'more line')} of SQL{f': {advice}' if advice else ''}"


def render_parameters(
    parameters: Sequence[ShownParameter], max_lines: int | None, width: int, *, indent: str, advice: str = ""
) -> Iterator[str]:
    """Render the parameters of statements or of a pipeline as `$status = "open"`, at most `max_lines` lines."""
    width_left = max(width - len(indent), _NARROWEST)
    lines = [line for one in parameters for line in _assigned(one).split("\n")]
    yield from (f"{indent}{piece}" for line in lines[:max_lines] for _, piece in _split_line(line, width_left))
    if cut := len(lines) - len(lines[:max_lines]):
        yield f"{indent}... {counted(cut, 'more line')} of parameters{f': {advice}' if advice else ''}"


def count_text_lines(texts: Iterable[str]) -> int:
    """Count the lines as they were written. A line that the terminal breaks is one line."""
    return sum(text.count("\n") + 1 for text in texts)


def count_parameter_lines(parameters: Iterable[ShownParameter]) -> int:
    return count_text_lines(map(_assigned, parameters))


def _assigned(one: ShownParameter) -> str:
    return f"${one.name} = {one.value}"


def _number_lines(text: str) -> Iterator[tuple[bool, str]]:
    """Return the lines of a text, and for each whether it is the first."""
    return ((number == 0, line) for number, line in enumerate(text.split("\n")))


def _split_line(line: str, width_left: int) -> Iterator[tuple[bool, str]]:
    """Split a line into pieces that fit, and say for each whether it is the first."""
    shown = printable(line.expandtabs(_TAB))
    for start in range(0, max(len(shown), 1), width_left):
        yield start == 0, shown[start : start + width_left]


INDENT: Final = "    "
GAP: Final = "  "
NAMED_COLUMNS: Final = 20
NAMED_TABLES: Final = 3
NARROWEST_CELL: Final = 10
LISTED: Final = 20
STATEMENTS: Final = 40
_HEADINGS: Final = ("#", "statement", "writes", "reads")
_TABLES: Final = (2, 3)
"""The columns whose text is wrapped."""
_LEAST_TABLES: Final = 10
_LEAST_PROSE: Final = 40
_CHANGED: Final = {
    "INSERT": "added",
    "UPSERT": "added or changed",
    "CREATE": "added",
    "DELETE": "removed",
    "TRUNCATE": "removed",
}
_RESHAPING: Final = frozenset({"CREATE", "ALTER", "DROP", "TRUNCATE"})
_INTEGERS: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_OF_SERVERS: Final = ("smallint", "integer", "bigint", "numeric", "real", "double precision")
_NUMBERS: Final = frozenset(
    (*_INTEGERS, *(f"U{name}" for name in _INTEGERS), "DECIMAL", "DOUBLE", "FLOAT", *_OF_SERVERS)
)
_FORMATS: Final = {"parquet": "Parquet", "csv": "CSV", "json": "JSON"}
_WORDS: Final = {"CREATE": "create", "MODIFY": "change"}


def render_subject(report: SqlTold, file: PreviewedFile | None = None) -> str:
    """Return `a3: change shop.duckdb`. `file` is the change that the action makes."""
    if file is not None:
        what = f"{_WORDS.get(file.operation, 'change')} {display_name(file.path)}"
    elif changes_server(report):
        counted_tables = [one.table for one in report.tables]
        without_schema = {name.rpartition(".")[2] for name in counted_tables}
        others = [name for name in reshaped(report) if name not in without_schema]
        tables = list(dict.fromkeys((*counted_tables, *others)))
        what = f"change {some_tables(tables) or 'tables'} on {display_name(report.connection)}"
    elif report.saved_to or not _only_reads(report):
        what = f"no change of {display_name(report.saved_to) if report.saved_to else _database(report)}"
    else:
        what = f"read {_database(report)}"
    return f"{display_name(report.action_id)}: {what}"


def changes_server(report: SqlTold) -> bool:
    """Whether the action changes a database on a server. Then it changes no file."""
    return report.server is not None and report.changes_database


def summarise(report: SqlTold) -> str:
    """Return `3 statements, 4 rows changed`."""
    statements = counted(len(report.statements) + report.left_out, "statement")
    if report.computed != "executed":
        tables = reshaped(report)
        return f"{statements}, not run before{f', tables changed: {some_tables(tables)}' if tables else ''}"
    if report.changes_database:
        rows, tables = rows_changed(report), reshaped(report) if changes_server(report) else []
        parts = [f"{counted(rows, 'row')} changed"] if rows or not tables else []
        return ", ".join([statements, *parts, *([f"tables changed: {some_tables(tables)}"] if tables else [])])
    return f"{statements}, {counted(report.result_rows, 'row')} read"


def reshaped(report: SqlTold) -> list[str]:
    """Return the tables and other objects that are created, altered, emptied or removed. If the statements were not
    run, also the tables whose rows they would change, since their rows are not counted.
    """
    changing = [one for one in report.statements if one.kind in _RESHAPING or report.computed != "executed"]
    return list(dict.fromkeys(name for one in changing for name in one.writes or ()))


def some_tables(names: Sequence[str]) -> str:
    return ", ".join(map(display_name, names[:NAMED_TABLES])) + (", ..." if len(names) > NAMED_TABLES else "")


def rows_changed(report: SqlTold) -> int:
    if report.server is not None:  # counted by the server, including the changes by cascades and triggers
        return sum(one.inserted + one.updated + one.deleted for one in report.tables)
    return sum(one.rows_changed or 0 for one in report.statements)


def render_sql(
    report: SqlTold, *, max_lines: int | None = None, backup_note: str = "", advice: str = "", width: int | None = None
) -> Iterator[str]:
    """Render at most `max_lines` statements, the first rows of the result if there are any, and the remarks.

    `backup_note` says whether the action can be undone. `advice` is the option that shows all statements.
    """
    width = width or terminal_width()
    yield from _statements(report, report.statements[:max_lines], (*_HEADINGS, _rows_heading(report)), width)
    if cut := len(report.statements) - len(report.statements[:max_lines]):
        yield f"{INDENT}... {counted(cut, 'more statement')}{f': {advice}' if advice else ''}"
    if report.left_out:
        yield f"{INDENT}... {counted(report.left_out, 'more statement')} that are not listed"
    if isinstance(report, SqlPreviewed) and report.texts:
        yield ""
        yield from render_texts(report.texts, max_lines, width, indent=INDENT, gap=GAP, advice=advice)
        yield ""
    if isinstance(report, SqlPreviewed) and report.parameters:
        yield from [] if report.texts else [""]
        yield from render_parameters(report.parameters, max_lines, width, indent=INDENT, advice=advice)
        yield ""
    if isinstance(report, SqlPreviewed) and report.rows:
        yield from [] if report.texts or report.parameters else [""]
        yield from render_rows(report.columns, report.rows, width)
        yield ""
    for label, text in (*_remarks(report), *([("undo", backup_note)] if backup_note else [])):
        yield from render_long_row(label, text, width)


def _rows_heading(report: SqlTold) -> str:
    if report.computed != "executed":
        return "rows, estimated" if report.computed == "explained" else "rows, not known"
    tried = "rows, on a copy" if report.server is None else "rows, rolled back"
    return tried if isinstance(report, SqlPreviewed) and report.changes_database else "rows"


def render_previewed(
    report: SqlPreviewed,
    file: PreviewedFile | None,
    files: Sequence[PreviewedFile],
    max_lines: int | None,
    by: str = "",
) -> Iterator[str]:
    """Render a whole action. `file` is its change among the plan's `files`, or None if it only reads. `by` names the
    source of its statements if they are not its own.
    """
    yield click.style(render_subject(report, file), bold=True)
    yield from render_long_row("by", by or _by(report), terminal_width())
    first = next((each for each in files if file is not None and each.path == file.path), None)
    yield from render_sql(report, max_lines=max_lines, backup_note=render_rollback_note(report, first), advice="--full")


def render_done(sql: Sequence[SqlTold], *, whole: bool) -> Iterator[str]:
    """Render the SQL of a run whose changes are in force. `whole` adds the statements."""
    for number, report in enumerate(sql):
        if number == LISTED:
            yield row("", f"and {len(sql) - number:,} more; the report has all")
            return
        yield row(
            "ran", f"{display_name(report.action_id)}: SQL on connection {report.connection}: {summarise(report)}"
        )
        if whole:
            yield from render_sql(report, max_lines=STATEMENTS)


def render_rollback_note(report: SqlTold, first: PreviewedFile | None) -> str:
    """Return whether and how the action can be undone.

    `first` is the first change of the plan to the same file. The backup has the file as it was before that change.
    """
    if changes_server(report):
        return (
            f"no: {display_name(report.irreversible)}"
            if report.irreversible
            else f"yes: the rows are backed up as they are {'now' if report.computed == 'executed' else 'at that time'}"
        )
    if first is None:
        return f"nothing to undo: it {'only reads' if _only_reads(report) else 'changes nothing'}"
    if first.size_before is None:
        return f"yes: {'the file' if report.saved_to else 'the database'} is new, and would be removed"
    whole = "the file" if report.saved_to else "the whole database file"
    return f"yes: {whole} is backed up as it is now ({render_size(first.size_before)})"


# --- statements ------------------------------------------------------------------------------------------------------


def _statements(
    report: SqlTold, statements: Sequence[ToldStatement], headings: Sequence[str], width: int
) -> Iterator[str]:
    if not statements:
        return
    by_cascade = _by_cascade(report)
    cells = [
        [str(one.number), _kind(one), _tables(one.writes), _tables(one.reads), _rows(report, one, by_cascade)]
        for one in statements
    ]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    reserved = width - len(INDENT) - len(GAP) * (len(widths) - 1) - sum(widths[at] for at in (0, 1, 4))
    for at, max_lines in zip(
        _TABLES, _share_width([widths[at] for at in _TABLES], max(reserved, 2 * _LEAST_TABLES)), strict=True
    ):
        widths[at] = max_lines
    yield click.style(_line(headings, widths), bold=True)
    for one, line in zip(statements, cells, strict=True):
        for piece in _wrap(line, widths):
            plain, colour = _line(piece, widths), _colour(report, one)
            yield click.style(plain, fg=colour) if colour else plain


def _share_width(wanted: Sequence[int], width_left: int) -> list[int]:
    """Share the width between two columns. One that needs less than half gets that, the other the rest."""
    first, second = wanted
    if first + second <= width_left:
        return [first, second]
    half = width_left // 2
    if first <= half:
        return [first, width_left - first]
    return [width_left - second, second] if second <= half else [half, width_left - half]


def _wrap(cells: Sequence[str], widths: Sequence[int]) -> Iterator[list[str]]:
    """Wrap the lists of names after commas. A name is broken only if it is too long for a line."""
    pieces = [
        (textwrap.wrap(cell, widths[at], break_on_hyphens=False) or [""]) if at in _TABLES else [cell]
        for at, cell in enumerate(cells)
    ]
    for number in range(max(map(len, pieces))):
        yield [column[number] if number < len(column) else "" for column in pieces]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.rjust(widths[0]) if at == 0 else cell.ljust(widths[at]) for at, cell in enumerate(cells)]
    return (INDENT + GAP.join(padded)).rstrip()


def _kind(one: ToldStatement) -> str:
    return one.kind.replace("_", " ")


def _tables(names: Sequence[str] | None) -> str:
    return "not known" if names is None else ", ".join(map(display_name, names))


def _by_cascade(report: SqlTold) -> int:
    """Return the rows that a single statement changed in other tables, by foreign keys and triggers.

    With several statements this is unknown, and the result is 0.
    """
    counts = [one.rows_changed for one in report.statements if one.rows_changed is not None]
    if report.server is None or report.left_out or len(counts) != 1 or reshaped(report):
        return 0
    return max(rows_changed(report) - counts[0], 0)


def _rows(report: SqlTold, one: ToldStatement, by_cascade: int) -> str:
    if report.computed != "executed":
        if one.estimated_rows is None:
            return "" if one.kind == "EXPLAIN" else "not known"
        how = "read" if report.only_reads(one) else _CHANGED.get(one.kind, "changed")
        return f"about {one.estimated_rows:,} {how}"
    if one.rows_read is not None:
        return f"{one.rows_read:,} read"
    if one.kind == "TRUNCATE" and one.rows_changed is None:
        return "all, not counted"
    if one.rows_changed is None:
        return ""
    more = f", {by_cascade:,} in other tables" if by_cascade else ""
    return f"{one.rows_changed:,} {_CHANGED.get(one.kind, 'changed')}{more}"


def _colour(report: SqlTold, one: ToldStatement) -> str | None:
    if one.destroys:
        return "red"
    return None if report.only_reads(one) else "yellow"


# --- rows ------------------------------------------------------------------------------------------------------------


def render_rows(columns: Sequence[ToldColumn], rows: Sequence[Sequence[str | None]], width: int) -> Iterator[str]:
    """Render a table as wide as the terminal. Long cells are cut. Columns that do not fit are only counted."""
    from rich.cells import cell_len  # noqa: PLC0415 - heavy, wanted for tables only

    width_left = width - len(INDENT)
    names = [display_name(column.name) for column in columns]
    cells = [["NULL" if cell is None else display_name(cell) for cell in line] for line in rows]
    natural = [max(map(cell_len, column)) for column in zip(names, *cells, strict=False)]
    widths = _narrow(natural, width_left)
    numeric = [re.sub(r"\(.*\)$", "", column.type) in _NUMBERS for column in columns]
    yield INDENT + click.style(_cells(names, widths, numeric), bold=True)
    for line in cells:
        yield INDENT + _cells(line, widths, numeric)
    if len(widths) < len(names):
        yield f"{INDENT}... {counted(len(names) - len(widths), 'more column')}"


def _narrow(natural: Sequence[int], width_left: int) -> list[int]:
    """Reduce the widest columns first, down to a few characters; then leave out the last columns."""
    widths = [min(width, width_left) for width in natural]
    while widths and sum(widths) + len(GAP) * (len(widths) - 1) > width_left:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] > NARROWEST_CELL:
            widths[widest] -= 1
        elif len(widths) > 1:
            widths.pop()
        else:
            break
    return widths


def _cells(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    shown = zip(cells, widths, numeric, strict=False)
    return GAP.join(_pad_or_cut(cell, width, right=right) for cell, width, right in shown).rstrip()


def _pad_or_cut(text: str, width: int, *, right: bool) -> str:
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 - as above

    length = cell_len(text)
    if length > width:
        mark = "…" if speaks_unicode() else "..."
        return set_cell_size(text, width - len(mark)) + mark
    pad = " " * (width - length)
    return pad + text if right else text + pad


# --- remarks ---------------------------------------------------------------------------------------------------------


def render_long_row(label: str, text: str, width: int) -> Iterator[str]:
    """Render a row that is wrapped between words, for long text that is not meant to be copied."""
    lines = textwrap.wrap(text, max(width - len(row("", "")), _LEAST_PROSE), break_long_words=False)
    for number, line in enumerate(lines):
        yield row("" if number else label, line)


def _remarks(report: SqlTold) -> Iterator[tuple[str, str]]:
    for note in report.notes:
        yield "preview", display_name(note)
    # A DELETE that found no row removes nothing.
    destroying = [
        f"{one.number} ({_kind(one)})"
        for one in report.statements
        if one.destroys and not (one.kind == "DELETE" and one.rows_changed == 0)
    ]
    if destroying:
        which = f"statement{'s' if len(destroying) > 1 else ''} {', '.join(destroying)}"
        yield "removes", f"{which} {'remove' if len(destroying) > 1 else 'removes'} rows, columns or whole tables"
    if report.tables:
        yield "tables", "; ".join(_table(one) for one in report.tables)
    if report.database is None and report.server is None and not _only_reads(report):
        yield "remark", "the database is in memory, so its changes are lost"
    if report.columns and report.saved_to:
        yield "saved", f"{display_name(report.saved_to)}: {_format(report.saved_to)}, {_counts(report)}"
        if isinstance(report, SqlPreviewed) and report.replaces:
            yield "replaces", f"the existing file {display_name(report.saved_to)}"
    elif report.columns:
        yield "rows", _counts(report)


def _table(one: ChangedTable) -> str:
    counts = {"inserted": one.inserted, "updated": one.updated, "deleted": one.deleted}
    parts = [f"{number:,} {how}" for how, number in counts.items() if number]
    return f"{display_name(one.table)} {', '.join(parts) or 'touched'}"


def _only_reads(report: SqlTold) -> bool:
    return not report.left_out and all(report.only_reads(one) for one in report.statements)


def _counts(report: SqlTold) -> str:
    return (
        f"{counted(report.result_rows, 'row')}{_first(report)}, "
        f"{counted(len(report.columns), 'column')}: {_columns(report.columns)}"
    )


def _first(report: SqlTold) -> str:
    shown = len(report.rows) if isinstance(report, SqlPreviewed) else 0
    return f" (the first {shown} above)" if 0 < shown < report.result_rows else ""


def _columns(columns: Sequence[ToldColumn]) -> str:
    more = f" and {len(columns) - NAMED_COLUMNS:,} more" if len(columns) > NAMED_COLUMNS else ""
    return ", ".join(f"{display_name(one.name)} {display_name(one.type)}" for one in columns[:NAMED_COLUMNS]) + more


def _format(path: str) -> str:
    suffix = path.rpartition(".")[2].lower()
    return _FORMATS.get(suffix, suffix)


def _by(report: SqlTold) -> str:
    text = display_name(report.query_file) if report.query_file else "SQL in the plan"
    return f"{text}, on connection {report.connection}: {_database(report)}"


def _database(report: SqlTold) -> str:
    if report.server is not None:
        return display_name(report.server)
    return "a database in memory" if report.database is None else display_name(report.database)
