"""Answers come back as they are, but for what would lead the browser past us."""

import asyncio
from collections.abc import Iterator

import pytest

from remit.browser.model.requests import Ending
from tests.browser.proxy.harness import PATIENCE_SECONDS, open_way
from tests.support.browser_site import Reply, Site

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n"
HINTS = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"


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


@pytest.mark.parametrize("status, told", [(307, "/next"), (200, "")])
def test_the_destination_of_a_redirect_is_reported(site: Site, status: int, told: str) -> None:
    head = f"HTTP/1.1 {status} OK\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n"
    site.routes["/"] = Reply(raw=head.encode())

    async def scenario() -> None:
        async with open_way(site) as way:
            await (await way.connect()).ask(way.plain("POST", "/"), "POST")
            assert way.gate.endings[0][1].location == told

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
            async with asyncio.timeout(PATIENCE_SECONDS):
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


@pytest.mark.parametrize(
    "policy, passed_on",
    [
        ("default-src 'self'; report-uri /r https://x.test/r; img-src *", "default-src 'self';; img-src *"),
        ("Report-URI /r", ""),
        ("default-src 'none';report-to group", "default-src 'none';"),
        ("report-uri /a, default-src 'self'; report-uri /b", ", default-src 'self';"),
        ("script-src https://x.test/report-uri report-uri", "script-src https://x.test/report-uri report-uri"),
        ("report-uri-x /r", "report-uri-x /r"),
    ],
)
@pytest.mark.parametrize("name", ["Content-Security-Policy", "content-security-policy-report-only"])
def test_a_security_policy_is_kept_and_its_reports_are_not_asked_for(
    site: Site, name: str, policy: str, passed_on: str
) -> None:
    """Each report would be a request that a person is asked about: a page could bury him under them."""
    site.routes["/"] = Reply(200, b"body", {name: policy, "X-Like": policy})

    async def scenario() -> None:
        async with open_way(site) as way:
            got = await (await way.connect()).ask(way.plain("GET", "/"))
            assert (got.header(name), got.header("x-like")) == (passed_on, policy)

    asyncio.run(scenario())


@pytest.mark.parametrize("status", [407, 408, 421])
def test_server_cannot_have_the_browser_ask_for_a_password_or_repeat_a_request(site: Site, status: int) -> None:
    told = {"Proxy-Authenticate": "Basic", "Critical-CH": "Sec-CH-UA-Model"}
    site.routes["/"] = Reply(status, b"who?", told)

    async def scenario() -> None:
        async with open_way(site) as way:
            got = await (await way.connect()).ask(way.plain("GET", "/"))
            assert (got.status, [got.header(name) for name in told]) == (502, [None, None])
            assert way.gate.endings[0][1].status == status

    asyncio.run(scenario())


def test_browser_that_waits_for_100_continue_receives_it(site: Site) -> None:
    site.routes["/pay"] = "paid"

    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.connect()
            head, _, body = way.plain("POST", "/pay", "Expect: 100-continue", body=b"amount=1").partition(b"\r\n\r\n")
            client.write(head + b"\r\n\r\n")
            async with asyncio.timeout(PATIENCE_SECONDS):
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
