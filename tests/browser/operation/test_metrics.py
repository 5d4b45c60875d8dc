"""The three metrics of the browser door, as Prometheus reads them."""

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from remit.observability.browser_metrics import BUCKETS, SUCCESS, Metrics

pytestmark = pytest.mark.req("VX-13")


def test_the_metrics_have_the_names_labels_and_buckets_of_the_specification() -> None:
    pending = 3
    metrics = Metrics(lambda: pending)
    metrics.count("navigate", SUCCESS, 0.2)
    metrics.count("navigate", SUCCESS, 3)
    metrics.count("click", "ELEMENT_NOT_FOUND", 11)
    read: dict[tuple[Any, ...], float] = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }
    total = "abos_executor_requests_total"
    assert read[total, ("action", "navigate"), ("status", "success")] == 2
    assert read[total, ("action", "click"), ("status", "ELEMENT_NOT_FOUND")] == 1
    buckets = [float(key[2][1]) for key in read if key[:2] == (f"{DURATION}_bucket", ("action", "navigate"))]
    assert sorted(buckets) == [*BUCKETS, float("inf")]
    assert list(BUCKETS) == [0.1, 0.5, 1, 2, 5, 10]
    assert read[f"{DURATION}_bucket", ("action", "navigate"), ("le", "0.5")] == 1
    assert read[f"{DURATION}_count", ("action", "click")] == 1
    assert read[("abos_executor_approvals_pending",)] == 3


def test_pending_approvals_are_counted_when_the_metrics_are_rendered() -> None:
    waiting = [1, 2]
    metrics = Metrics(lambda: len(waiting))
    assert b"abos_executor_approvals_pending 2.0" in metrics.render()
    waiting.clear()
    assert b"abos_executor_approvals_pending 0.0" in metrics.render()


def test_the_metrics_contain_nothing_else_of_the_process() -> None:
    names = {family.name for family in text_string_to_metric_families(Metrics(lambda: 0).render().decode())}
    assert names == {"abos_executor_requests", DURATION, "abos_executor_approvals_pending"}


DURATION = "abos_executor_duration_seconds"
