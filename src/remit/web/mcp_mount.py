"""/mcp of this server. Its library needs seconds and much memory to load, so the first request loads it."""

import asyncio
import contextlib
import importlib.util
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from remit.services.services import Services
from remit.web.config.hosts import Addresses
from remit.web.config.settings import WebSettings

if TYPE_CHECKING:
    from remit.mcp_server.http import McpApp


class McpMount:
    """An ASGI application that loads MCP at the first request, which waits for it."""

    def __init__(self, services: Services, settings: WebSettings) -> None:
        self._services = services
        self._settings = settings
        self._loaded: asyncio.Future[McpApp] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    @classmethod
    def of(cls, services: Services, settings: WebSettings) -> "McpMount | None":
        """Return the application, or None if the extra is not installed. Then /mcp does not exist."""
        return cls(services, settings) if importlib.util.find_spec("mcp") is not None else None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Return a context to enter once, around all requests."""
        try:
            yield
        finally:
            self._stop.set()
            if self._task is not None:
                await self._task

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._loaded is None:
            self._loaded = asyncio.get_running_loop().create_future()
            # In its own task, because the task that enters the context of the library must also leave it.
            self._task = asyncio.create_task(self._run(self._loaded))
        app = await asyncio.shield(self._loaded)
        await app(scope, receive, send)

    async def _run(self, loaded: "asyncio.Future[McpApp]") -> None:
        try:
            app = await asyncio.to_thread(load_app, self._services, self._settings)
            async with app.running():
                loaded.set_result(app)
                await self._stop.wait()
        except Exception as problem:
            if loaded.done():
                raise
            loaded.set_exception(problem)  # requests to /mcp get this error; the rest of the server continues


def load_app(services: Services, settings: WebSettings) -> "McpApp":
    """Load the library and build the application. Takes a second or more."""
    from remit.mcp_server.http import mcp_app  # noqa: PLC0415 - heavy, and optional

    # The guard around it already refuses every other host name.
    names = Addresses.of(settings).names
    return mcp_app(
        services,
        allowed_hosts=[f"{name}:{port or '*'}" for name, port in names] + [name for name, port in names if not port],
        allowed_origins=[settings.url],
        max_body_bytes=settings.config.limits.body_bytes,
        elicitation=settings.config.mcp.elicitation,
    )
