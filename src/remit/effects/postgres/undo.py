"""Restores rows from their before-images: compares them first, changes them in one transaction, and compares again.

Other rows are never changed. If the server counts more changes than there are rows to restore, everything stays as it
is. This happens, for example, if another row now refers to a row that must be deleted.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.effects.postgres.libpq import PostgresWire, ServerError, quoted_name
from remit.effects.postgres.row_counts import RowCounts, between, count
from remit.effects.postgres.row_images import Images, cell, current_rows, same_key
from remit.effects.postgres.tables import Table, find, parents_first

_TRIAL: Final = "remit_trial"
_UNIQUE: Final = """
SELECT (SELECT json_agg(a.attname) FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey))
FROM pg_index i
WHERE i.indrelid = $1 AND i.indisunique AND NOT i.indisprimary AND i.indpred IS NULL AND i.indexprs IS NULL
"""
_ORDERS: Final = (
    ("insert", "update", "delete"),
    ("delete", "update", "insert"),
    ("delete", "insert", "update"),
    ("update", "delete", "insert"),
    ("rekey", "insert", "update", "delete"),
)
"""The orders of steps to try. The right one depends on unique constraints and on the actions of foreign keys."""


class TableDrift(NamedTuple):
    """Rows of a table that have changed since the plan."""

    table: str
    rows: int
    what: str
    can_be_forced: bool = True


def find_missing_tables(wire: PostgresWire, tables: Sequence[Table]) -> list[TableDrift]:
    """Return the tables that no longer exist or that have another structure, so that rows cannot be compared."""
    drifts = []
    for table in tables:
        facts = find(wire, table.schema, table.name)
        if facts is None:
            drifts.append(TableDrift(table.shown, 0, "the table no longer exists", can_be_forced=False))
        elif not facts.table.is_like(table):
            drifts.append(TableDrift(table.shown, 0, "its columns or its key have changed", can_be_forced=False))
    return drifts


def with_current_oids(wire: PostgresWire, tables: Sequence[Table]) -> tuple[Table, ...]:
    """Return the same tables with their current numbers. `find_missing_tables` has checked them before."""
    found = [find(wire, table.schema, table.name) for table in tables]
    return tuple(facts.table for facts in found if facts is not None)


def find_drift(images: Images) -> list[TableDrift]:
    """Return the changes of other sessions since the plan, by table."""
    drifts = []
    for number, table in enumerate(images.tables):
        row = images.wire.one(
            "SELECT count(*) FILTER (WHERE i.new IS NOT NULL AND t.ctid IS NOT NULL), "
            "count(*) FILTER (WHERE i.new IS NOT NULL AND t.ctid IS NULL), "
            "count(*) FILTER (WHERE i.new IS NULL) "
            f"FROM {images.joined(table)} WHERE i.tab = {number} AND {current_rows(table)} IS DISTINCT FROM i.new"
        )
        phrases = ("were changed since", "were deleted since", "were inserted again since")
        for found, what in zip(row, phrases, strict=True):
            if int(found or 0):
                drifts.append(TableDrift(table.shown, int(found or 0), what))
    return drifts


def require_no_drift(drifts: Sequence[TableDrift], *, force: bool) -> None:
    left = [drift for drift in drifts if not (force and drift.can_be_forced)]
    if left:
        problem_text = "; ".join(
            f"{drift.table}: {drift.rows:,} rows {drift.what}" if drift.rows else f"{drift.table}: {drift.what}"
            for drift in left[:5]
        )
        raise RefusedError(
            Reason.DRIFTED,
            f"the database has changed since the plan: {problem_text}",
            where="the database",
            next_step="Check these rows. To restore them nevertheless, repeat the rollback with force."
            if all(drift.can_be_forced for drift in left)
            else "Restore the table as it was, or correct the rows by hand.",
        )


def restore_rows(images: Images, ours: frozenset[int] = frozenset()) -> dict[int, RowCounts]:
    """Restore all rows exactly. Return the changes, by the place of the table in `images.tables`.

    `ours`: tables that are not counted.

    Raises:
        EnvironmentFailureError: The rows cannot be restored exactly. Nothing was changed.
    """
    wire = images.wire
    ordered = parents_first(wire, images.tables)
    expected = {number: _expected(images, number) for number in ordered}
    renamed = {number: found for number in ordered if (found := _renamed(images, number)) is not None}
    problem_text = ""
    for steps in _ORDERS if renamed else _ORDERS[:-1]:
        wire.do(f"SAVEPOINT {_TRIAL}")
        try:
            problem_text = _try(
                images, ordered, steps, expected, renamed if "rekey" in steps else {}, ours | {images.oid}
            )
        except ServerError as problem:
            if problem.state[:2] not in ("23", "42", "22", "27"):
                raise
            problem_text = f"the server refused it (SQLSTATE {problem.state})"
        if not problem_text:
            wire.do(f"RELEASE SAVEPOINT {_TRIAL}")
            return expected
        wire.do(f"ROLLBACK TO SAVEPOINT {_TRIAL}")
        wire.do(f"RELEASE SAVEPOINT {_TRIAL}")
    raise EnvironmentFailureError(
        Reason.SQL_FAILED,
        f"the rows cannot be restored: {problem_text}",
        where="the database",
        next_step="Check which rows refer to those of the plan. Nothing was changed.",
    )


def _expected(images: Images, number: int) -> RowCounts:
    table = images.tables[number]
    row = images.wire.one(
        "SELECT count(*) FILTER (WHERE i.old IS NOT NULL AND t.ctid IS NULL), "
        "count(*) FILTER (WHERE i.old IS NOT NULL AND t.ctid IS NOT NULL), "
        "count(*) FILTER (WHERE i.old IS NULL) "
        f"FROM {images.joined(table)} WHERE i.tab = {number} AND {current_rows(table)} IS DISTINCT FROM i.old"
    )
    return RowCounts(*(int(found or 0) for found in row))


def _try(
    images: Images,
    ordered: Sequence[int],
    steps: Sequence[str],
    expected: dict[int, RowCounts],
    renamed: Mapping[int, "_Renamed"],
    ours: frozenset[int],
) -> str:
    """Try one order of the steps. Return why it failed. Empty if all rows are as they were before the plan."""
    wire = images.wire
    before = count(wire, ours)
    wire.do("SET CONSTRAINTS ALL DEFERRED")
    for one in renamed.values():
        wire.do(one.text)
    for step in (step for step in steps if step != "rekey"):
        for number in ordered if step != "delete" else reversed(ordered):
            text = _STEPS[step](images, number)
            if text and (number in renamed or expected[number][("insert", "update", "delete").index(step)]):
                wire.do(text)
    wire.do("SET CONSTRAINTS ALL IMMEDIATE")
    changed = between(before, count(wire, ours))
    numbers = {table.oid: number for number, table in enumerate(images.tables)}
    for oid, change in changed.tables.items():
        number = numbers.get(oid, -1)
        if not _is_as_expected(change, expected.get(number, RowCounts()), renamed.get(number)):
            return "other rows refer to them and would change as well"
    for number, table in enumerate(images.tables):
        if left := images.differing(number, "old"):
            return f"{table.shown}: {left:,} rows would differ from before"
    return ""


def _is_as_expected(change: RowCounts, expected: RowCounts, renamed: "_Renamed | None") -> bool:
    """Return whether the counted changes are the expected ones.

    A row whose key changed is neither inserted nor deleted. It is updated once for its key, and once for the rest.
    """
    if renamed is None:
        return change == expected
    rows = renamed.rows
    if (change.inserted, change.deleted) != (expected.inserted - rows, expected.deleted - rows):
        return False
    return change.updated <= expected.updated + 2 * rows


class _Renamed(NamedTuple):
    """Rows of a table that now have another key than before. Another unique constraint identifies them."""

    rows: int
    text: str
    """The statement that restores their keys. Rows that refer to them follow, if the foreign key has ON UPDATE."""


def _renamed(images: Images, number: int) -> _Renamed | None:
    """Find rows whose key was changed.

    If a new row and a deleted row have the same values in a unique constraint, both were one row with a changed key.
    """
    table = images.tables[number]
    names = [column.name for column in table.columns]
    by_name = {column.name: column for column in table.columns}
    for (found,) in images.wire.do(_UNIQUE, table.oid):
        unique = [names.index(name) + 1 for name in json.loads(found or "[]") if name in names]
        same = " AND ".join(f"i.new[{place}] = o.old[{place}]" for place in unique)
        paired = f"i.tab = {number} AND o.tab = {number} AND i.old IS NULL AND o.new IS NULL AND {same}"
        (rows,) = images.wire.one(f"SELECT count(*) FROM {images.name} i, {images.name} o WHERE {paired}")
        if int(rows or 0):
            sets = ", ".join(
                f"{quoted_name(name)} = (o.key[{place}])::{by_name[name].type}"
                for place, name in enumerate(table.key, start=1)
            )
            text = f"UPDATE ONLY {table.quoted} t SET {sets} FROM {images.name} i, {images.name} o WHERE {paired} AND "
            return _Renamed(int(rows or 0), text + same_key(table))
    return None


def _insert(images: Images, number: int) -> str:
    table = images.tables[number]
    columns = [column for column in table.columns if not column.generated]
    names = ", ".join(quoted_name(column.name) for column in columns)
    values = ", ".join(cell("old", table, column) for column in columns)
    return (
        f"INSERT INTO {table.quoted} ({names}) OVERRIDING SYSTEM VALUE SELECT {values} "
        f"FROM {images.joined(table)} WHERE i.tab = {number} AND i.old IS NOT NULL AND t.ctid IS NULL"
    )


def _update(images: Images, number: int) -> str:
    """Return the UPDATE. It leaves out columns that only the server may set, as no statement can have changed them."""
    table = images.tables[number]
    columns = [
        column
        for column in table.columns
        if not column.generated and column.identity != "a" and column.name not in table.key
    ]
    if not columns:
        return ""
    sets = ", ".join(f"{quoted_name(column.name)} = {cell('old', table, column)}" for column in columns)
    return (
        f"UPDATE ONLY {table.quoted} t SET {sets} FROM {images.name} i WHERE i.tab = {number} "
        f"AND i.old IS NOT NULL AND {same_key(table)} AND {current_rows(table)} IS DISTINCT FROM i.old"
    )


def _delete(images: Images, number: int) -> str:
    table = images.tables[number]
    return (
        f"DELETE FROM ONLY {table.quoted} t USING {images.name} i "
        f"WHERE i.tab = {number} AND i.old IS NULL AND {same_key(table)}"
    )


_STEPS: Final[dict[str, Any]] = {"insert": _insert, "update": _update, "delete": _delete}
