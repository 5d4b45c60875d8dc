"""Both sides of an encrypted connection: ours that Chromium is told of, and the server's that must be believed."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from remit.browser.proxy import Authority, BrowserProxy
from remit.contracts.config.browser import Browser
from remit.core.errors import RefusedError
from tests.browser.proxy.harness import open_way
from tests.support.browser_site import Site, make_certificates


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site({"/": "hello"}) as site:
        yield site


def test_spki_is_that_of_the_authority_and_of_no_other() -> None:
    authority = Authority()
    certificate = x509.load_pem_x509_certificate(authority.certificate)
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert authority.spki == b64encode(sha256(key).digest()).decode()
    assert BrowserProxy(Browser(), authority=authority).spki == authority.spki
    assert Authority().spki != authority.spki


def test_context_is_made_once_for_a_host_and_leaves_no_descriptor_behind() -> None:
    authority = Authority()
    first = authority.context_for("shop.test")
    open_now = sorted(Path("/proc/self/fd").iterdir())
    assert authority.context_for("shop.test") is first
    for host in ("evil.test", "127.0.0.1", "::1", "a" * 60 + "." + "b" * 60 + ".test"):
        assert authority.context_for(host) is not first
    assert len(sorted(Path("/proc/self/fd").iterdir())) == len(open_now)


def test_certificates_are_renewed_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority()
    first = authority.context_for("shop.test")
    monkeypatch.setattr("remit.browser.proxy.certificates.RENEWED_AFTER", timedelta(0))
    renewed = authority.context_for("shop.test")
    assert renewed is not first
    monkeypatch.setattr("remit.browser.proxy.certificates.RENEWED_AFTER", timedelta(days=1))
    monkeypatch.setattr("remit.browser.proxy.certificates.MOST_HOSTS", 1)
    authority.context_for("evil.test")
    assert authority.context_for("shop.test") is not renewed


def test_client_sees_a_short_lived_certificate_for_its_host_and_http_1_1_only(site: Site) -> None:
    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.tunnel()
            connection = client.writer.get_extra_info("ssl_object")
            assert connection.selected_alpn_protocol() == "http/1.1"
            leaf = x509.load_der_x509_certificate(connection.getpeercert(binary_form=True))
            names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            assert names.get_values_for_type(x509.DNSName) == ["shop.test"]
            assert (leaf.not_valid_after_utc - leaf.not_valid_before_utc).days <= 3
            assert (await client.ask(way.tunnelled("GET", "/"))).body == b"hello"

    asyncio.run(scenario())


@pytest.mark.parametrize("authority, name", [("shop.test:443", "evil.test"), ("127.0.0.1:443", "shop.test")])
def test_client_that_asks_for_another_name_gets_no_connection(site: Site, authority: str, name: str) -> None:
    async def scenario() -> None:
        async with open_way(site) as way:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await way.tunnel(authority, name=name, careful=False)
            assert way.gate.places == []

    asyncio.run(scenario())


def test_address_has_a_certificate_too(site: Site) -> None:
    async def scenario() -> None:
        async with open_way(site) as way:
            client = await way.tunnel("127.0.0.1:443", name="127.0.0.1")
            got = await client.ask(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert (got.status, way.gate.places) == (403, [("https", "127.0.0.1", 443)])  # 443 is no port of this site

    asyncio.run(scenario())


def test_server_that_is_not_believed_is_sent_nothing(site: Site, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    make_certificates(("shop.test",), other, tmp_path / "leaf.pem")

    async def scenario() -> None:
        arrived = len(site.log)
        async with open_way(site, certificates=str(other)) as way:
            got = await (await way.tunnel()).ask(way.tunnelled("POST", "/", body=b"x"), "POST")
            ((_request, ending),) = way.gate.endings
            assert (got.status, ending.sent, len(site.log)) == (502, False, arrived)
            assert "certificate is not trusted" in ending.problem

    asyncio.run(scenario())


def test_server_with_a_certificate_for_another_host_is_sent_nothing(site: Site) -> None:
    async def scenario() -> None:
        arrived = len(site.log)
        async with open_way(site, hosts={"other.test": "127.0.0.1"}) as way:
            client = await way.tunnel(f"other.test:{site.https_port}", name="other.test")
            got = await client.ask(way.tunnelled("POST", "/", body=b"x", host="other.test"), "POST")
            assert (got.status, way.gate.endings[0][1].sent, len(site.log)) == (502, False, arrived)

    asyncio.run(scenario())


@pytest.mark.parametrize("content", [None, b"", b"not a certificate"])
def test_unreadable_authorities_are_refused_at_the_start(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "authorities.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(RefusedError, match="cannot be read"):
        BrowserProxy(Browser(certificates=str(file)))
