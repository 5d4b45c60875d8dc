"""A unified diff as rows of a table: each line with its numbers, its kind, and the part of it that changed."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from remit.plans.reports.diff_lines import DiffLine, hunk_starts, parse_diff

MOST_ROWS: Final = 2_000
"""Rows of one file on one page. The other rows have pages of their own."""
TAB: Final = "    "
MINUS: Final = "\u2212"
LEAST_COMMON: Final = 0.4
"""The least common part of the shorter line. If two lines have less in common, no part of them is marked."""

Kind = Literal["added", "removed", "same", "hunk", "header", "note"]


class Piece(NamedTuple):
    text: str
    changed: bool = False


class DiffRow(NamedTuple):
    kind: str
    old: int | None
    new: int | None
    sign: str
    pieces: tuple[Piece, ...]


class DiffShown(NamedTuple):
    rows: tuple[DiffRow, ...]
    on_other_pages: int
    """Lines that other pages show."""
    omitted: int = 0
    """Lines that no page shows: the diff was too long for the preview."""

    @property
    def left_out(self) -> int:
        return self.on_other_pages + self.omitted


def build_rows(diff: str, left_out: int = 0, first: int = 0, most: int = MOST_ROWS) -> DiffShown:
    """Build the rows without the header lines of the file: the page names the file itself."""
    rows = [row for row in _numbered(parse_diff(diff.removesuffix("\n"))) if not _is_file_header(row)]
    shown = rows[first : first + most]
    return DiffShown(tuple(_mark_changes(shown)), len(rows) - len(shown), left_out)


def _numbered(lines: Iterator[DiffLine]) -> Iterator[DiffRow]:
    old = new = 0
    for line in lines:
        if line.kind == "hunk":
            old, new = hunk_starts(line.text)
            yield DiffRow("hunk", None, None, "", (Piece(_flat(line.text)),))
        elif line.kind in {"header", "note"}:
            yield DiffRow(line.kind, None, None, "", (Piece(_flat(line.text)),))
        else:
            removed, added = line.kind == "removed", line.kind == "added"
            numbers = (None if added else old, None if removed else new)
            sign = "+" if added else MINUS if removed else ""
            yield DiffRow(line.kind, *numbers, sign, (Piece(_flat(line.text[1:])),))
            old, new = old + (not added), new + (not removed)


def _mark_changes(rows: Sequence[DiffRow]) -> Iterator[DiffRow]:
    """Mark the parts that differ, line by line, where as many lines were added as removed."""
    start = 0
    while start < len(rows):
        removed = _run(rows, start, "removed")
        added = _run(rows, start + removed, "added")
        if removed and removed == added:
            pairs = [_pair(rows[start + k], rows[start + removed + k]) for k in range(removed)]
            yield from (before for before, _ in pairs)
            yield from (after for _, after in pairs)
        else:
            yield from rows[start : start + removed + added]
        if not removed + added:
            yield rows[start]
        start += (removed + added) or 1


def _run(rows: Sequence[DiffRow], start: int, kind: str) -> int:
    end = start
    while end < len(rows) and rows[end].kind == kind:
        end += 1
    return end - start


def _pair(before: DiffRow, after: DiffRow) -> tuple[DiffRow, DiffRow]:
    old, new = before.pieces[0].text, after.pieces[0].text
    shorter = min(len(old), len(new))
    head = next((k for k in range(shorter) if old[k] != new[k]), shorter)
    tail = next((k for k in range(shorter - head) if old[-1 - k] != new[-1 - k]), shorter - head)
    if not shorter or (head + tail) / shorter < LEAST_COMMON:
        return before, after
    return before._replace(pieces=_cut(old, head, tail)), after._replace(pieces=_cut(new, head, tail))


def _cut(text: str, head: int, tail: int) -> tuple[Piece, ...]:
    end = len(text) - tail
    pieces = (Piece(text[:head]), Piece(text[head:end], changed=True), Piece(text[end:]))
    return tuple(piece for piece in pieces if piece.text)


def _flat(text: str) -> str:
    return text.replace("\t", TAB)


def _is_file_header(row: DiffRow) -> bool:
    return row.kind == "header" and row.pieces[0].text.startswith(("--- ", "+++ "))
