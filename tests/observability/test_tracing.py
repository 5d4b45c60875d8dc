"""Spans of the road: each step, in its order, under one request; no secret in them; nothing is loaded without them."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.request import urlopen

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from remit.core.errors import EnvironmentFailureError
from remit.execution import engine as road
from remit.execution.journal import Journal
from remit.observability import tracing
from remit.workspace.workspace import Workspace
from tests.support.patience import SOON
from tests.support.task_workspace import file_task, manifest, run

MAIN_STEPS = [
    "1. parse",
    "2. verify authority",
    "3. decide",
    "4. preview",
    "5. consent",
    "6. checkpoint",
    "7. intent",
    "8. effect",
    "9. verify",
    "10. outcome",
    "11. report",
]


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    with tracing.tracing({}, exporter) as on:
        assert on
        yield exporter


def _request(spans: InMemorySpanExporter) -> tuple[ReadableSpan, list[ReadableSpan]]:
    """The one request, and its steps in the order in which they began."""
    found = spans.get_finished_spans()
    whole = [span for span in found if span.name.startswith("remit ")]
    assert len(whole) == 1
    steps = sorted((span for span in found if span is not whole[0]), key=lambda span: span.start_time or 0)
    context = whole[0].get_span_context()
    assert context is not None
    assert all(step.parent is not None and step.parent.span_id == context.span_id for step in steps)
    return whole[0], steps


def test_the_eleven_steps_are_spans_in_their_order_under_one(workspace: Workspace, spans: InMemorySpanExporter) -> None:
    run(workspace, manifest("traced-1"))
    whole, steps = _request(spans)
    assert [step.name for step in steps if step.name in MAIN_STEPS] == MAIN_STEPS
    assert whole.name == "remit task"
    assert dict(whole.attributes or {}) == {
        "remit.door": "task",
        "remit.correlation_id": "traced-1",
        "remit.ending": "done",
    }
    assert whole.status.status_code is not StatusCode.ERROR


def test_the_names_of_spans_are_those_of_the_engine_steps(workspace: Workspace) -> None:
    """Each step of the docstring has a span, and each span is taken from a method that there is."""
    told = [line.strip() for line in (road.__doc__ or "").splitlines() if line.strip()[:1].isdigit()]
    assert [line.split(":")[0] for line in told] == MAIN_STEPS
    doors = {name for name in dir(road.Operation) if not name.startswith("_")} | set(dir(Journal))
    assert set(tracing.STEPS) <= doors


def test_a_refusal_carries_its_code_and_no_text(workspace: Workspace, spans: InMemorySpanExporter) -> None:
    lease = workspace.issue_lease(manifest("traced-2")).canonical()
    workspace.execute_task(manifest("traced-3"), lease)
    whole, steps = _request(spans)
    assert (whole.attributes or {})["remit.ending"] == "refused"
    assert (whole.attributes or {})["remit.code"] == "signature_invalid"
    assert [step.name for step in steps] == ["1. parse", "2. verify authority", "10. refusal", "11. report"]
    failed = [step for step in steps if step.status.status_code is StatusCode.ERROR]
    assert [dict(step.attributes or {}) for step in failed] == [{"remit.code": "signature_invalid"}]


def test_no_path_value_or_text_of_an_error_gets_into_a_span(workspace: Workspace, spans: InMemorySpanExporter) -> None:
    base = Path(workspace.config.base_directories[0])
    run(workspace, file_task("token=hunter2-Xq9-secret", "EXPLODE", None, base / "giveaway"))
    told = "".join(span.to_json() for span in spans.get_finished_spans())
    assert "effect_failed" in told
    for secret in ("hunter2", "giveaway", str(base), "password"):
        assert secret not in told
    assert not any(span.events for span in spans.get_finished_spans())


def test_without_it_nothing_of_opentelemetry_is_loaded(tmp_path: Path) -> None:
    code = (
        "import sys, remit.execution.engine, remit.workspace.workspace, remit.observability.tracing as t\n"
        "with t.tracing({}) as on: assert not on and t.tracer is None\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_missing_extra_is_reported_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with (
        pytest.raises(EnvironmentFailureError, match=r"remit\[otel\]") as told,
        tracing.tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}),
    ):
        pass
    assert told.value.where == "OTEL_EXPORTER_OTLP_ENDPOINT"


def test_it_can_be_switched_off() -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "TRUE"}
    with tracing.tracing(environ) as on:
        assert not on


@contextmanager
def _receiver() -> Iterator[tuple[str, list[tuple[str, ExportTraceServiceRequest]]]]:
    """Where to send spans over OTLP/HTTP, and what has come."""
    received: list[tuple[str, ExportTraceServiceRequest]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", received
        finally:
            server.shutdown()
            thread.join()


def _names(received: list[tuple[str, ExportTraceServiceRequest]]) -> list[str]:
    resources = [resource for _, told in received for resource in told.resource_spans]
    return [span.name for one in resources for scope in one.scope_spans for span in scope.spans]


def test_spans_reach_a_receiver_over_http(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with _receiver() as (endpoint, received):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        with tracing.tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}) as on:
            assert on
            run(workspace, manifest("traced-9"))
    assert {path for path, _ in received} == {"/v1/traces"}
    resources = [resource for _, told in received for resource in told.resource_spans]
    service = {pair.key: pair.value.string_value for resource in resources for pair in resource.resource.attributes}
    assert service["service.name"] == "remit"
    assert sorted(set(MAIN_STEPS) - set(_names(received))) == []
    assert tracing.tracer is None


def test_an_end_does_not_wait_for_a_collector_that_takes_nothing(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "END_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connections come in, and nothing is ever answered
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        began = 0.0
        with tracing.tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}):
            run(workspace, manifest("traced-10"))
            began = time.monotonic()
        assert time.monotonic() - began < SOON


@pytest.mark.long
def test_remit_serve_sends_the_spans_of_its_requests(workspace: Workspace) -> None:
    command = [sys.executable, "-m", "remit", "serve", "--no-link", "--json", "--port=0", "-C", str(workspace.root)]
    with _receiver() as (endpoint, received):
        environ = {"REMIT_STATE": str(workspace.state.path.parent), "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ) as server:
            assert server.stdout is not None
            with urlopen(json.loads(server.stdout.readline())["url"] + "/healthz") as answer:  # noqa: S310 - our own server
                assert answer.status == 200
            server.terminate()
            assert server.wait(30) == 0
    assert "GET /healthz" in _names(received)
