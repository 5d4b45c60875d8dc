"""Metrics of browser actions for Prometheus, under the names that their specification gives.

The labels are the kind of an action and how it ended. No URL, name or value of a user can get into a metric. Remit uses
a registry of its own, so that it publishes nothing else about the process.
"""

from collections.abc import Callable
from typing import Final

from remit.core.errors import EnvironmentFailureError, Reason

REQUESTS: Final = "abos_executor_requests_total"
DURATION: Final = "abos_executor_duration_seconds"
PENDING: Final = "abos_executor_approvals_pending"
BUCKETS: Final = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
SUCCESS: Final = "success"
"""The status of an action that succeeded. The status of any other action is the code of its error."""


INSTALL: Final = "pip install 'remit[browser]'; in a clone: .venv/bin/python -m pip install -e '.[browser]'"
"""The command that installs the browser extra. Every message about a missing extra shows it."""


class Metrics:
    """The metrics of this process. Each scrape calls `pending` for the number of pending approval requests."""

    def __init__(self, pending: Callable[[], int]) -> None:
        try:
            # An extra that loads slowly: only a process that counts pays for it.
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
                "the package prometheus_client is not installed; the browser's metrics need it",
                next_step=f"Install it with: {INSTALL}",
            ) from None
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they are not in the specification
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
        """Count one action that ended, allowed or not."""
        self._requests.labels(action, status).inc()
        self._duration.labels(action).observe(seconds)

    def render(self) -> bytes:
        """Return the text that Prometheus reads."""
        return self._render()
