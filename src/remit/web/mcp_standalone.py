"""A server with `/mcp` only, on this machine only. It has the guard and the server process of `remit serve`.

It needs only the extra `mcp`, so this module must not load packages that only the API and the console need.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio.to_thread
from starlette.applications import Starlette
from starlette.routing import Route

from remit.contracts.config.web import Web
from remit.services.services import Services
from remit.web.config.reload import SettingsWatcher
from remit.web.config.settings import WebSettings
from remit.web.http.access_log import AccessLogMiddleware
from remit.web.http.problems import handle_errors
from remit.web.mcp_mount import load_app
from remit.web.security.fair_share import THREADS
from remit.web.security.middleware import install_guard
from remit.web.server.run import run_app
from remit.web.server.socket import open_socket, port_of

PATH: Final = "/mcp"


def standalone_settings(config: Web, port: int) -> WebSettings:
    """Return settings with the limits of remit.yaml. Its names, certificates and logins belong to `remit serve`."""
    return WebSettings.of(Web(limits=config.limits, mcp=config.mcp), port=port)


def build_mcp_app(services: Services, settings: WebSettings) -> Starlette:
    mcp = load_app(services, settings)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        async with mcp.running():
            yield

    app = Starlette(routes=[Route(PATH, mcp)], lifespan=lifespan)
    app.state.settings_read = SettingsWatcher(services.workspace)
    handle_errors(app)
    install_guard(app, services.workspace, settings)
    assert app.middleware_stack is not None  # noqa: S101 - the guard
    app.middleware_stack = AccessLogMiddleware(app.middleware_stack)
    return app


def serve_mcp(services: Services, port: int, on_listening: Callable[[str], None]) -> None:
    """Serve until the process is interrupted. Port 0 selects a free port."""
    settings = standalone_settings(services.workspace.config.web, port)
    with open_socket(settings) as listener:
        settings = settings.listening_at(port_of(listener))
        app = build_mcp_app(services, settings)
        run_app(app, services, settings, listener, lambda: on_listening(f"{settings.url}{PATH}"))
