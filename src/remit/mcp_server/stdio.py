"""The server over standard input and output, for a client that starts it: one process, one agent.

While it serves, standard output carries the protocol and nothing else: the SDK points it at standard error for all that
might print, and keeps the pipe to itself. A message is limited as the body of an HTTP request is.
"""

import os
import signal
import threading
from collections.abc import Callable

import anyio
from mcp.server.mcpserver import MCPServer

from remit.mcp_server.auth import authenticate_token
from remit.mcp_server.server import build_server
from remit.mcp_server.stdio_stream import bounded_stdio
from remit.services.services import Services


def serve_stdio(services: Services, token: Callable[[], str], *, elicitation: bool = False) -> None:
    """Until the client closes its end, or a signal ends the process. Refuses at once when the token does not count."""
    authenticate = authenticate_token(lambda: services.workspace.tokens, token)
    authenticate(None)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: threading.Thread(target=_shut_down, args=(services,)).start())
    server = build_server(services, authenticate, elicitation=elicitation)
    anyio.run(_serve, server, services.workspace.config.web.limits.body_bytes)


async def _serve(server: MCPServer[None], most_bytes: int) -> None:
    """As `run_stdio_async` of the SDK, with messages of at most so many bytes."""
    protocol = server._lowlevel_server  # noqa: SLF001 - the SDK offers no public way to serve other streams
    async with bounded_stdio(most_bytes) as (incoming, outgoing):
        await protocol.run(incoming, outgoing, protocol.create_initialization_options())


def _shut_down(services: Services) -> None:
    """What runs is cancelled and taken back. Then out, by the short way: the SDK reads in a thread that nothing but its
    client can wake, and Python would wait for it.
    """
    try:
        services.close()
        services.workspace.close()
    finally:
        os._exit(0)
