"""The answers to the browser: the server's answer, or a short notice of Remit."""

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
"""The header that marks Remit's notices. It is removed from the answers of servers."""

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
    # Would make the browser try connections that are closed.
    | {b"alt-svc"}
    # Would make the browser send reports, and each report would be held for an approver.
    | {b"nel", b"report-to", b"reporting-endpoints"}
    # Would make the browser send the same request again.
    | {b"critical-ch"}
    | {MARK.lower().encode()}
)
_HIDDEN_STATUSES: Final = frozenset({407, 408, 421})
"""Statuses that a browser takes as coming from the proxy. After 407 it asks for a password; after the others it sends
the request again.
"""

_SECURITY_POLICIES: Final = frozenset({b"content-security-policy", b"content-security-policy-report-only"})
# A content security policy makes the browser send reports without another header. The rest of the policy stays.
_REPORTING: Final = re.compile(rb"(?i)(^|[;,])[ \t]*report-(?:uri|to)(?![a-z-])[^;,]*")

_HUNG_UP: Final = "the server hung up before its answer was complete"
_BODILESS: Final = frozenset({204, 304})


class BrokenResponseError(Exception):
    """The server's answer ended too early, or is not a valid answer."""


def render_notice(status: int, why: str, *, mark: str, method: str = "", closing: bool = False) -> bytes:
    """Return an answer of Remit. It is masked, because its text may come from a request."""
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
        """The target of a redirect, as the server wrote it."""
        found = self.value(b"location") if 300 <= self.status < 400 else None
        return (found or b"").decode("latin-1")

    @property
    def is_chunked(self) -> bool:
        """Whether the browser gets the body in chunks: the server sent chunks, or the body ends with the connection."""
        if self.method == "HEAD" or self.status in _BODILESS or self.status < 200:
            return False
        return self.value(b"transfer-encoding") is not None or self.value(b"content-length") is None

    def render(self, *, closing: bool = False) -> bytes:
        """Return the head for the browser."""
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
    """Return a piece of the body for the browser. An empty piece is the end."""
    return b"%x\r\n%s\r\n" % (len(data), data) if is_chunked else data


class ServerAnswer:
    """Reads the answer to one request from a connection."""

    def __init__(self, wire: ByteStream, request: OutgoingRequest) -> None:
        self._wire = wire
        self._method = request.method
        # h11 is used only to read. The request that was shown is written byte for byte.
        self._reader = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_ANSWER_HEAD)
        fields = [("Host", "server")]
        if request.kind == "websocket":
            fields += [("Connection", "Upgrade"), ("Upgrade", "websocket")]
        self._reader.send(h11.Request(method=request.method, target="/", headers=fields))
        self._reader.send(h11.EndOfMessage())
        self._has_ended = False
        self.is_silence = True
        """Whether the server has sent nothing at all."""

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
                # The message of h11 quotes what the server sent.
                raise BrokenResponseError(
                    _HUNG_UP if self._has_ended else "the server's answer cannot be read"
                ) from None

    async def read_head(self) -> AnswerHead:
        """Return the head of the final answer. Interim answers are skipped. The status is 101 for a WebSocket."""
        while True:
            event = await self._next()
            if isinstance(event, h11.InformationalResponse) and event.status_code != 101:
                continue
            if isinstance(event, h11.Response | h11.InformationalResponse):
                fields = tuple(event.headers.raw_items())
                return AnswerHead(self._method, event.status_code, bytes(event.reason), fields)
            raise BrokenResponseError(_HUNG_UP)

    async def read_piece(self) -> bytes:
        """Return the next piece of the body as it arrives; empty at the end."""
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
        """The bytes that the server sent after the head that opens a WebSocket."""
        return bytes(self._reader.trailing_data[0])
