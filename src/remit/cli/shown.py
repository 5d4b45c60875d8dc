"""What commands share in showing results: the `--json` option, a plain table, one JSON document."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

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


def show_json(document: Any) -> None:
    click.echo(json.dumps(document, ensure_ascii=False, indent=2))


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> None:
    """A table for people. Loads `rich` only here, so that `--help` and `--json` stay quick."""
    from rich.console import Console  # noqa: PLC0415 - a heavy import, wanted only for tables
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(title=title or None, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # Text, not str: a value such as "[red]" is somebody's data, never markup; escapes are made visible.
        table.add_row(*(cell if isinstance(cell, Text) else Text(printable(str(cell))) for cell in row))
    Console().print(table)


def printable(text: str) -> str:
    """No control character of somebody else's reaches the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
