"""The context of a tool call: the caller, a thread for the services, and the client that waits."""

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
"""Seconds that the services wait themselves. Quick work is done by then and needs no poll."""

WaitSeconds = Annotated[
    int,
    Field(
        ge=0,
        le=LONGEST_WAIT,
        description=f"Seconds to wait for the result, 0 to {LONGEST_WAIT}. Progress is reported meanwhile."
        " Unfinished work continues: read its state with the status tool.",
    ),
]

A = TypeVar("A", bound=Contract)
T = TypeVar("T")


@dataclass(frozen=True)
class ServerContext:
    """The objects that all calls of one server share."""

    services: Services
    authenticate: Authenticate
    elicitation: bool
    threads: anyio.CapacityLimiter
    queue: FairShareQueue
    """Limits the threads of each agent."""


@dataclass(frozen=True)
class ToolCall(Generic[A]):
    """One call of a tool, with parsed arguments."""

    server: ServerContext
    arguments: A
    context: Context[Any, Any]

    @property
    def services(self) -> Services:
        return self.server.services

    async def run(self, work: Callable[[Caller], T]) -> T:
        """Run `work` in a thread for the verified caller. A cancelled call does not cancel work that has started."""
        return await run_as_caller(self.server, self.context, work)

    async def poll(self, first: T, read: Callable[[Caller], T], seconds: int, describe: Callable[[T], str | None]) -> T:
        """Read again until the work has ended or the time is over. `describe` returns the progress, or None at the end.

        While the process shuts down, waiting callers get their present answer at once.
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
    # The thread verifies the caller. The queue uses the agent that the HTTP layer verified; stdio has only one.
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
    """Return a document of another contract as the bytes that its operation parses."""
    try:
        return json.dumps(tree, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise RefusedError(
            Reason.MALFORMED,
            "it contains a number that JSON does not have, or is nested too deeply",
            where=source,
            next_step="Send plain JSON values.",
        ) from None
