"""What goes back to the browser: the server's answer as it is, or a short notice of ours."""

import re
from typing import Final, NamedTuple

import h11

from remit.browser.model.requests import OutgoingRequest
from remit.browser.proxy.stream import ByteStream
from remit.core.errors import render_line

MAX_ANSWER_HEAD: Final = 256 << 10

REFUSED: Final = "refused"
FAILED: Final = "failed"
MARK: Final = "X-Remit"
"""The header by which our notices are known. A server's own is taken away."""

_PHRASES: Final = {
    204: "No Content",
    400: "Bad Request",
    403: "Forbidden",
    405: "Method Not Allowed",
    411: "Length Required",
    413: "Content Too Large",
    417: "Expectation Failed",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
}

_NOT_PASSED_ON: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"te", b"trailer", b"transfer-encoding"}
    | {b"upgrade"}
    # Would lead the browser to ways out that are closed.
    | {b"alt-svc"}
    # Would make the browser report on its own, and each report would be held for a person.
    | {b"nel", b"report-to", b"reporting-endpoints"}
    # Would make the browser ask for the same once more, by itself.
    | {b"critical-ch"}
    | {MARK.lower().encode()}
)
_HIDDEN_STATUSES: Final = frozenset({407, 408, 421})
"""What a browser takes for the proxy's own word: 407 makes it ask for a password, the others send the request again."""

_SECURITY_POLICIES: Final = frozenset({b"content-security-policy", b"content-security-policy-report-only"})
# The same: its reports need no other header. What the policy forbids stays forbidden.
_REPORTING: Final = re.compile(rb"(?i)(^|[;,])[ \t]*report-(?:uri|to)(?![a-z-])[^;,]*")

_HUNG_UP: Final = "the server hung up before its answer was complete"
_BODILESS: Final = frozenset({204, 304})


class BrokenResponseError(Exception):
    """The server's answer ended too early, or is none."""


def render_notice(status: int, why: str, *, mark: str, method: str = "", closing: bool = False) -> bytes:
    """An answer of our own. Masked: its words may come from a request."""
    body = b"" if status in _BODILESS else f"Remit: {render_line(why)}\n".encode()
    lines = [f"HTTP/1.1 {status} {_PHRASES[status]}", f"{MARK}: {mark}", "Cache-Control: no-store"]
    if status not in _BODILESS:
        lines += ["Content-Type: text/plain; charset=utf-8", "X-Content-Type-Options: nosniff"]
        lines += [f"Content-Length: {len(body)}"]
    if closing:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode() + (b"" if method == "HEAD" else body)


class AnswerHead(NamedTuple):
    """The head of a server's answer to a request of this method."""

    method: str
    status: int
    reason: bytes
    fields: tuple[tuple[bytes, bytes], ...]

    def value(self, name: bytes) -> bytes | None:
        return next((value for found, value in self.fields if found.lower() == name), None)

    @property
    def location(self) -> str:
        """Of a redirect: where it leads, as the server wrote it."""
        found = self.value(b"location") if 300 <= self.status < 400 else None
        return (found or b"").decode("latin-1")

    @property
    def is_chunked(self) -> bool:
        """Whether the browser gets the body in chunks: if the server did so, or if the connection's end is its end."""
        if self.method == "HEAD" or self.status in _BODILESS or self.status < 200:
            return False
        return self.value(b"transfer-encoding") is not None or self.value(b"content-length") is None

    def render(self, *, closing: bool = False) -> bytes:
        """For the browser."""
        lines = [b"HTTP/1.1 %d %s" % (502 if self.status in _HIDDEN_STATUSES else self.status, self.reason)]
        chunked = self.is_chunked
        for name, value in self.fields:
            if name.lower() not in _NOT_PASSED_ON and not (chunked and name.lower() == b"content-length"):
                lines.append(name + b": " + _without_reports(name, value))
        if self.status == 101:
            lines += [b"Connection: Upgrade", b"Upgrade: websocket"]
        if chunked:
            lines.append(b"Transfer-Encoding: chunked")
        if closing:
            lines.append(b"Connection: close")
        return b"\r\n".join([*lines, b"", b""])


def _without_reports(name: bytes, value: bytes) -> bytes:
    return _REPORTING.sub(rb"\1", value) if name.lower() in _SECURITY_POLICIES else value


def render_piece(data: bytes, *, is_chunked: bool) -> bytes:
    """A piece of the body for the browser; an empty one is its end."""
    return b"%x\r\n%s\r\n" % (len(data), data) if is_chunked else data


class ServerAnswer:
    """Reads the answer to one request from a connection."""

    def __init__(self, wire: ByteStream, request: OutgoingRequest) -> None:
        self._wire = wire
        self._method = request.method
        # Only its reading is used: what is written is the request that was shown, byte for byte.
        self._reader = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_ANSWER_HEAD)
        fields = [("Host", "server")]
        if request.kind == "websocket":
            fields += [("Connection", "Upgrade"), ("Upgrade", "websocket")]
        self._reader.send(h11.Request(method=request.method, target="/", headers=fields))
        self._reader.send(h11.EndOfMessage())
        self._has_ended = False
        self.is_silence = True
        """Whether the server said nothing at all."""

    async def _next(self) -> object:
        while True:
            try:
                event = self._reader.next_event()
                if event is not h11.NEED_DATA:
                    return event
                received = await self._wire.read_some()
                self._has_ended = not received
                self.is_silence = self.is_silence and self._has_ended
                self._reader.receive_data(received)
            except h11.RemoteProtocolError:
                # Its own words quote what the server sent.
                raise BrokenResponseError(
                    _HUNG_UP if self._has_ended else "the server's answer cannot be read"
                ) from None

    async def read_head(self) -> AnswerHead:
        """When the real answer begins: hints before it are left out. 101 for a WebSocket."""
        while True:
            event = await self._next()
            if isinstance(event, h11.InformationalResponse) and event.status_code != 101:
                continue
            if isinstance(event, h11.Response | h11.InformationalResponse):
                fields = tuple(event.headers.raw_items())
                return AnswerHead(self._method, event.status_code, bytes(event.reason), fields)
            raise BrokenResponseError(_HUNG_UP)

    async def read_piece(self) -> bytes:
        """Of the body, as it comes; empty at its end."""
        while True:
            event = await self._next()
            if isinstance(event, h11.EndOfMessage):
                return b""
            if not isinstance(event, h11.Data):
                raise BrokenResponseError(_HUNG_UP)
            if event.data:
                return bytes(event.data)

    @property
    def leaves_reusable(self) -> bool:
        return self._reader.their_state is h11.DONE and not self._reader.trailing_data[0]

    @property
    def rest(self) -> bytes:
        """What the server sent behind the head with which a WebSocket begins."""
        return bytes(self._reader.trailing_data[0])
