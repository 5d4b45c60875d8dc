"""Options and output that commands share: `--json` and the JSON document, `--workspace`, tables and counts."""

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
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document, for programs.")(command)


def workspace_option(command: F) -> F:
    return click.option(
        "-C",
        "--workspace",
        "directory",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        default=Path(),
        help="A folder in the workspace. The default is the current folder.",
    )(command)


@contextlib.contextmanager
def counting(what: str) -> Iterator[Callable[..., None]]:
    """Show a running count on standard error if the work takes longer than a second, on a terminal only.

    Yields a function that takes the number done and, if it is known, the total.
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
    """Print one JSON document. Characters that a terminal cannot show or would obey are escaped, as JSON allows."""
    text = json.dumps(document, ensure_ascii=not speaks_unicode(), indent=indent)
    if not text.replace("\n", "").isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    click.echo(text)
