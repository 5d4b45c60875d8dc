"""The specification's counters of browser actions, as several processes count them, put together.

Actions are carried out in the browser host, and some in the server itself. Each tells its own text; only the two
families that the specification names, with exactly its labels and buckets, are taken from it. The third, how many
questions are open, is the same in each and is asked of the store.
"""

import contextlib
import socket
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from remit.observability.browser_metrics import BUCKETS, DURATION, REQUESTS

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


def ask_for_text(connection: socket.socket) -> str | None:
    """GET /metrics over a socket of the browser host, within a second and a quarter megabyte; None if it is not so."""
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


def added_up(texts: Iterable[str]) -> "Iterator[Metric]":
    """The two families, the sum of what the texts say. A text that cannot be read counts for nothing."""
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
            fits = sample.name in _SAMPLES and sample.labels.keys() == _SAMPLES[sample.name]
            if (
                fits
                and sample.labels.get("le", "+Inf") in _LE
                and all(len(v) <= MAX_LABEL for v in sample.labels.values())
            ):
                yield (sample.name, tuple(sample.labels.items())), sample.value
