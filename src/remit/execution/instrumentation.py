"""Metrics and optional trace spans of one request. This module decides nothing and never raises."""

import time
from types import TracebackType
from typing import Literal, Self, TypeVar

from remit.core.errors import Reason, RefusedError
from remit.core.metrics import EXECUTION_SECONDS, EXECUTIONS, REFUSALS
from remit.observability import tracing

T = TypeVar("T")
Ending = Literal["done", "refused", "stored", "previewed", "malformed", "unsettled"]
"""How a run of the engine ended. `done` has an outcome, perhaps a failure; `unsettled` raised and stays claimed."""


class ExecutionSpan:
    """The measurement of one run of the engine. The engine sets `ending`; an exception before that sets it too."""

    __slots__ = ("_began", "_operation", "_recorder", "ending")

    def __init__(self, operation: str) -> None:
        self._operation = operation
        self._began = 0.0
        self._recorder: tracing.TraceRecorder | None = None
        self.ending: Ending | None = None

    def follow(self, traced: T) -> T:
        """Wrap the object so that each step taken with it becomes a span, if tracing is on."""
        return traced if self._recorder is None else self._recorder.wrap(traced)

    def refused(self, reason: Reason) -> None:
        self.ending = "refused"
        REFUSALS.add(self._operation, reason.value)

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        if tracing.tracer is not None:
            self._recorder = tracing.TraceRecorder(tracing.tracer, self._operation)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.ending is None:
            self.ending = "malformed" if isinstance(problem, RefusedError) else "unsettled"
        EXECUTIONS.add(self._operation, self.ending)
        if self.ending != "previewed":
            EXECUTION_SECONDS.observe(time.monotonic() - self._began, self._operation)
        if self._recorder is not None:
            self._recorder.end(self.ending)
