"""Metrics of this process: every counter and histogram, in one place.

They are plain numbers behind one lock each, for a scraper (`remit.observability.prometheus`). They are not sent or
stored, and no decision uses them. A label is an operation, a code or a kind: a word of this program, from a closed set.
No name, path or value of a user may become a label. If a caller breaks that rule, the number of different labels is
still bounded.
"""

import threading
from bisect import bisect_left
from typing import Final, NamedTuple

MOST_SERIES: Final = 400
"""The most different labels of one counter. Further ones are counted as `other`."""
OTHER: Final = "other"

Labels = tuple[str, ...]


class HistogramData(NamedTuple):
    """How many values are at or below each bound, and the sum of all values. The last bound is infinite."""

    counts: tuple[int, ...]
    total: float


class Counted:
    """The common part of a counter and a histogram: name, meaning and labels."""

    def __init__(self, name: str, meaning: str, labels: Labels = ()) -> None:
        self.name = name
        self.meaning = meaning
        self.labels = labels
        self._lock = threading.Lock()


class Counter(Counted):
    """A number that only grows."""

    def __init__(self, name: str, meaning: str, labels: Labels = ()) -> None:
        super().__init__(name, meaning, labels)
        self._values: dict[Labels, int] = {}

    def add(self, *labels: str, by: int = 1) -> None:
        with self._lock:
            known = self._values.get(labels)
            if known is None and len(self._values) >= MOST_SERIES:
                labels = (OTHER,) * len(self.labels)
                known = self._values.get(labels)
            self._values[labels] = (known or 0) + by

    def read(self) -> dict[Labels, int]:
        with self._lock:
            return dict(self._values)


class Histogram(Counted):
    """A histogram: how values, such as seconds, are distributed."""

    def __init__(self, name: str, meaning: str, labels: Labels = (), *, bounds: tuple[float, ...]) -> None:
        super().__init__(name, meaning, labels)
        self.bounds = bounds
        self._values: dict[Labels, list[int]] = {}
        self._totals: dict[Labels, float] = {}

    def observe(self, value: float, *labels: str) -> None:
        with self._lock:
            counts = self._values.get(labels)
            if counts is None:
                if len(self._values) >= MOST_SERIES:
                    labels = (OTHER,) * len(self.labels)
                counts = self._values.setdefault(labels, [0] * (len(self.bounds) + 1))
            counts[bisect_left(self.bounds, value)] += 1
            self._totals[labels] = self._totals.get(labels, 0.0) + value

    def read(self) -> dict[Labels, HistogramData]:
        with self._lock:
            return {
                labels: HistogramData(tuple(counts), self._totals[labels]) for labels, counts in self._values.items()
            }


_QUICK: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
_BROAD: Final = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)

EXECUTIONS: Final = Counter(
    "remit_road_requests_total",
    "Requests by how the execution engine ended them: done, refused, stored, previewed, malformed, unsettled",
    ("door", "ending"),
)
EXECUTION_SECONDS: Final = Histogram(
    "remit_road_seconds",
    "Time from the first step to the last, including the time that a person needs to answer",
    ("door",),
    bounds=_BROAD,
)
REFUSALS: Final = Counter("remit_road_refusals_total", "Requests refused before any change", ("door", "code"))
FAILURES: Final = Counter(
    "remit_road_failures_total", "Requests that failed after their effect had started and was undone", ("door", "code")
)
RECOVERED: Final = Counter(
    "remit_recovered_total",
    "Requests that a crash had interrupted, by result of recovery: finished, cleared, closed, stuck",
    ("door", "ending"),
)
ENTRIES: Final = Counter("remit_ledger_entries_total", "Durable entries, by the first word of their kind", ("group",))
COMMITS: Final = Histogram(
    "remit_ledger_commit_seconds", "Transactions of the ledger, each shared by concurrent writers", bounds=_QUICK
)
GOAL_EVENTS: Final = Counter("remit_goal_events_total", "Steps of goals, by event and code", ("event", "code"))
SANDBOX_SECONDS: Final = Histogram(
    "remit_sandbox_seconds", "Work in a sandboxed process, from its start to its end", bounds=_BROAD
)
SANDBOX_KILLS: Final = Counter(
    "remit_sandbox_kills_total", "Interrupted work: quota, time limit, death of the process, cancellation", ("code",)
)
HTTP_REQUESTS: Final = Counter("remit_http_requests_total", "Answered requests", ("route", "method", "status"))
HTTP_SECONDS: Final = Histogram(
    "remit_http_request_seconds", "Time from the request's head to the end of its response", ("route",), bounds=_BROAD
)

COUNTERS: Final = (
    EXECUTIONS,
    REFUSALS,
    FAILURES,
    RECOVERED,
    ENTRIES,
    GOAL_EVENTS,
    SANDBOX_KILLS,
    HTTP_REQUESTS,
)
DISTRIBUTIONS: Final = (EXECUTION_SECONDS, COMMITS, SANDBOX_SECONDS, HTTP_SECONDS)
