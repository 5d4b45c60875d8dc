"""A progress line on standard error. It appears only on a terminal, and only if the work takes a while."""

import contextlib
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final

import click

from remit.core.text import printable, shortened, speaks_unicode

DELAY_SECONDS: Final = 0.5
INTERVAL_SECONDS: Final = 0.1
FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PLAIN_FRAMES: Final = "|/-\\"
DEFAULT_WIDTH: Final = 80
Report = Callable[[str, int, int, str], None]


class _ProgressLine:
    """A line with a spinner and the newest progress.

    A thread draws it, so it also moves while no progress is reported.
    """

    def __init__(self) -> None:
        self._newest = ("working", 0, 0, "")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="remit-progress", daemon=True)
        self._thread.start()

    def report(self, phase: str, done: int, total: int, what: str = "") -> None:
        self._newest = (phase, done, total, what)

    def close(self) -> None:
        """Erase the line. Nothing is drawn after that."""
        self._ended.set()
        self._thread.join()

    def _draw(self) -> None:
        if self._ended.wait(DELAY_SECONDS):
            return
        for frame in itertools.cycle(FRAMES if speaks_unicode() else PLAIN_FRAMES):
            click.echo(f"\r{frame} {self._render()}\x1b[K", nl=False, err=True)
            if self._ended.wait(INTERVAL_SECONDS):
                break
        click.echo("\r\x1b[K", nl=False, err=True)

    def _render(self) -> str:
        phase, done, total, what = self._newest
        of = f"{done:,} of {total:,}" if total else ""
        text = " ".join(part for part in (phase, of, printable(what)) if part)
        # A line that wraps cannot be erased. A character that is not ASCII may take two columns.
        width = _stderr_width() - len(FRAMES[0]) - 2
        return shortened(text, max(width if text.isascii() else width // 2, 1))


def _stderr_width() -> int:
    with contextlib.suppress(OSError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or DEFAULT_WIDTH
    return DEFAULT_WIDTH


@contextlib.contextmanager
def showing_progress(*, quiet: bool = False) -> Iterator[Report]:
    """Show progress. Yields a function that takes the phase, the number done, the total, and the current item."""
    if quiet or not sys.stderr.isatty():
        yield lambda _phase, _done, _total, _what: None
        return
    line = _ProgressLine()
    try:
        yield line.report
    finally:
        line.close()
