"""The rows that a statement gives: kept in memory once, counted, shown in part, and saved.

Once, because a second run may give others. As text, because the engine needs more than is here to hand out some values.
By functions of `system.main`: the database may hold macros of the same names.
"""

import os
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import duckdb

from remit.effects.sql.statements import Statement

FORMATS: Final = ("parquet", "csv", "json")
MAX_CELL: Final = 256
MAX_PREVIEW: Final = 128 << 10
"""Characters of all cells that are shown."""
MAX_COLUMNS: Final = 1_000

_OPTIONS: Final = {"parquet": "FORMAT parquet", "csv": "FORMAT csv, HEADER true", "json": "FORMAT json, ARRAY true"}
# Nobody can guess the names, so no statement writes to these tables.
_SUFFIX: Final = os.urandom(16).hex()
_KEPT: Final = f'temp.main."remit kept rows {_SUFFIX}"'
_TO_SAVE: Final = f'temp.main."remit rows to save {_SUFFIX}"'
_DETAILS: Final = re.compile(r"\((?!\d+(, ?\d+)?\)).*\)", re.DOTALL)


class Rows(NamedTuple):
    is_read: bool
    total: int
    columns: list[dict[str, str]]
    preview: list[list[str | None]]


def keep(engine: duckdb.DuckDBPyConnection, one: Statement, values: Mapping[str, Any], most: int) -> Rows:
    """Run it. Rows of a SELECT that reads stay, until the next such, to be saved."""
    if one.kind == "EXPLAIN":
        plan = engine.execute(one.text, dict(values)).fetchall()
        columns = [{"name": name, "type": "VARCHAR"} for name in ("explain_key", "explain_value")]
        shown: list[list[str | None]] = [[str(cell)[: 16 * MAX_CELL] for cell in row] for row in plan]
        return Rows(True, len(plan), columns, shown)
    table = _TO_SAVE if one.is_read else _KEPT
    engine.execute(f"CREATE OR REPLACE TEMP TABLE {_unqualified(table)} AS {_source(one)}", dict(values))
    described = engine.execute(f"SELECT * FROM {table} LIMIT 0").description
    columns = [{"name": column[0], "type": _kind(str(column[1]))} for column in described]
    (total,) = engine.execute(f"SELECT system.main.count_star() FROM {table}").fetchone() or (0,)
    return Rows(one.is_read, total, columns[:MAX_COLUMNS], _preview(engine, table, most))


def _source(one: Statement) -> str:
    """The lines are for a comment at the end. What changes rows may only stand at the top."""
    if one.is_read:
        return f"FROM (\n{one.text}\n)"
    if one.kind == "SELECT":
        return one.text
    return f"WITH remit_changes AS (\n{one.text}\n) FROM remit_changes"


def _preview(engine: duckdb.DuckDBPyConnection, table: str, most: int) -> list[list[str | None]]:
    found = engine.execute(
        f'SELECT system.main."left"(CAST(COLUMNS(*) AS VARCHAR), {MAX_CELL + 1}) FROM {table} LIMIT {most}'
    ).fetchall()
    shown: list[list[str | None]] = []
    room = MAX_PREVIEW
    for row in found:
        cells = [_cut(cell) for cell in row[:MAX_COLUMNS]]
        room -= sum(len(cell or "") + 8 for cell in cells)
        if room < 0:
            break
        shown.append(cells)
    return shown


def _kind(type_name: str) -> str:
    """Without the members of an ENUM, which may have come from rows, and what else a type is made of."""
    return _DETAILS.sub("", type_name)


def _cut(cell: str | None) -> str | None:
    return cell if cell is None or len(cell) <= MAX_CELL else cell[:MAX_CELL] + "..."


def save(engine: duckdb.DuckDBPyConnection, path: str, form: str) -> None:
    """All rows of the last SELECT that reads."""
    where = "'" + path.replace("'", "''") + "'"
    engine.execute(f"COPY {_TO_SAVE} TO {where} ({_OPTIONS[form]})")


def cells_as_json(engine: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """The same rows, to be fetched, each cell as a text of JSON. By the engine's own function, whatever macros there
    are in the database.
    """
    return engine.execute(f"SELECT system.main.to_json(COLUMNS(*)) FROM {_TO_SAVE}")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _unqualified(table: str) -> str:
    return table.removeprefix("temp.main.")
