"""One request: its destination, the lookup, the decision, the sending, the answer.

1. The destination is checked: by the gate, by its port, and by every address of its name.
2. The gate judges the request, as it will be written. If the browser hangs up meanwhile, the request ends.
3. A connection is made to a checked address. That takes a while, so the gate is asked about the destination again.
4. The request is written, once. From then on it is treated as sent. An approved request is never sent again. A reading
   request is sent again if the server had closed a reused connection. It is then judged again, as another request.
5. The answer is passed on as it arrives.
"""

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from typing import Final, NamedTuple

from remit.browser.model.requests import Gate, GateDecision, OutgoingRequest
from remit.browser.proxy.addresses import Endpoint
from remit.browser.proxy.dns import AddressRefusedError, LookupFailedError, Lookups
from remit.browser.proxy.gate_client import EndReport, check_destination, judge, report_refused
from remit.browser.proxy.request_head import SAFE_METHODS
from remit.browser.proxy.responses import (
    FAILED,
    REFUSED,
    AnswerHead,
    BrokenResponseError,
    ServerAnswer,
    render_notice,
    render_piece,
)
from remit.browser.proxy.stream import ByteStream
from remit.browser.proxy.upstream import ConnectFailedError, Upstream
from remit.browser.proxy.websockets import relay_messages
from remit.core.ids import system_clock, uuid7

ANSWER_SECONDS: Final = 300.0
_ABANDONED: Final = "the browser gave the request up"


class StaleConnectionError(Exception):
    """Raised when a reused connection was closed: not one byte came back on it."""


class Exchange(NamedTuple):
    browser: ByteStream
    server: ByteStream
    request: OutgoingRequest
    is_plain: bool
    """Whether the request only reads, and no approval was requested."""
    is_used: bool
    """Whether the server's connection was used before."""
    is_last: bool
    """Whether the browser's connection ends with this."""


class ReusableConnections(NamedTuple):
    """Which of the two connections can be used again."""

    server: bool
    browser: bool


