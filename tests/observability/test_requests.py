"""Requests over HTTP as they are counted, logged and traced: under ids, by route, and with nothing that is secret."""

import http.client
import io
import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, Request
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from remit.core.metrics import HTTP_REQUESTS, HTTP_SECONDS
from remit.observability import tracing
from remit.observability.logs import configure_logging, current_ids
from remit.web.http.access_log import AccessLogMiddleware

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SECRET = "s3cret-l0gin-c0de"


@dataclass
class _Somebody:
    id: str = "agent:reader"


def _app() -> FastAPI:
    app = FastAPI(openapi_url=None)

    @app.get("/things/{name}")
    def thing(name: str, request: Request) -> dict[str, Any]:
        """In a thread of its own."""
        request.state.caller = _Somebody()
        logging.getLogger("remit.tests").info("inside")
        inner: list[str] = []
        if tracing.tracer is not None:
            with tracing.tracer.start_as_current_span("inner"):
                inner.append("span")
        return {"ids": dict(current_ids()), "state": request.state.request_id, "name": name, "inner": inner}

    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError(SECRET)

    @app.get("/healthz")
    async def healthz() -> dict[str, bool]:
        return {"ok": True}

    return app


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    config = uvicorn.Config(AccessLogMiddleware(_app()), port=0, log_config=None, access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    socket = config.bind_socket()
    socket.listen()  # whoever connects before it is up waits
    thread = threading.Thread(target=server.run, args=([socket],))
    thread.start()
    yield socket.getsockname()[1]
    server.should_exit = True
    thread.join()
    socket.close()


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    root, ours = logging.getLogger(), logging.getLogger("remit")
    levels = root.level, ours.level
    sink = io.StringIO()
    handler = configure_logging(sink, logging.DEBUG)
    yield sink
    root.removeHandler(handler)
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def _get(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def _records(sink: io.StringIO, message: str, count: int = 1) -> list[dict[str, Any]]:
    """The access record is written once the answer is out: it is waited for."""
    for _ in range(2_000):
        found = [one for one in map(json.loads, sink.getvalue().splitlines()) if one["message"] == message]
        if len(found) >= count:
            return found
        threading.Event().wait(0.005)
    raise AssertionError(sink.getvalue())


def test_a_request_has_one_id_in_its_answer_its_thread_and_its_records(port: int, logged: io.StringIO) -> None:
    status, headers, body = _get(port, "/things/x", X_Request_Id="caller-chose-this.1")
    told = json.loads(body)
    assert status == 200
    assert headers["x-request-id"] == told["state"] == told["ids"]["request_id"] == "caller-chose-this.1"
    assert _records(logged, "inside")[0]["request_id"] == "caller-chose-this.1"
    assert _records(logged, "request answered")[0]["request_id"] == "caller-chose-this.1"


def test_the_id_is_that_of_the_trace_or_a_new_one_if_none_was_given(port: int) -> None:
    assert _get(port, "/healthz", traceparent=f"00-{TRACE}-{PARENT}-01")[1]["x-request-id"] == TRACE
    made = {_get(port, "/healthz")[1]["x-request-id"] for _ in range(3)}
    assert len(made) == 3
    for bad in (
        "short",
        "x" * 65,
        "with space",
        "semi;colon-colon",
        "-leading-dash",
        '"quoted-quoted"',
        "a\x00bcdefgh"[:1],
    ):
        assert _get(port, "/healthz", X_Request_Id=bad)[1]["x-request-id"] != bad
    for bad in (f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE.upper()}-{PARENT}-01", TRACE):
        assert _get(port, "/healthz", traceparent=bad)[1]["x-request-id"] != TRACE


def test_one_record_says_route_status_time_and_caller_and_no_path_query_or_header(
    port: int, logged: io.StringIO
) -> None:
    _get(port, f"/things/my-file?code={SECRET}", Authorization=f"Bearer {SECRET}", Cookie=f"remit_session={SECRET}")
    (record,) = _records(logged, "request answered")
    assert record["level"] == "info"
    assert record["logger"] == "remit.web.access"
    fields = record["fields"]
    assert isinstance(fields.pop("ms"), float)
    assert fields == {"method": "GET", "route": "/things/{name}", "status": 200, "caller": "agent:reader"}
    assert SECRET not in logged.getvalue()
    assert "my-file" not in logged.getvalue()


def test_what_machines_ask_all_the_time_is_logged_for_debugging_only(port: int, logged: io.StringIO) -> None:
    _get(port, "/healthz")
    assert _records(logged, "request answered")[0]["level"] == "debug"


def test_requests_are_counted_by_template_method_and_status(port: int) -> None:
    before = HTTP_REQUESTS.read()
    asked = [("/things/a", "GET"), ("/things/b", "GET"), ("/nothing/here", "GET"), ("/things/c", "BREW")]
    answers = [_get(port, path, method)[0] for path, method in asked]
    _get(port, "/broken")
    wanted = {
        ("/things/{name}", "GET", "200"): 2,
        ("none", "GET", "404"): 1,
        ("/things/{name}", "other", "405"): 1,
        ("/broken", "GET", "500"): 1,
    }
    assert answers == [200, 200, 404, 405]

    def grown() -> dict[tuple[str, ...], int]:
        now = HTTP_REQUESTS.read()
        return {key: value - before.get(key, 0) for key, value in now.items() if value != before.get(key, 0)}

    for _ in range(2_000):
        if grown() == wanted:
            break
        threading.Event().wait(0.005)
    assert grown() == wanted
    assert sum(HTTP_SECONDS.read()["/broken",].counts) >= 1


def test_a_span_of_the_server_stands_between_the_callers_and_what_happens_inside(
    port: int, logged: io.StringIO
) -> None:
    exporter = InMemorySpanExporter()
    with tracing.tracing({}, exporter):
        _, headers, body = _get(port, "/things/x", traceparent=f"00-{TRACE}-{PARENT}-01")
        _records(logged, "request answered")
    spans = {span.name: span for span in exporter.get_finished_spans()}
    server, inner = spans["GET /things/{name}"], spans["inner"]
    assert json.loads(body)["ids"]["trace_id"] == TRACE
    assert headers["x-request-id"] == TRACE
    assert server.parent is not None
    assert f"{server.parent.span_id:016x}" == PARENT
    assert f"{server.parent.trace_id:032x}" == TRACE
    context = server.get_span_context()
    assert inner.parent is not None
    assert context is not None
    assert inner.parent.span_id == context.span_id
    assert dict(server.attributes or {}) == {
        "http.request.method": "GET",
        "http.route": "/things/{name}",
        "http.response.status_code": 200,
    }
