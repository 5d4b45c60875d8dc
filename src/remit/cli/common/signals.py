"""Ctrl-C (SIGINT) and SIGTERM. Both cancel the command, and the work is undone or left for recovery."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

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
        os.write(2, b"\nCancelling; all changes will be undone.\n")

    with _handling_signals(on_signal), reporting_interruption():
        yield requested.is_set


@contextlib.contextmanager
def interrupting() -> Iterator[None]:
    """For work that cannot be cancelled step by step. The first signal interrupts it, and its changes are undone."""
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
    """Report an interruption as an error with the next step, instead of a bare exit."""
    try:
        yield
    except KeyboardInterrupt:
        raise EnvironmentFailureError(
            Reason.CANCELLED,
            "stopped; changes that had started were undone, or are left for recovery",
            next_step="To make sure that nothing is left unfinished: remit recover",
        ) from None


@contextlib.contextmanager
def _handling_signals(handler: Callable[[int, Any], object]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in TERMINATION_SIGNALS}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
