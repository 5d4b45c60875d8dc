"""`remit mcp --http`: the real command on its own workspace. It has the same limits as `remit serve`."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest

from remit.authority.capability_token import TokenRequest
from remit.contracts.browser.browser import TokenConstraints
from tests.mcp_server.mcp_office import over_http, talking
from tests.mcp_server.test_authority import LIST, MODERN
from tests.plans.project import Project

# Names and certificates are for the server that others see: none of these may get in the way here.
WEB = {
    "public_url": "https://remit.example",
    "tls": {"certificate": "/nowhere/cert.pem", "key": "/nowhere/key.pem"},
    "limits": {"header_seconds": 1, "body_seconds": 1},
}


@dataclass(frozen=True)
class Alone:
    address: str
    port: int
    token: str

    def sent(self, *lines: str, body: str = "", host: str | None = None) -> socket.socket:
        """Open a connection and send this text, and nothing more."""
        found = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        head = ("POST /mcp HTTP/1.1", f"Host: {host or f'127.0.0.1:{self.port}'}", *lines)
        found.sendall("\r\n".join(head).encode() + body.encode())
        return found

    @property
    def known(self) -> tuple[str, ...]:
        return (f"Authorization: Bearer {self.token}", *(f"{name}: {value}" for name, value in MODERN.items()))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    project = Project(tmp_path_factory.mktemp("alone"), web=WEB)
    wish = TokenRequest("bot", ("plan.propose",), TokenConstraints(), timedelta(hours=1))
    token = project.workspace.tokens.issue(wish).text
    command = [sys.executable, "-m", "remit", "mcp", "--http", "--port", "0", "-C", str(project.root)]
    environ = {**os.environ, **project.environ}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/mcp", said)
        assert found is not None, said
        yield Alone(found[0], int(found[1]), token)
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=30)[0] == ""
        assert process.returncode == 0
    project.close()


def _answer(connection: socket.socket) -> bytes:
    """Read until the other side closes the connection."""
    got = b""
    with connection:
        while part := connection.recv(65_536):
            got += part
    return got


def test_the_official_client_is_served(alone: Alone) -> None:
    with talking(over_http(alone.address, alone.token)) as talk:
        assert "propose_plan" in {tool.name for tool in talk.run(lambda client: client.list_tools()).tools}


def test_slow_headers_and_bodies_end_the_connection(alone: Alone) -> None:
    headers = alone.sent("X-Slow: 1")
    body = alone.sent(*alone.known, "Content-Length: 100", "", "", body="{")
    assert _answer(headers).startswith(b"HTTP/1.1 408")
    assert _answer(body).startswith(b"HTTP/1.1 408")


def test_a_length_in_two_ways_and_too_many_headers_are_refused(alone: Alone) -> None:
    behind = f"0\r\n\r\nPOST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{alone.port}\r\nContent-Length: 0\r\n\r\n"
    twice = alone.sent(*alone.known, "Content-Length: 4", "Transfer-Encoding: chunked", "", "", body=behind)
    answer = _answer(twice)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1  # what came behind it was no request
    many = alone.sent(*alone.known, *["X: y"] * 101, "Content-Length: 0", "", "")
    assert _answer(many).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "host, lines, status",
    [
        ("remit.example", (), 421),
        ("evil.example", (), 421),
        (None, ("Origin: https://evil.example",), 403),
    ],
)
def test_only_requests_for_this_host_are_answered(
    host: str | None, lines: tuple[str, ...], status: int, alone: Alone
) -> None:
    text = json.dumps(LIST)
    length = f"Content-Length: {len(text)}"
    sent = alone.sent(*alone.known, *lines, length, "Connection: close", "", "", body=text, host=host)
    assert _answer(sent).startswith(f"HTTP/1.1 {status}".encode())


def test_without_a_token_every_path_is_refused(alone: Alone) -> None:
    text = json.dumps(LIST)
    plain = [f"{name}: {value}" for name, value in MODERN.items()]
    closing = (f"Content-Length: {len(text)}", "Connection: close", "", "")
    assert _answer(alone.sent(*plain, *closing, body=text)).startswith(b"HTTP/1.1 401")
    bad = "Authorization: Bearer eyJhbGciOiJub25lIn0.e30."
    assert _answer(alone.sent(*plain, bad, *closing, body=text)).startswith((b"HTTP/1.1 400", b"HTTP/1.1 401"))
    assert b"HTTP/1.1 200" in _answer(alone.sent(*alone.known, *closing, body=text))
