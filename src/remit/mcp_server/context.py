"""What a tool works with: the caller, a thread for the desk, and the client that waits."""

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar

import anyio
import anyio.to_thread
from mcp.server.mcpserver import Context
from pydantic import Field

from remit.contracts.base import Contract
from remit.core.errors import Reason, RefusedError
from remit.identity.callers import Caller
from remit.mcp_server.auth import Authenticate
from remit.services.base.fair_share import FairShareQueue
from remit.services.services import Services

LONGEST_WAIT: Final = 30
_POLL_SECONDS: Final = 0.25
FIRST_WAIT: Final = 0.2
"""Seconds that the desk itself waits: what is quick is done by then, and needs no second look."""

WaitSeconds = Annotated[
    int,
    Field(
        ge=0,
        le=LONGEST_WAIT,
        description=f"How long to wait for it, 0 to {LONGEST_WAIT}; progress is told meanwhile. What has not ended by"
        " then goes on, and the status tool tells of it.",
    ),
]

A = TypeVar("A", bound=Contract)
T = TypeVar("T")


@dataclass(frozen=True)
class ServerContext:
    """What all calls of one server share."""

    services: Services
    authenticate: Authenticate
    elicitation: bool
    threads: anyio.CapacityLimiter
    queue: FairShareQueue
    """Each agent has so many of the threads."""


@dataclass(frozen=True)
class ToolCall(Generic[A]):
    """One call of a tool, its arguments parsed."""

    server: ServerContext
    arguments: A
    context: Context[Any, Any]

    @property
    def services(self) -> Services:
        return self.server.services

    async def run(self, work: Callable[[Caller], T]) -> T:
        """`work` in a thread, for the caller as verified now. A cancelled call cancels nothing that has begun."""
        return await run_as_caller(self.server, self.context, work)

    async def poll(self, first: T, read: Callable[[Caller], T], seconds: int, describe: Callable[[T], str | None]) -> T:
        """Look again until it has ended or the time is over. `describe` says how far it is, and None once it has ended.

        A process that is about to end lets its callers go first.
        """
        current = first
        started = anyio.current_time()
        while (progress := describe(current)) is not None and (passed := anyio.current_time() - started) < seconds:
            if self.services.jobs.is_ending:
                break
            await self.context.report_progress(round(passed, 2), seconds, progress)
            await anyio.sleep(min(_POLL_SECONDS, seconds - passed))
            current = await self.run(read)
        return current


async def run_as_caller(server: ServerContext, context: Context[Any, Any], work: Callable[[Caller], T]) -> T:
    request = context.request_context.request
    call = functools.partial(_call_as_caller, server.authenticate, request, work)
    # Who asks is verified in the thread; whose turn it is, came verified with the request. One agent alone has all.
    user = request.scope.get("user") if request is not None else None
    turn = await server.queue.acquire("agent", user.access_token.subject or "") if user is not None else None
    try:
        return await anyio.to_thread.run_sync(call, limiter=server.threads)
    finally:
        if turn is not None:
            turn.release()


def _call_as_caller(authenticate: Authenticate, request: Any, work: Callable[[Caller], T]) -> T:
    return work(authenticate(request))


def document_bytes(tree: dict[str, Any], source: str) -> bytes:
    """A document of another contract, as the bytes that its door parses."""
    try:
        return json.dumps(tree, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise RefusedError(
            Reason.MALFORMED,
            "it holds a number that JSON does not have, or is nested too deep",
            where=source,
            next_step="Send plain JSON values.",
        ) from None
