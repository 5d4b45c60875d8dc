"""Read the whole body of a request, within a size and a time, before a route sees the request.

A slow body holds a connection, but no thread. A body that is too large is refused by its declared length, or at the
first byte beyond the limit.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.datastructures import Headers

from remit.core.errors import Reason, RefusedError
from remit.identity.callers import Caller
from remit.services.base.fair_share import FairShareQuota
from remit.web.http.problems import RETRY_AFTER, ResponseError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
FORM: Final = "application/x-www-form-urlencoded"
MOST_FIELDS: Final = 1_000
_CLOSE: Final = {"Connection": "close"}


class ClientGoneError(Exception):
    """The client disconnected before its body was complete."""


class BufferedBody:
    """The size of one body, which uses the caller's quota until the response.

    The body of an unauthenticated request is small and uses no quota.
    """

    def __init__(self, quota: FairShareQuota) -> None:
        self._quota = quota
        self._size = 0
        self.caller: Caller | None = None

    def add(self, size: int) -> None:
        if self.caller is None:
            return
        if not self._quota.acquire(self.caller, size):
            raise ResponseError(self._quota.refusal_error(self.caller), 429, {**_CLOSE, "Retry-After": RETRY_AFTER})
        self._size += size

    def end(self) -> None:
        if self.caller is not None:
            self._quota.release(self.caller, self._size)
            self._size = 0


async def read_body(receive: Receive, headers: Headers, most: int, seconds: float, buffered: BufferedBody) -> bytes:
    """Return the whole body.

    Raises:
        ResponseError: The body is too large (413), exceeds the caller's quota (429), or is too slow (408).
        ClientGoneError: The client disconnected.
    """
    _require_length(headers, most)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                part = message.get("body", b"")
                size += len(part)
                if size > most:
                    raise _too_large(most)
                if part:
                    buffered.add(len(part))
                    parts.append(part)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise ResponseError(
            RefusedError(
                Reason.TIMED_OUT,
                f"the body did not arrive within {seconds:g} seconds",
                where="body",
                next_step="Send the body faster. The setting `web.limits.body_seconds` in remit.yaml is the limit.",
            ),
            408,
            _CLOSE,
        ) from None


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` for the route. It returns the buffered body first, then further messages of the connection."""
    is_delivered = False

    async def receive_again() -> Message:
        nonlocal is_delivered
        if is_delivered:
            return await receive()
        is_delivered = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def form_field(headers: Headers, body: bytes, name: str) -> str | None:
    """Return a field of a URL-encoded form. None unless the body is such a form and has the field exactly once."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        return None
    try:
        fields = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        return None
    found = [value for key, value in fields if key == name]
    return found[0] if len(found) == 1 else None


def _require_length(headers: Headers, most: int) -> None:
    length = headers.get("content-length")
    # The protocol has already refused a length that is not a number or that occurs twice.
    if length is not None and length.isascii() and length.isdigit() and int(length[:20]) > most:
        raise _too_large(most)


def _too_large(most: int) -> ResponseError:
    error = RefusedError(
        Reason.TOO_LARGE,
        f"the body is larger than {most:,} bytes",
        where="body",
        next_step="Send less at once. The setting `web.limits.body_bytes` limits the bodies of authenticated callers.",
    )
    return ResponseError(error, 413, _CLOSE)
