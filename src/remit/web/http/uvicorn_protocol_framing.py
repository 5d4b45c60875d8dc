"""Where one request ends and the next begins, said in one way only, and in a bounded number of headers.

A request with a length and a chunked body too ends here for one reader and there for another: behind a proxy, somebody
could put a request of his own into another's connection. h11 bounds headers that are not complete yet, and no others.
"""

from typing import Any, Final

import h11

MOST_HEADER_BYTES: Final = 48 << 10
"""Of one request, all together, its target included. A token has at most 16 KiB."""
MOST_HEADERS: Final = 100


class StrictConnection(h11.Connection):
    """Refuses what the standard lets a server refuse; uvicorn then answers 400, and closes."""

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            _require_one_length(event)
            _require_bounded(event)
        return event


def _require_one_length(request: h11.Request) -> None:
    names = [name for name, _ in request.headers]
    if b"transfer-encoding" in names and (b"content-length" in names or request.http_version < b"1.1"):
        raise h11.RemoteProtocolError("the length of the body is said in two ways")


def _require_bounded(request: h11.Request) -> None:
    size = len(request.target) + sum(len(name) + len(value) + 4 for name, value in request.headers)
    if size > MOST_HEADER_BYTES or len(request.headers) > MOST_HEADERS:
        raise h11.RemoteProtocolError("too many headers", error_status_hint=431)
