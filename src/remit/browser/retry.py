"""Retries of an action: at most three, with growing pauses, and never after a request may have been sent."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from remit.browser.chromium.types import ElementNeverFoundError, PageEndedError
from remit.browser.policy import browser_error
from remit.contracts.browser.errors import (
    BACKOFF_INITIAL_MS,
    BACKOFF_MAX_MS,
    BACKOFF_MULTIPLIER,
    MAX_RETRIES,
    RETRYABLE_CODES,
)
from remit.core.errors import EnvironmentFailureError, Reason, RemitError

T = TypeVar("T")
Sleep = Callable[[float], None]

# A KERNEL_ERROR with one of these reasons would occur again, or its effect is unknown.
_FINAL: Final = frozenset({Reason.FATE_UNKNOWN, Reason.SANDBOX_UNAVAILABLE, Reason.CANCELLED, Reason.INTERNAL})


class Retries:
    """The retries of one action, for all its steps together. `record` is called before each retry."""

    def __init__(self, record: Callable[[int, RemitError], None], sleep: Sleep = time.sleep) -> None:
        self._record = record
        self._sleep = sleep
        self.count = 0

    def run(self, work: Callable[[], T], is_safe: Callable[[RemitError], bool] = lambda _: True) -> T:
        """Run the work, with retries. `is_safe` returns whether the failed try did nothing that must not happen
        twice.
        """
        while True:
            try:
                return work()
            except RemitError as problem:
                if self.count >= MAX_RETRIES or not is_retryable(problem) or not is_safe(problem):
                    raise
                self.count += 1
                self._record(self.count, problem)
                self._sleep(pause_before(self.count))


def is_retryable(problem: RemitError) -> bool:
    """Whether a retry may end differently, by the error code. Of the refusals, only the one for an element that may
    still appear.
    """
    if isinstance(problem, ElementNeverFoundError | PageEndedError):
        return False
    if browser_error(problem).code not in RETRYABLE_CODES or problem.reason in _FINAL:
        return False
    return isinstance(problem, EnvironmentFailureError) or problem.reason is Reason.ELEMENT_MISSING


def pause_before(retry: int) -> float:
    """Return the pause in seconds before this retry."""
    milliseconds: int = min(BACKOFF_INITIAL_MS * BACKOFF_MULTIPLIER ** (retry - 1), BACKOFF_MAX_MS)
    return milliseconds / 1_000
