"""The lines of a unified diff, each with what it is: a line of the files is never taken for a header of the diff."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from remit.contracts.plans.change_log import DiffSummary

_HUNK: Final = re.compile(r"^@@ -(?P<at>\d+)(?:,(?P<old>\d+))? \+(?P<to>\d+)(?:,(?P<new>\d+))? @@")


class DiffLine(NamedTuple):
    """One line, and what it is, whatever it begins with."""

    kind: str
    text: str


def parse_diff(text: str) -> Iterator[DiffLine]:
    """Each line with its kind: header, hunk, added, removed, same or note."""
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
    """How many lines of a diff that come or go are not in its kept beginning. A binary file has none."""
    shown = sum(line.kind in {"added", "removed"} for line in parse_diff(summary.preview.removesuffix("\n")))
    return max(summary.lines_added + summary.lines_removed - shown, 0) if shown else 0


def hunk_starts(line: str) -> tuple[int, int]:
    """The numbers of the first line that a hunk shows, in the file as it was and as it would be."""
    found = _HUNK.match(line)
    return (int(found["at"]), int(found["to"])) if found else (0, 0)
