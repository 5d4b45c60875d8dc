"""Whatever a browser may write arrives byte for byte as it was shown; also when there is a lot of it."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remit.browser.model.requests import OutgoingRequest
from remit.browser.proxy.connection import ConnectionTimeouts
from tests.browser.proxy.harness import RecordingGate, open_way
from tests.support.browser_site import Reply, Site

NAMES = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789-_.!#$%&'*+^`|~", min_size=1, max_size=30)
VALUES = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=200).map(
    lambda text: text.strip(" \t")
)
RESERVED = {
    "host",
    "content-length",
    "connection",
    "proxy-connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
}
RESERVED |= {"transfer-encoding", "proxy-authorization", "proxy-authenticate"}
HEADERS = st.lists(st.tuples(NAMES, VALUES), max_size=20, unique_by=lambda pair: pair[0].lower()).map(
    lambda pairs: [(name, value) for name, value in pairs if name.lower() not in RESERVED]
)
TARGETS = st.text([chr(code) for code in range(0x21, 0x7F) if chr(code) != "#"], max_size=200)
METHODS = st.sampled_from(["POST", "PUT", "PATCH", "DELETE", "PROPFIND", "post", "X-Y"])


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site({"/hello": "hello"}) as site:
        yield site


@pytest.mark.req("VX-07")
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(method=METHODS, target=TARGETS, headers=HEADERS, body=st.binary(max_size=5_000), tls=st.booleans())
def test_any_request_arrives_exactly_as_it_was_shown(
    site: Site, method: str, target: str, headers: list[tuple[str, str]], body: bytes, *, tls: bool
) -> None:
    async def scenario() -> OutgoingRequest:
        async with open_way(site) as way:
            client = await way.tunnel() if tls else await way.connect()
            lines = [f"{name}: {value}" for name, value in headers]
            write = way.tunnelled if tls else way.plain
            await client.ask(write(method, f"/{target}", *lines, body=body), method)
            return way.gate.judged[0]

    shown = asyncio.run(scenario())
    arrived = site.log[-1]
    assert arrived.raw == shown.wire()
    assert (arrived.method, arrived.target, arrived.body) == (method, f"/{target}", body)
    assert (shown.method, shown.target, shown.body) == (method, f"/{target}", body)
    assert list(shown.headers[2:]) == headers
    assert [name for name, _value in shown.headers[:2]] == ["Host", "Content-Length"]


@pytest.mark.req("VX-07")
def test_digest_tells_requests_apart_that_differ_in_anything() -> None:
    first = OutgoingRequest("1", "request", "POST", "https://a.test/x", (("A", "b"),), b"body")
    others = [
        OutgoingRequest("1", "websocket", "POST", "https://a.test/x", (("A", "b"),), b"body"),
        OutgoingRequest("1", "request", "PUT", "https://a.test/x", (("A", "b"),), b"body"),
        OutgoingRequest("1", "request", "POST", "https://a.test/y", (("A", "b"),), b"body"),
        OutgoingRequest("1", "request", "POST", "https://a.test/x", (("A", "c"),), b"body"),
        OutgoingRequest("1", "request", "POST", "https://a.test/x", (), b"body"),
        OutgoingRequest("1", "request", "POST", "https://a.test/x", (("A", "b"),), b"Body"),
        OutgoingRequest("1", "request", "POST", "https://a.test/x", (("A", "b"),), b"body", is_text=True),
    ]
    assert len({first.digest, *(other.digest for other in others)}) == len(others) + 1
    assert OutgoingRequest("2", "request", "POST", "https://a.test/x", (("A", "b"),), b"body").digest == first.digest


def test_two_hundred_requests_at_once_all_arrive_once(site: Site) -> None:
    site.routes["/many"] = lambda seen: Reply(200, seen.body)

    async def scenario() -> None:
        async with open_way(site, timeouts=ConnectionTimeouts(head=60)) as way:

            async def one(number: int) -> bytes:
                tls = number % 4 == 0
                client = await way.tunnel() if tls else await way.connect()
                write = way.tunnelled if tls else way.plain
                got = await client.ask(write("POST", "/many", body=b"%d" % number), "POST")
                await client.close()
                return got.body

            bodies = await asyncio.gather(*(one(number) for number in range(200)))
            assert bodies == [b"%d" % number for number in range(200)]
            assert sorted(request.body for request in way.gate.judged) == sorted(bodies)
            assert [ending.status for _, ending in way.gate.endings] == [200] * 200

    before = len(site.log)
    asyncio.run(scenario())
    assert sorted(int(seen.body) for seen in site.log[before:]) == list(range(200))


def test_more_connections_than_there_is_room_for_have_to_wait(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remit.browser.proxy.server.MOST_CONNECTIONS", 2)

    async def scenario() -> None:
        async with open_way(site) as way:
            idle = [await way.connect() for _ in range(2)]
            for client in idle:
                assert (await client.ask(way.plain("GET", "/hello"))).body == b"hello"
            third = await way.connect()
            third.write(way.plain("GET", "/hello"))
            assert (await idle[0].ask(way.plain("GET", "/hello"))).body == b"hello"
            assert len(way.gate.judged) == 3
            await idle[1].close()
            assert (await third.answer()).body == b"hello"

    asyncio.run(scenario())


def test_plain_reading_is_not_slowed_down_much(site: Site) -> None:
    async def scenario() -> float:
        async with open_way(site, RecordingGate()) as way:
            client = await way.tunnel()
            times = []
            for _ in range(100):
                started = time.perf_counter()
                await client.ask(way.tunnelled("GET", "/hello"))
                times.append(time.perf_counter() - started)
            return min(times)

    # Some 2 ms, together with the client and the site. A packet that waits for another one would take 40.
    assert asyncio.run(scenario()) < 0.03
