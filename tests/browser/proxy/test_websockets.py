"""A WebSocket is held like a request, and every message on it too, in its order."""

import asyncio
import os
from collections.abc import Iterator

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    TextMessage,
)
from wsproto.events import Request as Handshake
from wsproto.extensions import PerMessageDeflate
from wsproto.frame_protocol import FrameProtocol, Opcode

from remit.browser.model.requests import Ending, GateDecision, OutgoingRequest
from tests.browser.proxy.harness import IMPATIENT, PATIENCE_SECONDS, Client, Holding, RecordingGate, Way, open_way
from tests.support.browser_site import Reply, Site


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        yield site


class Socket:
    """A WebSocket as a browser has it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.protocol = WSConnection(ConnectionType.CLIENT)
        self._events: list[Event] = []

    def send(self, event: Event) -> None:
        self.client.write(self.protocol.send(event))

    async def next(self) -> Event:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self._events:
                data = await self.client.reader.read(1 << 16)
                self.protocol.receive_data(data or None)
                self._events += self.protocol.events()
        return self._events.pop(0)


async def connect(way: Way, path: str = "/ws", *, tls: bool = True) -> Socket:
    port = way.site.https_port if tls else way.site.http_port
    opened = Socket(await way.tunnel(tls=tls))
    opened.send(Handshake(host=f"shop.test:{port}", target=path, extensions=[PerMessageDeflate()]))
    return opened


def messages_held_by(holding: Holding) -> RecordingGate:
    async def judge(request: OutgoingRequest) -> GateDecision:
        return await holding(request) if request.kind == "message" else GateDecision.SEND

    return RecordingGate(judge)


@pytest.mark.req("VX-07")
@pytest.mark.parametrize("tls", [False, True])
def test_handshake_is_held_and_sent_as_it_was_shown_without_extensions(site: Site, *, tls: bool) -> None:
    async def scenario() -> None:
        holding = Holding()
        async with open_way(site, RecordingGate(holding)) as way:
            browser = await connect(way, "/ws?room=1", tls=tls)
            await way.gate.until(lambda gate: gate.judged)
            assert site.connections == 0
            holding.decision.set_result(GateDecision.SEND)
            opened = await browser.next()
            assert isinstance(opened, AcceptConnection)
            assert not opened.extensions
            (shown,) = way.gate.judged
            scheme = "wss" if tls else "ws"
            port = site.https_port if tls else site.http_port
            assert (shown.kind, shown.method, shown.url) == (
                "websocket",
                "GET",
                f"{scheme}://shop.test:{port}/ws?room=1",
            )
            assert site.log[0].raw == shown.wire()
            assert site.log[0].header("sec-websocket-extensions") is None
            assert way.gate.endings == [(shown, Ending(101, sent=True))]

    asyncio.run(scenario())


@pytest.mark.req("VX-07")
def test_handshake_that_is_dropped_reaches_no_server(site: Site) -> None:
    async def scenario() -> None:
        async def drop(_request: OutgoingRequest) -> GateDecision:
            return GateDecision.DROP

        async with open_way(site, RecordingGate(drop)) as way:
            rejected = await (await connect(way)).next()
            assert isinstance(rejected, RejectConnection)
            assert (rejected.status_code, site.connections) == (403, 0)

    asyncio.run(scenario())


@pytest.mark.req("VX-07")
def test_each_message_is_held_and_arrives_as_it_was_shown(site: Site) -> None:
    async def scenario() -> None:
        holding = Holding()
        async with open_way(site, messages_held_by(holding)) as way:
            browser = await connect(way)
            assert isinstance(await browser.next(), AcceptConnection)
            browser.send(TextMessage("pay é 1"))
            await way.gate.until(lambda gate: len(gate.judged) == 2)
            assert site.messages == []
            holding.decision.set_result(GateDecision.SEND)
            assert await browser.next() == TextMessage("echo: pay é 1")
            browser.send(BytesMessage(b"\x00\xff"))
            assert await browser.next() == BytesMessage(bytearray(b"echo: \x00\xff"))
            _handshake, text, binary = way.gate.judged
            assert [(text.body, text.is_text), (binary.body, binary.is_text)] == [
                ("pay é 1".encode(), True),
                (b"\x00\xff", False),
            ]
            assert text.url == f"wss://shop.test:{site.https_port}/ws"
            assert [(message.payload, message.is_text) for message in site.messages] == [
                (text.body, True),
                (binary.body, False),
            ]
            assert [ending for _, ending in way.gate.endings[1:]] == [Ending(None, sent=True)] * 2

    asyncio.run(scenario())


def test_parts_of_a_message_are_shown_and_sent_as_one(site: Site) -> None:
    async def scenario() -> None:
        async with open_way(site) as way:
            browser = await connect(way)
            assert isinstance(await browser.next(), AcceptConnection)
            for part, finished in [("pay ", False), ("é", False), (" now", True)]:
                browser.send(TextMessage(part, message_finished=finished))
                browser.send(Ping(b"between"))
            pongs = 0
            while isinstance(event := await browser.next(), Pong):
                pongs += 1
            assert event == TextMessage("echo: pay é now")
            assert [request.body for request in way.gate.judged[1:]] == ["pay é now".encode()]
            assert pongs >= 1

    asyncio.run(scenario())


def test_large_message_arrives_whole(site: Site) -> None:
    payload = os.urandom(300_000)

    async def scenario() -> None:
        async with open_way(site) as way:
            browser = await connect(way)
            assert isinstance(await browser.next(), AcceptConnection)
            browser.send(BytesMessage(payload))
            await asyncio.to_thread(site.wait_until, lambda site: site.messages)
            assert site.messages[0].payload == payload == way.gate.judged[1].body

    asyncio.run(scenario())


@pytest.mark.req("VX-07")
def test_message_that_is_dropped_ends_the_socket_on_both_sides(site: Site) -> None:
    async def scenario() -> None:
        holding = Holding()
        async with open_way(site, messages_held_by(holding)) as way:
            browser = await connect(way)
            assert isinstance(await browser.next(), AcceptConnection)
            browser.send(TextMessage("one"))
            browser.send(TextMessage("two"))
            holding.decision.set_result(GateDecision.DROP)
            closed = await browser.next()
            assert isinstance(closed, CloseConnection)
            assert closed.code == 1008
            assert [request.body for request in way.gate.judged[1:]] == [b"one"]
            assert (site.messages, len(way.gate.endings)) == ([], 1)

    asyncio.run(scenario())


@pytest.mark.req("VX-07")
def test_message_that_is_held_is_dropped_when_the_browser_hangs_up(site: Site) -> None:
    async def scenario() -> None:
        async with open_way(site, messages_held_by(Holding())) as way:
            browser = await connect(way)
            assert isinstance(await browser.next(), AcceptConnection)
            browser.send(TextMessage("one"))
            await way.gate.until(lambda gate: len(gate.judged) == 2)
            await browser.client.close()
            await way.gate.until(lambda gate: gate.cancelled)
            assert site.messages == []

    asyncio.run(scenario())


def test_server_may_speak_while_a_message_is_held(site: Site) -> None:
    async def scenario() -> None:
        decisions = [GateDecision.SEND]
        waiting = Holding()

        async def judge(request: OutgoingRequest) -> GateDecision:
            return GateDecision.SEND if request.body != b"held" else await waiting(request)

        async with open_way(site, RecordingGate(judge)) as way:
            browser = await connect(way)
            assert isinstance(await browser.next(), AcceptConnection)
            browser.send(TextMessage("first"))
            browser.send(TextMessage("held"))
            assert await browser.next() == TextMessage("echo: first")
            waiting.decision.set_result(decisions[0])
            assert await browser.next() == TextMessage("echo: held")

    asyncio.run(scenario())


def test_closing_passes_with_its_code_and_without_its_words(site: Site) -> None:
    async def scenario() -> None:
        async with open_way(site) as way:
            browser = await connect(way)
            assert isinstance(await browser.next(), AcceptConnection)
            browser.send(CloseConnection(3001, "the words of a page"))
            closed = await browser.next()
            assert isinstance(closed, CloseConnection)
            assert (closed.code, closed.reason or "") == (3001, "")
            assert await browser.client.ended() == b""

    asyncio.run(scenario())


def test_message_over_the_limit_ends_the_socket(site: Site) -> None:
    async def scenario() -> None:
        async with open_way(site, max_body_bytes=2_000) as way:
            browser = await connect(way)
            assert isinstance(await browser.next(), AcceptConnection)
            for _ in range(3):
                browser.send(TextMessage("x" * 1_000, message_finished=False))
            closed = await browser.next()
            assert isinstance(closed, CloseConnection)
            assert closed.code == 1009
            assert "too large" in way.gate.turned_away[0][2]
            assert site.messages == []

    asyncio.run(scenario())


def test_flood_behind_a_held_message_is_cut_off(site: Site) -> None:
    async def scenario() -> None:
        async with open_way(site, messages_held_by(Holding()), max_body_bytes=2_000) as way:
            browser = await connect(way)
            assert isinstance(await browser.next(), AcceptConnection)
            browser.send(TextMessage("held"))
            await way.gate.until(lambda gate: len(gate.judged) == 2)
            for _ in range(100):
                browser.send(TextMessage("x" * 1_000))
            await way.gate.until(lambda gate: gate.cancelled)
            assert site.messages == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "frame",
    [
        bytes(FrameProtocol(client=False, extensions=[]).send_data("not masked", fin=True)),
        b"\xc1\x80\x00\x00\x00\x00",  # says that it is compressed
        b"\x83\x80\x00\x00\x00\x00",  # of an unknown kind
        b"\x81\x81\x00\x00\x00\x00\xff",  # text that is none
        b"\x80\x80\x00\x00\x00\x00",  # goes on with nothing
        bytes([0x80 | Opcode.PING, 0xFE, 0x00, 0x7E]) + b"\x00" * 130,  # control frames are short
    ],
)
def test_frame_that_breaks_the_rules_ends_the_socket(site: Site, frame: bytes) -> None:
    async def scenario() -> None:
        async with open_way(site) as way:
            browser = await connect(way)
            assert isinstance(await browser.next(), AcceptConnection)
            browser.client.write(frame)
            closed = await browser.next()
            assert isinstance(closed, CloseConnection)
            assert closed.code == 1002
            assert (site.messages, len(way.gate.judged)) == ([], 1)
            assert "cannot be read" in way.gate.turned_away[0][2]

    asyncio.run(scenario())


def test_server_that_insists_on_an_extension_gets_no_messages(site: Site) -> None:
    site.routes["/deflate"] = Reply(
        raw=b"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n"
        b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
    )

    async def scenario() -> None:
        async with open_way(site) as way:
            rejected = await (await connect(way, "/deflate")).next()
            assert isinstance(rejected, RejectConnection)
            assert rejected.status_code == 502

    asyncio.run(scenario())


def test_server_that_wants_no_socket_answers_as_to_any_request(site: Site) -> None:
    async def scenario() -> None:
        async with open_way(site) as way:
            rejected = await (await connect(way, "/nothing")).next()
            assert isinstance(rejected, RejectConnection)
            assert (rejected.status_code, way.gate.endings[0][1]) == (404, Ending(404, sent=True))

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "lines",
    [
        ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 8", "Sec-WebSocket-Key: x"),
        ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
        ("Connection: Upgrade", "Upgrade: websocket, h2c", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: x"),
        ("Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: x"),
    ],
)
def test_other_upgrades_are_refused(site: Site, lines: tuple[str, ...]) -> None:
    async def scenario() -> None:
        async with open_way(site, timeouts=IMPATIENT) as way:
            got = await (await way.tunnel()).ask(way.tunnelled("GET", "/ws", *lines))
            assert (got.status, way.gate.judged, site.connections) == (400, [], 0)

    asyncio.run(scenario())


def test_closing_the_session_ends_its_sockets(site: Site) -> None:
    async def scenario() -> None:
        async with open_way(site, messages_held_by(Holding())) as way:
            browser = await connect(way)
            assert isinstance(await browser.next(), AcceptConnection)
            browser.send(TextMessage("held"))
            await way.gate.until(lambda gate: len(gate.judged) == 2)
            await way.serving.close()
            assert len(way.gate.cancelled) == 1
            assert await browser.client.ended() == b""
            assert site.messages == []

    asyncio.run(scenario())
