"""Connections to servers are used again for plain reading only, and only while both sides agree about them."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from remit.browser.model.requests import GateDecision, OutgoingRequest
from tests.browser.proxy.harness import PATIENCE_SECONDS, RecordingGate, open_way
from tests.support.browser_site import LOOPBACK, Reply, Seen, Site


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        yield site


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


async def hold_searches(request: OutgoingRequest) -> GateDecision:
    """Answers at once, as somebody quick does."""
    return GateDecision.SEND if request.target == "/search" else GateDecision.READ


@pytest.mark.req("VX-12")
def test_read_request_that_was_held_gets_its_own_connection_however_quick_the_approval_was(site: Site) -> None:
    site.routes |= {"/": "hello", "/search": "found"}

    async def scenario() -> None:
        async with open_way(site, RecordingGate(hold_searches)) as way:
            client = await way.connect()
            for path in ("/", "/search", "/"):
                assert (await client.ask(way.plain("GET", path))).status == 200
            assert [seen.connection for seen in site.log] == [0, 1, 0]

    asyncio.run(scenario())


@pytest.mark.req("VX-12")
def test_reading_that_was_held_is_not_sent_again_and_the_browser_gets_an_answer(site: Site) -> None:
    site.routes |= {"/": "hello", "/search": Reply(raw=b"")}

    async def scenario() -> None:
        async with open_way(site, RecordingGate(hold_searches)) as way:
            client = await way.connect()
            assert [(await client.ask(way.plain("GET", path))).status for path in ("/", "/search")] == [200, 502]
            assert [seen.path for seen in site.log] == ["/", "/search"]
            assert [ending.sent for _, ending in way.gate.endings] == [True, True]

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


def test_plain_read_request_on_a_connection_that_was_just_closed_is_judged_and_sent_again(site: Site) -> None:
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


def test_request_that_is_sent_again_gets_a_new_connection_though_another_one_is_idle(site: Site) -> None:
    both = threading.Barrier(2, timeout=PATIENCE_SECONDS)

    def answer(seen: Seen) -> Reply:
        if seen.target == "/?both":
            both.wait()
        return Reply(raw=b"") if len(site.log) == 3 else Reply(200, b"hello")

    site.routes["/"] = answer

    async def scenario() -> None:
        async with open_way(site) as way:
            clients = [await way.connect() for _ in range(2)]
            await asyncio.gather(*(client.ask(way.plain("GET", "/?both")) for client in clients))
            assert (await clients[0].ask(way.plain("GET", "/"))).body == b"hello"
            assert [seen.connection for seen in site.log][3:] == [2]

    asyncio.run(scenario())


def test_answer_without_a_request_is_not_used_for_the_next_request(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remit.browser.proxy.upstream.IDLE_SECONDS", 60.0)
    connections: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        while await reader.read(1 << 16):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % len(connections))
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(serve, LOOPBACK, 0)
        port = server.sockets[0].getsockname()[1]
        request = f"GET http://shop.test:{port}/ HTTP/1.1\r\nHost: shop.test:{port}\r\n\r\n".encode()
        async with server, open_way(site, ports=(port,)) as way:
            client = await way.connect()
            assert (await client.ask(request)).body == b"1"
            connections[0].write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
            async with asyncio.timeout(PATIENCE_SECONDS):
                await connections[0].wait_closed()  # the proxy hung up on it
            assert (await client.ask(request)).body == b"2"

    asyncio.run(scenario())


def test_idle_connection_is_closed_soon(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remit.browser.proxy.upstream.IDLE_SECONDS", 0.0)
    site.routes["/"] = "hello"

    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.connect()
            for _ in range(2):
                assert (await client.ask(way.plain("GET", "/"))).body == b"hello"
            assert [seen.connection for seen in site.log] == [0, 1]

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
