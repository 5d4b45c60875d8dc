"""One request: its place, the lookup, the judgement, the sending, the answer.

1. The place may be reached: the gate, the ports, and then every address its name leads to.
2. The gate judges the request, as it will be written. If the browser hangs up meanwhile, that is the end of it.
3. A connection is made to an address that was checked. That takes a while, so the gate is asked about the place again.
4. The request is written, once: from here on it counts as sent. What a person was asked about is never sent again;
   plain reading is, if the server had closed a connection in use, and then it is judged again, as another request.
5. The answer is passed on as it comes.
"""

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from typing import Final, NamedTuple

from remit.browser.model.requests import Answer, Gate, OutgoingRequest
from remit.browser.proxy.addresses import Endpoint
from remit.browser.proxy.dns import AddressRefusedError, LookupFailedError, Lookups
from remit.browser.proxy.gate_client import Settlement, judge, refuse_place, tell_refused
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
_GIVEN_UP: Final = "the browser gave it up"


class StaleConnectionError(Exception):
    """A connection that was used before turned out to be closed: not one byte came back on it."""


class Exchange(NamedTuple):
    browser: ByteStream
    server: ByteStream
    request: OutgoingRequest
    is_plain: bool
    """Whether it only reads, and nobody was asked about it."""
    is_used: bool
    """Whether the server's connection was used before."""
    is_last: bool
    """Whether the browser's connection ends with this."""


class ReusableConnections(NamedTuple):
    """Which of the two connections can be used once more."""

    server: bool
    browser: bool


class Exchanges:
    """All requests of one session."""

    def __init__(self, gate: Gate, lookups: Lookups, upstream: Upstream, most_message_bytes: int) -> None:
        self._gate = gate
        self._lookups = lookups
        self._upstream = upstream
        self._most_message_bytes = most_message_bytes

    async def exchange(self, browser: ByteStream, place: Endpoint, request: OutgoingRequest, *, closing: bool) -> bool:
        """Whether another request may follow on the browser's connection."""
        try:
            addresses = await self._find(place)
        except AddressRefusedError as refused:
            tell_refused(self._gate, request.method, request.url, str(refused))
            return _turn_away(browser, request, str(refused))
        except LookupFailedError as failed:
            return _notify(browser, request, 502, str(failed), FAILED)
        try:
            return await self._judge_and_send(browser, place, addresses, request, closing=closing)
        except StaleConnectionError:
            # The server had hung up before it saw this. The browser would repeat it by itself, as a request of its own.
            again = replace(request, request_id=uuid7(system_clock()))
            return await self._judge_and_send(browser, place, addresses, again, closing=closing, is_again=True)

    async def _judge_and_send(
        self,
        browser: ByteStream,
        place: Endpoint,
        addresses: tuple[str, ...],
        request: OutgoingRequest,
        *,
        closing: bool,
        is_again: bool = False,
    ) -> bool:
        answer = await judge(self._gate, browser, request)
        if answer is None:
            return False
        if answer is Answer.DROP:
            return _turn_away(browser, request, "this was not approved")
        is_plain = answer is Answer.READ and request.kind == "request" and request.method in SAFE_METHODS
        settlement = Settlement(self._gate, request)
        try:
            # Only plain reading may use a connection that the server might be about to close.
            used = self._upstream.take(place) if is_plain and not is_again else None
            server = used or await self._connect(place, addresses)
            is_reusable = False
            try:
                talk = Exchange(browser, server, request, is_plain=is_plain, is_used=used is not None, is_last=closing)
                kept = await self._talk(talk, settlement)
                is_reusable = is_plain and kept.server
                return kept.browser
            finally:
                self._upstream.give_back(place, server, is_reusable=is_reusable)
        except ConnectFailedError as failed:
            settlement.tell(None, _GIVEN_UP if browser.is_gone else str(failed))
            return _notify(browser, request, 502, str(failed), FAILED)
        finally:
            settlement.tell(None, "it was cut off")

    async def _find(self, place: Endpoint) -> tuple[str, ...]:
        why = refuse_place(self._gate, place) or self._lookups.refuse_port(place.port)
        if why:
            raise AddressRefusedError(why)
        return await self._lookups.find(place)

    async def _connect(self, place: Endpoint, addresses: tuple[str, ...]) -> ByteStream:
        server = await self._upstream.connect(place, addresses)
        if why := refuse_place(self._gate, place):
            server.abort()
            raise ConnectFailedError(why)
        return server

    async def _talk(self, talk: Exchange, settlement: Settlement) -> ReusableConnections:
        browser, server, request = talk.browser, talk.server, talk.request
        if any(wire.is_gone for wire in (browser, server)):
            raise ConnectFailedError("the server hung up before anything was sent")
        settlement.sent = True
        server.write(request.wire())
        answer = ServerAnswer(server, request)
        try:
            # Once a change was asked for it is worth knowing what became of it, browser or not.
            with browser.watched(server.abort) if talk.is_plain else nullcontext():
                async with asyncio.timeout(ANSWER_SECONDS):
                    head = await answer.read_head()
        except (BrokenResponseError, OSError) as problem:  # a timeout is an OSError
            why = _GIVEN_UP if browser.is_gone and talk.is_plain else str(problem) or "the server does not answer"
            settlement.tell(None, why)
            if talk.is_used and answer.is_silence and not browser.is_gone:
                raise StaleConnectionError from None
            # Never silence: a browser repeats by itself what got no answer at all.
            return ReusableConnections(server=False, browser=_notify(browser, request, 502, why, FAILED))
        settlement.tell(head.status, location=head.location)
        try:
            with browser.watched(server.abort):
                return await self._pass_on(talk, head, answer)
        except (BrokenResponseError, OSError):
            # The browser can tell that its end is missing.
            return ReusableConnections(server=False, browser=False)

    async def _pass_on(self, talk: Exchange, head: AnswerHead, answer: ServerAnswer) -> ReusableConnections:
        if head.status == 101:
            await self._switch(talk, head, answer.rest)
            return ReusableConnections(server=False, browser=False)
        talk.browser.write(head.render(closing=talk.is_last))
        is_chunked, piece = head.is_chunked, b"more"
        while piece:
            piece = await answer.read_piece()
            talk.browser.write(render_piece(piece, is_chunked=is_chunked))
            await talk.browser.drain()
        return ReusableConnections(server=answer.leaves_reusable, browser=not talk.is_last)

    async def _switch(self, talk: Exchange, head: AnswerHead, rest: bytes) -> None:
        if head.value(b"sec-websocket-extensions") is not None:
            # It was not offered any, and their messages could not be read.
            _notify(talk.browser, talk.request, 502, "the server insists on an extension of WebSockets", FAILED)
            return
        talk.browser.write(head.render() + rest)
        talk.browser.listen_again()
        await relay_messages(self._gate, talk.browser, talk.server, talk.request.url, self._most_message_bytes)


def _turn_away(browser: ByteStream, request: OutgoingRequest, why: str) -> bool:
    """A navigation that brings no content leaves the browser on its page, which stays usable."""
    return _notify(browser, request, 204 if request.is_navigation else 403, why, REFUSED)


def _notify(browser: ByteStream, request: OutgoingRequest, status: int, why: str, mark: str) -> bool:
    if browser.is_gone:
        return False
    browser.write(render_notice(status, why, mark=mark, method=request.method))
    return True
