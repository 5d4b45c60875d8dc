"""Where requests may go: the gate's word, the ports, and every address that a name leads to."""

import asyncio
from collections.abc import Iterator

import pytest

from remit.browser.proxy.addresses import AddressError, is_reachable, parse_authority
from tests.browser.proxy.harness import RecordingGate, open_way
from tests.support.browser_site import LOOPBACK, Site

NOT_PUBLIC = [
    "0.0.0.0",  # noqa: S104 - an address to refuse
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.1.1",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%lo",
    "fec0::1",
    "ff02::1",
    "not an address",
    "",
]

PUBLIC = ["8.8.8.8", "93.184.216.34", "172.32.0.1", "2606:2800:220:1::1", "::ffff:8.8.8.8", "64:ff9b::808:808"]


def test_address_that_is_not_public_is_not_reachable(subtests: pytest.Subtests) -> None:
    for address in NOT_PUBLIC:
        with subtests.test(address):
            assert not is_reachable(address, [])


@pytest.mark.parametrize("address", PUBLIC)
def test_public_address_is_reachable(address: str) -> None:
    assert is_reachable(address, [])


def test_private_address_is_reachable_where_it_was_named(subtests: pytest.Subtests) -> None:
    for address, networks, reachable in [
        ("10.1.2.3", ["10.1.0.0/16"], True),
        ("::ffff:10.1.2.3", ["10.1.0.0/16"], True),
        ("10.2.2.3", ["10.1.0.0/16"], False),
        ("fd12::1", ["fd12::/16"], True),
        ("fd12::1", ["10.1.0.0/16"], False),
        ("169.254.169.254", ["169.254.0.0/16"], False),
        ("169.254.169.254", ["169.254.169.254/32"], True),
        ("fd00:ec2::254", ["fd00::/8"], False),
    ]:
        with subtests.test(address):
            assert is_reachable(address, networks) is reachable


def test_authority_is_read(subtests: pytest.Subtests) -> None:
    for text, host, port, authority in [
        ("example.com", "example.com", 80, "example.com"),
        ("EXAMPLE.com", "example.com", 80, "example.com"),
        ("example.com:80", "example.com", 80, "example.com"),
        ("example.com:8080", "example.com", 8080, "example.com:8080"),
        ("example.com.", "example.com", 80, "example.com."),
        ("a_b.example.com", "a_b.example.com", 80, "a_b.example.com"),
        ("xn--exmple-4nf.com", "xn--exmple-4nf.com", 80, "xn--exmple-4nf.com"),
        ("127.0.0.1.", "127.0.0.1", 80, "127.0.0.1."),
        ("93.184.216.34", "93.184.216.34", 80, "93.184.216.34"),
        ("[2606:2800::1]:81", "2606:2800::1", 81, "[2606:2800::1]:81"),
    ]:
        with subtests.test(text):
            assert parse_authority(text, scheme="http") == ("http", host, port, authority)


def test_authority_of_two_meanings_is_not_read(subtests: pytest.Subtests) -> None:
    for text in [
        "",
        ":80",
        ".",
        "example..com",
        ".example.com",
        "example.com..",
        "-example.com",
        "user@example.com",
        "user:pass@example.com",
        "example.com:0443",
        "example.com:65979",
        "example.com:0",
        "example.com:",
        "example.com: 80",
        "example.com%2eevil.com",
        "example.com%00.evil.com",
        "example。com",
        "ｅxample.com",
        "example.com\\@evil.com",
        "127.1",
        "0x7f000001",
        "0x7f.1",
        "2130706433",
        "0",
        "127.0.0.01",
        "1.2.3.4.5",
        "example.1",
        "[::1",
        "[]",
        "[fe80::1%25lo]",
        "[::ffff:999.0.0.1]",
        "::1",
        "a" * 64 + ".com",
        ".".join(["a" * 60] * 5),
    ]:
        with subtests.test(text), pytest.raises(AddressError):
            parse_authority(text, scheme="http")


# --- alive -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site({"/": "hello"}) as site:
        yield site


async def never(_host: str) -> list[str]:
    raise AssertionError("nothing should be looked up")


@pytest.mark.req("VX-04")
@pytest.mark.parametrize("tls", [False, True])
def test_place_that_the_gate_refuses_is_not_even_looked_up(site: Site, *, tls: bool) -> None:
    async def scenario() -> None:
        gate = RecordingGate(refuses=lambda _scheme, host, _port: None if host == "shop.test" else "Domain not allowed")
        async with open_way(site, gate, resolve=never, hosts={}) as way:
            authority = f"evil.test:{site.https_port}"
            client = await way.tunnel(authority, name="evil.test") if tls else await way.connect()
            got = await client.ask(
                (way.tunnelled if tls else way.plain)("GET", "/?card=4111111111111111", host="evil.test")
            )
            assert (got.status, got.header("x-remit")) == (403, "refused")
            assert got.body == b"Remit: Domain not allowed\n"
            port = site.https_port if tls else site.http_port
            assert gate.places == [("https" if tls else "http", "evil.test", port)]
            (method, _, why) = gate.turned_away[0]
            assert (method, why) == ("GET", "Domain not allowed")
            assert gate.judged == []

    asyncio.run(scenario())


