"""A small web site on loopback that remembers every byte it was sent: for all tests of the browser.

    with Site({"/": "<h1>Hello</h1>", "/go": redirect(307, "/pay"), "/pay": lambda seen: Reply(201, b"paid")}) as site:
        config = site.config()                      # browser settings: shop.test and evil.test lead here
        ... let a browser or client loose on site.url("/") ...
        assert site.posts()[0].body == b"amount=1"  # exactly what arrived; site.log has everything, in order

It answers http and https, on a port each, for every host in `hosts`. A route is found by "host/path" or else by
"/path" (without the query); what is missing gets a 404. A route is a text or bytes (an HTML page), a `Reply`, or a
callable that gets what was `Seen` and returns one of those. "/ws" echoes WebSocket messages, and keeps them in
`site.messages`.
"""

import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from socket import AF_INET, IPPROTO_TCP, SHUT_RDWR, SO_LINGER, SOCK_STREAM, SOL_SOCKET, TCP_NODELAY, socket
from struct import pack
from tempfile import TemporaryDirectory
from typing import Any, Self
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Request, TextMessage

from remit.contracts.config.browser import Browser

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    raw: bytes
    """All of its bytes, head and body."""
    at: float
    """time.monotonic() when it was complete."""
    is_tls: bool
    connection: int
    """Which connection it came on, counted from 0."""
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for found, value in self.headers if found.lower() == name.lower()), None)

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def host(self) -> str:
        return (self.header("host") or "").rpartition(":")[0] or (self.header("host") or "")


