"""A progress bar on standard error. It appears only on a terminal, and only if the work takes a while."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from remit.core.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

DELAY_SECONDS: Final = 0.3
INTERVAL_SECONDS: Final = 0.05
Report = Callable[[str, int, int, str], None]


class _Bar:
    """A progress bar that is drawn only when progress is reported. It has no thread, because this process forks."""

    def __init__(self) -> None:
        self._began = self._drawn = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def report(self, phase: str, done: int, total: int, what: str = "") -> None:
        now = time.monotonic()
        if now - self._began < DELAY_SECONDS or (now - self._drawn < INTERVAL_SECONDS and done < total):
            return
        self._drawn = now
        bar, task = self._drawing()
        of = f"{done:,} of {total:,}" if total else ""
        description = " ".join(part for part in (phase, of, printable(what)) if part)
        bar.update(task, completed=done, total=total or None, description=description)
        bar.refresh()

    def _drawing(self) -> "tuple[Progress, TaskID]":
        from rich.console import Console  # noqa: PLC0415 - heavy, and most plans end before it is needed
        from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415 - as above

        if self._bar is None or self._task is None:
            column = TextColumn("{task.description}", markup=False)
            self._bar = Progress(
                BarColumn(20), column, console=Console(stderr=True), transient=True, auto_refresh=False
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=None)
        return self._bar, self._task

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()


@contextlib.contextmanager
def showing_progress(*, quiet: bool = False) -> Iterator[Report]:
    """Show progress. Yields a function that takes the phase, the number done, the total, and the current item."""
    if quiet or not sys.stderr.isatty():
        yield lambda _phase, _done, _total, _what: None
        return
    bar = _Bar()
    try:
        yield bar.report
    finally:
        bar.close()
