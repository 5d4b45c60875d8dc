"""Scans saved rows for findings that a person must approve, like the content of any file that a plan writes.

It looks for credentials in the cells, each together with the name of its column, in every format. It looks for commands
and formulas in the text of the file. The scan has limits, and a remark reports what was not scanned.
"""

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import Final, NamedTuple

from remit.effects.context import PathHandle
from remit.effects.duckdb.rows import Rows, cells_as_json, widest_row
from remit.effects.edits.data_files import Check, ContentFinding, remarks
from remit.effects.edits.splice import Edited
from remit.effects.plans.content_scan import MAX_FINDINGS, find_commands, find_in_final
from remit.effects.plans.credential_search import PARTLY_SEARCHED
from remit.fs.openat import open_file
from remit.masking.secrets import find_secrets

MAX_LOOKED_AT: Final = 8 << 20
"""The limit of the bytes of a file, and of the characters of all cells. The scan takes a few seconds at most."""
_MOST_ROWS: Final = 1_000
_MOST_CHARACTERS: Final = 4 << 20
"""The limit of the rows that this process holds at a time."""
_LONGEST_CELL: Final = 64 << 10
"""The rest of a longer cell is not scanned."""
_TEXTS: Final = ("csv", "json")
# The engine wrote the file, so its syntax is not checked.
_NO_CHECKS: Final[Mapping[str, Check]] = {f".{form}": lambda _content: [] for form in _TEXTS}


class ScanResult(NamedTuple):
    findings: Sequence[ContentFinding]
    remarks: Sequence[str]


def scan_rows(rows: Rows, spot: PathHandle, form: str, mode: int) -> ScanResult:
    """Scan the rows and their file. `mode` is the mode that the file will have."""
    name = f"results.{form}"
    content, is_whole = _read(spot, MAX_LOOKED_AT if form in _TEXTS else 4)
    edited = Edited(content, None, "")
    found = find_in_final(name, content, mode, _NO_CHECKS)
    notes: list[str] = []
    if form in _TEXTS:
        found += find_commands(name, edited)
        notes = remarks(name, edited)
    secrets, all_cells = _secrets(rows)
    if not all_cells or (form in _TEXTS and not is_whole):
        notes.append(f"{PARTLY_SEARCHED} {MAX_LOOKED_AT:,} characters")
    return ScanResult([*found, *secrets], notes)


def _read(spot: PathHandle, most: int) -> tuple[bytes, bool]:
    descriptor = open_file(spot.folder, spot.name, where="the file of the results")
    content = bytearray()
    try:
        while len(content) <= most and (piece := os.read(descriptor, 1 << 20)):
            content += piece
    finally:
        os.close(descriptor)
    return bytes(content[:most]), len(content) <= most


def _secrets(rows: Rows) -> tuple[list[ContentFinding], bool]:
    """Return the credentials in the cells, and whether all cells were scanned."""
    found: list[ContentFinding] = []
    remaining = MAX_LOOKED_AT
    at_once = max(1, min(_MOST_ROWS, _MOST_CHARACTERS // max(widest_row(rows, _LONGEST_CELL), 1)))
    for first in range(0, rows.total, at_once):
        if remaining <= 0:
            return found, False
        cells = cells_as_json(rows, first, at_once, _LONGEST_CELL)
        lines = [line for row in cells for line in _lines(rows, row)]
        remaining -= sum(map(len, lines))
        found += islice(_in_lines(lines, first, len(rows.columns)), MAX_FINDINGS - len(found))
        if len(found) == MAX_FINDINGS:
            break
    return found, True


def _lines(rows: Rows, row: Sequence[str | None]) -> Iterator[str]:
    """Yield each cell with the name of its column, because a password alone looks like any other word."""
    for column, cell in zip(rows.columns, row, strict=False):
        yield f'"{column["name"].replace(chr(10), " ")}": {cell or "null"}'


def _in_lines(lines: Sequence[str], first: int, columns: int) -> Iterator[ContentFinding]:
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    for start, _, what in find_secrets("\n".join(lines)):
        row, column = divmod(bisect_right(starts, start) - 1, columns)
        where = f"row {first + row + 1:,}, column {column + 1:,}"
        yield ContentFinding("credential", where, f"this looks like {what}")
