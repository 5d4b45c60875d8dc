"""The guard in front of every route: one ASGI layer that every request passes.

1. Check the Host header: only names of this server (DNS rebinding).
2. Check the origin of the request: only pages of this server (Origin, Sec-Fetch-Site).
3. Authenticate: token or session. An invalid token is refused, and the address has a limit of invalid tokens.
4. Check the rate limit of the credential, or of the address without one, and the quota of running requests.
5. Read the body, within its size and its time.
6. Check the CSRF token of the session, for an unsafe request of a person.
7. Wait for a turn, so that no caller can take all threads.
8. Authenticate again if steps 5 to 7 took long, so that no request runs with a credential that was revoked meanwhile.

Every response gets the security headers.
"""

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, MutableMapping
from html import escape
from typing import Any, Final

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from remit.core.errors import as_remit_error
from remit.services.base.fair_share import Turn
from remit.web.config.hosts import Addresses, rate_key
from remit.web.config.reload import SettingsWatcher
from remit.web.config.settings import WebSettings
from remit.web.http.authentication import Credential, Identity, find_identity, not_identified_error, read_credential
from remit.web.http.problems import ResponseError, respond
from remit.web.http.request_body import BufferedBody, ClientGoneError, Message, Receive, form_field, read_body, replay
from remit.web.security.errors import (
    cross_site_error,
    missing_csrf_error,
    missing_origin_error,
    rate_limit_error,
    unknown_host_error,
)
from remit.web.security.fair_share import WorkQueue, build_body_quota, build_request_quota
from remit.web.security.headers import with_security
from remit.web.security.rate_limit import Buckets
from remit.web.security.scrapers import METRICS, may_scrape
from remit.workspace.workspace import Workspace

Scope = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
CSRF_HEADER: Final = "x-remit-csrf"
CSRF_FIELD: Final = "csrf"
ANONYMOUS_BODY_BYTES: Final = 64 << 10
"""The limit of a body without authentication. A login form has a few hundred bytes."""
FRESH_SECONDS: Final = 0.1
"""The age of an authentication after which step 8 repeats it. A write checks the caller again, in its transaction."""
_LOGIN: Final = "/login"
_LONG_LIVED_PATHS: Final = frozenset({"/v1/events", "/mcp", "/healthz"})
"""Paths that take no turn: they use no thread of the requests, or limit their threads themselves."""
_PROGRAM_PATHS: Final = ("/v1", "/mcp", "/metrics", "/healthz", "/readyz", "/static", _LOGIN)


