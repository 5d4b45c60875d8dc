"""The server over streamable HTTP: an ASGI application that another one serves, or a small server of its own.

Every request brings its own bearer token, which is verified before its body is read. A cookie is never looked at, and a
session of this protocol can only be used with the token that began it. Host and Origin are checked by the SDK, against
what is allowed here; an empty list allows none.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import anyio.to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import INVALID_REQUEST
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from remit.contracts.desk import told_error
from remit.desk.callers import AgentCaller
from remit.desk.desk import Desk
from remit.errors import RemitError
from remit.mcp_server.identity import bearer_of, by_bearer, verified
from remit.mcp_server.server import build_server

MAX_BODY: Final = 8 << 20
MAX_SESSIONS: Final = 500
LOOPBACK_HOSTS: Final = ("127.0.0.1:*", "localhost:*", "[::1]:*")


def mcp_app(
    desk: Desk,
    *,
    allowed_hosts: Sequence[str],
    allowed_origins: Sequence[str] = (),
    max_body_bytes: int = MAX_BODY,
    elicitation: bool = False,
) -> "McpApp":
    """For `/mcp` of a server that is there already. It runs within `running()`."""
    server = build_server(desk, by_bearer(lambda: desk.workspace.tokens), elicitation=elicitation)
    return McpApp(desk, session_manager(server, allowed_hosts, allowed_origins, max_body_bytes))


def session_manager(
    server: MCPServer[Any], allowed_hosts: Sequence[str], allowed_origins: Sequence[str], max_body_bytes: int
) -> StreamableHTTPSessionManager:
    checks = TransportSecuritySettings(allowed_hosts=list(allowed_hosts), allowed_origins=list(allowed_origins))
    server.streamable_http_app(
        transport_security=checks, max_request_body_size=max_body_bytes, max_sessions=MAX_SESSIONS
    )
    return server.session_manager


class McpApp:
    """An ASGI application that answers whatever path it is put at."""

    def __init__(self, desk: Desk, manager: StreamableHTTPSessionManager) -> None:
        self._desk = desk
        self._manager = manager

    def running(self) -> AbstractAsyncContextManager[None]:
        """Once, around everything that is served: in the lifespan of the application around it."""
        return self._running()

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            caller = await anyio.to_thread.run_sync(self._verify, Headers(scope=scope).getlist("authorization"))
        except RemitError as problem:
            await _unauthorized(problem)(scope, receive, send)
            return
        await self._manager.handle_request({**scope, "user": _owner(caller)}, receive, send)

    def _verify(self, headers: list[str]) -> AgentCaller:
        return verified(self._desk.workspace.tokens, bearer_of(headers))


def _owner(caller: AgentCaller) -> AuthenticatedUser:
    """By whom the SDK tells the owner of a session from others: this token, and no other of the same agent."""
    token = caller.token
    return AuthenticatedUser(AccessToken(token="", client_id=token.jti, scopes=[], subject=token.agent_id))


def _unauthorized(problem: RemitError) -> Response:
    """As an error of the protocol: a client shows that to its agent, and would keep any other text to itself."""
    error = {"code": INVALID_REQUEST, "message": problem.what, "data": told_error(problem).tree()}
    challenge = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 401, challenge)
