"""What can be read in two ways is refused and reaches no server."""

import asyncio
from collections.abc import Iterator

import pytest

from remit.browser.proxy.request_head import MAX_FIELDS, MAX_HEAD, BadRequestError, parse_head
from tests.browser.proxy.harness import IMPATIENT, PATIENCE_SECONDS, Holding, RecordingGate, open_way
from tests.support.browser_site import Reply, Site


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site({"/": "hello", "/pay": Reply(200, b"paid")}) as site:
        yield site


@pytest.fixture(autouse=True)
def _nothing_arrives(site: Site) -> Iterator[None]:
    arrived, connections = len(site.log), site.connections
    yield
    assert (site.paths()[arrived:], site.connections) == ([], connections)


KEY = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\n"

# {A} is the site's authority. What matters is in the middle of a request that would be good without it.
AMBIGUOUS = {
    "origin form": (400, "GET / HTTP/1.1\r\nHost: {A}\r\n\r\n"),
    "asterisk": (400, "OPTIONS * HTTP/1.1\r\nHost: {A}\r\n\r\n"),
    "https to a plain proxy": (400, "GET https://{A}/ HTTP/1.1\r\nHost: {A}\r\n\r\n"),
    "another scheme": (400, "GET ftp://{A}/ HTTP/1.1\r\nHost: {A}\r\n\r\n"),
    "no path": (400, "GET http://{A} HTTP/1.1\r\nHost: {A}\r\n\r\n"),
    "query without path": (400, "GET http://{A}?x HTTP/1.1\r\nHost: {A}\r\n\r\n"),
    "fragment": (400, "GET http://{A}/#x HTTP/1.1\r\nHost: {A}\r\n\r\n"),
    "user": (400, "GET http://user@{A}/ HTTP/1.1\r\nHost: {A}\r\n\r\n"),
    "backslash": (400, "GET http://evil.test\\@{A}/ HTTP/1.1\r\nHost: {A}\r\n\r\n"),
    "no host": (400, "GET http://{A}/ HTTP/1.1\r\nAccept: x\r\n\r\n"),
    "two hosts": (400, "GET http://{A}/ HTTP/1.1\r\nHost: {A}\r\nHost: {A}\r\n\r\n"),
    "another host": (400, "GET http://{A}/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"),
    "host without the port": (400, "GET http://{A}/ HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    "version 1.0": (400, "GET http://{A}/ HTTP/1.0\r\nHost: {A}\r\n\r\n"),
    "version 2.0": (400, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "two spaces": (400, "GET  http://{A}/ HTTP/1.1\r\nHost: {A}\r\n\r\n"),
    "tab": (400, "GET\thttp://{A}/ HTTP/1.1\r\nHost: {A}\r\n\r\n"),
    "letter in the target": (400, "GET http://{A}/\xe9 HTTP/1.1\r\nHost: {A}\r\n\r\n"),
    "line feed alone": (400, "GET http://{A}/ HTTP/1.1\nHost: {A}\r\n\r\n"),
    "carriage return in a value": (400, "GET http://{A}/ HTTP/1.1\r\nHost: {A}\r\nX: a\rb\r\n\r\n"),
    "line feed in a value": (400, "GET http://{A}/ HTTP/1.1\r\nHost: {A}\r\nX: a\nY: b\r\n\r\n"),
    "zero byte": (400, "GET http://{A}/ HTTP/1.1\r\nHost: {A}\r\nX: a\0b\r\n\r\n"),
    "folded line": (400, "GET http://{A}/ HTTP/1.1\r\nHost: {A}\r\nX: a\r\n b\r\n\r\n"),
    "space before the colon": (400, "GET http://{A}/ HTTP/1.1\r\nHost : {A}\r\n\r\n"),
    "no colon": (400, "GET http://{A}/ HTTP/1.1\r\nHost: {A}\r\nX\r\n\r\n"),
    "no name": (400, "GET http://{A}/ HTTP/1.1\r\nHost: {A}\r\n: x\r\n\r\n"),
    "empty line first": (400, "\r\nGET http://{A}/ HTTP/1.1\r\nHost: {A}\r\n\r\n"),
    "any name twice": (400, "GET http://{A}/ HTTP/1.1\r\nHost: {A}\r\nCookie: a=1\r\ncookie: a=2\r\n\r\n"),
    "chunked": (
        411,
        "POST http://{A}/pay HTTP/1.1\r\nHost: {A}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    ),
    "chunked and a length": (
        400,
        "POST http://{A}/pay HTTP/1.1\r\nHost: {A}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    "chunked in disguise": (
        400,
        "POST http://{A}/pay HTTP/1.1\r\nHost: {A}\r\nContent-Length: 1\r\nTransfer-Encoding: xchunked\r\n\r\n0",
    ),
    "two lengths": (
        400,
        "POST http://{A}/pay HTTP/1.1\r\nHost: {A}\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
    ),
    "list of lengths": (400, "POST http://{A}/pay HTTP/1.1\r\nHost: {A}\r\nContent-Length: 1, 1\r\n\r\nx"),
    "length with a plus": (400, "POST http://{A}/pay HTTP/1.1\r\nHost: {A}\r\nContent-Length: +1\r\n\r\nx"),
    "length with a zero": (400, "POST http://{A}/pay HTTP/1.1\r\nHost: {A}\r\nContent-Length: 01\r\n\r\nx"),
    "negative length": (400, "POST http://{A}/pay HTTP/1.1\r\nHost: {A}\r\nContent-Length: -1\r\n\r\nx"),
    "length in another script": (400, "POST http://{A}/pay HTTP/1.1\r\nHost: {A}\r\nContent-Length: \xb2\r\n\r\nxx"),
    "body of a GET": (400, "GET http://{A}/ HTTP/1.1\r\nHost: {A}\r\nContent-Length: 1\r\n\r\nx"),
    "request behind a GET": (400, "GET http://{A}/ HTTP/1.1\r\nHost: {A}\r\n\r\nGET http://{A}/ HTTP/1.1\r\n"),
    "request behind a body": (
        400,
        "POST http://{A}/pay HTTP/1.1\r\nHost: {A}\r\nContent-Length: 1\r\n\r\nxGET http://{A}/ HTTP/1.1\r\n",
    ),
    "connection names a header": (400, "GET http://{A}/ HTTP/1.1\r\nHost: {A}\r\nConnection: close, cookie\r\n\r\n"),
    "TRACE": (405, "TRACE http://{A}/ HTTP/1.1\r\nHost: {A}\r\n\r\n"),
    "TRACK": (405, "TRACK http://{A}/ HTTP/1.1\r\nHost: {A}\r\n\r\n"),
    "upgrade to HTTP/2": (
        400,
        "GET http://{A}/ HTTP/1.1\r\nHost: {A}\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    ),
    "upgrade without a word": (400, "GET http://{A}/ HTTP/1.1\r\nHost: {A}\r\nUpgrade: websocket\r\n\r\n"),
    "WebSocket outside of a tunnel": (
        400,
        "GET http://{A}/ws HTTP/1.1\r\nHost: {A}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + KEY,
    ),
    "unknown expectation": (
        417,
        "POST http://{A}/pay HTTP/1.1\r\nHost: {A}\r\nContent-Length: 1\r\nExpect: more\r\n\r\nx",
    ),
    "head too large": (431, "GET http://{A}/ HTTP/1.1\r\nHost: {A}\r\nX: " + "x" * MAX_HEAD + "\r\n\r\n"),
    "too many fields": (
        431,
        "GET http://{A}/ HTTP/1.1\r\n" + "".join(f"X{n}: x\r\n" for n in range(MAX_FIELDS)) + "Host: {A}\r\n\r\n",
    ),
    "tunnel without a port": (400, "CONNECT shop.test HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    "tunnel for another host": (400, "CONNECT {A} HTTP/1.1\r\nHost: evil.test:443\r\n\r\n"),
    "tunnel with a path": (400, "CONNECT {A}/ HTTP/1.1\r\nHost: {A}/\r\n\r\n"),
    "tunnel to no port": (400, "CONNECT shop.test:0 HTTP/1.1\r\nHost: shop.test:0\r\n\r\n"),
    "tunnel past all ports": (400, "CONNECT shop.test:65979 HTTP/1.1\r\nHost: shop.test:65979\r\n\r\n"),
    "something behind a tunnel": (400, "CONNECT {A} HTTP/1.1\r\nHost: {A}\r\n\r\nGET / HTTP/1.1\r\n"),
    "tunnel without an end": (431, "CONNECT {A} HTTP/1.1\r\nX: " + "x" * MAX_HEAD + "\r\n\r\n"),
}


@pytest.mark.req("VX-07")
def test_ambiguous_request_is_refused_and_the_connection_ends(site: Site, subtests: pytest.Subtests) -> None:
    for name, (status, text) in AMBIGUOUS.items():
        with subtests.test(name):
            asyncio.run(_require_refused(site, status, text))


async def _require_refused(site: Site, status: int, text: str) -> None:
    async with open_way(site, timeouts=IMPATIENT) as way:
        client = await way.connect()
        got = await client.ask(text.replace("{A}", f"shop.test:{site.http_port}").encode("latin-1"))
        assert (got.status, got.header("x-remit"), got.header("connection")) == (status, "refused", "close")
        await client.ended()
        assert (way.gate.judged, len(way.gate.turned_away)) == ([], 1)


@pytest.mark.parametrize(
    "text",
    [
        "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        "GET http://shop.test/ HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n",
        "connect evil.test:443 HTTP/1.1\r\nHost: {A}\r\n\r\n",
    ],
)
def test_tunnel_is_for_its_own_host_only(site: Site, text: str) -> None:
    async def scenario() -> None:
        async with open_way(site, timeouts=IMPATIENT) as way:
            client = await way.tunnel()
            got = await client.ask(text.replace("{A}", f"shop.test:{site.https_port}").encode())
            assert got.status in {400, 405}
            assert way.gate.judged == []

    asyncio.run(scenario())


def test_plain_request_in_a_tunnel_is_refused(site: Site) -> None:
    async def scenario() -> None:
        async with open_way(site, timeouts=IMPATIENT) as way:
            client = await way.tunnel(tls=False)
            got = await client.ask(f"GET / HTTP/1.1\r\nHost: shop.test:{site.http_port}\r\n\r\n".encode())
            assert (got.status, way.gate.judged) == (400, [])

    asyncio.run(scenario())


@pytest.mark.req("VX-07")
def test_bytes_that_come_while_a_request_is_held_end_it(site: Site) -> None:
    async def scenario() -> None:
        async with open_way(site, RecordingGate(Holding())) as way:
            client = await way.connect()
            client.write(way.plain("POST", "/pay", body=b"amount=1"))
            await way.gate.until(lambda gate: gate.judged)
            client.write(b"&amount=1000")
            await way.gate.until(lambda gate: gate.cancelled)
            assert await client.ended() == b""

    asyncio.run(scenario())


def test_body_over_the_limit_is_refused_before_it_is_read(site: Site) -> None:
    async def scenario() -> None:
        async with open_way(site, timeouts=IMPATIENT, max_body_bytes=2_000) as way:
            client = await way.connect()
            got = await client.ask(way.plain("POST", "/pay", body=b"x" * 2_001), "POST")
            assert (got.status, got.header("x-remit")) == (413, "refused")
            (method, url, why) = way.gate.turned_away[0]
            assert (method, url) == ("POST", site.url("/pay"))
            assert "2000 bytes" in why
            assert way.gate.judged == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"G",
        b"CONN",
        b"CONNECT shop.test:443 HTTP/1.1\r\n",
        b"GET http://shop.test/ HTTP/1.1\r\nX: y\r\n",
        b"CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\n\r\n",
        b"POST http://shop.test/pay HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 9\r\n\r\nx",
    ],
)
def test_who_is_too_slow_is_cut_off(site: Site, begun: bytes) -> None:
    async def scenario() -> None:
        async with open_way(site, timeouts=IMPATIENT) as way:
            client = await way.connect()
            client.write(begun)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await client.ended()
            assert way.gate.judged == []

    asyncio.run(scenario())


def test_many_spaces_are_read_in_no_time() -> None:
    head = parse_head(b"GET / HTTP/1.1\r\nX: a" + b" " * 60_000 + b"a\r\n\r\n")
    assert len(head.value("x") or "") == 60_002
    with pytest.raises(BadRequestError):
        parse_head(b"GET / HTTP/1.1\r\nX: a" + b" " * 60_000 + b"\x01\r\n\r\n")
