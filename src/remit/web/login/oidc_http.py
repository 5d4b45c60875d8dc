"""Asking an identity provider: one small JSON document at a time, without redirects, within a size and a time."""

import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.parsing import Bounds, parse_json
from remit.web.config.hosts import is_loopback

MOST_BYTES: Final = 256 << 10
SECONDS: Final = 10.0
_BOUNDS: Final = Bounds(max_bytes=MOST_BYTES, max_items=5_000)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """What the provider's discovery document names is asked, and nothing that an answer names."""


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


def require_safe_url(url: Any, what: str) -> str:
    """An https address, or one on this very machine."""
    try:
        parts = urlsplit(url) if isinstance(url, str) and len(url) <= 2_000 else None
        host = parts.hostname if parts else None
    except ValueError:
        parts = host = None
    if (
        parts is None
        or not host
        or parts.username is not None
        or not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))
    ):
        raise RefusedError(
            Reason.MALFORMED,
            f"the identity provider's {what} is no https address",
            where="discovery document",
            next_step="See what its discovery document says, and whether `issuer` in remit.yaml is right.",
        )
    return str(url)


def request_json(url: str, form: dict[str, str] | None = None, headers: dict[str, str] | None = None) -> Any:
    """GET, or POST of a form; the JSON of an answer with status 200."""
    data = urlencode(form).encode() if form is not None else None
    request = urllib.request.Request(url, data, {"Accept": "application/json", **(headers or {})})  # noqa: S310 - looked at before
    until = time.monotonic() + SECONDS
    raw = b""
    try:
        with _OPENER.open(request, timeout=SECONDS / 2) as answer:
            while part := answer.read1(64 << 10):
                raw += part
                if len(raw) > MOST_BYTES or time.monotonic() > until:
                    raise _failed(url, "it answers with too much, or too slowly")
    except urllib.error.HTTPError as problem:
        problem.close()
        raise _failed(url, f"it answers with status {problem.code}") from None
    except (OSError, HTTPException, ValueError) as problem:
        raise _failed(url, f"it cannot be reached ({type(problem).__name__})") from None
    return parse_json(raw, _BOUNDS, source="the identity provider's answer")


def _failed(url: str, why: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.STORE_UNAVAILABLE,
        f"the identity provider does not help: {why}",
        where=url.partition("?")[0],
        next_step="Try again; meanwhile a link lets people in: remit people invite",
    )
