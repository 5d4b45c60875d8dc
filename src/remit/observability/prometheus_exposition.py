"""The text that Prometheus reads: this process's counters, how things stand, and what the browser host counted."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from remit.core.errors import EnvironmentFailed, Reason
from remit.core.metrics import COUNTERS, DISTRIBUTIONS, Distribution
from remit.observability.browser_metrics import DURATION, PENDING, REQUESTS
from remit.observability.gauges import GAUGES, Standing
from remit.observability.prometheus_executor_text import added_up

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
"""What the package adds about the server's process."""


class Known(NamedTuple):
    """A metric as the documentation and the dashboard may name it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


def known_metrics() -> list[Known]:
    """Every metric that a scrape of the server can show, in the order of the text."""
    return [
        Known(REQUESTS, "counter", ("action", "status"), "Total executor requests: browser actions, by how they ended"),
        Known(DURATION, "histogram", ("action",), "Executor request duration, in seconds"),
        Known(PENDING, "gauge", (), "Pending human approvals: requests of the browser that wait for a person"),
        *(Known(one.name, "counter", one.labels, one.meaning) for one in COUNTERS),
        *(Known(one.name, "histogram", one.labels, one.meaning) for one in DISTRIBUTIONS),
        *(Known(one.name, "gauge", one.labels, one.meaning) for one in GAUGES),
        *(Known(name, "counter" if name.endswith("_total") else "gauge", (), "As the name says") for name in PROCESS),
    ]


def render(standing: Standing, texts: Sequence[str] = (), pending: int | None = None) -> tuple[bytes, str]:
    """The text and its content type. `texts` are those of the processes that carry out browser actions."""
    try:
        # An extra, and heavy: loaded by whoever scrapes.
        from prometheus_client import CollectorRegistry, ProcessCollector  # noqa: PLC0415 - see above
        from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest  # noqa: PLC0415
    except ImportError:
        raise EnvironmentFailed(
            Reason.EFFECT_FAILED,
            "the package that writes for Prometheus is not installed",
            next_step=f"Install it with: {INSTALL}",
        ) from None
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(standing, texts, pending))
    ProcessCollector(registry=registry)
    return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4


class _Collector:
    def __init__(self, standing: Standing, texts: Iterable[str], pending: int | None) -> None:
        self._standing = standing
        self._texts = texts
        self._pending = pending

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - an extra

        yield from added_up(self._texts)
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
            for labels, value in self._standing.get(gauge, {}).items():
                family.add_metric(labels, value)
            yield family


def _histogram(distribution: Distribution) -> "Metric":
    from prometheus_client.metrics_core import HistogramMetricFamily  # noqa: PLC0415 - an extra

    family = HistogramMetricFamily(distribution.name, distribution.meaning, labels=distribution.labels)
    bounds = [*(str(bound) for bound in distribution.bounds), "+Inf"]
    for labels, spread in distribution.read().items():
        buckets = list(zip(bounds, itertools.accumulate(spread.counts), strict=True))
        family.add_metric(labels, buckets=buckets, sum_value=spread.total)
    return family
