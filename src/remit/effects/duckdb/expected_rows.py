"""Compares the rows that a rule of a plan expects with the rows that its query returns, inside the sandbox.

For a row that differs only its place is reported. Values are compared as JSON values, made by the engine's own
`to_json`. A plan cannot hold an integer above 2^53-1, so it has such a number as the string of its digits.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import duckdb

from remit.core.errors import Reason, RefusedError
from remit.effects.duckdb.rows import Rows, cells_as_json
from remit.effects.duckdb.statements import DuckdbStatement
from remit.effects.json_equal import is_equal

MAX_EXPECTED_BYTES: Final = 8 << 20

_AT_ONCE: Final = 1_000
"""The number of rows that this process holds at a time."""

_SAFE: Final = 2**53 - 1
_FIRST_WITH_EXPONENT: Final = 1e21
"""The least number that a plan may hold although it is above 2^53-1, because it is written with an exponent."""
_WHOLE: Final = re.compile(r"-?[0-9]+")


def parse_expected(raw: bytes) -> tuple[Sequence[Any], ...]:
    """Parse the rows from the JSON that the host wrote."""
    return tuple(json.loads(raw))


def require_one_select(statements: Sequence[DuckdbStatement]) -> None:
    """Refuse a text that is not exactly one SELECT, because it would not be clear which rows are compared."""
    if len(statements) != 1 or statements[0].kind != "SELECT":
        raise RefusedError(
            Reason.SQL_REFUSED,
            "the query of a rule is one SELECT and nothing else",
            where="the SQL text",
            next_step="Write one SELECT, or several rules.",
        )


def require_rows(found: Rows, expected: Sequence[Sequence[Any]]) -> None:
    """Raise RULE_FAILED, with the place of the first difference, unless these are the rows in this order."""
    if found.total != len(expected):
        raise _differs(f"it returns {_counted(found.total, 'row')}, and {_wanted(len(expected))}")
    try:
        for first in range(0, len(expected), _AT_ONCE):
            wanted = expected[first : first + _AT_ONCE]
            for number, row in enumerate(cells_as_json(found, first, _AT_ONCE), start=first + 1):
                _compare(number, row, wanted[number - first - 1])
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error:  # its message may quote a value
        raise _differs("a column has a type that cannot be compared") from None


def _compare(number: int, cells: Sequence[str | None], wanted: Sequence[Any]) -> None:
    if len(cells) != len(wanted):
        raise _differs(f"row {number:,} has {_counted(len(cells), 'column')}, and {_wanted(len(wanted))}")
    for column, (cell, value) in enumerate(zip(cells, wanted, strict=True), start=1):
        if not is_equal(_value(cell), value):
            raise _differs(f"row {number:,}, column {column:,} is not as expected")


def _value(cell: str | None) -> Any:
    """Return the value of a cell. A value that no plan can hold becomes `...`, which is equal to no value."""
    if cell is None:
        return None
    try:
        return json.loads(cell, parse_int=_number, parse_float=_number, parse_constant=str)
    except (ValueError, RecursionError):
        return ...


def _number(digits: str) -> int | float | str:
    is_whole = _WHOLE.fullmatch(digits) is not None
    number = int(digits) if is_whole and len(digits) <= len(str(_SAFE)) + 1 else float(digits)
    if abs(number) <= _SAFE or (not is_whole and _FIRST_WITH_EXPONENT <= abs(number) < float("inf")):
        return number
    return digits


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _wanted(number: int) -> str:
    return f"{number:,} {'is' if number == 1 else 'are'} expected"


def _differs(what: str) -> RefusedError:
    return RefusedError(Reason.RULE_FAILED, what, where="the SQL text")
