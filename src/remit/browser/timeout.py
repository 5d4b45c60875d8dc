"""The time limit of one action in the browser. The time that an approver takes is not included; an approval request has
a limit of its own.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Final, Self

POLL_SECONDS: Final = 0.1
"""The precision with which the approver's time is separated from the browser's."""


class ActionTime:
    """A time limit for the body of a `with`. When it is over, `end` is called once. Leaves no thread behind."""

    def __init__(self, seconds: float, waits_for_person: Callable[[], bool], end: Callable[[], None]) -> None:
        self._left = seconds
        self._waits_for_person = waits_for_person
        self._end = end
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._watch_time, name="remit-action-time")
        self.is_over = False

    def __enter__(self) -> Self:
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watch.join()

    def _watch_time(self) -> None:
        checked_at = time.monotonic()
        while not self._done.wait(min(self._left, POLL_SECONDS)):
            now = time.monotonic()
            spent = 0.0 if self._waits_for_person_now() else now - checked_at
            self._left, checked_at = max(0.0, self._left - spent), now
            if self._left == 0:
                self.is_over = True
                self._end()
                return

    def _waits_for_person_now(self) -> bool:
        """Whether an approver's answer is awaited. If that cannot be read, the answer is no; else there would be no
        limit.
        """
        with contextlib.suppress(Exception):
            return self._waits_for_person()
        return False
