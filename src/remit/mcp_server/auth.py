"""Who calls: an agent, by the capability token that came with the call.

The token is verified at each call, so that a revoked or expired one counts for nothing at once. Nothing else makes a
caller here: no cookie, no session of this protocol, no name that a client gives itself.
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
    """The caller of one request, verified now; refuses when there is none. `request` is None where there is no HTTP."""

    def __call__(self, request: Request | None) -> Caller: ...


def authenticate_token(tokens: Callable[[], Tokens], text: Callable[[], str]) -> Authenticate:
    """For a process that serves one agent: the text is asked for at each call, so a renewed token file counts."""

    def authenticate(request: Request | None) -> Caller:  # noqa: ARG001 - a process of its own, and no request
        return verify_caller(tokens(), text())

    return authenticate


def authenticate_bearer(tokens: Callable[[], Tokens]) -> Authenticate:
    """For HTTP: each request brings its own token."""

    def authenticate(request: Request | None) -> Caller:
        return verify_caller(
            tokens(), read_bearer(request.headers.getlist("authorization") if request is not None else [])
        )

    return authenticate


def verify_caller(tokens: Tokens, text: str) -> AgentCaller:
    return AgentCaller.by(tokens, text)


def read_bearer(headers: list[str]) -> str:
    """The token in the Authorization header. Two such headers are refused: who could say which was meant?"""
    if len(headers) != 1 or not headers[0].lower().startswith(_SCHEME):
        raise RefusedError(
            Reason.AUTHORITY_MALFORMED,
            "the request carries no capability token, or more than one",
            where="header Authorization",
            next_step="Send the header Authorization once, with `Bearer TOKEN`. One is had by: remit token issue",
        )
    return headers[0][len(_SCHEME) :].strip()


def token_from_file(file: Path) -> Callable[[], str]:
    """Read at each call: when the token is renewed, the client need not be started again."""

    def read() -> str:
        try:
            with file.open("rb") as stream:
                return stream.read(MAX_TOKEN_FILE).decode("utf-8", "replace").strip()
        except OSError as problem:
            raise RefusedError(
                Reason.AUTHORITY_MALFORMED,
                f"the file with the token cannot be read: {problem.strerror}",
                where=str(file),
                next_step="Name the file that `remit token issue -o FILE` wrote.",
            ) from None

    return read
