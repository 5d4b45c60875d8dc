"""A unified diff for a terminal: coloured, shortened, and without control characters."""

import itertools
import re
from typing import Final

import click

from remit.cli.common.bidi import display_name
from remit.core.text import counted, printable
from remit.plans.reports.diff_lines import DiffLine, parse_diff

_COLOURS: Final[dict[str, str]] = {"added": "green", "removed": "red", "hunk": "cyan"}
_OF_A_FILE: Final = re.compile(r"(--- |\+\+\+ |rename from |rename to )(.+)")


def render_diff(text: str, max_lines: int | None = None, *, left_out: int = 0, advice: str = "") -> list[str]:
    """Return the lines to print, at most `max_lines`. A last line gives the number of lines that are left out, here or
    before (`left_out`). `advice` is the option that shows the lines that are left out here.
    """
    rendered = [_styled(line) for line in itertools.islice(parse_diff(text.removesuffix("\n")), max_lines)]
    cut = count_lines(text) - len(rendered)
    if not cut and not left_out:
        return rendered
    hint = f": {advice}" if advice and cut else ""
    return [*rendered, f"... {counted(cut + left_out, 'more line')}{hint}"]


def count_lines(text: str) -> int:
    return text.removesuffix("\n").count("\n") + 1 if text else 0


def _styled(line: DiffLine) -> str:
    # Tabs stay because files are indented with them. Every other character that does not print is escaped.
    text = "\t".join(printable(part) for part in line.text.split("\t"))
    if line.kind == "header":
        if named := _OF_A_FILE.fullmatch(text):
            text = named[1] + display_name(named[2])
        return click.style(text, bold=True) if text else text
    colour = _COLOURS.get(line.kind)
    return click.style(text, fg=colour) if colour else text
