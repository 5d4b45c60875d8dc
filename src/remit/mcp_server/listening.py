"""A small HTTP server for `/mcp` alone, on this machine only. `remit serve` is the one to show to others."""

import signal
import socket
from collections.abc import Callable
from types import FrameType

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from remit.desk.desk import Desk
from remit.mcp_server.http import LOOPBACK_HOSTS, mcp_app

ADDRESS = "127.0.0.1"
PATH = "/mcp"


class _Server(uvicorn.Server):
    """Ends in order when it is told to; uvicorn's own would then raise the signal again, and kill the process."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature is the base's
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def serve_http(
    desk: Desk, port: int, *, on_listening: Callable[[str], None] = lambda _: None, elicitation: bool = False
) -> None:
    """Until it is interrupted. `port` 0: any that is free."""
    app = mcp_app(desk, allowed_hosts=LOOPBACK_HOSTS, elicitation=elicitation)
    site = Starlette(routes=[Route(PATH, endpoint=app)], lifespan=lambda _: app.running())
    config = uvicorn.Config(
        site, log_config=None, access_log=False, server_header=False, limit_concurrency=200, timeout_graceful_shutdown=2
    )
    with socket.create_server((ADDRESS, port)) as listener:
        # Inherited by each connection; asyncio does it only for a socket that was made with the protocol's number.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        on_listening(f"http://{ADDRESS}:{listener.getsockname()[1]}{PATH}")
        anyio.run(lambda: _Server(config).serve(sockets=[listener]))
