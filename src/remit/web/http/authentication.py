"""Authentication of a request: an agent by its bearer token, a person by the session cookie.

The guard identifies the caller once, before the request reaches a route. Routes call `get_caller`. A token in the query
string is ignored, because addresses are written to logs.
"""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from remit.core.errors import Reason, RefusedError
from remit.identity.callers import AgentCaller, Caller, PersonCaller
from remit.identity.secrets import secret_digest
from remit.web.config.reload import SettingsWatcher
from remit.web.http.problems import ResponseError
from remit.workspace.workspace import Workspace

_BEARER: Final = re.compile(r"Bearer ([A-Za-z0-9._~+/=-]{1,16384})")
_LONGEST_COOKIES: Final = 8_192
CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="remit"'}
_BAD_TOKEN: Final = {"WWW-Authenticate": 'Bearer realm="remit", error="invalid_token"'}


@dataclass(frozen=True, slots=True)
class Credential:
    """The token or cookie of a request. `key` names it in rate limits without its text."""

    kind: str
    text: str = field(repr=False)

    @property
    def key(self) -> str:
        return f"{self.kind}:{secret_digest(self.text)}"


@dataclass(frozen=True, slots=True)
class Identity:
    """The caller that a credential identifies. A person's unsafe requests must also carry `csrf`."""

    caller: Caller
    expires_at: datetime
    csrf: str | None = field(default=None, repr=False)


def read_credential(headers: Headers, cookie_name: str) -> Credential | None:
    """Return the credential of a request. Refuses a malformed one, and two at once, because they could contradict."""
    values = headers.getlist("authorization")
    cookie = cookie_value(headers, cookie_name)
    if not values:
        return Credential("session", cookie) if cookie else None
    found = _BEARER.fullmatch(values[0])
    if len(values) > 1 or found is None:
        raise _unauthorized_error(
            RefusedError(
                Reason.AUTHORITY_MALFORMED,
                "the header is not `Bearer TOKEN` with one space, or the request has two of them",
                where="header Authorization",
                next_step="Send the token as `remit token issue` printed it.",
            )
        )
    if cookie:
        raise _unauthorized_error(
            RefusedError(
                Reason.AUTHORITY_MALFORMED,
                "the request has a token and a session cookie, but only one is allowed",
                where="headers Authorization and Cookie",
                next_step="Send one of the two.",
            )
        )
    return Credential("token", found[1])


def find_identity(
    workspace: Workspace, credential: Credential, *, touch: bool = True, settings: SettingsWatcher | None = None
) -> Identity | None:
    """Return the caller of a credential, as of now. Blocks. None for an ended session; refuses an invalid token."""
    if credential.kind == "token":
        if settings is not None:
            settings.require()  # a valid token must not look invalid because of the settings
        try:
            agent = AgentCaller.by(workspace.tokens, credential.text)
        except RefusedError as problem:
            raise ResponseError(problem, 401, _BAD_TOKEN) from None
        return Identity(agent, agent.token.expires_at)
    found = workspace.people.session(credential.text, touch=touch)
    if found is None:
        return None
    caller = PersonCaller(found.person, found.role, found.user, found.tenant)
    return Identity(caller, found.expires_at, found.csrf)


def get_caller(request: HTTPConnection) -> Caller | None:
    """Return the caller that the guard identified."""
    found: Caller | None = getattr(request.state, "caller", None)
    return found


def require_caller(request: HTTPConnection) -> Caller:
    """Return the caller, or refuse with 401. The dependency of every route that is not public."""
    found = get_caller(request)
    if found is None:
        raise not_identified_error()
    return found


def require_person(request: HTTPConnection) -> PersonCaller:
    """Return the person who calls. Refuses an agent with 403, whatever its token allows."""
    found = require_caller(request)
    if not isinstance(found, PersonCaller):
        raise RefusedError(
            Reason.PERMISSION_DENIED,
            "only a person can do this, and the caller is an agent",
            where="header Authorization",
            next_step="Ask a person to do it, in the console or at a terminal.",
        )
    return found


def is_still_valid(request: HTTPConnection) -> bool:
    """Whether the credential of this request is valid now. Blocks.

    For long responses: an event stream must end with the session or the token that opened it.
    """
    credential: Credential | None = getattr(request.state, "credential", None)
    workspace: Any = request.app.state.services.workspace
    if credential is None:
        return False
    try:
        found = find_identity(workspace, credential, touch=False)
    except (ResponseError, RefusedError):
        return False
    return found is not None and found.caller.id == getattr(get_caller(request), "id", None)


def not_identified_error() -> ResponseError:
    return _unauthorized_error(
        RefusedError(
            Reason.AUTHENTICATION_REQUIRED,
            "authentication is required: the request has no capability token and no valid session",
            where="headers Authorization and Cookie",
            next_step="An agent sends its capability token (remit token issue). A person logs in at /login.",
        ),
        CHALLENGE,
    )


def _unauthorized_error(error: RefusedError, headers: dict[str, str] = _BAD_TOKEN) -> ResponseError:
    return ResponseError(error, 401, headers)


def cookie_value(headers: Headers, name: str) -> str | None:
    """Return the value of a cookie. None without it, or with two, because another server of this host can set one."""
    raw = "; ".join(headers.getlist("cookie"))
    if not raw or len(raw) > _LONGEST_COOKIES:
        return None
    values = [value for key, _, value in (part.strip().partition("=") for part in raw.split(";")) if key == name]
    return values[0] if len(values) == 1 and values[0] else None


def set_cookie(name: str, value: str, seconds: int, *, secure: bool, same_site: str = "Strict") -> str:
    """Return a Set-Cookie header. Scripts, other sites, and plain HTTP beside TLS cannot read the cookie.

    Names and values come from this server and need no quoting.
    """
    ending = "; Secure" if secure else ""
    return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={same_site}{ending}"
