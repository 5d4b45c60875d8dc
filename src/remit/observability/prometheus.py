"""The text that Prometheus reads: the counters of this process, its gauges, and the metrics of the browser host.

Browser actions run in the browser host, and some run in the server itself. Each process renders its own text. This
module adds them up. It takes only the two metric families that the specification names, with exactly its labels and
buckets. The third metric, the number of pending approvals, is the same in each process and is read from the store.
"""

import contextlib
import itertools
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from remit.core.errors import EnvironmentFailureError, Reason
from remit.core.metrics import COUNTERS, DISTRIBUTIONS, Histogram
from remit.observability.browser_metrics import BUCKETS, DURATION, PENDING, REQUESTS
from remit.observability.gauges import GAUGES, GaugeValues

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

MAX_TEXT: Final = 256 << 10
SCRAPE_SECONDS: Final = 1.0
MAX_LABEL: Final = 64
_LE: Final = frozenset({*(str(bound) for bound in BUCKETS), "+Inf"})
_SAMPLES: Final = {
    REQUESTS: frozenset({"action", "status"}),
    f"{DURATION}_bucket": frozenset({"action", "le"}),
    f"{DURATION}_count": frozenset({"action"}),
    f"{DURATION}_sum": frozenset({"action"}),
}

Key = tuple[str, tuple[tuple[str, str], ...]]


def fetch_text(connection: socket.socket) -> str | None:
    """Return the answer to GET /metrics over a socket of the browser host, or None if there is no valid answer.

    Reads for at most a second, and at most 256 KiB.
    """
    deadline = time.monotonic() + SCRAPE_SECONDS
    pieces: list[bytes] = []
    try:
        connection.settimeout(SCRAPE_SECONDS)
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        while sum(map(len, pieces)) <= MAX_TEXT:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            piece = connection.recv(65_536)
            if not piece:
                head, _, body = b"".join(pieces).partition(b"\r\n\r\n")
                return body.decode() if head.startswith(b"HTTP/1.1 200 ") else None
            pieces.append(piece)
    except (OSError, ValueError):
        return None
    return None


def sum_texts(texts: Iterable[str]) -> "Iterator[Metric]":
    """Yield the two families with the sums over all texts. A text that cannot be parsed adds nothing."""
    from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily  # noqa: PLC0415 - an extra

    sums: dict[Key, float] = {}
    for text in texts:
        with contextlib.suppress(ValueError):
            for key, value in list(_read(text)):
                sums[key] = sums.get(key, 0.0) + value
    requests = CounterMetricFamily(REQUESTS, "Total executor requests", labels=("action", "status"))
    duration = HistogramMetricFamily(DURATION, "Executor request duration", labels=("action",))
    for (name, labels), value in sums.items():
        (requests if name == REQUESTS else duration).add_sample(name, dict(labels), value)
    yield requests
    yield duration


def _read(text: str) -> Iterator[tuple[Key, float]]:
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - an extra

    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples = sample.name in _SAMPLES and sample.labels.keys() == _SAMPLES[sample.name]
            if (
                samples
                and sample.labels.get("le", "+Inf") in _LE
                and all(len(v) <= MAX_LABEL for v in sample.labels.values())
            ):
                yield (sample.name, tuple(sample.labels.items())), sample.value


if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

INSTALL: Final = "pip install 'remit[web]'; in a clone: .venv/bin/python -m pip install -e '.[web]'"
PROCESS: Final = (
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
)
"""The metrics that the package `prometheus_client` adds about the server's process."""


class MetricInfo(NamedTuple):
    """A metric with its labels and meaning, for the documentation and the dashboard."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


def list_metrics() -> list[MetricInfo]:
    """Return every metric that a scrape of the server can show, in the order of the text."""
    return [
        MetricInfo(
            REQUESTS, "counter", ("action", "status"), "Total executor requests: browser actions, by how they ended"
        ),
        MetricInfo(DURATION, "histogram", ("action",), "Executor request duration, in seconds"),
        MetricInfo(PENDING, "gauge", (), "Pending human approvals: browser requests that wait for a person"),
        *(MetricInfo(one.name, "counter", one.labels, one.meaning) for one in COUNTERS),
        *(MetricInfo(one.name, "histogram", one.labels, one.meaning) for one in DISTRIBUTIONS),
        *(MetricInfo(one.name, "gauge", one.labels, one.meaning) for one in GAUGES),
        *(
            MetricInfo(name, "counter" if name.endswith("_total") else "gauge", (), "As the name says")
            for name in PROCESS
        ),
    ]


def render(gauge_values: GaugeValues, texts: Sequence[str] = (), pending: int | None = None) -> tuple[bytes, str]:
    """Return the text and its content type. `texts` come from the processes that run browser actions."""
    try:
        # An extra that loads slowly: only a process that is scraped pays for it.
        from prometheus_client import CollectorRegistry, ProcessCollector  # noqa: PLC0415 - see above
        from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest  # noqa: PLC0415
    except ImportError:
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            "the package prometheus_client is not installed; /metrics needs it",
            next_step=f"Install it with: {INSTALL}",
        ) from None
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(gauge_values, texts, pending))
    ProcessCollector(registry=registry)
    return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4


class _Collector:
    def __init__(self, gauge_values: GaugeValues, texts: Iterable[str], pending: int | None) -> None:
        self._gauge_values = gauge_values
        self._texts = texts
        self._pending = pending

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - an extra

        yield from sum_texts(self._texts)
        if self._pending is not None:
            yield GaugeMetricFamily(PENDING, "Pending human approvals", value=self._pending)
        for counter in COUNTERS:
            counted = CounterMetricFamily(counter.name, counter.meaning, labels=counter.labels)
            for labels, count in counter.read().items():
                counted.add_metric(labels, count)
            yield counted
        yield from map(_histogram, DISTRIBUTIONS)
        for gauge in GAUGES:
            family = GaugeMetricFamily(gauge.name, gauge.meaning, labels=gauge.labels)
            for labels, value in self._gauge_values.get(gauge, {}).items():
                family.add_metric(labels, value)
            yield family


def _histogram(distribution: Histogram) -> "Metric":
    from prometheus_client.metrics_core import HistogramMetricFamily  # noqa: PLC0415 - an extra

    family = HistogramMetricFamily(distribution.name, distribution.meaning, labels=distribution.labels)
    bounds = [*(str(bound) for bound in distribution.bounds), "+Inf"]
    for labels, spread in distribution.read().items():
        buckets = list(zip(bounds, itertools.accumulate(spread.counts), strict=True))
        family.add_metric(labels, buckets=buckets, sum_value=spread.total)
    return family
