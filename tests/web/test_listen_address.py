"""Where the server listens: loopback unless told, TLS beyond it, and a key that nobody else can read."""

import http.client
import os
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from remit.cli.serve import serve
from remit.contracts.config.web import Web
from remit.core.errors import EnvironmentFailureError, RefusedError
from remit.web.config.settings import WebSettings
from remit.web.server.socket import open_socket, require_safe, server_config, warnings_for
from tests.web.guarded_server import Place, serving

ANYWHERE = "0.0.0.0"  # noqa: S104 - to be refused


def settings(**tree: Any) -> WebSettings:
    return WebSettings.of(Web.from_tree(tree))


def certificate(folder: Path, password: bytes | None = None) -> dict[str, str]:
    key = generate_private_key(SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    (folder / "certificate.pem").write_bytes(made.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    (folder / "key.pem").chmod(0o600)
    return {"certificate": str(folder / "certificate.pem"), "key": str(folder / "key.pem")}


def test_beyond_loopback_the_server_needs_tls_or_an_explicit_option(tmp_path: Path) -> None:
    for host in ("127.0.0.1", "localhost", "[::1]"):
        require_safe(settings(host=host))
        assert warnings_for(settings(host=host)) == []
    for host in (ANYWHERE, "10.0.0.1", "[::]", "remit.example"):
        with pytest.raises(RefusedError, match="without TLS"):
            open_socket(settings(host=host))
    told = settings(host=ANYWHERE, insecure_http=True)
    require_safe(told)
    assert [text.partition(":")[0] for text in warnings_for(told)] == [
        f"listening at {ANYWHERE}",
        "there is no TLS, so others on the network can read tokens and cookies",
        "other machines cannot use a host name for this server; set web.public_url in remit.yaml",
    ]
    assert told.url == "http://localhost:7341"
    secure = settings(host=ANYWHERE, tls=certificate(tmp_path), public_url="https://remit.example")
    require_safe(secure)
    assert warnings_for(secure) == [f"listening at {ANYWHERE}: other machines can reach this server"]


def test_it_serves_with_its_certificate(place: Place, tmp_path: Path) -> None:
    tls = certificate(tmp_path)
    with serving(place, trees={"tls": tls}) as server:
        trusting = ssl.create_default_context(cafile=tls["certificate"])
        connection = http.client.HTTPSConnection("localhost", server.port, timeout=5, context=trusting)
        connection.request("GET", "/login")
        answer = connection.getresponse()
        assert (answer.status, answer.headers["strict-transport-security"]) == (200, "max-age=31536000")
        connection.close()
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.load_verify_locations(tls["certificate"])
        old.set_ciphers("DEFAULT:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(OSError), socket.create_connection(("127.0.0.1", server.port)) as raw:  # noqa: PT011 - any
            old.wrap_socket(raw, server_hostname="localhost")


@pytest.mark.parametrize("fault", ["open", "missing", "folder", "password", "garbled"])
def test_an_unusable_tls_key_is_refused_before_listening(fault: str, tmp_path: Path) -> None:
    tls = certificate(tmp_path, b"secret" if fault == "password" else None)
    key = tmp_path / "key.pem"
    if fault == "open":
        key.chmod(0o640)
    elif fault == "missing":
        key.unlink()
    elif fault == "folder":
        key.unlink()
        key.mkdir(0o700)
    elif fault == "garbled":
        key.write_text("x")
    with pytest.raises(EnvironmentFailureError) as failed:
        server_config(None, settings(tls=tls))
    assert failed.value.next_step
    assert "secret" not in str(failed.value)


def test_a_port_that_is_in_use_is_reported() -> None:
    with open_socket(settings(port=0)) as held:
        held.listen()
        with pytest.raises(EnvironmentFailureError, match="in use"):
            open_socket(settings(port=held.getsockname()[1]))
        assert not os.get_inheritable(held.fileno())
        assert held.proto == socket.IPPROTO_TCP  # else asyncio leaves Nagle's delay on


def test_where_it_does_not_listen_it_says_nothing_of_listening(place: Place) -> None:
    environ = {"REMIT_STATE": place.workspace.environ["REMIT_STATE"], "REMIT_AGENT": None, "REMIT_TOKEN": None}
    ran = CliRunner().invoke(serve, ["--host", ANYWHERE, "--port", "0", "-C", str(place.workspace.root)], env=environ)
    assert isinstance(ran.exception, RefusedError)
    assert "could read tokens and cookies" in ran.exception.what
    assert "Note" not in ran.output
