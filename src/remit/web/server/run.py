"""The loop of a server, and an end that leaves nothing half-told.

At the first signal no new connection is taken, listeners of events are let go, and soon after whoever waits for an
answer is told how things stand. What is being answered has some seconds; work in threads is cancelled where it can be.
What is not done by then is for recovery, as after a crash.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any, Final

import uvicorn

from remit.core.errors import EnvironmentFailureError, Reason
from remit.services.services import Services
from remit.web.config.settings import WebSettings
from remit.web.server.socket import server_config

STOP_SECONDS: Final = 10
GRACE_SECONDS: Final = 2.0
"""For whoever waits for work that may end just now; after that he is told how it stands."""


class HttpServer(uvicorn.Server):
    """Uvicorn's, with signals in our hands: its own would be raised again after the end, and kill the process."""

    def __init__(
        self, config: uvicorn.Config, services: Services, on_listening: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(config)
        self._services = services
        self._on_listening = on_listening

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            await asyncio.to_thread(self._on_listening)

    def stop(self) -> None:
        """The first time: in order. A second time: at once."""
        if self.should_exit:
            self.force_exit = True
            return
        self.should_exit = True
        # In a thread: the loop must go on, to tell the listeners that it is over.
        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, self._services.events.close)
        loop.call_later(GRACE_SECONDS, loop.run_in_executor, None, self._services.release_waiters)


def run_app(
    app: Any, services: Services, settings: WebSettings, listener: socket.socket, on_listening: Callable[[], None]
) -> None:
    """Serve until a signal says to stop."""
    config = server_config(app, settings)
    config.timeout_graceful_shutdown = STOP_SECONDS
    server = HttpServer(config, services, on_listening)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        await server.serve(sockets=[listener])

    asyncio.run(serve())
    if not server.started:
        raise EnvironmentFailureError(
            Reason.INTERNAL, "the server did not start", next_step="Run again with REMIT_LOG=info."
        )
