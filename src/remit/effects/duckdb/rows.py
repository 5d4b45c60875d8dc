"""Holds the rows of a statement in memory, counts them, and saves and shows them.

The statement runs once, because a second run may return other rows. The rows are in no table, because this statement
or a later one may read the catalog, which must show only the objects of the database. They are read as text, because
the engine needs modules that are missing here to return some types as Python values. All functions are called from
`system.main`, because the database may have macros of the same names.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import duckdb

from remit.core.errors import Reason, RefusedError
from remit.effects.duckdb.statements import DuckdbStatement

FORMATS: Final = ("parquet", "csv", "json")
MAX_CELL: Final = 256
MAX_PREVIEW: Final = 128 << 10
"""The limit of all shown cells together, in characters."""
MAX_COLUMNS: Final = 1_000

_OPTIONS: Final = {"parquet": "FORMAT parquet", "csv": "FORMAT csv, HEADER true", "json": "FORMAT json, ARRAY true"}
# The names have a random part, so no statement can use them.
_SUFFIX: Final = os.urandom(16).hex()
_PREPARED: Final = f'"remit runs {_SUFFIX}"'
_SAVED: Final = f"remit saves {_SUFFIX}"
_DETAILS: Final = re.compile(r"\((?!\d+(, ?\d+)?\)).*\)", re.DOTALL)
_NO_TYPE: Final = '"NULL"'
_EXACT_DIGITS: Final = 38
_EXACT: Final = {
    **dict.fromkeys(("hugeint", "uhugeint"), f"DECIMAL({_EXACT_DIGITS},0)"),
    "bignum": "VARCHAR",
}
"""The types that Parquet holds exactly, by the types that it lacks. The engine would write DOUBLE for the first two."""
_LACKING: Final = re.compile("|".join(_EXACT), re.IGNORECASE)
_HIDDEN: Final = "not shown, because it would contain the values of parameters"


class Rows(NamedTuple):
    is_read: bool
    total: int
    columns: list[dict[str, str]]
    preview: list[list[str | None]]
    held: "duckdb.DuckDBPyRelation | None"
    """All rows. None for the output of EXPLAIN."""


def hold_rows(
    engine: duckdb.DuckDBPyConnection,
    one: DuckdbStatement,
    values: Mapping[str, Any],
    most: int,
    *,
    for_parquet: bool = False,
) -> Rows:
    """Run the statement and hold its rows. `most` is the number of rows to show.

    `for_parquet`: the rows are for a Parquet file, so their columns get types that it holds exactly.
    """
    if one.kind == "EXPLAIN":
        return _explained(engine, one, values)
    held = _create_held_table(engine, one, values)
    if for_parquet:
        held = _with_exact_types(held)
    columns = [{"name": name, "type": _kind(str(kind))} for name, kind in zip(held.columns, held.types, strict=True)]
    ((total,),) = held.aggregate("system.main.count_star()").fetchall()
    return Rows(one.is_read, total, columns[:MAX_COLUMNS], _preview(held, most), held)


def _explained(engine: duckdb.DuckDBPyConnection, one: DuckdbStatement, values: Mapping[str, Any]) -> Rows:
    """Return the output of EXPLAIN. It is hidden for a statement with parameters, because it contains their values."""
    plan = engine.execute(one.text, dict(values)).fetchall()
    columns = [{"name": name, "type": "VARCHAR"} for name in ("explain_key", "explain_value")]
    shown: list[list[str | None]] = [
        [str(key), _HIDDEN if values else str(value)[: 16 * MAX_CELL]] for key, value in plan
    ]
    return Rows(True, len(plan), columns, shown, None)


def _create_held_table(
    engine: duckdb.DuckDBPyConnection, one: DuckdbStatement, values: Mapping[str, Any]
) -> duckdb.DuckDBPyRelation:
    """Run the statement by EXECUTE, whose rows are held. A relation of a SELECT would run again at each use."""
    engine.execute(f"PREPARE {_PREPARED} AS {_source(one)}")
    arguments = ", ".join(f"{quoted(name)} := {_literal(value)}" for name, value in values.items())
    held = engine.sql(f"EXECUTE {_PREPARED}{f'({arguments})' if arguments else ''}")
    engine.execute(f"DEALLOCATE {_PREPARED}")
    if untyped := [name for name, kind in zip(held.columns, held.types, strict=True) if str(kind) == _NO_TYPE]:
        # A column of only NULL values. Readers of Parquet files do not know its type.
        typed = ", ".join(f"CAST({quoted(name)} AS INTEGER) AS {quoted(name)}" for name in untyped)
        return held.project(f"* REPLACE ({typed})")
    return held


def _with_exact_types(held: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Convert the integers that Parquet lacks, also within lists and structs. Refuse one that has too many digits."""
    exact = [_exact_type(kind) for kind in held.types]
    casts = {
        name: f"CAST({quoted(name)} AS {wanted}) AS {quoted(name)}"
        for name, kind, wanted in zip(held.columns, held.types, exact, strict=True)
        if wanted != str(kind)
    }
    if not casts:
        return held
    converted = held.project(f"* REPLACE ({', '.join(casts.values())})")
    for number, (name, kind) in enumerate(zip(held.columns, held.types, strict=True), start=1):
        if name not in casts:
            continue
        try:
            converted.aggregate(f"system.main.bit_xor(system.main.hash({quoted(name)}))").fetchall()  # uses all values
        except duckdb.ConversionException:
            raise _too_many_digits(number, _kind(str(kind))) from None
    return converted


