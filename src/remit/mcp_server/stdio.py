"""The server over standard input and output, for a client that starts it: one process, one agent.

While it serves, standard output carries the protocol and nothing else: the SDK points it at standard error for all that
might print, and keeps the pipe to itself.
"""

from collections.abc import Callable

import anyio

from remit.desk.desk import Desk
from remit.mcp_server.identity import by_token
from remit.mcp_server.server import build_server


def serve_stdio(desk: Desk, token: Callable[[], str], *, elicitation: bool = False) -> None:
    """Until the client closes its end. Refuses at once when the token does not count."""
    identify = by_token(lambda: desk.workspace.tokens, token)
    identify(None)
    anyio.run(build_server(desk, identify, elicitation=elicitation).run_stdio_async)
