"""The server over standard input and output, for a client that starts it: one process, one agent.

While it serves, standard output carries only the protocol. The SDK redirects all other output to standard error. A
message has the same size limit as the body of an HTTP request.
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
    """Serve until the client closes standard input or a signal ends the process. Refuse at once if the token is not
    valid.
    """
    authenticate = authenticate_token(lambda: services.workspace.tokens, token)
    authenticate(None)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: threading.Thread(target=_shut_down, args=(services,)).start())
    server = build_server(services, authenticate, elicitation=elicitation)
    anyio.run(_serve, server, services.workspace.config.web.limits.body_bytes)


async def _serve(server: MCPServer[None], most_bytes: int) -> None:
    """Serve like `run_stdio_async` of the SDK, with a size limit for messages."""
    protocol = server._lowlevel_server  # noqa: SLF001 - the SDK offers no public way to serve other streams
    async with bounded_stdio(most_bytes) as (incoming, outgoing):
        await protocol.run(incoming, outgoing, protocol.create_initialization_options())


def _shut_down(services: Services) -> None:
    """Cancel and undo running work, then exit without waiting for threads.

    The SDK reads standard input in a thread that only the client can wake, and Python would wait for that thread.
    """
    try:
        services.close()
        services.workspace.close()
    finally:
        os._exit(0)
