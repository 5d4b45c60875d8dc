"""The outermost layer: it gives every request an id, counts it, logs it once, and traces it if tracing is on.

Metrics and logs have the template of the route, never the path or the query. Those contain ids, names and, in a login
link, a secret.
"""

import logging
import re
import time
from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from remit.core.metrics import HTTP_REQUESTS, HTTP_SECONDS, OTHER
from remit.observability import tracing
from remit.observability.logs import bind_ids
from remit.observability.request_context import RequestContext, new_request_id

if TYPE_CHECKING:
    from opentelemetry.trace import Span

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
QUIET: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths that monitoring programs request every few seconds."""
FIXED: Final = QUIET | {"/mcp"}
"""Paths that equal their template. So their requests are named even if they were refused before routing."""
NO_ROUTE: Final = "none"
GONE: Final = 499
"""The status of a request whose caller disconnected before the response."""

_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")
_TRACEPARENT: Final = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_LOG: Final = logging.getLogger("remit.web.access")


def request_id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the caller's request id if it is valid, otherwise the id of the caller's trace, otherwise a new one."""
    given = dict(headers)
    if _REQUEST_ID.fullmatch(sent := given.get(b"x-request-id", b"")):
        return sent.decode()
    traced = _TRACEPARENT.fullmatch(given.get(b"traceparent", b""))
    if traced and traced[1].strip(b"0") and traced[2].strip(b"0"):
        return traced[1].decode()
    return new_request_id()


def route_of(scope: Scope) -> str:
    """Return the template that matched the path, such as `/v1/tasks/{task_id}`."""
    path = getattr(scope.get("route"), "path", None)
    if isinstance(path, str) and path:
        return path
    return scope["path"] if scope["path"] in FIXED else NO_ROUTE


class AccessLogMiddleware:
    """The layer around the whole application, so that it sees refusals of the guard too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = request_id_of(scope["headers"])
        scope.setdefault("state", {})["request_id"] = request_id
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
                named = (b"x-request-id", request_id.encode())
                message = {**message, "headers": [*message.get("headers", ()), named]}
            await send(message)

        began = time.monotonic()
        with ExitStack() as inside:
            span = self._span(scope, inside)
            ids = {"request_id": request_id}
            if span is not None:
                ids["trace_id"] = f"{span.get_span_context().trace_id:032x}"
            scope["state"]["belonging"] = RequestContext(ids, span)
            inside.enter_context(bind_ids(**ids))
            try:
                await self._app(scope, receive, send_with_id)
            except Exception:
                status = status or 500
                raise
            finally:
                _log_request(scope, status or GONE, time.monotonic() - began, span)

    def _span(self, scope: Scope, inside: ExitStack) -> "Span | None":
        if tracing.tracer is None:
            return None
        return inside.enter_context(tracing.server_span(tracing.tracer, scope["headers"], _method(scope)))


def _log_request(scope: Scope, status: int, seconds: float, span: "Span | None") -> None:
    route, method = route_of(scope), _method(scope)
    HTTP_REQUESTS.add(route, method, str(status))
    HTTP_SECONDS.observe(seconds, route)
    if span is not None:
        span.update_name(f"{method} {route}")
        span.set_attributes({"http.route": route, "http.response.status_code": status})
    level = logging.DEBUG if route in QUIET else logging.INFO
    if _LOG.isEnabledFor(level):
        fields: dict[str, Any] = {"method": method, "route": route, "status": status, "ms": round(seconds * 1e3, 3)}
        caller = scope.get("state", {}).get("caller")
        if caller is not None:
            fields["caller"] = caller.id
        _LOG.log(level, "request answered", extra=fields)


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in METHODS else OTHER
