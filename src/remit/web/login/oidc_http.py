"""Requests to an identity provider for small JSON documents, without redirects, and with limits on size and time."""

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
        """Follow no redirect. Only configured addresses and those of the discovery document are requested."""


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


def require_safe_url(url: Any, what: str) -> str:
    """Return the address if it is an https address or an address on this machine. Refuses any other."""
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
            f"the identity provider's {what} is not an https address",
            where="discovery document",
            next_step="Check the discovery document of the provider, and `issuer` in remit.yaml.",
        )
    return str(url)


def request_json(url: str, form: dict[str, str] | None = None, headers: dict[str, str] | None = None) -> Any:
    """Send a GET, or a POST with a form, and return the JSON of the answer.

    Raises for a redirect and for an error status.
    """
    data = urlencode(form).encode() if form is not None else None
    request = urllib.request.Request(url, data, {"Accept": "application/json", **(headers or {})})  # noqa: S310 - checked before
    until = time.monotonic() + SECONDS
    raw = b""
    try:
        with _OPENER.open(request, timeout=SECONDS / 2) as answer:
            while part := answer.read1(64 << 10):
                raw += part
                if len(raw) > MOST_BYTES or time.monotonic() > until:
                    raise _failed(url, "its answer is too large or too slow")
    except urllib.error.HTTPError as problem:
        problem.close()
        raise _failed(url, f"it answers with status {problem.code}") from None
    except (OSError, HTTPException, ValueError) as problem:
        raise _failed(url, f"it cannot be reached ({type(problem).__name__})") from None
    return parse_json(raw, _BOUNDS, source="the identity provider's answer")


def _failed(url: str, why: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.IDENTITY_PROVIDER_UNAVAILABLE,
        f"the identity provider gave no usable answer: {why}",
        where=url.partition("?")[0],
        next_step="Try again. Meanwhile, people can log in with a link: remit people invite NAME --role ROLE",
    )
