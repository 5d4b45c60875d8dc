"""What is shown to the gate is what arrives, once, and not before the gate said so."""

import asyncio
from collections.abc import Iterator

import pytest

from remit.browser.model.requests import Ending, GateDecision, OutgoingRequest
from tests.browser.proxy.harness import Holding, RecordingGate, open_way
from tests.support.browser_site import Reply, Site, redirect


@pytest.fixture
def site() -> Iterator[Site]:
    with Site({"/": "<h1>Hello</h1>", "/pay": Reply(201, b"paid"), "/go": redirect(307, "/pay")}) as site:
        yield site


def test_plain_request_goes_through_and_back(site: Site) -> None:
    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.connect()
            got = await client.ask(way.plain("GET", "/?a=1", "Accept: text/html", "Proxy-Connection: keep-alive"))
            assert (got.status, got.body) == (200, b"<h1>Hello</h1>")
            assert site.log[0].raw == way.gate.judged[0].wire()
            assert way.gate.judged[0].url == site.url("/?a=1")
            assert way.gate.endings == [(way.gate.judged[0], Ending(200, sent=True))]

    asyncio.run(scenario())


@pytest.mark.req("VX-07")
@pytest.mark.parametrize("tls", [False, True])
def test_held_request_arrives_after_the_answer_and_exactly_as_it_was_shown(site: Site, *, tls: bool) -> None:
    async def scenario() -> None:
        holding = Holding()
        async with open_way(site, RecordingGate(holding)) as way:
            client = await way.tunnel() if tls else await way.connect()
            write = way.tunnelled if tls else way.plain
            client.write(write("POST", "/pay?x=%20y", "Cookie: a=b", "X-Odd:  \xe9 x", body=b"amount=1&to=\x00\xff"))
            await way.gate.until(lambda gate: gate.judged)
            assert site.connections == 0
            holding.decision.set_result(GateDecision.SEND)
            got = await client.answer("POST")
            assert (got.status, got.body) == (201, b"paid")
            (shown,) = way.gate.judged
            (arrived,) = site.log
            assert arrived.raw == shown.wire()
            assert arrived.body == shown.body == b"amount=1&to=\x00\xff"
            assert arrived.headers == shown.headers
            assert arrived.target == shown.target == "/pay?x=%20y"
            assert arrived.is_tls is tls

    asyncio.run(scenario())


@pytest.mark.req("VX-07")
@pytest.mark.parametrize("navigates, status", [(True, 204), (False, 403)])
def test_dropped_request_never_arrives_and_a_navigation_leaves_the_page(
    site: Site, *, navigates: bool, status: int
) -> None:
    async def scenario() -> None:
        async def drop(_request: OutgoingRequest) -> GateDecision:
            return GateDecision.DROP

        async with open_way(site, RecordingGate(drop)) as way:
            client = await way.tunnel()
            mode = "Sec-Fetch-Mode: " + ("navigate" if navigates else "cors")
            got = await client.ask(way.tunnelled("POST", "/pay", mode, body=b"x"), "POST")
            assert (got.status, got.header("x-remit")) == (status, "refused")
            assert way.gate.judged[0].is_navigation is navigates
            assert (site.connections, way.gate.endings) == (0, [])
            assert (await client.ask(way.tunnelled("POST", "/pay", mode, body=b"x"), "POST")).status == status

    asyncio.run(scenario())


@pytest.mark.req("VX-07")
@pytest.mark.parametrize("size", [1, 300_000])
@pytest.mark.parametrize("tls", [False, True])
def test_request_that_the_browser_gives_up_while_it_is_held_is_not_sent(
    site: Site, size: int, monkeypatch: pytest.MonkeyPatch, *, tls: bool
) -> None:
    # So low that reading pauses: it must go on before the body's end, or the hanging up would not be noticed.
    monkeypatch.setattr("remit.browser.proxy.stream.HIGH_WATER", 1_000)

    async def scenario() -> None:
        holding = Holding()
        async with open_way(site, RecordingGate(holding)) as way:
            client = await way.tunnel() if tls else await way.connect()
            client.write((way.tunnelled if tls else way.plain)("POST", "/pay", body=b"x" * size))
            await way.gate.until(lambda gate: gate.judged)
            await client.close()
            await way.gate.until(lambda gate: gate.cancelled)
            holding.decision.set_result(GateDecision.SEND)
            # Another request shows that the proxy is done with the first one.
            assert (await (await way.connect()).ask(way.plain("GET", "/"))).status == 200
            assert site.paths() == ["GET /"]
            assert [request.method for request, _ending in way.gate.endings] == ["GET"]

    asyncio.run(scenario())


@pytest.mark.req("VX-07")
def test_closing_cancels_what_is_held_and_sends_nothing_more(site: Site) -> None:
    async def scenario() -> None:
        holding = Holding()
        async with open_way(site, RecordingGate(holding)) as way:
            client = await way.connect()
            client.write(way.plain("POST", "/pay", body=b"x"))
            await way.gate.until(lambda gate: gate.judged)
            await way.serving.close()
            assert len(way.gate.cancelled) == 1
            holding.decision.set_result(GateDecision.SEND)
            assert await client.ended() == b""
            assert (site.connections, way.gate.endings) == (0, [])

    asyncio.run(scenario())
