"""Metrics are exact with many threads, and bounded whatever labels they get."""

import threading

from remit.core.metrics import COUNTERS, DISTRIBUTIONS, MOST_SERIES, Counter, Histogram


def test_no_count_is_lost_between_threads() -> None:
    counter = Counter("c", "", ("which",))
    spread = Histogram("d", "", bounds=(1.0, 2.0))

    def work() -> None:
        for _ in range(5_000):
            counter.add("a")
            spread.observe(1.5)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.read() == {("a",): 40_000}
    assert spread.read()[()].counts == (0, 40_000, 0)
    assert spread.read()[()].total == 60_000


def test_a_value_on_a_bound_belongs_below_it() -> None:
    spread = Histogram("d", "", bounds=(1.0, 2.0))
    for value in (1.0, 1.1, 2.0, 2.1):
        spread.observe(value)
    assert spread.read()[()].counts == (1, 2, 1)


def test_labels_past_the_limit_are_counted_as_other() -> None:
    counter = Counter("c", "", ("path", "who"))
    spread = Histogram("d", "", ("path",), bounds=(1.0,))
    for number in range(3 * MOST_SERIES):
        counter.add(f"/secret/{number}", "me")
        spread.observe(0.5, f"/secret/{number}")
    assert len(counter.read()) == len(spread.read()) == MOST_SERIES + 1
    assert counter.read()["other", "other"] == 2 * MOST_SERIES
    assert spread.read()["other",].counts == (2 * MOST_SERIES, 0)


def test_every_name_is_unique_and_valid_for_prometheus() -> None:
    names = [one.name for one in (*COUNTERS, *DISTRIBUTIONS)]
    assert len(names) == len(set(names))
    assert all(one.name.startswith("remit_") and one.name.endswith("_total") for one in COUNTERS)
    assert all(one.name.endswith("_seconds") for one in DISTRIBUTIONS)
