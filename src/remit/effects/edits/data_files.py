"""Syntax checks of data files: JSON, TOML and CSV. YAML has modules of its own.

Needs the standard library and `remit.parsing`.
"""

import csv
import tomllib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from remit.core.errors import Reason, RefusedError
from remit.effects.edits.splice import BOM, Edited, new_ranges
from remit.parsing import Bounds, parse_json

JSON_BOUNDS: Final = Bounds(
    max_bytes=16 << 20, max_depth=200, max_items=1_000_000, max_members=1_000_000, max_number_digits=1_000
)
"""The limits for a JSON file of a project."""
_MAX_TOML: Final = 1 << 20
_FORMULA: Final = frozenset(b"=+-@")
_MAX_REMARKS: Final = 20
_NEWLINE: Final = b"\n"
_MAX_CSV: Final = 4 << 20
"""The number of cells in a row is not checked in a larger file."""


class ContentFinding(NamedTuple):
    """A finding in the content that a person has to approve."""

    rule: str
    """`syntax`, `object_tag`, `command`, `credential` or `executable`."""
    where: str
    what: str


Check = Callable[[bytes], list[ContentFinding]]


def check_json(content: bytes) -> list[ContentFinding]:
    try:
        parse_json(content.removeprefix(BOM), JSON_BOUNDS, source="")
    except RefusedError as problem:
        return [_syntax(problem)]
    return []


def check_toml(content: bytes) -> list[ContentFinding]:
    if len(content) > _MAX_TOML:
        return [too_large_to_be_checked(_MAX_TOML)]
    try:
        tomllib.loads(content.removeprefix(BOM).decode("utf-8"))
    except RecursionError:
        return [ContentFinding("syntax", "", "the nesting is too deep")]
    except ValueError as problem:
        return [ContentFinding("syntax", "", f"the file is not TOML: {problem}")]
    return []


def check_csv(content: bytes) -> list[ContentFinding]:
    if b"\0" in content:
        return [ContentFinding("syntax", _line(content, content.index(0)), "the file contains a NUL character")]
    if content.count(b'"') % 2:
        return [ContentFinding("syntax", _line(content, content.rindex(b'"')), "a quotation mark is never closed")]
    return []


PLAIN_CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        ".json": check_json,
        ".toml": check_toml,
        ".csv": check_csv,
    }
)
"""The checks, by the end of a file's name."""


def remarks(path: str, edited: Edited) -> list[str]:
    """Return remarks for the reader of the preview that need no approval.

    In a CSV file: rows with another number of cells than the first row, and formulas in the new cells.
    """
    if not path.lower().endswith(".csv"):
        return []
    found = _ragged(edited.content, _new_lines(edited))
    for start, end in new_ranges(edited):
        for cell_start, cell in _cells(edited.content[start:end]):
            if cell[:1] and cell[0] in _FORMULA and not _is_number(cell):
                where = _line(edited.content, start + cell_start)
                found.append(f"{where}: a cell begins with {chr(cell[0])!r}, which a spreadsheet takes for a formula")
            if len(found) == _MAX_REMARKS:
                return found
    return found


def _new_lines(edited: Edited) -> set[int]:
    lines, place, line = set[int](), 0, 1
    for start, end in new_ranges(edited):
        line += edited.content.count(_NEWLINE, place, start)
        place = start
        lines.update(range(line, line + edited.content.count(_NEWLINE, start, end) + 1))
    return lines


def _ragged(content: bytes, new: set[int]) -> list[str]:
    """Return one remark if new rows have another number of cells than the first row.

    The separator is the one that occurs most often in the first line.
    """
    lines = content.removeprefix(BOM)[:_MAX_CSV].decode("utf-8", "replace").splitlines()
    if not lines or len(content) > _MAX_CSV:
        return []
    reader = csv.reader(lines, delimiter=max(",;\t", key=lines[0].count))
    try:
        width = len(next(reader))
        others = [
            (reader.line_num, len(row)) for row in reader if row and len(row) != width and {1, reader.line_num} & new
        ]
    except csv.Error:
        return []
    if not others:
        return []
    line, found = others[0]
    more = f"; {len(others) - 1:,} more rows have another number too" if len(others) > 1 else ""
    return [f"line {line}: {found} cells, but the first line has {width}{more}"]


def _cells(piece: bytes) -> list[tuple[int, bytes]]:
    cells, place = [], 0
    for cell in piece.replace(b"\n", b",").replace(b";", b",").replace(b"\t", b",").split(b","):
        cells.append((place, cell.strip(b' "\r')))
        place += len(cell) + 1
    return cells


def _is_number(cell: bytes) -> bool:
    return cell.lstrip(b"+-").replace(b".", b"", 1).isdigit()


def too_large_to_be_checked(most: int) -> ContentFinding:
    return ContentFinding("syntax", "", f"the file is larger than the {most:,} bytes that can be checked")


def _syntax(problem: RefusedError) -> ContentFinding:
    what = problem.what if problem.reason is Reason.MALFORMED else f"the file cannot be checked: {problem.what}"
    return ContentFinding("syntax", problem.where.removeprefix(", "), what)


def _line(content: bytes, place: int) -> str:
    return f"line {content.count(_NEWLINE, 0, place) + 1}"
