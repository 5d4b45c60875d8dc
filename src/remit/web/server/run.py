"""The event loop of a server, and its orderly stop.

At the first signal the server accepts no new connection and ends the event streams. Soon after, waiting requests are
answered with the current status. Running responses have some seconds to finish, and work in threads is cancelled if
possible. Recovery continues unfinished work, as after a crash.
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
TICKS_A_MINUTE: Final = 600
"""uvicorn calls `on_tick` every tenth of a second."""
GRACE_SECONDS: Final = 2.0
"""The time that waiting requests have for work that may end now. Then they get the current status."""


class HttpServer(uvicorn.Server):
    """uvicorn's server without its signal handlers, which would raise the signal again and kill the process."""

    def __init__(
        self, config: uvicorn.Config, services: Services, on_listening: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(config)
        self._services = services
        self._on_listening = on_listening
        self.problem: Exception | None = None
        """The error of `on_listening`. The server stops in order, and then it is raised."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            try:
                await asyncio.to_thread(self._on_listening)
            except Exception as problem:  # noqa: BLE001 - raised after the stop; here uvicorn would log a traceback
                self.problem = problem
                self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS_A_MINUTE == TICKS_A_MINUTE - 1:
            asyncio.get_running_loop().run_in_executor(None, self._services.state_counted_entries)
            asyncio.get_running_loop().run_in_executor(None, self._services.continue_overdue_goals)
            asyncio.get_running_loop().run_in_executor(None, self._services.forget_closed_previews)
        return await super().on_tick(counter)

    def stop(self) -> None:
        """Stop in order. The second call stops at once."""
        if self.should_exit:
            self.force_exit = True
            return
        self.should_exit = True
        # In a thread, because the loop must run to send the end to the event streams.
        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, self._services.events.close)
        loop.call_later(GRACE_SECONDS, loop.run_in_executor, None, self._services.release_waiters)


def run_app(
    app: Any, services: Services, settings: WebSettings, listener: socket.socket, on_listening: Callable[[], None]
) -> None:
    """Serve until the process receives SIGTERM or SIGINT."""
    config = server_config(app, settings)
    config.timeout_graceful_shutdown = STOP_SECONDS
    server = HttpServer(config, services, on_listening)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        await server.serve(sockets=[listener])

    asyncio.run(serve())
    if server.problem is not None:
        raise server.problem
    if not server.started:
        raise EnvironmentFailureError(
            Reason.INTERNAL, "the server did not start", next_step="Run again with REMIT_LOG=info."
        )
