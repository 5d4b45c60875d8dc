"""The lines of a unified diff, each with its kind. A line of a file is never mistaken for a header of the diff."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from remit.contracts.plans.change_log import DiffSummary

_HUNK: Final = re.compile(r"^@@ -(?P<at>\d+)(?:,(?P<old>\d+))? \+(?P<to>\d+)(?:,(?P<new>\d+))? @@")


class DiffLine(NamedTuple):
    """One line of a diff and its kind."""

    kind: str
    text: str


def parse_diff(text: str) -> Iterator[DiffLine]:
    """Yield each line with its kind: header, hunk, added, removed, same or note."""
    old = new = 0
    for line in text.split("\n") if text else []:
        found = _HUNK.match(line)
        if old <= 0 and new <= 0 and found:
            old, new = (int(found[side] or 1) for side in ("old", "new"))
            yield DiffLine("hunk", line)
        elif line.startswith("\\"):
            yield DiffLine("note", line)
        elif old <= 0 and new <= 0:
            yield DiffLine("header", line)
        else:
            kind = {"+": "added", "-": "removed"}.get(line[:1], "same")
            old, new = old - (kind != "added"), new - (kind != "removed")
            yield DiffLine(kind, line)


def count_omitted_lines(summary: DiffSummary) -> int:
    """Count the added and removed lines that the stored beginning of a diff omits. A binary file has none."""
    shown = sum(line.kind in {"added", "removed"} for line in parse_diff(summary.preview.removesuffix("\n")))
    return max(summary.lines_added + summary.lines_removed - shown, 0) if shown else 0


def hunk_starts(line: str) -> tuple[int, int]:
    """Return the numbers of the first line that a hunk shows, in the old and in the new file."""
    found = _HUNK.match(line)
    return (int(found["at"]), int(found["to"])) if found else (0, 0)
