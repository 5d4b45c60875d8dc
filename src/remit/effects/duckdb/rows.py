"""The rows that a statement gives: kept in memory once, counted, shown in part, and saved.

Once, because a second run may give others. In no table, because the statement itself, or a later one, may look at the
catalog, and is to find there what the database has. As text, because the engine needs more than is here to hand out
some values. By functions of `system.main`: the database may hold macros of the same names.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import duckdb

from remit.effects.duckdb.statements import DuckdbStatement

FORMATS: Final = ("parquet", "csv", "json")
MAX_CELL: Final = 256
MAX_PREVIEW: Final = 128 << 10
"""Characters of all cells that are shown."""
MAX_COLUMNS: Final = 1_000

_OPTIONS: Final = {"parquet": "FORMAT parquet", "csv": "FORMAT csv, HEADER true", "json": "FORMAT json, ARRAY true"}
# Nobody can guess them, so no statement names one.
_SUFFIX: Final = os.urandom(16).hex()
_PREPARED: Final = f'"remit runs {_SUFFIX}"'
_SAVED: Final = f"remit saves {_SUFFIX}"
_DETAILS: Final = re.compile(r"\((?!\d+(, ?\d+)?\)).*\)", re.DOTALL)
_NO_TYPE: Final = '"NULL"'
_HIDDEN: Final = "not shown: the values of parameters would stand in it"


class Rows(NamedTuple):
    is_read: bool
    total: int
    columns: list[dict[str, str]]
    preview: list[list[str | None]]
    held: "duckdb.DuckDBPyRelation | None"
    """All of them. None of a plan that was explained."""


def hold_rows(engine: duckdb.DuckDBPyConnection, one: DuckdbStatement, values: Mapping[str, Any], most: int) -> Rows:
    """Run it."""
    if one.kind == "EXPLAIN":
        return _explained(engine, one, values)
    held = _create_held_table(engine, one, values)
    columns = [{"name": name, "type": _kind(str(kind))} for name, kind in zip(held.columns, held.types, strict=True)]
    ((total,),) = held.aggregate("system.main.count_star()").fetchall()
    return Rows(one.is_read, total, columns[:MAX_COLUMNS], _preview(held, most), held)


def _explained(engine: duckdb.DuckDBPyConnection, one: DuckdbStatement, values: Mapping[str, Any]) -> Rows:
    """The engine writes what is bound into its plan, so the plan of a statement with parameters is not handed out."""
    plan = engine.execute(one.text, dict(values)).fetchall()
    columns = [{"name": name, "type": "VARCHAR"} for name in ("explain_key", "explain_value")]
    shown: list[list[str | None]] = [
        [str(key), _HIDDEN if values else str(value)[: 16 * MAX_CELL]] for key, value in plan
    ]
    return Rows(True, len(plan), columns, shown, None)


def _create_held_table(
    engine: duckdb.DuckDBPyConnection, one: DuckdbStatement, values: Mapping[str, Any]
) -> duckdb.DuckDBPyRelation:
    """What a SELECT gives is a relation that runs again whenever it is looked at; what EXECUTE gives is held."""
    engine.execute(f"PREPARE {_PREPARED} AS {_source(one)}")
    arguments = ", ".join(f"{quoted(name)} := {_literal(value)}" for name, value in values.items())
    held = engine.sql(f"EXECUTE {_PREPARED}{f'({arguments})' if arguments else ''}")
    engine.execute(f"DEALLOCATE {_PREPARED}")
    if untyped := [name for name, kind in zip(held.columns, held.types, strict=True) if str(kind) == _NO_TYPE]:
        # A column of nothing but NULL: readers of a Parquet file know no such type.
        typed = ", ".join(f"CAST({quoted(name)} AS INTEGER) AS {quoted(name)}" for name in untyped)
        return held.project(f"* REPLACE ({typed})")
    return held


def _source(one: DuckdbStatement) -> str:
    """The lines are for a comment at the end. What changes rows may only stand at the top."""
    return f"FROM (\n{one.text}\n)" if one.is_read else one.text


def _literal(value: str | float | None) -> str:
    """EXECUTE takes no parameters. Each of the type that the engine gives to a value of Python's."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
    # The engine reads a text to its first NUL.
    return " || system.main.chr(0) || ".join("'" + piece.replace("'", "''") + "'" for piece in value.split("\0"))


def _preview(held: duckdb.DuckDBPyRelation, most: int) -> list[list[str | None]]:
    cells = f'system.main."left"(CAST(COLUMNS(*) AS VARCHAR), {MAX_CELL + 1})'
    shown: list[list[str | None]] = []
    remaining = MAX_PREVIEW
    for row in held.limit(most).project(cells).fetchall() if most else ():
        line = [_cut(cell) for cell in row[:MAX_COLUMNS]]
        remaining -= sum(len(cell or "") + 8 for cell in line)
        if remaining < 0:
            break
        shown.append(line)
    return shown


def _kind(type_name: str) -> str:
    """Without the members of an ENUM, which may have come from rows, and what else a type is made of."""
    return _DETAILS.sub("", type_name)


def _cut(cell: str | None) -> str | None:
    return cell if cell is None or len(cell) <= MAX_CELL else cell[:MAX_CELL] + "..."


def save(rows: Rows, path: str, form: str) -> None:
    """All of them, in a new file."""
    where = "'" + path.replace("'", "''") + "'"
    if rows.held is None:
        return
    try:
        rows.held.query(_SAVED, f"COPY {quoted(_SAVED)} TO {where} ({_OPTIONS[form]})")
    except duckdb.TransactionException as problem:
        # After a failure it tidies up, fails at that as well, and tells of the second.
        raise (problem.__context__ if isinstance(problem.__context__, duckdb.Error) else problem) from None


def cells_as_json(rows: Rows, first: int, most: int, longest: int | None = None) -> Sequence[Sequence[str | None]]:
    """So many rows from there on, each cell as a text of JSON, cut to a length. By the engine's own function, whatever
    macros there are in the database.
    """
    if rows.held is None:
        return []
    cell = "system.main.to_json(COLUMNS(*))"
    cut = cell if longest is None else f'system.main."left"(CAST({cell} AS VARCHAR), {longest})'
    return rows.held.limit(most, offset=first).project(cut).fetchall()


def widest_row(rows: Rows, longest: int) -> int:
    """At most so many characters has any of them, if no cell counts for more than `longest`."""
    if rows.held is None or not rows.total:
        return 0
    ((*widths,),) = rows.held.aggregate("system.main.max(system.main.length(CAST(COLUMNS(*) AS VARCHAR)))").fetchall()
    return sum(min(width or 0, longest) for width in widths)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
