"""HTTP/1.1 of uvicorn with less patience: it would wait for a request's headers for ever, and for any number of them.

A connection whose request does not come in time is told so (408) and closed. When there are as many as may be, a
new one takes the place of an idle one, or of one whose caller is not known: who just holds some shuts nobody out.
A request under way of somebody who is known is never ended for another; each caller has only so many.

Where one request ends and the next begins, said in one way only, and in a bounded number of headers.

A request with a length and a chunked body too ends here for one reader and there for another: behind a proxy, somebody
could put a request of his own into another's connection. h11 bounds headers that are not complete yet, and no others.

The head of an answer leaves with the first part of its body: alone, each costs a system call and wakes a reader.
"""

import asyncio
from collections import Counter
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from remit.contracts.config.web import WebLimits
from remit.web.config.hosts import rate_key

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


_HEAD: Final = b"HTTP/1.1 "


class CoalescingTransport:
    """A transport around another. It never holds more than one head, and that only until the loop comes round."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._head:
            self._head, data = b"", self._head + data
            self._transport.write(data)
        elif data.startswith(_HEAD):
            self._head = data
            self._loop.call_soon(self.flush)
        elif data:
            self._transport.write(data)

    def flush(self) -> None:
        if self._head:
            self._head, data = b"", self._head
            self._transport.write(data)

    def close(self) -> None:
        self.flush()
        self._transport.close()


class TimeoutProtocol(H11Protocol):
    """Limit: a TLS handshake that is never finished is asyncio's to end, after a minute."""

    header_seconds: float = 10.0
    most_connections: int = 500
    _timer: asyncio.TimerHandle | None = None
    _is_one_too_many = False

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = StrictConnection(h11.SERVER, self.config.h11_max_incomplete_event_size or 0)
        self.idle_since = self.loop.time()
        self.address: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= self.most_connections and not self._evict_connection():
            self._is_one_too_many = True
            transport.abort()  # an answer to each of them would cost more than the connection
            return
        super().connection_made(CoalescingTransport(transport, self.loop))  # type: ignore[arg-type]  # one by its ways
        self.address = rate_key(self.client[0]) if self.client else None
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if not self._is_one_too_many:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._is_one_too_many:
            super().data_received(data)
            self._update_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.idle_since = self.loop.time()
        self._update_timer()

    def _evict_connection(self) -> bool:
        """Of the address that has most of them, the one that has waited longest; somebody who was known before too, or
        an agent could fill up with idle ones, and each newcomer would push out the one before.
        """
        connections = [each for each in self.connections if isinstance(each, TimeoutProtocol)]
        candidates = [each for each in connections if not (each.is_authenticated and each.is_answering())]
        of_address = Counter(each.address for each in candidates)
        if not candidates:
            return False
        evicted = min(candidates, key=lambda each: (-of_address[each.address], each.idle_since))
        self.connections.discard(evicted)  # now: the loop says only later that it is lost
        evicted.transport.abort()
        return True

    @property
    def is_authenticated(self) -> bool:
        """Whether the guard found out who the last request came from."""
        return bool(self.scope) and self.scope["state"].get("caller") is not None

    def _update_timer(self) -> None:
        """A request is under way: its body has a time limit of its own. Else some of the next one may be here."""
        if self.is_answering():
            self._stop_waiting()
        elif self.conn.trailing_data[0] and self._timer is None:
            self._await_request()

    def is_answering(self) -> bool:
        cycle = getattr(self, "cycle", None)
        return cycle is not None and not cycle.response_complete

    def _await_request(self) -> None:
        self._timer = self.loop.call_later(self.header_seconds, self._time_out)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        if self.is_answering() or self.transport.is_closing():
            return
        if self.conn.our_state is h11.IDLE:
            headers = [("connection", "close"), ("content-length", "0")]
            self.transport.write(self.conn.send(h11.Response(status_code=408, headers=headers)) or b"")
            self.transport.write(self.conn.send(h11.EndOfMessage()) or b"")
        self.transport.close()


def build_protocol(limits: WebLimits) -> type[TimeoutProtocol]:
    """As patient as the settings say."""

    class ConfiguredProtocol(TimeoutProtocol):
        header_seconds = float(limits.header_seconds)
        most_connections = limits.connections

    return ConfiguredProtocol
