"""Ctrl-C, and the signal by which a machine asks a program to end: both cancel, and neither leaves half of anything."""

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
    """What it yields says whether somebody asked to end. From the second time on it interrupts, as Ctrl-C ever does."""
    requested = threading.Event()

    def on_signal(_number: int, _frame: object) -> None:
        for number in TERMINATION_SIGNALS:
            signal.signal(number, signal.default_int_handler)
        requested.set()
        # Not by way of a stream: the signal may have come while one was being written to.
        os.write(2, b"\nCancelling; everything will be taken back.\n")

    with _handling_signals(on_signal), reporting_interruption():
        yield requested.is_set


@contextlib.contextmanager
def interrupting() -> Iterator[None]:
    """For what cannot be cancelled step by step: the first time interrupts, and what was begun is taken back."""
    with _handling_signals(signal.default_int_handler), reporting_interruption():
        yield


@contextlib.contextmanager
def reporting_interruption() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise EnvironmentFailureError(
            Reason.CANCELLED,
            "stopped; if something was begun, it was taken back, or is left for recovery",
            next_step="To make sure that nothing is left half done: remit recover",
        ) from None


@contextlib.contextmanager
def _handling_signals(handler: Callable[[int, Any], object]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in TERMINATION_SIGNALS}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
