"""uvicorn's HTTP/1.1 protocol with limits on the time and the number of headers, and on connections.

uvicorn would wait for headers without a time limit and accept any number of them. Here a connection whose request does
not arrive in time gets 408 and is closed. At the limit of connections, a new one replaces an idle one, or one without
an authenticated caller. So a client that only holds connections cannot block others. A running request of an
authenticated caller is never ended for another, and each caller has only a limited number of them.

The length of a body must be given in one way. If a request has a content length and a chunked body, a proxy and this
server could disagree on its end, and a client could insert a request into the connection of another client. h11 limits
only headers that are incomplete, so this module limits complete ones.

The head of a response is sent with the first part of its body. Two writes would cost two system calls.
"""

import asyncio
from collections import Counter
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from remit.contracts.config.web import WebLimits
from remit.web.config.hosts import rate_key

MOST_HEADER_BYTES: Final = 48 << 10
"""The limit of all headers of one request, with its target. A token has at most 16 KiB."""
MOST_HEADERS: Final = 100


class StrictConnection(h11.Connection):
    """Refuses ambiguous or oversized requests, as the standard allows. uvicorn then answers 400 and closes."""

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            _require_one_length(event)
            _require_bounded(event)
        return event


def _require_one_length(request: h11.Request) -> None:
    names = [name for name, _ in request.headers]
    if b"transfer-encoding" in names and (b"content-length" in names or request.http_version < b"1.1"):
        raise h11.RemoteProtocolError("the length of the body is given in two ways")


def _require_bounded(request: h11.Request) -> None:
    size = len(request.target) + sum(len(name) + len(value) + 4 for name, value in request.headers)
    if size > MOST_HEADER_BYTES or len(request.headers) > MOST_HEADERS:
        raise h11.RemoteProtocolError("too many headers", error_status_hint=431)


_HEAD: Final = b"HTTP/1.1 "


class CoalescingTransport:
    """A transport that holds one head of a response until its body follows, or until the next turn of the loop."""

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
    """The protocol with its limits.

    Limit: asyncio ends an unfinished TLS handshake, after a minute.
    """

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
            transport.abort()  # a response would cost more than the connection
            return
        super().connection_made(CoalescingTransport(transport, self.loop))  # type: ignore[arg-type]  # it behaves like one
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
        """Close one connection: of the address with the most connections, the one that is idle for the longest time.

        Idle connections of authenticated callers can be closed too. Otherwise an agent could hold all places with idle
        connections, and each new connection would replace the previous new one.
        """
        connections = [each for each in self.connections if isinstance(each, TimeoutProtocol)]
        candidates = [each for each in connections if not (each.is_authenticated and each.is_answering())]
        of_address = Counter(each.address for each in candidates)
        if not candidates:
            return False
        evicted = min(candidates, key=lambda each: (-of_address[each.address], each.idle_since))
        self.connections.discard(evicted)  # now, because the loop reports the loss only later
        evicted.transport.abort()
        return True

    @property
    def is_authenticated(self) -> bool:
        """Whether the guard authenticated the caller of the last request."""
        return bool(self.scope) and self.scope["state"].get("caller") is not None

    def _update_timer(self) -> None:
        """Stop the timer during a request; its body has its own time limit. Start it if the next request has begun."""
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
    """Return the protocol class with the limits of the settings."""

    class ConfiguredProtocol(TimeoutProtocol):
        header_seconds = float(limits.header_seconds)
        most_connections = limits.connections

    return ConfiguredProtocol
