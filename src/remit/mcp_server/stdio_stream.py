"""Messages on standard input and output, with a limit for one message and for all requests that are not answered yet.

The stdio transport of the SDK reads a line of any length into memory, and starts work for every request even when its
client reads no answers. Here a line that is too long is never held whole: the client gets an error without an id, the
rest of the line is skipped, and the next message is read as usual. A request beyond what may be under way is answered
with an error. Until the client reads that answer, nothing more is read from it.
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
"""How many messages of the largest size these requests may be together."""
SKIPPED: Final = 1 << 16
"""Bytes that are read at once of a line that is too long."""


class PendingRequests:
    """The requests that are under way, with their sizes in bytes. For one event loop."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._sizes: dict[object, list[int]] = defaultdict(list)
        self._count = 0
        self._bytes = 0

    def begin(self, request_id: object, size: int) -> bool:
        """Count a request. False, and not counted, when it is one too many."""
        if self._count >= self._most or (self._count and self._bytes + size > self._most_bytes):
            return False
        self._sizes[request_id].append(size)
        self._count += 1
        self._bytes += size
        return True

    def end(self, request_id: object) -> None:
        """A request was answered, or never will be. Others are unknown here and change nothing."""
        sizes = self._sizes.get(request_id)
        if not sizes:
            return
        self._bytes -= sizes.pop()
        self._count -= 1
        if not sizes:
            del self._sizes[request_id]


class _Stream:
    """What both directions share: they are used as a context and close nothing that is not theirs."""

    async def aclose(self) -> None:
        return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Outgoing(_Stream):
    """Answers for the client. A request counts until its answer is taken to be written."""

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
        """Answer with an error; past the count, because this request was never begun."""
        error = ErrorData(code=INVALID_REQUEST, message=f"{problem.what}. {problem.next_step}", data=None)
        error.data = describe_error(problem).tree()
        await self._wire.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error)))

    async def aclose(self) -> None:
        await self._wire.aclose()


class Incoming(_Stream):
    """Messages of the client, one for each line of at most `most` bytes."""

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
            except Exception as problem:  # noqa: BLE001 - as the SDK's own transport: told to the server, which goes on
                return problem
            if not isinstance(message, JSONRPCRequest):
                return SessionMessage(message)
            request_id = message.id
            if self._unanswered.begin(request_id, len(line)):
                return SessionMessage(message, self._track(request_id))
            await self._outgoing.refuse(request_id, _too_many_error())

    def _track(self, request_id: object) -> ServerMessageMetadata:
        """So that a request that was cancelled, and is never answered, does not count any longer."""

        async def ended() -> None:
            self._unanswered.end(request_id)

        return ServerMessageMetadata(on_request_unanswered=ended)

    def _skip(self) -> None:
        while (part := self._file.readline(SKIPPED)) and not part.endswith(b"\n"):
            pass


@asynccontextmanager
async def bounded_stdio(most: int) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Both directions, for a process that is the server of one client. Messages have at most `most` bytes."""
    unanswered = PendingRequests(MOST_UNANSWERED, most * MOST_UNANSWERED_MESSAGES)
    with _private_input() as file:
        # The SDK keeps standard output to itself; of its own reading nothing is used.
        async with stdio_server(stdin=cast("anyio.AsyncFile[str]", _empty_line())) as (unused, wire):
            await unused.aclose()
            outgoing = Outgoing(wire, unanswered)
            yield Incoming(file, most, unanswered, outgoing), outgoing


async def _empty_line() -> AsyncIterator[str]:
    for line in list[str]():
        yield line


@contextmanager
def _private_input() -> Iterator[BinaryIO]:
    """Standard input under a number of its own. Whatever else reads standard input meanwhile finds it empty."""
    private = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    try:
        # Not closed: a thread may still read from it, and its number must not be given to another file.
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
        "too many requests at once: this one was not begun",
        where="standard input",
        next_step="Read the answers of the requests that are under way; then send this one again.",
    )
