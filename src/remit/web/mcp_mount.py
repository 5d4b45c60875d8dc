"""/mcp of this server. Its library takes seconds and much memory to load, so that is left to the first who asks."""

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
    """An ASGI application. The first request waits until it is loaded."""

    def __init__(self, services: Services, settings: WebSettings) -> None:
        self._services = services
        self._settings = settings
        self._loaded: asyncio.Future[McpApp] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    @classmethod
    def of(cls, services: Services, settings: WebSettings) -> "McpMount | None":
        """None where the extra is not installed: then there is nothing at /mcp."""
        return cls(services, settings) if importlib.util.find_spec("mcp") is not None else None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Once, around everything that is served."""
        try:
            yield
        finally:
            self._stop.set()
            if self._task is not None:
                await self._task

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._loaded is None:
            self._loaded = asyncio.get_running_loop().create_future()
            # In a task of its own: what the library begins has to be ended by the task that began it.
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
            loaded.set_exception(problem)  # told to whoever asks; the rest of the server goes on


def load_app(services: Services, settings: WebSettings) -> "McpApp":
    """Takes a second or more: the library is loaded here."""
    from remit.mcp_server.http import mcp_app  # noqa: PLC0415 - heavy, and optional

    # The guard around it knows every name of this server, and lets no other in.
    names = Addresses.of(settings).names
    return mcp_app(
        services,
        allowed_hosts=[f"{name}:{port or '*'}" for name, port in names] + [name for name, port in names if not port],
        allowed_origins=[settings.url],
        max_body_bytes=settings.config.limits.body_bytes,
        elicitation=settings.config.mcp.elicitation,
    )
