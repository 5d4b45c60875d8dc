"""`remit mcp` on standard input: limits for the size of a message and for the number of unanswered requests."""

import contextlib
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError

from remit.mcp_server.stdio_stream import MOST_UNANSWERED, Incoming, Outgoing, PendingRequests
from tests.mcp_server.mcp_office import Desked

LIMIT: Final = 8 << 20
META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(number: int, method: str = "tools/list", **params: Any) -> bytes:
    tree = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": META}}
    return json.dumps(tree).encode() + b"\n"


def peak_memory(process: subprocess.Popen[bytes]) -> int:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    (found,) = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(found) << 10


@contextlib.contextmanager
def served(desked: Desked) -> Iterator[subprocess.Popen[bytes]]:
    """The real process, started by the interpreter directly, so that its peak memory is measured alone."""
    path = os.pathsep.join(sys.path)
    environ = {**os.environ, **desked.office.environ, "PYTHONPATH": path, "REMIT_TOKEN": desked.agent}
    command = [sys.executable, "-m", "remit", "mcp", "-C", str(desked.office.root)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environ) as process:
        guard = threading.Timer(120, process.kill)
        guard.start()
        try:
            yield process
            process.communicate()
            assert process.returncode == 0
        finally:
            guard.cancel()
            process.kill()


def send(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.flush()


def send_all(process: subprocess.Popen[bytes], lines: Iterable[bytes]) -> None:
    for line in lines:
        send(process, line)


def receive(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


def test_a_line_without_an_end_is_refused_without_being_held_in_memory(desked: Desked) -> None:
    with served(desked) as process:
        send(process, request(1))
        assert receive(process)["id"] == 1
        before = peak_memory(process)
        for _ in range(64):
            send(process, b"x" * (1 << 20))
        refused = receive(process)  # told while the line still goes on
        assert refused["id"] is None
        assert "8,388,608 bytes" in refused["error"]["message"]
        assert "Put large content into a file" in refused["error"]["message"]
        assert refused["error"]["data"]["code"] == "too_large"
        send(process, b"\n" + request(2))
        assert receive(process)["id"] == 2
        assert peak_memory(process) - before < 3 * LIMIT


def test_a_message_of_the_largest_size_is_read_and_one_of_a_byte_more_is_not(desked: Desked) -> None:
    with served(desked) as process:
        for size, number in ((LIMIT, 1), (LIMIT + 1, None)):
            plain = request(1, filler="")
            line = request(1, filler="x" * (size - len(plain) + 1))  # its end of line does not count
            assert len(line) == size + 1
            send(process, line)
            assert receive(process)["id"] == number
        send(process, request(3))
        assert receive(process)["id"] == 3


def test_a_client_that_reads_no_answers_does_not_fill_the_memory(desked: Desked) -> None:
    """The client sends 64 MiB of requests and reads nothing. Then it reads, and every request has its answer."""
    count = 1_000
    with served(desked) as process:
        send(process, request(0))
        assert receive(process)["id"] == 0
        before = peak_memory(process)
        lines = (request(number, "no/such/method", filler="x" * (64 << 10)) for number in range(1, count))
        sender = threading.Thread(target=send_all, args=(process, lines))
        sender.start()
        sender.join(5)  # so much of it as the server takes meanwhile; the outcome is the same for any other time
        answers = [receive(process) for _ in range(1, count)]
        sender.join()
        assert peak_memory(process) - before < 3 * LIMIT
    assert {answer["id"] for answer in answers} == set(range(1, count))


def test_nothing_more_is_read_until_the_client_takes_the_refusal() -> None:
    lines = [request(number) for number in range(10 * MOST_UNANSWERED)]

    async def talk() -> None:
        wire, taken = anyio.create_memory_object_stream[SessionMessage](0)
        unanswered = PendingRequests(MOST_UNANSWERED, LIMIT)
        outgoing = Outgoing(wire, unanswered)
        file = io.BytesIO(b"".join(lines))
        incoming = Incoming(file, LIMIT, unanswered, outgoing)
        for _ in range(MOST_UNANSWERED):
            await incoming.receive()
        async with anyio.create_task_group() as tasks, wire, taken:
            tasks.start_soon(incoming.receive)
            refused = (await taken.receive()).message
            assert isinstance(refused, JSONRPCError)
            assert (refused.id, refused.error.data["code"]) == (MOST_UNANSWERED, "resource_exhausted")
            assert file.tell() == sum(map(len, lines[: MOST_UNANSWERED + 1]))
            tasks.cancel_scope.cancel()

    anyio.run(talk)


@pytest.mark.parametrize("most, most_bytes, taken", [(2, 100, 2), (9, 25, 2), (9, 5, 1)])
def test_requests_are_counted_until_they_are_answered(most: int, most_bytes: int, taken: int) -> None:
    unanswered = PendingRequests(most, most_bytes)
    assert [unanswered.begin(number, 10) for number in range(4)] == [number < taken for number in range(4)]
    unanswered.end("unknown")
    assert not unanswered.begin(7, 10)
    unanswered.end(0)
    assert unanswered.begin(7, 10)
