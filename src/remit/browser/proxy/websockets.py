"""The messages of a WebSocket: each one from the browser is judged like a request, in its order.

Messages from the server pass unchanged. Pings, pongs and the closing pass too. They have at most 125 bytes, which a
page cannot choose. The reason of a closing is the exception, and it is omitted.
"""

import asyncio
from contextlib import suppress
from typing import Final

from wsproto.frame_protocol import CloseReason, Frame, FrameProtocol, Opcode, ParseFailed

from remit.browser.model.requests import Gate, GateDecision, OutgoingRequest
from remit.browser.proxy.gate_client import EndReport, judge, report_refused
from remit.browser.proxy.stream import ByteStream
from remit.core.ids import system_clock, uuid7

_FRAME_BYTES: Final = 64 << 10
_LINGER_SECONDS: Final = 0.5


async def relay_messages(gate: Gate, browser: ByteStream, server: ByteStream, url: str, most_bytes: int) -> None:
    """Relay messages until one side ends the WebSocket. Neither connection can be used again afterwards."""
    # Reading goes on while a message is held. Otherwise a hang-up of the browser would go unnoticed.
    browser.cap = most_bytes + _FRAME_BYTES
    messages = _Messages(gate, browser, server, url, most_bytes)
    both = asyncio.ensure_future(messages.pass_out()), asyncio.ensure_future(_pass_in(server, browser))
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in both:
            task.cancel()
        ends = await asyncio.gather(*both, return_exceptions=True)
    for end in ends:
        if isinstance(end, _UnsendableError):
            messages.close(end.code, end.why)
        elif isinstance(end, Exception) and not isinstance(end, OSError):
            raise end
    await messages.wait_for_closing()


async def _pass_in(server: ByteStream, browser: ByteStream) -> None:
    while data := await server.read_some():
        browser.write(data)
        await browser.drain()


class _UnsendableError(Exception):
    """A message that must not be sent. It ends the WebSocket, because a gap unknown to both sides would be worse."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why


class _Messages:
    """The messages from the browser to the server."""

    def __init__(self, gate: Gate, browser: ByteStream, server: ByteStream, url: str, most_bytes: int) -> None:
        self._gate = gate
        self._browser = browser
        self._server = server
        self._url = url
        self._most_bytes = most_bytes
        self._from_browser = FrameProtocol(client=False, extensions=[])
        self._to_server = FrameProtocol(client=True, extensions=[])
        self._to_browser = FrameProtocol(client=False, extensions=[])
        self._message = bytearray()
        self._has_closed = False

    async def pass_out(self) -> None:
        try:
            while data := await self._browser.read_some():
                self._from_browser.receive_bytes(data)
                for frame in self._from_browser.received_frames():
                    await self._forward_frame(frame)
                await self._server.drain()
        except ParseFailed:
            raise _UnsendableError(CloseReason.PROTOCOL_ERROR, "a message on a WebSocket cannot be read") from None

    async def _forward_frame(self, frame: Frame) -> None:
        match frame.opcode, frame.payload:
            case Opcode.CLOSE, (int(code), _):
                self._has_closed = True
                self._server.write(self._to_server.close(code))
            case Opcode.PING, payload:
                self._server.write(self._to_server.ping(_as_bytes(payload)))
            case Opcode.PONG, payload:
                self._server.write(self._to_server.pong(_as_bytes(payload)))
            case _, payload:
                await self._collect_part(_as_bytes(payload), frame)

    async def _collect_part(self, part: bytes, frame: Frame) -> None:
        # Parts are joined at once. A page may send empty parts without end, and a list of them would grow without
        # limit.
        self._message += part
        if len(self._message) > self._most_bytes:
            raise _UnsendableError(CloseReason.MESSAGE_TOO_BIG, "a message on a WebSocket is too large to be shown")
        if frame.message_finished:
            message = bytes(self._message)
            self._message.clear()
            await self._judge_and_forward(message, is_text=isinstance(frame.payload, str))

    async def _judge_and_forward(self, message: bytes, *, is_text: bool) -> None:
        request = OutgoingRequest(
            uuid7(system_clock()), kind="message", method="", url=self._url, headers=(), body=message, is_text=is_text
        )
        decision = await judge(self._gate, self._browser, request)
        if decision is GateDecision.DROP:
            raise _UnsendableError(CloseReason.POLICY_VIOLATION, "")
        if decision is None:
            raise ConnectionResetError
        report = EndReport(self._gate, request)
        framed = self._to_server.send_data(message.decode() if is_text else message, fin=True)
        try:
            report.sent = not self._server.is_gone
            self._server.write(framed)
            report.report(None)
        finally:
            report.report(None, "the server hung up")

    def close(self, code: int, why: str) -> None:
        """Send both sides the closing."""
        if why:
            report_refused(self._gate, "", self._url, why)
        if not self._browser.is_gone:
            self._browser.write(self._to_browser.close(code))
        if not self._server.is_gone:
            self._server.write(self._to_server.close(CloseReason.GOING_AWAY))

    async def wait_for_closing(self) -> None:
        """Let the browser finish. Closing while it sends would reset the connection and lose the reason."""
        with suppress(TimeoutError, ParseFailed):
            async with asyncio.timeout(_LINGER_SECONDS):
                while not self._has_closed and (data := await self._browser.read_some()):
                    self._from_browser.receive_bytes(data)
                    frames = self._from_browser.received_frames()
                    self._has_closed = any(frame.opcode is Opcode.CLOSE for frame in frames)


def _as_bytes(payload: object) -> bytes:
    if isinstance(payload, str):
        return payload.encode()
    return bytes(payload) if isinstance(payload, bytes | bytearray) else b""