class Exchanges:
    """All requests of one session."""

    def __init__(self, gate: Gate, lookups: Lookups, upstream: Upstream, most_message_bytes: int) -> None:
        self._gate = gate
        self._lookups = lookups
        self._upstream = upstream
        self._most_message_bytes = most_message_bytes

    async def exchange(
        self, browser: ByteStream, endpoint: Endpoint, request: OutgoingRequest, *, closing: bool
    ) -> bool:
        """Process one request. Returns whether another one may follow on the browser's connection."""
        try:
            addresses = await self._resolve(endpoint)
        except AddressRefusedError as refused:
            report_refused(self._gate, request.method, request.url, str(refused))
            return _answer_refused(browser, request, str(refused))
        except LookupFailedError as failed:
            return _answer_notice(browser, request, 502, str(failed), FAILED)
        try:
            return await self._judge_and_send(browser, endpoint, addresses, request, closing=closing)
        except StaleConnectionError:
            # The server had closed the connection before it saw this. The browser would repeat it as a new request.
            again = replace(request, request_id=uuid7(system_clock()))
            return await self._judge_and_send(browser, endpoint, addresses, again, closing=closing, is_again=True)

    async def _judge_and_send(
        self,
        browser: ByteStream,
        endpoint: Endpoint,
        addresses: tuple[str, ...],
        request: OutgoingRequest,
        *,
        closing: bool,
        is_again: bool = False,
    ) -> bool:
        decision = await judge(self._gate, browser, request)
        if decision is None:
            return False
        if decision is GateDecision.DROP:
            return _answer_refused(browser, request, "this was not approved")
        is_plain = decision is GateDecision.READ and request.kind == "request" and request.method in SAFE_METHODS
        report = EndReport(self._gate, request)
        try:
            # Only a reading request may use a connection that the server may close soon.
            used = self._upstream.acquire(endpoint) if is_plain and not is_again else None
            server = used or await self._connect(endpoint, addresses)
            is_reusable = False
            try:
                exchange = Exchange(
                    browser, server, request, is_plain=is_plain, is_used=used is not None, is_last=closing
                )
                reusable = await self._send_and_receive(exchange, report)
                is_reusable = is_plain and reusable.server
                return reusable.browser
            finally:
                self._upstream.release(endpoint, server, is_reusable=is_reusable)
        except ConnectFailedError as failed:
            report.report(None, _ABANDONED if browser.is_gone else str(failed))
            return _answer_notice(browser, request, 502, str(failed), FAILED)
        finally:
            report.report(None, "it was cut off")

    async def _resolve(self, endpoint: Endpoint) -> tuple[str, ...]:
        why = check_destination(self._gate, endpoint) or self._lookups.check_port(endpoint.port)
        if why:
            raise AddressRefusedError(why)
        return await self._lookups.find(endpoint)

    async def _connect(self, endpoint: Endpoint, addresses: tuple[str, ...]) -> ByteStream:
        server = await self._upstream.connect(endpoint, addresses)
        if why := check_destination(self._gate, endpoint):
            server.abort()
            raise ConnectFailedError(why)
        return server

    async def _send_and_receive(self, exchange: Exchange, report: EndReport) -> ReusableConnections:
        browser, server, request = exchange.browser, exchange.server, exchange.request
        if any(wire.is_gone for wire in (browser, server)):
            raise ConnectFailedError("the server hung up before anything was sent")
        report.sent = True
        server.write(request.wire())
        answer = ServerAnswer(server, request)
        try:
            # The outcome of a request that changes something is worth knowing, even if the browser has gone.
            with browser.on_hang_up(server.abort) if exchange.is_plain else nullcontext():
                async with asyncio.timeout(ANSWER_SECONDS):
                    head = await answer.read_head()
        except (BrokenResponseError, OSError) as problem:  # a timeout is an OSError
            why = _ABANDONED if browser.is_gone and exchange.is_plain else str(problem) or "the server did not answer"
            report.report(None, why)
            if exchange.is_used and answer.is_silence and not browser.is_gone:
                raise StaleConnectionError from None
            # There is always an answer, because a browser repeats a request that got none.
            return ReusableConnections(server=False, browser=_answer_notice(browser, request, 502, why, FAILED))
        report.report(head.status, location=head.location)
        try:
            with browser.on_hang_up(server.abort):
                return await self._forward_answer(exchange, head, answer)
        except (BrokenResponseError, OSError):
            # The browser can see that the end of the answer is missing.
            return ReusableConnections(server=False, browser=False)

    async def _forward_answer(self, exchange: Exchange, head: AnswerHead, answer: ServerAnswer) -> ReusableConnections:
        if head.status == 101:
            await self._switch_to_websocket(exchange, head, answer.rest)
            return ReusableConnections(server=False, browser=False)
        exchange.browser.write(head.render(closing=exchange.is_last))
        is_chunked, piece = head.is_chunked, b"more"
        while piece:
            piece = await answer.read_piece()
            exchange.browser.write(render_piece(piece, is_chunked=is_chunked))
            await exchange.browser.drain()
        return ReusableConnections(server=answer.leaves_reusable, browser=not exchange.is_last)

    async def _switch_to_websocket(self, exchange: Exchange, head: AnswerHead, rest: bytes) -> None:
        if head.value(b"sec-websocket-extensions") is not None:
            # No extension was offered, and the messages of one could not be read.
            _answer_notice(
                exchange.browser, exchange.request, 502, "the server insists on an extension of WebSockets", FAILED
            )
            return
        exchange.browser.write(head.render() + rest)
        exchange.browser.allow_data()
        await relay_messages(
            self._gate, exchange.browser, exchange.server, exchange.request.url, self._most_message_bytes
        )


def _answer_refused(browser: ByteStream, request: OutgoingRequest, why: str) -> bool:
    """Answer a refused request. A navigation gets an answer without content, so the browser stays on its page."""
    return _answer_notice(browser, request, 204 if request.is_navigation else 403, why, REFUSED)


def _answer_notice(browser: ByteStream, request: OutgoingRequest, status: int, why: str, mark: str) -> bool:
    if browser.is_gone:
        return False
    browser.write(render_notice(status, why, mark=mark, method=request.method))
    return True
