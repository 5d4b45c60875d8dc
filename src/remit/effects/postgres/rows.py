"""Rows of a SELECT: counts them, shows the first ones, and saves all as they arrive. Memory holds only the first."""

import json
import os
import re
from typing import IO, Any, Final, NamedTuple

from remit.effects.context import PathHandle
from remit.effects.postgres.libpq import ResultColumn, Row

FORMATS: Final = ("csv", "json")
MAX_CELL: Final = 256
MAX_PREVIEW: Final = 128 << 10
"""The maximum number of characters of all shown cells."""
MAX_COLUMNS: Final = 1_000

_BOOL, _JSON, _JSONB = 16, 114, 3802
_NUMBERS: Final = frozenset({20, 21, 23, 700, 701, 1700})
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_NEEDS_QUOTES: Final = re.compile(r'[",\r\n]|^$')


class ShownRows(NamedTuple):
    """The result of a SELECT: its columns, the number of rows, and the first rows."""

    columns: tuple[ResultColumn, ...]
    total: int
    preview: list[list[str | None]]


class RowWriter:
    """Receives rows one by one. With a `spot`, it saves all rows to this file, and replaces an existing file."""

    def __init__(self, most: int, spot: PathHandle | None = None, form: str | None = None) -> None:
        self._most = most
        self._remaining = MAX_PREVIEW
        self._preview: list[list[str | None]] = []
        self._columns: tuple[ResultColumn, ...] = ()
        self._total = 0
        self._writer = None if spot is None else _Writer(_open(spot), form or "")

    def add(self, columns: tuple[ResultColumn, ...], row: Row) -> None:
        cells = [None if cell is None else bytes(cell).decode() for cell in row]
        self._columns = columns
        self._total += 1
        if len(self._preview) < self._most and self._remaining > 0:
            shown = [_cut(cell) for cell in cells[:MAX_COLUMNS]]
            self._remaining -= sum(len(cell or "") + 8 for cell in shown)
            if self._remaining > 0:
                self._preview.append(shown)
        if self._writer is not None:
            self._writer.write(columns, cells)

    def end(self, columns: tuple[ResultColumn, ...]) -> ShownRows:
        if self._writer is not None:
            self._writer.end(columns)
        return ShownRows(columns[:MAX_COLUMNS], self._total, self._preview)


class _Writer:
    def __init__(self, file: IO[str], form: str) -> None:
        self._file = file
        self._is_json = form == "json"
        self._count = 0

    def write(self, columns: tuple[ResultColumn, ...], cells: list[str | None]) -> None:
        self._begin(columns)
        if self._is_json:
            members = (
                f"{_json(column.name)}:{_as_json(column, cell)}" for column, cell in zip(columns, cells, strict=True)
            )
            self._file.write("{" + ",".join(members) + "}")
        else:
            self._file.write(",".join(map(_as_csv, cells)) + "\n")
        self._count += 1

    def end(self, columns: tuple[ResultColumn, ...]) -> None:
        if not self._count:
            self._begin(columns)
        self._file.write("\n]\n" if self._is_json else "")
        self._file.close()

    def _begin(self, columns: tuple[ResultColumn, ...]) -> None:
        if self._is_json:
            self._file.write(",\n\t" if self._count else "[\n\t")
        elif not self._count:
            self._file.write(",".join(_as_csv(column.name) for column in columns) + "\n")


def _open(spot: PathHandle) -> IO[str]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(spot.name, flags, 0o600, dir_fd=spot.folder), "w", encoding="utf-8", newline="")


def _cut(cell: str | None) -> str | None:
    return cell if cell is None or len(cell) <= MAX_CELL else cell[:MAX_CELL] + "..."


def _as_csv(cell: str | None) -> str:
    """Return the cell as CSV. NULL is an empty cell, and an empty text is two quotes."""
    if cell is None:
        return ""
    return '"' + cell.replace('"', '""') + '"' if _NEEDS_QUOTES.search(cell) else cell


def _as_json(column: ResultColumn, cell: str | None) -> str:
    if cell is None:
        return "null"
    if column.type_oid == _BOOL:
        return "true" if cell == "t" else "false"
    if column.type_oid in (_JSON, _JSONB) or (column.type_oid in _NUMBERS and _NUMBER.fullmatch(cell)):
        return cell
    return _json(cell)


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def described(columns: tuple[ResultColumn, ...], types: dict[int, str]) -> list[dict[str, Any]]:
    return [{"name": column.name, "type": types.get(column.type_oid, "unknown")} for column in columns]
