"""The MCP server over streamable HTTP: an ASGI application with its own authentication, mounted in another application.

Every request brings its own bearer token, which is verified before the body is read. Cookies are ignored. A session of
this protocol works only with the token that opened it. The SDK checks Host and Origin against the allowed lists. An
empty list allows none.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from typing import Any, Final

import anyio
import anyio.to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.types import INVALID_REQUEST
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from remit.contracts.services.common import describe_error
from remit.core.errors import RefusedError, RemitError
from remit.identity.callers import AgentCaller
from remit.mcp_server.auth import authenticate_bearer, read_bearer, verify_caller
from remit.mcp_server.server import build_server
from remit.mcp_server.sessions import MAX_SESSIONS, McpSession, McpSessions
from remit.services.services import Services

_LOG: Final = logging.getLogger("remit.mcp_server.http")
MAX_BODY: Final = 8 << 20
WATCH_SECONDS: Final = 1.0
"""Seconds between two checks of the tokens of open sessions. Each request verifies its own token in any case."""
LOOPBACK_HOSTS: Final = ("127.0.0.1:*", "localhost:*", "[::1]:*")


def mcp_app(
    services: Services,
    *,
    allowed_hosts: Sequence[str],
    allowed_origins: Sequence[str] = (),
    max_body_bytes: int = MAX_BODY,
    elicitation: bool = False,
) -> "McpApp":
    """Build the application for `/mcp` of another server. It works only within `running()`."""
    server = build_server(services, authenticate_bearer(lambda: services.workspace.tokens), elicitation=elicitation)
    return McpApp(services, session_manager(server, allowed_hosts, allowed_origins, max_body_bytes))


def session_manager(
    server: MCPServer[Any], allowed_hosts: Sequence[str], allowed_origins: Sequence[str], max_body_bytes: int
) -> StreamableHTTPSessionManager:
    checks = TransportSecuritySettings(allowed_hosts=list(allowed_hosts), allowed_origins=list(allowed_origins))
    server.streamable_http_app(
        transport_security=checks, max_request_body_size=max_body_bytes, max_sessions=MAX_SESSIONS
    )
    return server.session_manager


class McpApp:
    """An ASGI application that answers at any path where it is mounted."""

    def __init__(self, services: Services, manager: StreamableHTTPSessionManager) -> None:
        self._services = services
        self._manager = manager
        self.sessions = McpSessions()
        self.watch_seconds = WATCH_SECONDS

    def running(self) -> AbstractAsyncContextManager[None]:
        """Return a context to enter once, in the lifespan of the outer application, around all requests."""
        return self._running()

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        async with self._manager.run(), anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_tokens)
            yield
            tasks.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            caller = await anyio.to_thread.run_sync(self._verify, Headers(scope=scope).getlist("authorization"))
        except RemitError as problem:
            await _unauthorized(problem)(scope, receive, send)
            return
        scope = {**scope, "user": _session_owner(caller)}
        session_id = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        if session_id is not None:
            await self._continue_session(session_id, scope, receive, send)
        elif _begins_session(scope):
            await self._begin_session(caller, scope, receive, send)
        else:
            await self._manager.handle_request(scope, receive, send)

    async def _begin_session(self, caller: AgentCaller, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            evicted = self.sessions.reserve(caller.id)
        except RefusedError as problem:
            await _error_response(problem, 429, {"Retry-After": "1"})(scope, receive, send)
            return
        observer = _ResponseObserver(send)
        try:
            if evicted is not None:
                await self._end_session(evicted)
            await self._manager.handle_request(scope, receive, observer)
        finally:
            self.sessions.complete_reservation(
                caller, observer.session_id, _build_end_request(scope, observer.session_id or "")
            )

    async def _continue_session(self, session_id: str, scope: Scope, receive: Receive, send: Send) -> None:
        session = self.sessions.enter(session_id, scope["user"].access_token.client_id)
        observer = _ResponseObserver(send)
        try:
            await self._manager.handle_request(scope, receive, observer)
        finally:
            if session is not None:
                is_over = observer.status == HTTPStatus.NOT_FOUND or (scope["method"] == "DELETE" and observer.is_good)
                self.sessions.leave(session, is_over=is_over)

    async def _watch_tokens(self) -> None:
        """End the sessions of a revoked or expired token. Otherwise open streams of these sessions would continue."""
        while True:
            await anyio.sleep(self.watch_seconds)
            for text, sessions in self.sessions.by_token().items():
                try:
                    await anyio.to_thread.run_sync(verify_caller, self._services.workspace.tokens, text)
                except RefusedError:
                    for session in sessions:
                        self.sessions.forget(session)
                        await self._end_session(session)
                except Exception as problem:  # noqa: BLE001 - an unreachable store must not end a session or this loop
                    _LOG.warning("a token could not be verified", extra={"why": type(problem).__name__})

    async def _end_session(self, session: McpSession) -> None:
        """End a session by the protocol, as its owner would."""

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(_: Message) -> None:
            return

        await self._manager.handle_request(session.end_request, receive, send)

    def _verify(self, headers: list[str]) -> AgentCaller:
        return verify_caller(self._services.workspace.tokens, read_bearer(headers))


class _ResponseObserver:
    """Passes a response on, and stores its status and session id."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.session_id: str | None = None

    @property
    def is_good(self) -> bool:
        return 0 < self.status < HTTPStatus.BAD_REQUEST

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.is_good:
                self.session_id = Headers(raw=list(message["headers"])).get(MCP_SESSION_ID_HEADER)
        await self._send(message)


def _build_end_request(scope: Scope, session_id: str) -> Scope:
    """Build the request that ends a session from the request that opened it."""
    headers = ("type", "asgi", "http_version", "scheme", "path", "raw_path", "root_path", "server", "client", "user")
    host = [each for each in scope["headers"] if each[0] == b"host"]
    named = (MCP_SESSION_ID_HEADER.encode(), session_id.encode())
    found = {name: scope[name] for name in headers if name in scope}
    return {**found, "method": "DELETE", "query_string": b"", "headers": [*host, named]}


def _begins_session(scope: Scope) -> bool:
    """Whether the request opens a session. Later versions of the protocol have no sessions."""
    version = Headers(scope=scope).get(MCP_PROTOCOL_VERSION_HEADER)
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS


def _session_owner(caller: AgentCaller) -> AuthenticatedUser:
    """Return the owner of a session for the SDK: this token, not another token of the same agent."""
    token = caller.token
    return AuthenticatedUser(AccessToken(token="", client_id=token.jti, scopes=[], subject=token.agent_id))


def _unauthorized(problem: RemitError) -> Response:
    return _error_response(problem, 401, {"WWW-Authenticate": 'Bearer error="invalid_token"'})


def _error_response(problem: RemitError, status: int, headers: dict[str, str]) -> Response:
    """Build a protocol error. Clients show such an error to their agent, but not other texts."""
    error = {"code": INVALID_REQUEST, "message": problem.what, "data": describe_error(problem).tree()}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status, headers)
