"""What the browser door counts, under the names that its specification gives, for Prometheus.

Labels are the kind of an action and how it ended, and nothing else: no URL, no name and no value of anybody's can get
into a metric. The registry is our own, so that nothing else of the process is told.
"""

from collections.abc import Callable
from typing import Final

from remit.core.errors import EnvironmentFailureError, Reason

REQUESTS: Final = "abos_executor_requests_total"
DURATION: Final = "abos_executor_duration_seconds"
PENDING: Final = "abos_executor_approvals_pending"
BUCKETS: Final = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
SUCCESS: Final = "success"
"""The status of an action that succeeded. Of any other, it is the code of its error."""


INSTALL: Final = "pip install 'remit[browser]'; in a clone: .venv/bin/python -m pip install -e '.[browser]'"
"""How the browser's extra is had: everything that needs it says the same."""


class Metrics:
    """`pending` is asked for the number of open questions whenever somebody reads the metrics."""

    def __init__(self, pending: Callable[[], int]) -> None:
        try:
            # An extra, and heavy: loaded by whoever counts.
            from prometheus_client import (  # noqa: PLC0415 - see above
                CollectorRegistry,
                Counter,
                Gauge,
                Histogram,
                disable_created_metrics,
            )
            from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest  # noqa: PLC0415
        except ImportError:
            raise EnvironmentFailureError(
                Reason.EFFECT_FAILED,
                "the package that counts for Prometheus is not installed",
                next_step=f"Install it with: {INSTALL}",
            ) from None
        disable_created_metrics()  # type: ignore[no-untyped-call]  # each would bring a fourth and fifth metric along
        registry = CollectorRegistry()
        self.content_type: str = CONTENT_TYPE_PLAIN_0_0_4
        self._requests = Counter(REQUESTS, "Total executor requests", ["action", "status"], registry=registry)
        self._duration = Histogram(
            DURATION, "Executor request duration", ["action"], buckets=BUCKETS, registry=registry
        )
        self._pending = Gauge(PENDING, "Pending human approvals", registry=registry)
        self._pending.set_function(pending)
        self._render: Callable[[], bytes] = lambda: generate_latest(registry)

    def count(self, action: str, status: str, seconds: float) -> None:
        """One action that ended, allowed or not."""
        self._requests.labels(action, status).inc()
        self._duration.labels(action).observe(seconds)

    def render(self) -> bytes:
        """The text that Prometheus reads."""
        return self._render()
