"""Who asks: an agent by the bearer token, a person by the session cookie, or nobody.

The guard identifies once, before the request reaches any route; routes call `get_caller`. A token in the query string
is none: addresses end up in logs.
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
    """What a request brought to show who it is. `key` stands for it where it is counted or remembered."""

    kind: str
    text: str = field(repr=False)

    @property
    def key(self) -> str:
        return f"{self.kind}:{secret_digest(self.text)}"


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a credential stands for. `csrf` is what unsafe requests of a person must carry too."""

    caller: Caller
    expires_at: datetime
    csrf: str | None = field(default=None, repr=False)


def read_credential(headers: Headers, cookie_name: str) -> Credential | None:
    """The one credential of a request. Refuses a malformed one, and two: which of them counts, nobody could tell."""
    values = headers.getlist("authorization")
    cookie = cookie_value(headers, cookie_name)
    if not values:
        return Credential("session", cookie) if cookie else None
    found = _BEARER.fullmatch(values[0])
    if len(values) > 1 or found is None:
        raise _unauthorized_error(
            RefusedError(
                Reason.AUTHORITY_MALFORMED,
                "the header does not say `Bearer TOKEN`, once, with one space",
                where="header Authorization",
                next_step="Send the token as `remit token issue` printed it.",
            )
        )
    if cookie:
        raise _unauthorized_error(
            RefusedError(
                Reason.AUTHORITY_MALFORMED,
                "the request shows a token and a session, and only one of them can count",
                where="headers Authorization and Cookie",
                next_step="Send one of the two.",
            )
        )
    return Credential("token", found[1])


def find_identity(
    workspace: Workspace, credential: Credential, *, touch: bool = True, settings: SettingsWatcher | None = None
) -> Identity | None:
    """Whom it stands for now. Blocks. None for a session that is over; a token that does not count is refused."""
    if credential.kind == "token":
        if settings is not None:
            settings.require()  # a token is not bad because the settings are
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
    """Who asks, as the guard found."""
    found: Caller | None = getattr(request.state, "caller", None)
    return found


def require_caller(request: HTTPConnection) -> Caller:
    """The same, or 401. The dependency of every route that is not for everybody."""
    found = get_caller(request)
    if found is None:
        raise not_identified_error()
    return found


def require_person(request: HTTPConnection) -> PersonCaller:
    """A person. An agent gets 403: no token makes one of it."""
    found = require_caller(request)
    if not isinstance(found, PersonCaller):
        raise RefusedError(
            Reason.PERMISSION_DENIED,
            "this is for a person, and an agent cannot do it",
            where="header Authorization",
            next_step="Let a person do it, in the console or at a terminal.",
        )
    return found


def is_still_valid(request: HTTPConnection) -> bool:
    """Whether the credential that this request came with counts now. Blocks. For answers that last: an event stream
    must end with the session, or the token, that it was opened by.
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
    """None if there is none, or two: another server of this machine may have planted one."""
    raw = "; ".join(headers.getlist("cookie"))
    if not raw or len(raw) > _LONGEST_COOKIES:
        return None
    values = [value for key, _, value in (part.strip().partition("=") for part in raw.split(";")) if key == name]
    return values[0] if len(values) == 1 and values[0] else None


def set_cookie(name: str, value: str, seconds: int, *, secure: bool, same_site: str = "Strict") -> str:
    """A Set-Cookie header: out of reach of scripts, of other sites, and of plain HTTP where there is TLS.

    Names and values are ours and need no quoting.
    """
    ending = "; Secure" if secure else ""
    return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={same_site}{ending}"
