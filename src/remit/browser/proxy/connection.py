"""One connection from the browser: a plain proxy request or a tunnel, then one request after the other."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from socket import IPPROTO_TCP, MSG_PEEK, TCP_NODELAY, socket
from typing import Final

from remit.browser.model.requests import Gate, OutgoingRequest
from remit.browser.proxy.addresses import Endpoint
from remit.browser.proxy.certificates import Authority
from remit.browser.proxy.exchange import Exchanges
from remit.browser.proxy.gate_client import report_refused
from remit.browser.proxy.request_head import MAX_HEAD, BadRequestError, Head, parse_head, read_authority, read_endpoint
from remit.browser.proxy.responses import REFUSED, render_notice
from remit.browser.proxy.stream import END_OF_HEAD, ByteStream, HeadTooLargeError
from remit.core.ids import system_clock, uuid7

_CONNECT: Final = b"CONNECT "
_TLS_HANDSHAKE: Final = 0x16
_ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_HEAD_TOO_LARGE: Final = f"the head of the request has more than {MAX_HEAD} bytes"


@dataclass(frozen=True)
class ConnectionTimeouts:
    """How long the browser may take, in seconds."""

    idle: float = 120.0
    """Until the first byte. A browser connects before it needs a connection."""
    head: float = 10.0
    """From the first to the last byte of a head, or of a TLS handshake."""
    body: float = 30.0
    """Between two pieces of a body."""
    linger: float = 2.0
    """To read a refusal while the browser still sends."""


class BrowserConnection:
    """One connection of one session's browser."""

    def __init__(
        self, gate: Gate, exchanges: Exchanges, authority: Authority, most_body_bytes: int, timeouts: ConnectionTimeouts
    ) -> None:
        self._gate = gate
        self._exchanges = exchanges
        self._authority = authority
        self._most_body_bytes = most_body_bytes
        self._timeouts = timeouts

    async def serve(self, connected: socket) -> None:
        """Serve the connection until it ends, and close the socket."""
        wire: ByteStream | None = None
        try:
            # asyncio sets this only if the listener was made with the protocol's number.
            connected.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            wire, tunnel = await self._open(connected)
            if wire is not None:
                await self._serve_requests(wire, tunnel)
        except (OSError, EOFError):  # broken, or too slow: a timeout is an OSError
            return
        except asyncio.CancelledError:
            if wire is not None:
                wire.abort()
            raise
        finally:
            if wire is None:
                connected.close()
            else:
                wire.close()
                # Without this the loop could end before the socket is closed.
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._timeouts.linger):
                        await wire.wait_closed()
                wire.abort()

    # --- opening

    async def _open(self, connected: socket) -> tuple[ByteStream | None, Endpoint | None]:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._timeouts.idle):
            begun = await loop.sock_recv(connected, MAX_HEAD)
        async with asyncio.timeout(self._timeouts.head):
            while begun and _CONNECT.startswith(begun[: len(_CONNECT)]) and len(begun) < len(_CONNECT):
                begun += await self._receive(connected)
            if not begun.startswith(_CONNECT):
                return await _plain(connected, begun), None
            while END_OF_HEAD not in begun and len(begun) <= MAX_HEAD:
                begun += await self._receive(connected)
        try:
            authority = _read_connect(begun)
        except BadRequestError as bad:
            report_refused(self._gate, "CONNECT", "", bad.why)
            await loop.sock_sendall(connected, render_notice(bad.status, bad.why, mark=REFUSED, closing=True))
            return None, None
        await loop.sock_sendall(connected, _ESTABLISHED)
        async with asyncio.timeout(self._timeouts.idle):
            first = await _peek(connected)
        if first != _TLS_HANDSHAKE:
            return await _plain(connected, b""), read_authority(authority, "http")
        endpoint = read_authority(authority, "https")
        return await self._encrypted(connected, endpoint), endpoint

    async def _receive(self, connected: socket) -> bytes:
        received = await asyncio.get_running_loop().sock_recv(connected, MAX_HEAD)
        if not received:
            raise EOFError
        return received

    async def _encrypted(self, connected: socket, endpoint: Endpoint) -> ByteStream:
        wire = ByteStream()
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: wire,
            connected,
            ssl=self._authority.context_for(endpoint.host),
            ssl_handshake_timeout=self._timeouts.head,
            ssl_shutdown_timeout=self._timeouts.linger,
        )
        return wire

    # --- the requests

    async def _serve_requests(self, wire: ByteStream, tunnel: Endpoint | None) -> None:
        while True:
            async with asyncio.timeout(self._timeouts.idle):
                if not await wire.wait():
                    return
            head: Head | None = None
            try:
                async with asyncio.timeout(self._timeouts.head):
                    head = parse_head(await wire.read_head(MAX_HEAD))
                endpoint, request = await self._read_request(wire, head, tunnel)
            except HeadTooLargeError:
                await self._refuse(wire, head, BadRequestError(_HEAD_TOO_LARGE, 431))
                return
            except BadRequestError as bad:
                await self._refuse(wire, head, bad)
                return
            wire.expect_silence()
            if not await self._exchanges.exchange(wire, endpoint, request, closing=head.closes):
                return
            wire.allow_data()

    async def _read_request(
        self, wire: ByteStream, head: Head, tunnel: Endpoint | None
    ) -> tuple[Endpoint, OutgoingRequest]:
        endpoint, path = read_endpoint(head, tunnel)
        is_websocket = head.is_websocket
        if (tunnel is None and is_websocket) or (tunnel and tunnel.scheme == "http" and not is_websocket):
            # The browser always uses a tunnel for WebSockets, and never for plain requests.
            raise BadRequestError("the request is not in the form that a browser uses for a proxy")
        length = head.body_length
        if length > self._most_body_bytes:
            raise BadRequestError(f"the body has more than {self._most_body_bytes} bytes and cannot be shown", 413)
        if head.wants_to_continue:
            wire.write(_CONTINUE)
        body = await wire.read_exactly(length, self._timeouts.body)
        if wire.has_unread:
            raise BadRequestError("there is more behind the request, which browsers do not do")
        scheme = {"http": "ws", "https": "wss"}[endpoint.scheme] if is_websocket else endpoint.scheme
        return endpoint, OutgoingRequest(
            request_id=uuid7(system_clock()),
            kind="websocket" if is_websocket else "request",
            method=head.method,
            url=f"{scheme}://{endpoint.authority}{path}",
            headers=head.forwarded(),
            body=body,
            is_navigation=head.is_navigation,
        )

    async def _refuse(self, wire: ByteStream, head: Head | None, bad: BadRequestError) -> None:
        method, target = (head.method, head.target) if head else ("", "")
        report_refused(self._gate, method, target, bad.why)
        wire.write(render_notice(bad.status, bad.why, mark=REFUSED, method=method, closing=True))
        await wire.discard(self._timeouts.linger, self._most_body_bytes)


async def _plain(connected: socket, already_read: bytes) -> ByteStream:
    wire = ByteStream(already_read)
    await asyncio.get_running_loop().connect_accepted_socket(lambda: wire, connected)
    return wire


async def _peek(connected: socket) -> int:
    """Return the first byte without removing it from the socket."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    loop.add_reader(connected, _resolve, readable)
    try:
        await readable
    finally:
        loop.remove_reader(connected)
    first = connected.recv(1, MSG_PEEK)
    if not first:
        raise EOFError
    return first[0]


def _resolve(awaited: asyncio.Future[None]) -> None:
    if not awaited.done():
        awaited.set_result(None)


def _read_connect(raw: bytes) -> str:
    """Return the authority that a CONNECT request names. It must name the port."""
    if len(raw) > MAX_HEAD:
        raise BadRequestError(_HEAD_TOO_LARGE, 431)
    written, end, more = raw.partition(END_OF_HEAD)
    if more:
        raise BadRequestError("there is more behind the request, which browsers do not do")
    head = parse_head(written + end)
    if not head.target.rpartition(":")[2].isdigit() or head.value("host") != head.target or head.body_length:
        raise BadRequestError("the request for a tunnel is malformed")
    read_authority(head.target, "https")
    return head.target
