"""Answers come back as they are, nothing is ever sent twice, and how each request ended is told once."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from remit.browser.requests import Answer, Ending, OutgoingRequest
from tests.browser_egress.harness import RecordingGate, open_way
from tests.browser_site import Reply, Seen, Site

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n"
HINTS = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
HUNG_UP = "the server hung up before its answer was complete"


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        yield site


@pytest.mark.parametrize(
    "raw, method, body",
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde", "GET", b"abcde"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde", "POST", b"abcde"),
        (CHUNKED, "GET", b"abcde"),
        (b"HTTP/1.1 200 OK\r\n\r\nabcde", "GET", b"abcde"),
        (b"HTTP/1.0 200 OK\r\n\r\nabcde", "GET", b"abcde"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD", b""),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "GET", b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "GET", b""),
        (HINTS + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde", "GET", b"abcde"),
        (b"HTTP/1.1 500 \r\nContent-Length: 0\r\n\r\n", "GET", b""),
    ],
)
def test_answer_comes_back_whole_and_another_request_can_follow(
    site: Site, raw: bytes, method: str, body: bytes
) -> None:
    site.routes |= {"/": Reply(raw=raw), "/next": "next"}

    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.connect()
            got = await client.ask(way.plain(method, "/"), method)
            assert got.body == body
            assert (await client.ask(way.plain("GET", "/next"))).body == b"next"
            assert way.gate.endings[0][1] == Ending(got.status, sent=True)

    asyncio.run(scenario())


def test_answer_that_is_read_slowly_arrives_whole(site: Site) -> None:
    big = bytes(range(256)) * 40_000
    site.routes["/big"] = Reply(200, big)

    async def scenario() -> None:
        async with open_way(site) as way:
            for _ in range(2):
                client = await way.connect()
                client.write(way.plain("GET", "/big"))
                await way.gate.until(lambda gate: gate.endings)
                assert (await client.answer()).body == big

    asyncio.run(scenario())


def test_first_bytes_are_passed_on_before_the_last_have_come(site: Site) -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 100\r\n\r\ndata: 1\n\n"
    site.routes["/events"] = Reply(raw=raw)

    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.connect()
            client.write(way.plain("GET", "/events"))
            async with asyncio.timeout(5):
                received = await client.reader.readuntil(b"data: 1\n\n")
            assert received.startswith(b"HTTP/1.1 200 OK\r\n")
            # The server hung up in its answer: the browser is hung up on too, and can tell that something is missing.
            assert await client.ended() == b""
            assert way.gate.endings == [(way.gate.judged[0], Ending(200, sent=True))]

    asyncio.run(scenario())


def test_what_is_between_two_ends_only_or_would_lead_past_us_is_left_out(site: Site) -> None:
    headers = {
        "Connection": "keep-alive",
        "Keep-Alive": "timeout=5",
        "Proxy-Authenticate": "Basic",
        "Upgrade": "h2c",
        "Alt-Svc": 'h3=":443"',
        "X-Remit": "refused",
        "NEL": "{}",
        "Report-To": "{}",
        "Reporting-Endpoints": 'x="/x"',
        "Content-Encoding": "x-unknown",
        "Service-Worker-Allowed": "/",
        "X-Kept": "as It is",
    }
    site.routes["/"] = Reply(200, b"body", headers)

    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.connect()
            got = await client.ask(way.plain("GET", "/", "Accept-Encoding: gzip, br", "Te: trailers", "Keep-Alive: 3"))
            assert got.headers == (
                ("Content-Type", "text/html; charset=utf-8"),
                ("Content-Length", "4"),
                ("Content-Encoding", "x-unknown"),
                ("Service-Worker-Allowed", "/"),
                ("X-Kept", "as It is"),
            )
            assert [name for name, _value in site.log[0].headers] == ["Host", "Accept-Encoding"]

    asyncio.run(scenario())


def test_server_cannot_ask_for_a_password_in_our_name(site: Site) -> None:
    site.routes["/"] = Reply(407, b"who?", {"Proxy-Authenticate": "Basic"})

    async def scenario() -> None:
        async with open_way(site) as way:
            got = await (await way.connect()).ask(way.plain("GET", "/"))
            assert (got.status, got.header("proxy-authenticate")) == (502, None)
            assert way.gate.endings[0][1].status == 407

    asyncio.run(scenario())


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
def test_browser_that_hangs_up_after_the_sending_is_told_as_such(site: Site, *, tls: bool) -> None:
    site.routes["/slow"] = Reply(200, b"late", wait_for=threading.Event())

    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.tunnel() if tls else await way.connect()
            client.write((way.tunnelled if tls else way.plain)("POST", "/slow", body=b"x"))
            await asyncio.to_thread(site.wait_until, lambda site: site.log)
            await client.close()
            await way.gate.until(lambda gate: gate.endings)
            assert [ending for _, ending in way.gate.endings] == [
                Ending(None, sent=True, problem="the browser gave it up")
            ]

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


@pytest.mark.req("VX-12")
def test_only_plain_reading_uses_a_connection_again(site: Site) -> None:
    site.routes |= {"/": "hello", "/pay": "paid"}

    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.connect()
            for method, path in [("GET", "/"), ("GET", "/"), ("POST", "/pay"), ("GET", "/"), ("DELETE", "/pay")]:
                assert (await client.ask(way.plain(method, path), method)).status == 200
            assert [(seen.method, seen.connection) for seen in site.log] == [
                ("GET", 0),
                ("GET", 0),
                ("POST", 1),
                ("GET", 0),
                ("DELETE", 2),
            ]

    asyncio.run(scenario())


@pytest.mark.req("VX-12")
def test_reading_that_was_held_gets_a_connection_of_its_own(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.routes |= {"/": "hello", "/search": "found"}
    monkeypatch.setattr("remit.browser.egress.exchange.AT_ONCE_SECONDS", 0.0)

    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.connect()
            for path in ("/", "/search"):
                assert (await client.ask(way.plain("GET", path))).status == 200
            assert [seen.connection for seen in site.log] == [0, 1]

    asyncio.run(scenario())


def test_connection_that_the_server_closed_is_not_used_again(site: Site) -> None:
    site.routes["/"] = Reply(200, b"bye", close=True)

    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.connect()
            for _ in range(3):
                assert (await client.ask(way.plain("GET", "/"))).body == b"bye"
            assert [seen.connection for seen in site.log] == [0, 1, 2]

    asyncio.run(scenario())


def test_plain_reading_on_a_connection_that_was_just_closed_is_judged_and_sent_anew(site: Site) -> None:
    def first_or_nothing(seen: Seen) -> Reply:
        return Reply(200, b"hello") if len(site.log) in {1, 3} else Reply(raw=b"")

    site.routes["/"] = first_or_nothing

    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.connect()
            for _ in range(2):
                assert (await client.ask(way.plain("GET", "/"))).body == b"hello"
            assert [seen.connection for seen in site.log] == [0, 0, 1]
            assert [ending.status for _, ending in way.gate.endings] == [200, None, 200]
            assert len({request.request_id for request in way.gate.judged}) == 3

    asyncio.run(scenario())


def test_server_that_speaks_when_it_was_not_asked_loses_its_connection(site: Site) -> None:
    # The second answer could be taken for that of another request.
    twice = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
    site.routes |= {"/": Reply(raw=twice), "/next": "good"}

    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.connect()
            assert (await client.ask(way.plain("GET", "/"))).body == b"1"
            assert (await client.ask(way.plain("GET", "/next"))).body == b"good"

    asyncio.run(scenario())


def test_browser_that_waits_to_be_told_to_go_on_is_told(site: Site) -> None:
    site.routes["/pay"] = "paid"

    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.connect()
            head, _, body = way.plain("POST", "/pay", "Expect: 100-continue", body=b"amount=1").partition(b"\r\n\r\n")
            client.write(head + b"\r\n\r\n")
            async with asyncio.timeout(5):
                assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            assert (await client.ask(body, "POST")).body == b"paid"
            assert site.log[0].header("expect") is None

    asyncio.run(scenario())


def test_browser_that_says_it_will_close_is_closed(site: Site) -> None:
    site.routes["/"] = "hello"

    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.connect()
            got = await client.ask(way.plain("GET", "/", "Connection: close"))
            assert (got.body, got.header("connection")) == (b"hello", "close")
            assert await client.ended() == b""

    asyncio.run(scenario())


# --- the gate itself -------------------------------------------------------------------------------------------------


@pytest.mark.req("VX-07")
def test_gate_that_fails_lets_nothing_through(site: Site) -> None:
    async def fail(_request: OutgoingRequest) -> Answer:
        raise RuntimeError("password=hunter2")

    async def scenario() -> None:
        async with open_way(site, RecordingGate(fail)) as way:
            got = await (await way.connect()).ask(way.plain("POST", "/", body=b"x"), "POST")
            assert (got.status, site.connections, way.gate.endings) == (403, 0, [])
            assert way.gate.turned_away == [("POST", site.url("/"), "it could not be judged: RuntimeError")]

    asyncio.run(scenario())


@pytest.mark.req("VX-07")
def test_yes_that_comes_after_the_browser_hung_up_sends_nothing_and_says_so(site: Site) -> None:
    async def stubborn(_request: OutgoingRequest) -> Answer:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return Answer.SEND

    async def scenario() -> None:
        async with open_way(site, RecordingGate(stubborn)) as way:
            client = await way.connect()
            client.write(way.plain("POST", "/", body=b"x"))
            await way.gate.until(lambda gate: gate.judged)
            await client.close()
            await way.gate.until(lambda gate: gate.endings)
            assert way.gate.endings[0][1] == Ending(None, sent=False, problem="the browser gave it up")
            assert site.connections == 0

    asyncio.run(scenario())