class Guard:
    """The guard around the whole application with its error handlers.

    It stores `caller`, `csrf` and `credential` in the state of the scope.
    """

    def __init__(self, app: App, workspace: Workspace, settings: WebSettings, *, owner: Any = None) -> None:
        limits = settings.config.limits
        self._app = app
        self._workspace = workspace
        self._settings = settings
        self._settings_read = getattr(getattr(owner, "state", None), "settings_read", None) or SettingsWatcher(
            workspace
        )
        self._limits = limits
        self._proxies = frozenset(settings.config.trusted_proxies)
        self._owner = owner
        self.addresses = Addresses.of(settings)
        self._request_rates = Buckets(limits.requests_per_minute)
        self._failed_logins = Buckets(limits.logins_per_minute)
        self._failed_tokens = Buckets(limits.logins_per_minute)
        self._in_flight = build_request_quota(limits.connections)
        self.body_bytes = build_body_quota(limits.body_bytes)
        self._queue = WorkQueue()
        self.fresh_seconds = FRESH_SECONDS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, self._with_security_headers(send))
        else:  # the server has no WebSocket
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {}).update(caller=None, csrf=None, credential=None)
        if self._owner is not None:
            scope["app"] = self._owner  # error responses need it before the application runs
        buffered, turn = BufferedBody(self.body_bytes), None
        try:
            try:
                response, receive = await self._admit(scope, receive, buffered)
                if response is None:
                    turn = await self._wait_for_turn(scope)
                    await self._recheck_credential(scope)
            except ClientGoneError:
                return
            except ResponseError as refusal:
                response = respond(Request(scope), refusal.error, refusal.status, refusal.headers, **refusal.more)
            except Exception as problem:  # noqa: BLE001 - such as a lost store; the caller needs an answer
                response = respond(Request(scope), as_remit_error(problem))
            if response is None:
                await self._app(scope, receive, _ending_turn(turn, send))
            else:
                await response(scope, receive, _ending_turn(turn, send))
        finally:
            if turn is not None:
                turn.release()
            buffered.end()
            if buffered.caller is not None:
                self._in_flight.release(buffered.caller)

    async def _wait_for_turn(self, scope: Scope) -> Turn | None:
        if scope["path"] in _LONG_LIVED_PATHS:
            return None
        return await self._queue.of(scope["state"]["caller"], self._address(scope, Headers(scope=scope)))

    async def _recheck_credential(self, scope: Scope) -> None:
        """Authenticate again after the body and the turn, because a slow sender decides how long these take."""
        state = scope["state"]
        if state["credential"] is None or time.monotonic() - state["seen_at"] < self.fresh_seconds:
            return
        headers = Headers(scope=scope)
        state["caller"] = scope["remit.caller"] = None
        _, found = await self._identify(headers, self._address(scope, headers))
        if found is None:
            raise not_identified_error()
        state["caller"] = scope["remit.caller"] = found.caller

    async def _admit(self, scope: Scope, receive: Receive, buffered: BufferedBody) -> tuple[Response | None, Receive]:
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        self._require_own_host(headers)
        self._require_same_site(scope, headers)
        address = self._address(scope, headers)
        if path == METRICS and method == "GET" and await asyncio.to_thread(may_scrape, Request(scope), self._settings):
            scope["state"]["scraper"] = True  # its secret gives access to nothing else
            return None, receive
        verified_at = time.monotonic()
        credential, found = await self._identify(headers, address)
        if found is None and _is_cross_site_visit(method, path, headers):
            return _redirect_same_site(scope), receive
        unsafe = method not in SAFE_METHODS
        if found is not None:
            assert credential is not None  # noqa: S101 - an identity always has one
            _require_rate(self._request_rates.take(credential.key), "this credential")
            self._in_flight.require(found.caller)
            buffered.caller = found.caller
            scope["state"].update(caller=found.caller, csrf=found.csrf, credential=credential, seen_at=verified_at)
            scope["remit.caller"] = found.caller
        else:
            _require_rate(self._request_rates.take(address), "this address")
        if unsafe and path == _LOGIN:
            _require_rate(self._failed_logins.wait(address), "logins from this address")
        if not unsafe and "content-length" not in headers and "transfer-encoding" not in headers:
            return None, receive
        most = self._limits.body_bytes if found is not None else min(ANONYMOUS_BODY_BYTES, self._limits.body_bytes)
        body = await read_body(receive, headers, most, self._limits.body_seconds, buffered)
        if unsafe and found is not None and found.csrf is not None:
            _require_csrf(headers, body, found.csrf)
        return None, replay(body, receive)

    def note_failed_login(self, scope: Scope) -> None:
        """Count an invalid login code. After some of them the address has to wait."""
        self._failed_logins.take(self._address(scope, Headers(scope=scope)))

    async def _identify(self, headers: Headers, address: str) -> tuple[Credential | None, Identity | None]:
        """Identify the caller. Invalid tokens from the same address never block a valid one."""
        try:
            credential = read_credential(headers, self.addresses.session_cookie)
            if credential is None:
                return None, None
            if credential.kind == "token" and self._workspace.tokens.is_cheap_to_verify(credential.text):
                return credential, find_identity(self._workspace, credential, settings=self._settings_read)
            return credential, await asyncio.to_thread(
                find_identity, self._workspace, credential, settings=self._settings_read
            )
        except ResponseError:
            _require_rate(self._failed_tokens.take(address), "invalid tokens from this address")
            raise

    def _require_own_host(self, headers: Headers) -> None:
        given = headers.getlist("host")
        if len(given) == 1 and self.addresses.is_known_host(given[0]):
            return
        raise unknown_host_error()

    def _require_same_site(self, scope: Scope, headers: Headers) -> None:
        """Refuse requests of other sites and of other ports of this machine, except links to a page."""
        origin, site = headers.getlist("origin"), headers.get("sec-fetch-site")
        if origin and not (
            len(origin) == 1 and self.addresses.is_own_origin(origin[0], scope["scheme"], headers["host"])
        ):
            raise cross_site_error("header Origin")
        if site in {"cross-site", "same-site"} and not _is_visit(scope["method"], headers):
            raise cross_site_error("header Sec-Fetch-Site")
        unsafe = scope["method"] not in SAFE_METHODS
        # Every browser sends the origin of a form. Other programs do not, and they have no cookie to misuse.
        if unsafe and not origin and site is None and "cookie" in headers:
            raise missing_origin_error()

    def _address(self, scope: Scope, headers: Headers) -> str:
        """Return the address of the client. A trusted proxy of the settings gives it in a header."""
        client = scope.get("client")
        peer = client[0] if client else "local"
        if peer in self._proxies:
            return rate_key(headers.get("x-forwarded-for", "").rpartition(",")[2].strip()) or peer
        return rate_key(peer) or peer

    def _with_security_headers(self, send: Send) -> Send:
        secure = self.addresses.is_secure

        async def hardened(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": with_security(message.get("headers", []), secure=secure)}
            await send(message)

        return hardened


def install_guard(app: Starlette, workspace: Workspace, settings: WebSettings) -> Guard:
    """Put the guard around an application that already has its routes and error handlers.

    Sets `app.state.guard`.
    """
    inside = app.build_middleware_stack()
    found = Guard(inside, workspace, settings, owner=app)
    app.middleware_stack = found
    app.state.guard = found
    return found


def _require_rate(wait: float, subject: str) -> None:
    if wait:
        raise rate_limit_error(wait, subject)


def _require_csrf(headers: Headers, body: bytes, expected: str) -> None:
    sent = headers.get(CSRF_HEADER) or form_field(headers, body, CSRF_FIELD) or ""
    if not hmac.compare_digest(sent.encode(), expected.encode()):
        raise missing_csrf_error(CSRF_HEADER)


def _ending_turn(turn: Turn | None, send: Send) -> Send:
    """Release the turn when the response starts, because the client may read it slowly."""
    if turn is None:
        return send

    async def send_on(message: Message) -> None:
        turn.release()
        await send(message)

    return send_on


def _is_visit(method: str, headers: Headers) -> bool:
    """Whether a person opens a page as a whole document, not as an image, script or frame of another page."""
    is_whole = headers.get("sec-fetch-dest", "document") == "document"
    return method == "GET" and is_whole and headers.get("sec-fetch-mode") == "navigate"


def _is_cross_site_visit(method: str, path: str, headers: Headers) -> bool:
    """Whether a person followed a link of another site. The browser sends no cookie with this first request."""
    return (
        _is_visit(method, headers)
        and headers.get("sec-fetch-site") in {"cross-site", "same-site"}
        and not any(path == prefix or path.startswith(f"{prefix}/") for prefix in _PROGRAM_PATHS)
    )


def _redirect_same_site(scope: Scope) -> Response:
    """Return a page that loads the same address again. That request comes from this site, so it has the cookie."""
    query = scope["query_string"].decode("ascii", "replace")
    raw = scope.get("raw_path") or scope["path"].encode()
    target = escape("/" + raw.decode("ascii", "replace").lstrip("/\\") + (f"?{query}" if query else ""), quote=True)
    return HTMLResponse(f'<!doctype html><meta http-equiv="refresh" content="0; url={target}"><title>Remit</title>')
