"""What this process has counted since it began: every counter that there is, in one place.

Plain numbers behind one lock each, for whoever scrapes them (`remit.observability.prometheus`); nothing is
sent, kept or decided by them. A label says a door, a code, a kind: words of this program, from closed sets. No name,
path or value of anybody's may become one; should a caller get that wrong, the number of different ones is bounded all
the same.
"""

import threading
from bisect import bisect_left
from typing import Final, NamedTuple

MOST_SERIES: Final = 400
"""Different labels of one counter. Whatever comes after them is counted as `other`."""
OTHER: Final = "other"

Labels = tuple[str, ...]


class HistogramData(NamedTuple):
    """How many values lay at or below each bound, the last one being infinite, and their sum."""

    counts: tuple[int, ...]
    total: float


class Counted:
    """What a counter and a distribution share: a name, a meaning, and which labels they have."""

    def __init__(self, name: str, meaning: str, labels: Labels = ()) -> None:
        self.name = name
        self.meaning = meaning
        self.labels = labels
        self._lock = threading.Lock()


class Counter(Counted):
    """Only ever grows."""

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
    """How values are spread, such as seconds: a histogram."""

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
    "Requests that came to the end of the road, by how: done, refused, stored, previewed, malformed, unsettled",
    ("door", "ending"),
)
EXECUTION_SECONDS: Final = Histogram(
    "remit_road_seconds",
    "From the first step to the last; a person's time to answer is in it",
    ("door",),
    bounds=_BROAD,
)
REFUSALS: Final = Counter("remit_road_refusals_total", "Refused before anything was touched", ("door", "code"))
FAILURES: Final = Counter(
    "remit_road_failures_total", "Begun and come to nothing: whatever it had done was undone", ("door", "code")
)
RECOVERED: Final = Counter(
    "remit_recovered_total",
    "What a crash had left, by what came of it: finished, cleared, closed, stuck",
    ("door", "ending"),
)
ENTRIES: Final = Counter("remit_ledger_entries_total", "Durable entries, by the first word of their kind", ("group",))
COMMITS: Final = Histogram(
    "remit_ledger_commit_seconds", "Transactions of the ledger, each for all who wrote at that moment", bounds=_QUICK
)
GOAL_EVENTS: Final = Counter("remit_goal_events_total", "What became of goals, step by step", ("event", "code"))
SANDBOX_SECONDS: Final = Histogram(
    "remit_sandbox_seconds", "Work in a sandboxed process, from its go to its end", bounds=_BROAD
)
SANDBOX_KILLS: Final = Counter(
    "remit_sandbox_kills_total", "Work that was cut short: a quota, its time, its death, a cancellation", ("code",)
)
HTTP_REQUESTS: Final = Counter("remit_http_requests_total", "Answered requests", ("route", "method", "status"))
HTTP_SECONDS: Final = Histogram(
    "remit_http_request_seconds", "From the request's head to the end of its answer", ("route",), bounds=_BROAD
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
