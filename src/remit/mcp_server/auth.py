"""Authentication of the caller: an agent with a capability token.

The token is verified at each call, so a revoked or expired token is refused at once. Nothing else authenticates a
caller: no cookie, no session of this protocol, no name that a client gives itself.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from starlette.requests import Request

from remit.core.errors import Reason, RefusedError
from remit.identity.callers import AgentCaller, Caller
from remit.identity.tokens import Tokens

MAX_TOKEN_FILE: Final = 20_000
TOKEN_VARIABLE: Final = "REMIT_TOKEN"  # noqa: S105 - the name of a variable
_SCHEME: Final = "bearer "


class Authenticate(Protocol):
    """Returns the verified caller of one request, or refuses. `request` is None without HTTP."""

    def __call__(self, request: Request | None) -> Caller: ...


def authenticate_token(tokens: Callable[[], Tokens], text: Callable[[], str]) -> Authenticate:
    """Authenticate the one agent of a stdio process. The token is read at each call, so a renewed file works."""

    def authenticate(request: Request | None) -> Caller:  # noqa: ARG001 - stdio has no request
        return verify_caller(tokens(), text())

    return authenticate


def authenticate_bearer(tokens: Callable[[], Tokens]) -> Authenticate:
    """Authenticate HTTP requests. Each request brings its own token."""

    def authenticate(request: Request | None) -> Caller:
        return verify_caller(
            tokens(), read_bearer(request.headers.getlist("authorization") if request is not None else [])
        )

    return authenticate


def verify_caller(tokens: Tokens, text: str) -> AgentCaller:
    return AgentCaller.by(tokens, text)


def read_bearer(headers: list[str]) -> str:
    """Return the token of the Authorization header. Two such headers are refused, because one could hide the other."""
    if not headers:
        raise RefusedError(
            Reason.AUTHENTICATION_REQUIRED,
            "authentication is required: the request has no capability token",
            where="header Authorization",
            next_step="Send the header Authorization with `Bearer TOKEN`. A person issues the token:"
            " remit token issue --sub AGENT --cap CAPABILITY",
        )
    if len(headers) != 1 or not headers[0].lower().startswith(_SCHEME):
        raise RefusedError(
            Reason.AUTHORITY_MALFORMED,
            "the header is not `Bearer TOKEN`, or the request has two of them",
            where="header Authorization",
            next_step="Send the header Authorization once, with `Bearer TOKEN`. A person issues it:"
            " remit token issue --sub AGENT --cap CAPABILITY",
        )
    return headers[0][len(_SCHEME) :].strip()


def token_from_file(file: Path) -> Callable[[], str]:
    """Return a reader of the token file. It reads at each call, so the client can renew the token while it runs."""

    def read() -> str:
        try:
            with file.open("rb") as stream:
                return stream.read(MAX_TOKEN_FILE).decode("utf-8", "replace").strip()
        except OSError as problem:
            raise RefusedError(
                Reason.AUTHORITY_MALFORMED,
                f"the token file cannot be read: {problem.strerror}",
                where=str(file),
                next_step="Give the file that `remit token issue -o FILE` wrote.",
            ) from None

    return read
