"""`remit mcp`: the process that a client starts. Its standard output carries only the protocol."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remit.mcp_server.auth import token_from_file
from remit.services.base.server_lock import announce_server
from tests.mcp_server.mcp_office import CONSOLE, Desked, over_http, talking
from tests.support import preloaded

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
PRINTING = """
import os, sys
from remit.services.plans import service as plans
get = plans.PlanService.get
def printing(self, *arguments):
    print("stray words")
    os.write(1, b"more of them\\n")
    os.system("echo and a child's")
    return get(self, *arguments)
plans.PlanService.get = printing
from remit.cli import main
sys.argv[0] = "remit"
main()
"""
UNKNOWN = "0192f0c1-2345-7abc-8def-0123456789ab"


class Wire:
    """A client that writes and reads the protocol line by line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._id = 0

    def send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        self._id += 1
        params = {"name": name, "arguments": arguments, "_meta": META}
        request = {"jsonrpc": "2.0", "id": self._id, "method": "tools/call", "params": params}
        self.send(json.dumps(request).encode())
        answer = self.receive()
        assert answer["id"] == self._id
        result: dict[str, Any] = answer["result"]
        return result


@contextlib.contextmanager
def _served(desked: Desked, *options: str, program: tuple[str, ...] = (), token: str | None = None) -> Iterator[Wire]:
    environ = {**os.environ, **desked.office.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environ.pop("REMIT_TOKEN", None)
    if token is not None:
        environ["REMIT_TOKEN"] = token
    command = [*(program or (preloaded.remit(),)), "mcp", "-C", str(desked.office.root), *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environ) as process:
        yield Wire(process)
        rest, told = process.communicate(timeout=30)
        assert rest == b"", rest
        assert process.returncode == 0, told


def test_printed_text_does_not_reach_the_client(desked: Desked) -> None:
    with _served(desked, program=(sys.executable, "-c", PRINTING), token=desked.agent) as wire:
        assert wire.call("plan_status", proposal_id=UNKNOWN)["structuredContent"]["code"] == "state_missing"
        wire.send(b"this is not JSON")
        wire.send(b'{"jsonrpc": "2.0", "id": null, "method": "tools/list"}')
        assert wire.call("plan_status", proposal_id=UNKNOWN)["structuredContent"]["code"] == "state_missing"


def test_a_revoked_token_is_refused_and_a_renewed_file_is_accepted(desked: Desked, tmp_path: Path) -> None:
    file = tmp_path / "token"
    first = desked.token("renewing")
    file.write_text(f"{first}\n")
    plan, _ = desked.plan()
    with _served(desked, "--token-file", str(file)) as wire:
        assert wire.call("preview_plan", plan=plan)["structuredContent"]["status"] == "WITHHELD"
        desked.revoke(first)
        refused = wire.call("preview_plan", plan=plan)
        assert (refused["isError"], refused["structuredContent"]["code"]) == (True, "revoked")
        file.write_text(desked.token("renewing"))
        assert wire.call("preview_plan", plan=plan)["structuredContent"]["status"] == "WITHHELD"
        assert wire.call("propose_plan", plan=plan, key="k")["structuredContent"]["link"] is None
        with announce_server(desked.workspace.state, CONSOLE, desked.workspace.clock):  # `remit serve`, begun later
            link = wire.call("propose_plan", plan=plan, key="k")["structuredContent"]["link"]
        assert link.startswith(f"{CONSOLE}/inbox/plan/")
        file.unlink()
        gone = wire.call("preview_plan", plan=plan)["structuredContent"]
        assert (gone["code"], gone["where"]) == ("authority_malformed", str(file))


@pytest.mark.parametrize(
    "options, token, said",
    [
        ((), None, "no capability token was given"),
        ((), "nonsense", "token"),
        (("--token-file", "/nowhere/at/all"), None, "cannot be read"),
        (("--http", "--token-file", "/nowhere"), None, "--token-file is for --stdio"),
    ],
)
def test_it_needs_a_valid_token_to_start(
    options: tuple[str, ...], token: str | None, said: str, desked: Desked
) -> None:
    environ = {**os.environ, **desked.office.environ}
    environ.pop("REMIT_TOKEN", None)
    if token is not None:
        environ["REMIT_TOKEN"] = token
    command = [preloaded.remit(), "mcp", "-C", str(desked.office.root), *options]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False, timeout=60, input="")
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order_on_both_transports(number: signal.Signals, desked: Desked) -> None:
    environ = {**os.environ, **desked.office.environ, "REMIT_TOKEN": desked.agent}
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "remit", "mcp", "-C", str(desked.office.root)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environ) as process:
        assert Wire(process).call("plan_status", proposal_id=UNKNOWN)["isError"]
        process.send_signal(number)
        assert process.wait(timeout=30) == 0
    listening = [*command, "--http", "--port", "0"]
    with subprocess.Popen(listening, stdout=pipe, stderr=pipe, text=True, env=environ) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/mcp", said)
        assert found is not None, said
        with talking(over_http(found[0], desked.agent)) as talk:
            assert talk.refused("plan_status", proposal_id=UNKNOWN)["code"] == "state_missing"
        process.send_signal(number)
        assert process.communicate(timeout=30)[0] == ""
        assert process.returncode == 0


def test_a_token_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"x" * 1_000_000)
    assert len(token_from_file(file)()) == 20_000