@dataclass(frozen=True)
class Reply:
    """An answer. With `raw` exactly these bytes are sent and the connection is closed (or reset, with `reset`)."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "text/html; charset=utf-8"
    wait_for: threading.Event | None = None
    """The answer is not begun before this is set. It is set when the site closes."""
    raw: bytes | None = None
    reset: bool = False
    close: bool = False

    def render(self) -> bytes:
        if self.raw is not None:
            return self.raw
        fields = {"Content-Type": self.content_type, "Content-Length": str(len(self.body)), **self.headers}
        if self.close:
            fields["Connection"] = "close"
        lines = [f"HTTP/1.1 {self.status} Because", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        return "\r\n".join(lines).encode("latin-1") + self.body


Route = str | bytes | Reply | Callable[[Seen], "str | bytes | Reply"]


def redirect(status: int, to: str) -> Reply:
    return Reply(status, headers={"Location": to})


@dataclass(frozen=True)
class Message:
    """A message that arrived on a WebSocket."""

    payload: bytes
    is_text: bool
    at: float


class Site:
    """See above. Use it in a `with`."""

    def __init__(
        self, routes: Mapping[str, Route] | None = None, hosts: tuple[str, ...] = ("shop.test", "evil.test")
    ) -> None:
        self.routes: dict[str, Route] = dict(routes or {})
        """May be changed at any time."""
        self.hosts = hosts
        self.log: list[Seen] = []
        self.messages: list[Message] = []
        self.connections = 0
        """How many were made so far, used or not."""
        self._changed = threading.Condition()
        self._open: set[socket] = set()
        self._threads: list[threading.Thread] = []
        self._closing = False
        self._waiting: set[threading.Event] = set()

    def __enter__(self) -> Self:
        self._folder = TemporaryDirectory(prefix="remit-site-")
        self.certificates = Path(self._folder.name, "authority.pem")
        """The authority that the site's certificate is from."""
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        leaf = Path(self._folder.name, "leaf.pem")
        make_certificates(self.hosts, self.certificates, leaf)
        self._tls.load_cert_chain(leaf)
        self._listeners = [_listen(), _listen()]
        self.http_port, self.https_port = (listener.getsockname()[1] for listener in self._listeners)
        for listener, is_tls in zip(self._listeners, (False, True), strict=True):
            self._start(self._accept, listener, is_tls)
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closing = True
            for event in self._waiting:
                event.set()
            for connected in [*self._listeners, *self._open]:
                with suppress(OSError):
                    connected.shutdown(SHUT_RDWR)
            threads = list(self._threads)
        for thread in threads:
            thread.join(10)
        for listener in self._listeners:
            listener.close()
        self._folder.cleanup()

    # --- for the tests

    def url(self, path: str = "/", *, host: str = "shop.test", tls: bool = False) -> str:
        scheme, port = ("https", self.https_port) if tls else ("http", self.http_port)
        return f"{scheme}://{host}:{port}{path}"

    def config(self, **more: Any) -> Browser:
        """Browser settings with which this site can be reached, by its hosts' names; `more` goes on top."""
        given: dict[str, Any] = {
            "hosts": dict.fromkeys(self.hosts, LOOPBACK),
            "ports": (self.http_port, self.https_port),
            "private_addresses": (f"{LOOPBACK}/32",),
            "certificates": str(self.certificates),
        }
        return Browser.model_validate({**given, **more})

    def posts(self) -> list[Seen]:
        """What asked for a change."""
        return [seen for seen in self.log if seen.method not in {"GET", "HEAD", "OPTIONS"}]

    def paths(self) -> list[str]:
        return [f"{seen.method} {seen.target}" for seen in self.log]

    def wait_until(self, is_so: Callable[["Site"], object], seconds: float = 10.0) -> None:
        """Waits for something to arrive: `site.wait_until(lambda site: site.posts())`."""
        with self._changed:
            if not self._changed.wait_for(lambda: is_so(self), seconds):
                raise AssertionError(f"it did not arrive; what did: {self.paths()} {self.messages}")

    # --- how it works

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        with self._changed:
            self._threads = [kept for kept in self._threads if kept.is_alive()] + [thread]
            thread.start()

    def _accept(self, listener: socket, is_tls: bool) -> None:  # noqa: FBT001 - called by _start only
        while True:
            try:
                connected, _address = listener.accept()
            except OSError:
                return
            with self._changed:
                number = self.connections
                self.connections += 1
                self._changed.notify_all()
            self._start(self._serve, connected, is_tls, number)

    def _serve(self, connected: socket, is_tls: bool, number: int) -> None:  # noqa: FBT001 - as above
        connected.settimeout(60)
        connected.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        with suppress(OSError, EOFError):
            if is_tls:
                connected = self._tls.wrap_socket(connected, server_side=True, do_handshake_on_connect=False)
            with self._changed:
                self._open.add(connected)
                if self._closing:
                    raise EOFError
            if isinstance(connected, ssl.SSLSocket):
                connected.do_handshake()
            while self._serve_one(connected, number):
                pass
        with self._changed:
            self._open.discard(connected)
        connected.close()

    def _serve_one(self, connected: socket, number: int) -> bool:
        raw = b""
        while b"\r\n\r\n" not in raw:
            raw += _receive(connected)
        head, _, body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _version = first.split(" ")
        headers = tuple((name, value.strip()) for name, _, value in (line.partition(":") for line in lines))
        length = int(next((value for name, value in headers if name.lower() == "content-length"), "0"))
        while len(body) < length:
            more = _receive(connected)
            raw, body = raw + more, body + more
        is_tls = isinstance(connected, ssl.SSLSocket)
        seen = Seen(raw, time.monotonic(), is_tls, number, method, target, headers, body)
        with self._changed:
            self.log.append(seen)
            self._changed.notify_all()
        if (seen.header("upgrade") or "").lower() == "websocket" and seen.path == "/ws":
            self._echo(connected, raw)
            return False
        return self._answer(connected, seen)

    def _answer(self, connected: socket, seen: Seen) -> bool:
        route = self.routes.get(seen.host + seen.path, self.routes.get(seen.path, Reply(404, b"nothing here")))
        reply = route(seen) if callable(route) else route
        if isinstance(reply, str):
            reply = reply.encode()
        if isinstance(reply, bytes):
            reply = Reply(200, reply)
        if reply.wait_for is not None:
            with self._changed:
                self._waiting.add(reply.wait_for)
                if self._closing:
                    reply.wait_for.set()
            reply.wait_for.wait(60)
        rendered = reply.render()
        if seen.method == "HEAD" and reply.raw is None:
            rendered = rendered[: rendered.index(b"\r\n\r\n") + 4]
        connected.sendall(rendered)
        if reply.reset:
            connected.setsockopt(SOL_SOCKET, SO_LINGER, pack("ii", 1, 0))
        return reply.raw is None and not reply.close and not reply.reset

    def _echo(self, connected: socket, handshake: bytes) -> None:
        connection = WSConnection(ConnectionType.SERVER)
        connection.receive_data(handshake)
        parts: list[bytes] = []
        while True:
            for event in connection.events():
                match event:
                    case Request():
                        connected.sendall(connection.send(AcceptConnection()))
                    case TextMessage() | BytesMessage():
                        data = event.data
                        parts.append(data.encode() if isinstance(data, str) else bytes(data))
                        if event.message_finished:
                            self._echo_message(connected, connection, b"".join(parts), isinstance(data, str))
                            parts = []
                    case Ping():
                        connected.sendall(connection.send(event.response()))
                    case CloseConnection():
                        with suppress(OSError):
                            connected.sendall(connection.send(event.response()))
                        return
            connection.receive_data(_receive(connected))

    def _echo_message(self, connected: socket, connection: WSConnection, payload: bytes, is_text: bool) -> None:  # noqa: FBT001 - as above
        with self._changed:
            self.messages.append(Message(payload, is_text, time.monotonic()))
            self._changed.notify_all()
        back = TextMessage("echo: " + payload.decode()) if is_text else BytesMessage(b"echo: " + payload)
        connected.sendall(connection.send(back))


def _listen() -> socket:
    listener = socket(AF_INET, SOCK_STREAM)
    listener.bind((LOOPBACK, 0))
    listener.listen(256)
    return listener


def _receive(connected: socket) -> bytes:
    received = connected.recv(1 << 16)
    if not received:
        raise EOFError
    return received


def make_certificates(hosts: tuple[str, ...], authority_file: Path, leaf_file: Path) -> None:
    """An authority, and a certificate of it with its key for these hosts."""
    now = datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority for tests")])
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

    def begun(public_key: ec.EllipticCurvePublicKey, subject: x509.Name) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .issuer_name(name)
            .subject_name(subject)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )

    authority = (
        begun(authority_key.public_key(), name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, SHA256())
    )
    leaf = (
        begun(key.public_key(), x509.Name([]))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=True)
        .sign(authority_key, SHA256())
    )
    authority_file.write_bytes(authority.public_bytes(Encoding.PEM))
    leaf_file.write_bytes(
        leaf.public_bytes(Encoding.PEM) + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
