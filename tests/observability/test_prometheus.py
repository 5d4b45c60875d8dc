"""The text that Prometheus reads: whole, parsable, the specification's three unchanged, the host's counted in."""

import socket
import threading
import time
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from remit.core.metrics import EXECUTIONS, HTTP_SECONDS
from remit.observability import prometheus as executor_text
from remit.observability.browser_metrics import BUCKETS, DURATION, PENDING, REQUESTS, SUCCESS, Metrics
from remit.observability.gauges import GAUGES, QUESTIONS, read_chains
from remit.observability.prometheus import MAX_TEXT, PROCESS, fetch_text, list_metrics, render
from remit.workspace.workspace import Workspace
from tests.support.patience import SOON
from tests.support.task_workspace import manifest, run

Read = dict[tuple[Any, ...], float]


def _read(body: bytes) -> Read:
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def test_all_that_is_known_is_in_the_text_and_nothing_else() -> None:
    EXECUTIONS.add("task", "done")
    HTTP_SECONDS.observe(0.2, "/healthz")
    body, media_type = render({gauge: {("x",) * len(gauge.labels): 1.0} for gauge in GAUGES}, (), 0)
    told = [line.split()[2] for line in body.decode().splitlines() if line.startswith("# TYPE")]
    known = [one.name for one in list_metrics()]
    assert sorted(told) == sorted(known)
    assert len(set(known)) == len(known)
    assert media_type.startswith("text/plain; version=0.0.4")
    assert set(PROCESS) <= set(known)
    read = _read(body)
    assert read["remit_http_request_seconds_bucket", ("le", "0.25"), ("route", "/healthz")] >= 1
    assert read["remit_http_request_seconds_count", ("route", "/healthz")] >= 1


def test_the_three_metrics_of_the_specification_are_present_without_any_browser_action() -> None:
    text = render({}, (), 0)[0].decode()
    for name, kind in ((REQUESTS, "counter"), (DURATION, "histogram"), (PENDING, "gauge")):
        assert f"# TYPE {name} {kind}" in text


def test_what_several_processes_counted_is_added_up_with_the_same_labels_and_buckets() -> None:
    host, own = Metrics(lambda: 7), Metrics(lambda: 7)
    host.count("navigate", SUCCESS, 0.2)
    host.count("click", "ELEMENT_NOT_FOUND", 11)
    own.count("navigate", SUCCESS, 3)
    read = _read(render({}, [host.render().decode(), own.render().decode()], 2)[0])
    assert read[REQUESTS, ("action", "navigate"), ("status", "success")] == 2
    assert read[REQUESTS, ("action", "click"), ("status", "ELEMENT_NOT_FOUND")] == 1
    assert read[f"{DURATION}_bucket", ("action", "navigate"), ("le", "0.5")] == 1
    assert read[f"{DURATION}_sum", ("action", "navigate")] == pytest.approx(3.2)
    bounds = sorted(float(key[2][1]) for key in read if key[:2] == (f"{DURATION}_bucket", ("action", "click")))
    assert bounds == [*BUCKETS, float("inf")]
    assert read[(PENDING,)] == 2


@pytest.mark.parametrize(
    "text",
    [
        "# TYPE remit_planted gauge\nremit_planted 1\n",
        f'# TYPE {REQUESTS} counter\n{REQUESTS}{{action="a",status="b",who="ada"}} 1\n',
        f'# TYPE {DURATION} histogram\n{DURATION}_bucket{{action="a",le="0.3"}} 1\n',
        f'{REQUESTS}{{action="{"x" * 65}",status="b"}} 1\n',
        "this is no metric at all {{{",
        f'{REQUESTS}{{action="a",status="b"}} one\n',
    ],
)
def test_what_the_host_should_not_say_is_not_passed_on(text: str) -> None:
    clean, planted = render({}, (), 0)[0].decode(), render({}, [text], 0)[0].decode()
    samples = [line for line in planted.splitlines() if line.startswith(("abos_", "remit_planted"))]
    assert samples == [line for line in clean.splitlines() if line.startswith("abos_")]


def _host(answer: bytes, *, hangs: bool = False) -> socket.socket:
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs:
            theirs.recv(1_000)
            theirs.settimeout(10)
            try:
                theirs.sendall(answer)
                while hangs and theirs.recv(1):
                    pass
            except OSError:
                pass

    threading.Thread(target=serve, daemon=True).start()
    return ours


def test_the_host_is_heard_only_so_long_and_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_text, "SCRAPE_SECONDS", 0.2)
    good = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nx 1\n"
    with _host(good) as ours:
        assert fetch_text(ours) == "x 1\n"
    with _host(b"HTTP/1.1 404 Not Found\r\n\r\nx 1\n") as ours:
        assert fetch_text(ours) is None
    with _host(good + b"x" * (MAX_TEXT + 1)) as ours:
        assert fetch_text(ours) is None
    with _host(b"HTTP/1.1 200 OK\r\n\r\n\xff") as ours:
        assert fetch_text(ours) is None
    began = time.monotonic()
    with _host(good, hangs=True) as ours:
        assert fetch_text(ours) is None
    assert time.monotonic() - began < SOON


def test_chains_are_counted_by_their_heads(workspace: Workspace) -> None:
    run(workspace, manifest("gauged"))
    with workspace.store.reading() as connection:
        found = read_chains(connection)
        rows = connection.rows("SELECT count(DISTINCT tenant_id), count(*), max(created_at) FROM ledger_entries")
        tenants, entries, newest = next(iter(rows))
    assert (found.count, found.entries) == (tenants, entries)
    assert found.newest_head is not None
    assert found.newest_head >= newest


def test_a_gauge_that_could_not_be_looked_up_is_not_told() -> None:
    assert f"\n{QUESTIONS.name}" not in render({}, (), None)[0].decode()
    assert PENDING not in render({}, (), None)[0].decode()