def test_page_that_may_not_be_gone_to_leaves_the_browser_where_it_is(site: Site) -> None:
    async def scenario() -> None:
        gate = RecordingGate(refuses=lambda *_: "the token does not allow this host")
        async with open_way(site, gate, resolve=never) as way:
            got = await (await way.connect()).ask(way.plain("GET", "/", "Upgrade-Insecure-Requests: 1"))
            assert (got.status, got.header("x-remit"), got.body) == (204, "refused", b"")
            assert gate.turned_away[0][2] == "the token does not allow this host"

    asyncio.run(scenario())


def test_port_that_is_not_configured_is_refused(site: Site) -> None:
    async def scenario() -> None:
        async with open_way(site, resolve=never, ports=(443,)) as way:
            got = await (await way.connect()).ask(way.plain("GET", "/"))
            assert (got.status, way.gate.judged) == (403, [])
            assert str(site.http_port).encode() in got.body
            assert b"as this browser read it when it started (after a change: remit browse --stop)" in got.body

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "answers",
    [
        ["10.0.0.1"],
        ["93.184.216.34", "127.0.0.1"],
        ["127.0.0.1", "93.184.216.34"],
        ["2606:2800:220:1::1", "::ffff:127.0.0.1"],
    ],
)
def test_name_with_one_private_address_is_refused_wholly(site: Site, answers: list[str]) -> None:
    async def resolve(_host: str) -> list[str]:
        return answers

    async def scenario() -> None:
        connections = site.connections
        async with open_way(site, resolve=resolve, hosts={}, private_addresses=()) as way:
            got = await (await way.connect()).ask(way.plain("GET", "/"))
            assert (got.status, got.header("x-remit")) == (403, "refused")
            assert (way.gate.judged, site.connections) == ([], connections)

    asyncio.run(scenario())


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254"])
def test_literal_address_goes_through_the_same_rules(site: Site, host: str) -> None:
    async def scenario() -> None:
        async with open_way(site, private_addresses=()) as way:
            got = await (await way.connect()).ask(way.plain("GET", "/", host=host))
            assert (got.status, way.gate.judged) == (403, [])

    asyncio.run(scenario())


def test_address_in_the_settings_is_checked_like_any_other(site: Site) -> None:
    async def scenario() -> None:
        async with open_way(site, private_addresses=()) as way:
            assert (await (await way.connect()).ask(way.plain("GET", "/"))).status == 403

    asyncio.run(scenario())


def test_request_goes_to_the_address_that_was_checked_whatever_the_name_says_next(site: Site) -> None:
    asked: list[str] = []

    async def rebinding(host: str) -> list[str]:
        asked.append(host)
        return [LOOPBACK] if len(asked) == 1 else ["127.0.0.2"]

    async def scenario() -> None:
        # The first answer is allowed here, the second is not: connecting by name would look it up again.
        async with open_way(site, resolve=rebinding, hosts={}) as way:
            got = await (await way.connect()).ask(way.plain("POST", "/", body=b"x"), "POST")
            assert (got.status, asked) == (200, ["shop.test"])

    asyncio.run(scenario())


def test_rebound_name_is_refused_when_it_is_looked_up_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remit.browser.proxy.dns.CACHE_SECONDS", 0.0)
    answers = [[LOOPBACK], ["127.0.0.2"]]

    async def rebinding(_host: str) -> list[str]:
        return answers.pop(0)

    async def scenario() -> None:
        async with open_way(site, resolve=rebinding, hosts={}) as way:
            client = await way.connect()
            assert (await client.ask(way.plain("POST", "/", body=b"x"), "POST")).status == 200
            assert (await client.ask(way.plain("POST", "/", body=b"x"), "POST")).status == 403

    asyncio.run(scenario())


def test_next_address_is_tried_where_the_first_takes_no_connection(site: Site) -> None:
    async def resolve(_host: str) -> list[str]:
        return ["127.0.0.9", LOOPBACK]

    async def scenario() -> None:
        async with open_way(site, resolve=resolve, hosts={}, private_addresses=("127.0.0.0/8",)) as way:
            assert (await (await way.connect()).ask(way.plain("GET", "/"))).status == 200

    asyncio.run(scenario())


@pytest.mark.parametrize("problem", [OSError("no such name"), UnicodeError("bad label"), None])
def test_name_that_resolves_to_no_address_is_reported(site: Site, problem: Exception | None) -> None:
    async def resolve(_host: str) -> list[str]:
        if problem is not None:
            raise problem
        return []

    async def scenario() -> None:
        async with open_way(site, resolve=resolve, hosts={}) as way:
            got = await (await way.connect()).ask(way.plain("GET", "/"))
            assert (got.status, got.header("x-remit")) == (502, "failed")
            assert (way.gate.judged, way.gate.turned_away) == ([], [])

    asyncio.run(scenario())


def test_names_of_this_machine_are_looked_up_and_refused(site: Site) -> None:
    async def scenario() -> None:
        async with open_way(site, private_addresses=()) as way:
            got = await (await way.connect()).ask(way.plain("GET", "/", host="localhost"))
            assert (got.status, way.gate.judged) == (403, [])

    asyncio.run(scenario())


def test_lookup_that_takes_too_long_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remit.browser.proxy.dns.LOOKUP_SECONDS", 0.05)

    async def endless(_host: str) -> list[str]:
        await asyncio.Event().wait()
        return [LOOPBACK]

    async def scenario() -> None:
        async with open_way(site, resolve=endless, hosts={}) as way:
            assert (await (await way.connect()).ask(way.plain("GET", "/"))).status == 502

    asyncio.run(scenario())
