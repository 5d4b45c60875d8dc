"""How each request ended is told once, and nothing that asked for a change is ever sent twice."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from remit.browser.model.requests import Ending, GateDecision, OutgoingRequest
from remit.browser.proxy.addresses import Endpoint
from remit.browser.proxy.stream import ByteStream
from remit.browser.proxy.upstream import Upstream
from tests.browser.proxy.harness import RecordingGate, open_way
from tests.support.browser_site import Reply, Site

HUNG_UP = "the server hung up before its answer was complete"


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        yield site


@pytest.mark.req("VX-12")
@pytest.mark.parametrize(
    "reply, problem",
    [
        (Reply(raw=b""), HUNG_UP),
        (Reply(raw=b"", reset=True), HUNG_UP),
        (Reply(raw=b"HTTP/1.1 200"), HUNG_UP),
        (Reply(raw=b"nonsense\r\n\r\n"), "the server's answer cannot be read"),
        (Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), "the server's answer cannot be read"),
        (Reply(raw=b"HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\n"), "the server's answer cannot be read"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_server_that_breaks_before_its_answer_got_the_request_once(
    site: Site, reply: Reply, problem: str, method: str
) -> None:
    site.routes["/"] = reply

    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.connect()
            got = await client.ask(way.plain(method, "/"), method)
            # Were the browser left without an answer, it would ask again by itself.
            assert (got.status, got.header("x-remit")) == (502, "failed")
            assert way.gate.endings == [(way.gate.judged[0], Ending(None, sent=True, problem=problem))]
            assert site.paths() == [f"{method} /"]

    asyncio.run(scenario())


@pytest.mark.req("VX-12")
def test_server_that_takes_no_connection_was_sent_nothing(site: Site) -> None:
    async def scenario() -> None:
        async with open_way(site, hosts={"shop.test": "127.0.0.9"}, private_addresses=("127.0.0.0/8",)) as way:
            got = await (await way.connect()).ask(way.plain("POST", "/", body=b"x"), "POST")
            ((_request, ending),) = way.gate.endings
            assert (got.status, ending.status, ending.sent) == (502, None, False)
            assert "no connection to the server" in ending.problem

    asyncio.run(scenario())


@pytest.mark.req("VX-12")
@pytest.mark.parametrize("tls", [False, True])
def test_what_became_of_a_change_is_known_though_the_browser_hung_up(site: Site, *, tls: bool) -> None:
    release = threading.Event()
    site.routes["/slow"] = Reply(201, b"late", wait_for=release)

    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.tunnel() if tls else await way.connect()
            client.write((way.tunnelled if tls else way.plain)("POST", "/slow", body=b"x"))
            await asyncio.to_thread(site.wait_until, lambda site: site.log)
            await client.close()
            release.set()
            await way.gate.until(lambda gate: gate.endings)
            assert [ending for _, ending in way.gate.endings] == [Ending(201, sent=True)]

    asyncio.run(scenario())


def test_reading_that_the_browser_gives_up_is_given_up(site: Site) -> None:
    site.routes["/slow"] = Reply(200, b"late", wait_for=threading.Event())

    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.connect()
            client.write(way.plain("GET", "/slow"))
            await asyncio.to_thread(site.wait_until, lambda site: site.log)
            await client.close()
            await way.gate.until(lambda gate: gate.endings)
            assert way.gate.endings[0][1] == Ending(None, sent=True, problem="the browser gave the request up")

    asyncio.run(scenario())


@pytest.mark.req("VX-12")
def test_server_that_never_answers_may_have_got_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remit.browser.proxy.exchange.ANSWER_SECONDS", 0.1)
    site.routes["/slow"] = Reply(200, b"late", wait_for=threading.Event())

    async def scenario() -> None:
        async with open_way(site) as way:
            got = await (await way.connect()).ask(way.plain("POST", "/slow", body=b"x"), "POST")
            assert got.status == 502
            assert way.gate.endings[0][1] == Ending(None, sent=True, problem="the server did not answer")

    asyncio.run(scenario())


@pytest.mark.req("VX-12")
def test_browser_that_hangs_up_while_the_connection_is_made_leaves_nothing_sent(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, lose = Upstream.connect, ByteStream.connection_lost

    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.connect()
            noticed = asyncio.Event()

            async def hang_up_meanwhile(upstream: Upstream, place: Endpoint, addresses: tuple[str, ...]) -> ByteStream:
                wire = await connect(upstream, place, addresses)
                client.writer.transport.abort()
                await noticed.wait()
                return wire

            def notice(wire: ByteStream, problem: Exception | None) -> None:
                lose(wire, problem)
                noticed.set()

            monkeypatch.setattr(Upstream, "connect", hang_up_meanwhile)
            monkeypatch.setattr(ByteStream, "connection_lost", notice)
            client.write(way.plain("POST", "/", body=b"x"))
            await way.gate.until(lambda gate: gate.endings)
            assert way.gate.endings[0][1] == Ending(None, sent=False, problem="the browser gave the request up")
            assert site.log == []

    asyncio.run(scenario())


@pytest.mark.req("VX-12")
def test_closing_after_the_sending_tells_that_it_was_sent(site: Site) -> None:
    site.routes["/slow"] = Reply(200, b"late", wait_for=threading.Event())

    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.connect()
            client.write(way.plain("POST", "/slow", body=b"x"))
            await asyncio.to_thread(site.wait_until, lambda site: site.log)
            await way.serving.close()
            assert [ending for _, ending in way.gate.endings] == [Ending(None, sent=True, problem="it was cut off")]

    asyncio.run(scenario())


@pytest.mark.req("VX-07")
def test_gate_that_fails_lets_nothing_through(site: Site) -> None:
    async def fail(_request: OutgoingRequest) -> GateDecision:
        raise RuntimeError("password=hunter2")

    async def scenario() -> None:
        async with open_way(site, RecordingGate(fail)) as way:
            got = await (await way.connect()).ask(way.plain("POST", "/", body=b"x"), "POST")
            assert (got.status, site.connections, way.gate.endings) == (403, 0, [])
            assert way.gate.turned_away == [("POST", site.url("/"), "it could not be judged: RuntimeError")]

    asyncio.run(scenario())


@pytest.mark.req("VX-04")
def test_gate_that_fails_to_tell_a_place_refuses_it(site: Site) -> None:
    def fail(_scheme: str, _host: str, _port: int) -> str | None:
        raise RuntimeError("password=hunter2")

    async def scenario() -> None:
        async with open_way(site, RecordingGate(refuses=fail)) as way:
            got = await (await way.connect()).ask(way.plain("GET", "/"))
            assert (got.status, got.body) == (403, b"Remit: it could not be judged: RuntimeError\n")
            assert (site.connections, way.gate.judged) == (0, [])

    asyncio.run(scenario())


@pytest.mark.req("VX-12")
def test_gate_that_fails_when_it_notes_the_end_is_reported_and_the_browser_is_answered(site: Site) -> None:
    site.routes["/pay"] = "paid"

    class Forgetful(RecordingGate):
        def note_end(self, request: OutgoingRequest, ending: Ending) -> None:
            super().note_end(request, ending)
            raise RuntimeError("the store is gone")

    async def scenario() -> None:
        reported: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context["message"]))
        async with open_way(site, Forgetful()) as way:
            got = await (await way.connect()).ask(way.plain("POST", "/pay", body=b"x"), "POST")
            assert (got.body, len(way.gate.endings)) == (b"paid", 1)
            assert reported == ["the gate failed when it was informed how a request ended"]

    asyncio.run(scenario())


@pytest.mark.req("VX-07")
def test_yes_that_comes_after_the_browser_hung_up_sends_nothing_and_says_so(site: Site) -> None:
    async def stubborn(_request: OutgoingRequest) -> GateDecision:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return GateDecision.SEND

    async def scenario() -> None:
        async with open_way(site, RecordingGate(stubborn)) as way:
            client = await way.connect()
            client.write(way.plain("POST", "/", body=b"x"))
            await way.gate.until(lambda gate: gate.judged)
            await client.close()
            await way.gate.until(lambda gate: gate.endings)
            assert way.gate.endings[0][1] == Ending(None, sent=False, problem="the browser gave the request up")
            assert site.connections == 0

    asyncio.run(scenario())
