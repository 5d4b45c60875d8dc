"""Text for people, as wide as their terminal: tables, lists where a table does not fit, and advice."""

import io
import re
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import click

from remit.core.text import printable

if TYPE_CHECKING:
    from rich.text import Text

UNBOUNDED: Final = 100_000
MIN_PROSE_WIDTH: Final = 16
GAP: Final = 2
# A command at the end of an advice. It follows a colon, and it is not a sentence.
_COMMAND_AT_END: Final = re.compile(r"^(?P<prose>.*?:) (?P<command>[a-z/~](?:.*[^.])?)$", re.DOTALL)
_QUOTED: Final = re.compile(r"`[^`]+`|'[^']+'")


def terminal_width() -> int:
    """Return the width of the terminal, or COLUMNS. Without both, lines are not wrapped: programs may search them."""
    return shutil.get_terminal_size((UNBOUNDED, 24)).columns


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, prose: Collection[str] = ()) -> None:
    """Print a table for people. The columns in `prose` wrap. Ids and times in the other columns stay in one piece.

    If the table does not fit, every row becomes a list. No value is left out or broken.
    Only this function loads `rich`, so that `--help` and `--json` stay quick.
    """
    from rich.cells import cell_len  # noqa: PLC0415 - a heavy import, needed only for tables
    from rich.text import Text  # noqa: PLC0415 - heavy, needed only for tables

    # Text, not str: a value such as "[red]" is data and not markup. Escapes are made visible.
    cells = [[cell if isinstance(cell, Text) else Text(printable(str(cell))) for cell in row] for row in rows]
    widths = [max(cell_len(name), *(row[i].cell_len for row in cells), 0) for i, name in enumerate(columns)]
    width = terminal_width()
    least = [min(w, MIN_PROSE_WIDTH) if name in prose else w for name, w in zip(columns, widths, strict=True)]
    if sum(least) + GAP * (len(columns) - 1) > width:
        _show_list(columns, cells, prose, width)
    else:
        _show_grid(columns, cells, widths, prose, width)


def render_advice(text: str, width: int, indent: str = "    ") -> str:
    """Wrap an advice between words. A path or a command, which people copy, is never broken."""
    if len(indent) + len(text) <= width:
        return indent + text
    ending = _COMMAND_AT_END.match(text)
    if ending is None or ending["prose"].count("(") != ending["prose"].count(")"):
        return _wrap(text, width, indent)
    return f"{_wrap(ending['prose'], width, indent)}\n{indent}{indent}{ending['command']}"


def _show_grid(
    columns: Sequence[str], cells: list[list["Text"]], widths: list[int], prose: Collection[str], width: int
) -> None:
    from rich.console import Console  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - heavy, needed only for tables

    # Printed by click, because rich would end the process when the reader is gone.
    page = io.StringIO()
    console = Console(file=page, width=width, force_terminal=sys.stdout.isatty() or None)
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name, wanted in zip(columns, widths, strict=True):
        if name in prose:
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, no_wrap=True, min_width=wanted)
    for row in cells:
        table.add_row(*row)
    console.print(table)
    for line in page.getvalue().splitlines():
        click.echo(line.rstrip())


def _show_list(columns: Sequence[str], cells: list[list["Text"]], prose: Collection[str], width: int) -> None:
    names = max(len(name) for name in columns) + GAP
    for number, row in enumerate(cells):
        if number:
            click.echo()
        for name, cell in zip(columns, row, strict=True):
            available_width = max(width - names, MIN_PROSE_WIDTH)
            lines = (textwrap.wrap(cell.plain, available_width) if name in prose else [cell.plain]) or [""]
            style = str(cell.style) or None
            head, *rest = (click.style(line, fg=style) for line in lines)
            click.echo(f"{click.style(name.ljust(names), bold=True)}{head}".rstrip())
            for line in rest:
                click.echo(" " * names + line)


def _wrap(text: str, width: int, indent: str) -> str:
    glued = _QUOTED.sub(lambda found: found[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(
        glued, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines).replace("\0", " ")