def _exact_type(kind: Any) -> str:
    """Return the type as SQL, with each integer that Parquet lacks replaced. A type without one stays as it is."""
    match kind.id:
        case "list" | "array":
            (_, child), *size = kind.children
            exact = f"{_exact_type(child)}[{size[0][1] if size else ''}]"
        case "map":
            (_, key), (_, value) = kind.children
            exact = f"MAP({_exact_type(key)}, {_exact_type(value)})"
        case "struct":
            exact = f"STRUCT({_exact_fields(kind.children)})"
        case "tuple":  # Parquet names its fields
            exact = f"STRUCT({_exact_fields((f'element{at}', one) for at, (_, one) in enumerate(kind.children, 1))})"
        case "union":  # the first child is the tag
            exact = f"UNION({_exact_fields(kind.children[1:])})"
        case _:
            return _EXACT.get(kind.id, str(kind))
    return exact if _LACKING.search(str(kind)) else str(kind)


def _exact_fields(fields: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{quoted(name)} {_exact_type(kind)}" for name, kind in fields)


def _too_many_digits(number: int, kind: str) -> RefusedError:
    return RefusedError(
        Reason.SQL_REFUSED,
        f"column {number} ({kind}) has a number of more than {_EXACT_DIGITS} digits, which Parquet cannot hold exactly",
        where="the SQL text",
        next_step="Cast the column in the SELECT. VARCHAR keeps every digit, and DOUBLE rounds.",
    )


def _source(one: DuckdbStatement) -> str:
    """Return the statement to prepare. The line breaks end a comment. One that changes rows cannot be nested."""
    return f"FROM (\n{one.text}\n)" if one.is_read else one.text


def _literal(value: str | float | None) -> str:
    """Return a value as SQL, with the type that the engine gives it, because EXECUTE takes no parameters."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
    # The engine reads a text only up to its first NUL.
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
    """Return a type without its details, such as the members of an ENUM, which may come from rows."""
    return _DETAILS.sub("", type_name)


def _cut(cell: str | None) -> str | None:
    return cell if cell is None or len(cell) <= MAX_CELL else cell[:MAX_CELL] + "..."


def save(rows: Rows, path: str, form: str) -> None:
    """Save all rows to a new file."""
    where = "'" + path.replace("'", "''") + "'"
    if rows.held is None:
        return
    try:
        rows.held.query(_SAVED, f"COPY {quoted(_SAVED)} TO {where} ({_OPTIONS[form]})")
    except duckdb.TransactionException as problem:
        # After a failure the engine cleans up, fails again, and reports the second failure. The first one is raised.
        raise (problem.__context__ if isinstance(problem.__context__, duckdb.Error) else problem) from None


def cells_as_json(rows: Rows, first: int, most: int, longest: int | None = None) -> Sequence[Sequence[str | None]]:
    """Return at most `most` rows from `first` on, each cell as JSON, cut to `longest` characters."""
    if rows.held is None:
        return []
    cell = "system.main.to_json(COLUMNS(*))"
    cut = cell if longest is None else f'system.main."left"(CAST({cell} AS VARCHAR), {longest})'
    return rows.held.limit(most, offset=first).project(cut).fetchall()


def widest_row(rows: Rows, longest: int) -> int:
    """Return a number of characters that no row exceeds, if each cell is cut to `longest`."""
    if rows.held is None or not rows.total:
        return 0
    ((*widths,),) = rows.held.aggregate("system.main.max(system.main.length(CAST(COLUMNS(*) AS VARCHAR)))").fetchall()
    return sum(min(width or 0, longest) for width in widths)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
