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
from remit.mcp_server.auth import Identify
from remit.services.base.fair_share import FairShareQueue
from remit.services.services import Services

LONGEST_WAIT: Final = 30
_LOOK_AGAIN: Final = 0.25
FIRST_LOOK: Final = 0.2
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

    desk: Services
    identify: Identify
    elicitation: bool
    threads: anyio.CapacityLimiter
    turns: FairShareQueue
    """Each agent has so many of the threads."""


@dataclass(frozen=True)
class ToolCall(Generic[A]):
    """One call of a tool, its arguments parsed."""

    house: ServerContext
    arguments: A
    context: Context[Any, Any]

    @property
    def desk(self) -> Services:
        return self.house.desk

    async def ask(self, work: Callable[[Caller], T]) -> T:
        """`work` in a thread, for the caller as verified now. A cancelled call cancels nothing that has begun."""
        return await ask_desk(self.house, self.context, work)

    async def follow(self, first: T, look: Callable[[Caller], T], seconds: int, told: Callable[[T], str | None]) -> T:
        """Look again until it has ended or the time is over. `told` says how far it is, and None once it has ended.

        A process that is about to end lets its callers go first.
        """
        now = first
        started = anyio.current_time()
        while (words := told(now)) is not None and (passed := anyio.current_time() - started) < seconds:
            if self.desk.jobs.is_ending:
                break
            await self.context.report_progress(round(passed, 2), seconds, words)
            await anyio.sleep(min(_LOOK_AGAIN, seconds - passed))
            now = await self.ask(look)
        return now


async def ask_desk(house: ServerContext, context: Context[Any, Any], work: Callable[[Caller], T]) -> T:
    request = context.request_context.request
    run = functools.partial(_as_caller, house.identify, request, work)
    # Who asks is verified in the thread; whose turn it is, came verified with the request. One agent alone has all.
    user = request.scope.get("user") if request is not None else None
    turn = await house.turns.acquire("agent", user.access_token.subject or "") if user is not None else None
    try:
        return await anyio.to_thread.run_sync(run, limiter=house.threads)
    finally:
        if turn is not None:
            turn.release()


def _as_caller(identify: Identify, request: Any, work: Callable[[Caller], T]) -> T:
    return work(identify(request))


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
