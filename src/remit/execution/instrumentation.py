"""One request on the road as it is counted; and, if somebody traces, as spans. It decides nothing and never raises."""

import time
from types import TracebackType
from typing import Literal, Self, TypeVar

from remit.core.errors import Reason, RefusedError
from remit.core.metrics import REFUSALS, ROAD_REQUESTS, ROAD_SECONDS
from remit.observability import tracing

T = TypeVar("T")
Ending = Literal["done", "refused", "stored", "previewed", "malformed", "unsettled"]
"""`done` has an outcome, a failure perhaps; `unsettled` raised, and stays claimed."""


class ExecutionSpan:
    """From the first step to the last. Whoever walks says how it ended; whatever raises before that says it too."""

    __slots__ = ("_began", "_door", "_trail", "ending")

    def __init__(self, door: str) -> None:
        self._door = door
        self._began = 0.0
        self._trail: tracing.TraceRecorder | None = None
        self.ending: Ending | None = None

    def follow(self, walked: T) -> T:
        """The same, and each step that is taken with it is a span."""
        return walked if self._trail is None else self._trail.follow(walked)

    def refused(self, reason: Reason) -> None:
        self.ending = "refused"
        REFUSALS.add(self._door, reason.value)

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        if tracing.tracer is not None:
            self._trail = tracing.TraceRecorder(tracing.tracer, self._door)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.ending is None:
            self.ending = "malformed" if isinstance(problem, RefusedError) else "unsettled"
        ROAD_REQUESTS.add(self._door, self.ending)
        if self.ending != "previewed":
            ROAD_SECONDS.observe(time.monotonic() - self._began, self._door)
        if self._trail is not None:
            self._trail.end(self.ending)
