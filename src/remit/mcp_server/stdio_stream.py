"""Messages on standard input and output, with limits for one message and for all unanswered requests.

The stdio transport of the SDK reads a line of any length into memory, and starts work for every request even when its
client reads no answers. Here a line that is too long is never in memory as a whole. The client gets an error without an
id, the rest of the line is skipped, and the next message is read as usual. A request above the limit is answered with
an error. Until the client reads that answer, nothing more is read from it.
"""

import fcntl
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, BinaryIO, Final, Self, cast

import anyio
import anyio.to_thread
from mcp.server.stdio import stdio_server
from mcp.shared._stream_protocols import WriteStream
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import INVALID_REQUEST, ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse
from mcp_types import jsonrpc_message_adapter

from remit.contracts.services.common import describe_error
from remit.core.errors import Reason, RefusedError

MOST_UNANSWERED: Final = 128
"""Requests of one client that are not answered yet."""
MOST_UNANSWERED_MESSAGES: Final = 4
"""The limit of the total size of these requests, in messages of the largest size."""
SKIPPED: Final = 1 << 16
"""Bytes to read at once while a line that is too long is skipped."""


class PendingRequests:
    """The unanswered requests, with their sizes in bytes. For one event loop."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._sizes: dict[object, list[int]] = defaultdict(list)
        self._count = 0
        self._bytes = 0

    def begin(self, request_id: object, size: int) -> bool:
        """Count a request. Return False, without counting it, if it is above the limit."""
        if self._count >= self._most or (self._count and self._bytes + size > self._most_bytes):
            return False
        self._sizes[request_id].append(size)
        self._count += 1
        self._bytes += size
        return True

    def end(self, request_id: object) -> None:
        """Stop counting a request that was answered or never will be. An unknown id changes nothing."""
        sizes = self._sizes.get(request_id)
        if not sizes:
            return
        self._bytes -= sizes.pop()
        self._count -= 1
        if not sizes:
            del self._sizes[request_id]


class _Stream:
    """The base of both directions: a context that closes only its own resources."""

    async def aclose(self) -> None:
        return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Outgoing(_Stream):
    """The answers to the client. A request is counted until its answer is handed over for writing."""

    def __init__(self, wire: WriteStream[SessionMessage], unanswered: PendingRequests) -> None:
        self._wire = wire
        self._unanswered = unanswered

    async def send(self, item: SessionMessage, /) -> None:
        try:
            await self._wire.send(item)
        finally:
            if isinstance(item.message, JSONRPCResponse | JSONRPCError):
                self._unanswered.end(item.message.id)

    async def refuse(self, request_id: Any, problem: RefusedError) -> None:
        """Answer with an error. This does not change the count, because the request was never started."""
        error = ErrorData(code=INVALID_REQUEST, message=f"{problem.what}. {problem.advice}", data=None)
        error.data = describe_error(problem).tree()
        await self._wire.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error)))

    async def aclose(self) -> None:
        await self._wire.aclose()


class Incoming(_Stream):
    """The messages of the client, one per line of at most `most` bytes."""

    def __init__(self, file: BinaryIO, most: int, unanswered: PendingRequests, outgoing: Outgoing) -> None:
        self._file = file
        self._most = most
        self._unanswered = unanswered
        self._outgoing = outgoing

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage | Exception:
        while True:
            line = await anyio.to_thread.run_sync(self._file.readline, self._most + 1)
            if not line:
                raise anyio.EndOfStream
            if len(line) > self._most and not line.endswith(b"\n"):
                del line
                await self._outgoing.refuse(None, _too_long_error(self._most))
                await anyio.to_thread.run_sync(self._skip)
                continue
            try:
                message = jsonrpc_message_adapter.validate_json(line.decode("utf-8", "replace"), by_name=False)
            except Exception as problem:  # noqa: BLE001 - like the SDK's transport: the server handles it and continues
                return problem
            if not isinstance(message, JSONRPCRequest):
                return SessionMessage(message)
            request_id = message.id
            if self._unanswered.begin(request_id, len(line)):
                return SessionMessage(message, self._track(request_id))
            await self._outgoing.refuse(request_id, _too_many_error())

    def _track(self, request_id: object) -> ServerMessageMetadata:
        """Return metadata that stops counting a request that was cancelled and is never answered."""

        async def ended() -> None:
            self._unanswered.end(request_id)

        return ServerMessageMetadata(on_request_unanswered=ended)

    def _skip(self) -> None:
        while (part := self._file.readline(SKIPPED)) and not part.endswith(b"\n"):
            pass


@asynccontextmanager
async def bounded_stdio(most: int) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Open both directions for the server of one client. A message has at most `most` bytes."""
    unanswered = PendingRequests(MOST_UNANSWERED, most * MOST_UNANSWERED_MESSAGES)
    with _private_input() as file:
        # The SDK owns standard output. Its reader of standard input is not used.
        async with stdio_server(stdin=cast("anyio.AsyncFile[str]", _empty_line())) as (unused, wire):
            await unused.aclose()
            outgoing = Outgoing(wire, unanswered)
            yield Incoming(file, most, unanswered, outgoing), outgoing


async def _empty_line() -> AsyncIterator[str]:
    for line in list[str]():
        yield line


@contextmanager
def _private_input() -> Iterator[BinaryIO]:
    """Standard input under another file descriptor. Other code that reads standard input meanwhile finds it empty."""
    private = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    try:
        # Not closed: a thread may still read from it, and its descriptor must not be reused for another file.
        yield os.fdopen(private, "rb", closefd=False)
    finally:
        os.dup2(private, 0)


def _too_long_error(most: int) -> RefusedError:
    return RefusedError(
        Reason.TOO_LARGE,
        f"the message is longer than {most:,} bytes, so it was not read",
        where="standard input",
        next_step="Put large content into a file and refer to it by its path, or send several smaller plans; "
        "`web.limits.body_bytes` in remit.yaml allows more.",
    )


def _too_many_error() -> RefusedError:
    return RefusedError(
        Reason.RESOURCE_EXHAUSTED,
        "there are too many unanswered requests, so this request was not started",
        where="standard input",
        next_step="Read the answers of the earlier requests. Then send this request again.",
    )
