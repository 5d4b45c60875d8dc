"""A session's way out: a real site, the real proxy, real sockets, and a raw client that plays Chromium."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from socket import AF_INET, SOCK_STREAM, socket
from typing import Any

import h11

from remit.browser.gate import SAFE_METHODS
from remit.browser.model.requests import Ending, GateDecision, OutgoingRequest
from remit.browser.proxy import Authority, BrowserProxy, ProxyListener
from remit.browser.proxy.connection import ConnectionTimeouts
from remit.browser.proxy.dns import Resolve, resolve_with_system
from tests.support.browser_site import LOOPBACK, Site

PATIENCE_SECONDS = 60
"""How long a test waits for what must come. It is long, because a busy machine must not fail a test."""
IMPATIENT = ConnectionTimeouts(idle=0.4, head=0.2, body=0.2, linger=0.05)


async def send_all(request: OutgoingRequest) -> GateDecision:
    return GateDecision.READ if request.method in SAFE_METHODS else GateDecision.SEND


@dataclass
class RecordingGate:
    """Answers as it is told, and remembers what it was asked."""

    answer: Callable[[OutgoingRequest], Awaitable[GateDecision]] = send_all
    refuses: Callable[[str, str, int], str | None] = lambda _scheme, _host, _port: None
    places: list[tuple[str, str, int]] = field(default_factory=list)
    judged: list[OutgoingRequest] = field(default_factory=list)
    cancelled: list[OutgoingRequest] = field(default_factory=list)
    endings: list[tuple[OutgoingRequest, Ending]] = field(default_factory=list)
    turned_away: list[tuple[str, str, str]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def check_destination(self, scheme: str, host: str, port: int) -> str | None:
        self.places.append((scheme, host, port))
        return self.refuses(scheme, host, port)

    async def judge(self, request: OutgoingRequest) -> GateDecision:
        self.judged.append(request)
        self.changed.set()
        try:
            return await self.answer(request)
        except asyncio.CancelledError:
            self.cancelled.append(request)
            self.changed.set()
            raise

    def note_end(self, request: OutgoingRequest, ending: Ending) -> None:
        self.endings.append((request, ending))
        self.changed.set()

    def note_refused(self, method: str, url: str, why: str) -> None:
        self.turned_away.append((method, url, why))
        self.changed.set()

    async def until(self, is_so: Callable[["RecordingGate"], object]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not is_so(self):
                self.changed.clear()
                await self.changed.wait()


class Holding:
    """A judgement that waits for a person."""

    def __init__(self) -> None:
        self.decision: asyncio.Future[GateDecision] = asyncio.get_running_loop().create_future()

    async def __call__(self, _request: OutgoingRequest) -> GateDecision:
        return await asyncio.shield(self.decision)


@dataclass(frozen=True)
class Got:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for found, value in self.headers if found.lower() == name.lower()), None)


class Client:
    """One connection to the proxy. Writes what it is given, however wrong, and reads answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._unread = b""

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, method: str = "GET") -> Got:
        """The next answer; ConnectionError if there is none."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            parser = h11.Connection(h11.CLIENT)
            parser.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
            parser.send(h11.EndOfMessage())
            parser.receive_data(self._unread) if self._unread else None
            head: h11.Response | None = None
            body = b""
            while True:
                event = parser.next_event()
                if event is h11.NEED_DATA:
                    parser.receive_data(await self.reader.read(1 << 16))
                elif isinstance(event, h11.Response):
                    head = event
                elif isinstance(event, h11.Data):
                    body += bytes(event.data)
                elif head is not None and (event is h11.PAUSED or isinstance(event, h11.EndOfMessage)):
                    self._unread = bytes(parser.trailing_data[0])
                    names = ((name.decode(), value.decode("latin-1")) for name, value in head.headers.raw_items())
                    return Got(head.status_code, tuple(names), body)
                elif not isinstance(event, h11.InformationalResponse):
                    raise ConnectionResetError("there was no answer")

    async def ask(self, data: bytes, method: str = "GET") -> Got:
        self.write(data)
        return await self.answer(method)

    async def ended(self) -> bytes:
        """What still comes until the proxy hangs up."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            return


@dataclass
class Way:
    site: Site
    gate: RecordingGate
    serving: ProxyListener
    authority: Authority
    address: tuple[str, int]
    clients: list[Client] = field(default_factory=list)

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection(*self.address))
        self.clients.append(client)
        return client

    async def tunnel(
        self, authority: str | None = None, *, tls: bool = True, name: str = "shop.test", careful: bool = True
    ) -> Client:
        """Through CONNECT, as for https and WebSockets. A careless client takes a certificate for another name."""
        port = self.site.https_port if tls else self.site.http_port
        authority = authority or f"shop.test:{port}"
        client = await self.connect()
        got = await client.ask(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode(), "CONNECT")
        if got.status != 200:
            raise ConnectionResetError(f"no tunnel: {got.status}")
        if tls:
            trust = ssl.create_default_context(cadata=self.authority.certificate.decode())
            trust.check_hostname = careful
            trust.set_alpn_protocols(["h2", "http/1.1"])
            await client.writer.start_tls(trust, server_hostname=name)
        return client

    def plain(self, method: str, path: str, *lines: str, body: bytes = b"", host: str = "shop.test") -> bytes:
        """A request as Chromium writes it to a proxy."""
        authority = f"{host}:{self.site.http_port}"
        return _request(method, f"http://{authority}{path}", authority, lines, body)

    def tunnelled(self, method: str, path: str, *lines: str, body: bytes = b"", host: str = "shop.test") -> bytes:
        return _request(method, path, f"{host}:{self.site.https_port}", lines, body)


def _request(method: str, target: str, host: str, lines: tuple[str, ...], body: bytes) -> bytes:
    length = [f"Content-Length: {len(body)}"] if body or method not in {"GET", "HEAD", "OPTIONS"} else []
    head = [f"{method} {target} HTTP/1.1", f"Host: {host}", *length, *lines, "", ""]
    return "\r\n".join(head).encode("latin-1") + body


@asynccontextmanager
async def open_way(
    site: Site,
    gate: RecordingGate | None = None,
    *,
    resolve: Resolve = resolve_with_system,
    timeouts: ConnectionTimeouts | None = None,
    **config: Any,
) -> AsyncIterator[Way]:
    gate = gate or RecordingGate()
    authority = Authority()
    egress = BrowserProxy(site.config(**config), authority=authority, resolve=resolve, timeouts=timeouts)
    with socket(AF_INET, SOCK_STREAM) as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen(256)
        serving = await egress.serve(listener, gate)
        way = Way(site, gate, serving, authority, listener.getsockname())
        try:
            yield way
        finally:
            await serving.close()
            for client in way.clients:
                # One that has not read everything would wait half a minute for a polite end.
                client.writer.transport.abort()
                await client.close()
