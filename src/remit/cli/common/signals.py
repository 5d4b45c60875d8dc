"""Ctrl-C (SIGINT) and SIGTERM in a command whose work can be cancelled or undone. Both have the same effect there."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from remit.cli.common.running_command import interrupted_error
from remit.core.errors import EnvironmentFailureError, Reason

TERMINATION_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def cancelling() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether a signal asked to cancel. A second signal interrupts the process at once."""
    requested = threading.Event()

    def on_signal(_number: int, _frame: object) -> None:
        for number in TERMINATION_SIGNALS:
            signal.signal(number, signal.default_int_handler)
        requested.set()
        # Not through a stream: the signal may have interrupted a write to that stream.
        os.write(2, b"\nCancelling; if it is not too late, all changes will be undone.\n")

    with _handling_signals(on_signal), reporting_interruption():
        yield requested.is_set


@contextlib.contextmanager
def interrupting() -> Iterator[None]:
    """For work that cannot be cancelled step by step. The first signal interrupts it.

    Then its changes are undone, or left for recovery, or they were complete already.
    """
    with _handling_signals(signal.default_int_handler), reporting_interruption():
        yield


@contextlib.contextmanager
def previewing() -> Iterator[None]:
    """For a preview, which changes nothing. The first signal stops it, and the error says that nothing was changed."""
    with _handling_signals(signal.default_int_handler):
        try:
            yield
        except KeyboardInterrupt:
            raise EnvironmentFailureError(
                Reason.CANCELLED,
                "the preview was stopped. Nothing was changed.",
                next_step="Run the command again to see the preview.",
            ) from None


@contextlib.contextmanager
def reporting_interruption() -> Iterator[None]:
    """Report an interruption as an error that says how to see what was done, instead of a bare exit."""
    try:
        yield
    except KeyboardInterrupt:
        raise interrupted_error() from None


@contextlib.contextmanager
def _handling_signals(handler: Callable[[int, Any], object]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in TERMINATION_SIGNALS}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
