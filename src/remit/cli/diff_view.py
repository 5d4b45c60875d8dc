"""A unified diff for a terminal: coloured, cut where it is too long, and with nothing in it that a terminal obeys."""

import itertools
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import click

from remit.cli.table import counted
from remit.printable import printable

_HUNK: Final = re.compile(r"^@@ -\d+(?:,(?P<old>\d+))? \+\d+(?:,(?P<new>\d+))? @@")


class DiffLine(NamedTuple):
    """One line, and what it is: a line of the files is never taken for a header, whatever it begins with."""

    kind: str
    text: str


_COLOURS: Final[dict[str, str]] = {"added": "green", "removed": "red", "hunk": "cyan"}


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


def render_diff(text: str, most: int | None = None, *, left_out: int = 0, advice: str = "") -> list[str]:
    """Lines to print. Past `most` of them, and for what was left out before, one line says how many more there are;
    `advice` is the option that shows those which are only cut here.
    """
    rendered = [_styled(line) for line in itertools.islice(parse_diff(text.removesuffix("\n")), most)]
    cut = count_lines(text) - len(rendered)
    if not cut and not left_out:
        return rendered
    hint = f": {advice}" if advice and cut else ""
    return [*rendered, f"... {counted(cut + left_out, 'more line')}{hint}"]


def count_lines(text: str) -> int:
    return text.removesuffix("\n").count("\n") + 1 if text else 0


def _styled(line: DiffLine) -> str:
    # Tabs stay: they are what the files are indented with. Everything else that does not print is spelled out.
    text = "\t".join(printable(part) for part in line.text.split("\t"))
    if line.kind == "header":
        return click.style(text, bold=True) if text else text
    colour = _COLOURS.get(line.kind)
    return click.style(text, fg=colour) if colour else text
