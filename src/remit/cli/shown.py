"""What commands share in showing results: the `--json` option, a plain table, one JSON document."""

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from remit.printable import printable

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="One JSON document for programs.")(command)


def workspace_option(command: F) -> F:
    return click.option(
        "-C",
        "--workspace",
        "directory",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        default=Path(),
        help="A folder in the workspace (default: here).",
    )(command)


def output_option(command: F) -> F:
    return click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path, dir_okay=False),
        help="A file to write to (default: standard output).",
    )(command)


@contextlib.contextmanager
def counting(what: str) -> Iterator[Callable[[int], None]]:
    """A running count on standard error for work that takes longer than a second, on a terminal only."""
    started = time.monotonic()
    shown = False

    def count(number: int) -> None:
        nonlocal shown
        if sys.stderr.isatty() and time.monotonic() - started > 1:
            click.echo(f"\r{number:,} {what}", nl=False, err=True)
            shown = True

    try:
        yield count
    finally:
        if shown:
            click.echo("\r\x1b[K", nl=False, err=True)


def show_json(document: Any) -> None:
    click.echo(json.dumps(document, ensure_ascii=False, indent=2))


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, cut: str = "") -> None:
    """A table for people, as wide as the terminal. The column named `cut` is shortened to fit; others wrap.

    Loads `rich` only here, so that `--help` and `--json` stay quick.
    """
    from rich.cells import cell_len  # noqa: PLC0415 - a heavy import, wanted only for tables
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    # Text, not str: a value such as "[red]" is somebody's data, never markup; escapes are made visible.
    cells = [[cell if isinstance(cell, Text) else Text(printable(str(cell))) for cell in row] for row in rows]
    console = Console()
    table = Table(header_style="bold", box=None, pad_edge=False)
    widths = [max(cell_len(name), *(row[i].cell_len for row in cells), 0) for i, name in enumerate(columns)]
    for name, width in zip(columns, widths, strict=True):
        if name == cut:
            others = sum(widths) - width + 2 * len(columns)
            table.add_column(name, no_wrap=True, overflow="ellipsis", width=max(12, min(width, console.width - others)))
        else:
            table.add_column(name, overflow="fold", min_width=width if cut else None)
    for row in cells:
        table.add_row(*row)
    console.print(table)
