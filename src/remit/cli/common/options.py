"""What commands share in showing results: the `--json` option, one JSON document, counts, a running count."""

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from remit.cli.common.output_file import open_output, output_option, required_output_option
from remit.cli.common.table import render_advice, show_table, terminal_width
from remit.core.text import counted, shortened, speaks_unicode

__all__ = [
    "counted",
    "counting",
    "json_option",
    "open_output",
    "output_option",
    "render_advice",
    "required_output_option",
    "shortened",
    "show_json",
    "show_table",
    "speaks_unicode",
    "terminal_width",
    "workspace_option",
]

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


@contextlib.contextmanager
def counting(what: str) -> Iterator[Callable[..., None]]:
    """A running count on standard error for work that takes longer than a second, on a terminal only.

    What it yields takes how much is done, and of how much if that is known.
    """
    started = time.monotonic()
    shown = False

    def count(number: int, total: int = 0) -> None:
        nonlocal shown
        if sys.stderr.isatty() and time.monotonic() - started > 1:
            click.echo(f"\r{number:,}{f' of {total:,}' if total else ''} {what}", nl=False, err=True)
            shown = True

    try:
        yield count
    finally:
        if shown:
            click.echo("\r\x1b[K", nl=False, err=True)


def show_json(document: Any, *, indent: int | None = 2) -> None:
    """One document. What a terminal cannot show, or would obey, is escaped, which means the same."""
    text = json.dumps(document, ensure_ascii=not speaks_unicode(), indent=indent)
    if not text.replace("\n", "").isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    click.echo(text)
