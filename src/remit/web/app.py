"""The web application. Its layers from the outside: access log, guard, error handlers, routes.

`build_app` builds it for one `Services`, which the caller closes.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import anyio.to_thread
from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from remit.core.errors import RemitError
from remit.services.services import Services
from remit.web.api.routers import api_routers
from remit.web.config.reload import SettingsWatcher
from remit.web.config.settings import WebSettings
from remit.web.console.pages import error_page, wants_page
from remit.web.console.router import console_router
from remit.web.http.access_log import AccessLogMiddleware
from remit.web.http.idempotency import IdempotencyKeys
from remit.web.http.openapi import rendered
from remit.web.http.problems import handle_errors, handle_parameters, use_error_page
from remit.web.http.request import JSON
from remit.web.login.routes import login_router
from remit.web.mcp_mount import McpMount
from remit.web.metrics import metrics_router
from remit.web.security.fair_share import THREADS, build_listener_quota, build_waiting_quota
from remit.web.security.middleware import install_guard

SPECIFICATION: Final = "/v1/openapi.json"
NO_TELEMETRY: Final[TelemetryConfig] = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
"""FastAPI's own telemetry is off, because it would send queries and texts of exceptions to the address in the
environment. `AccessLogMiddleware` is used instead."""


def build_app(services: Services, settings: WebSettings) -> FastAPI:
    """Build the application: HTTP API, console, login, metrics and, if the extra is installed, MCP."""
    mcp = McpMount.of(services, settings)
    app = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan(mcp),
        telemetry=NO_TELEMETRY,
    )
    app.state.services = services
    app.state.settings = settings
    app.state.settings_read = SettingsWatcher(services.workspace)
    app.state.keys = IdempotencyKeys()
    app.state.waiting = build_waiting_quota()
    app.state.listening = build_listener_quota(settings.config.limits.listeners)
    handle_errors(app)
    handle_parameters(app)
    for router in api_routers():
        app.router.routes.extend(router.routes)  # without a nested router: one lookup less per request
    _add_specification(app)
    _add_pages(app, services, settings)
    if mcp is not None:
        app.router.routes.append(Route("/mcp", mcp, include_in_schema=False))
    install_guard(app, services.workspace, settings)
    assert app.middleware_stack is not None  # noqa: S101 - the guard
    app.middleware_stack = AccessLogMiddleware(app.middleware_stack)
    return app


def _add_specification(app: FastAPI) -> None:
    """Add the OpenAPI document. It is public, because it describes the version and not this workspace."""
    rendered_once: list[bytes] = []

    def specification() -> Response:
        if not rendered_once:
            rendered_once.append(rendered(app))
        return Response(rendered_once[0], 200, {"Cache-Control": "no-cache"}, JSON)

    app.add_api_route(SPECIFICATION, specification, include_in_schema=False)


def _add_pages(app: FastAPI, services: Services, settings: WebSettings) -> None:
    """Add the routes outside /v1: login and console for people, and the metrics."""
    app.include_router(metrics_router(services))
    app.include_router(login_router(services.workspace, settings))
    app.include_router(console_router())
    use_error_page(app, _error_page, wants_page)


def _error_page(request: Request, status: int, error: RemitError, headers: dict[str, str]) -> Response:
    page_response = error_page(request, status, error)
    page_response.headers.update(headers)
    return page_response


def _lifespan(mcp: McpMount | None) -> Any:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        async with AsyncExitStack() as stack:
            if mcp is not None:
                await stack.enter_async_context(mcp.running())
            yield

    return lifespan
