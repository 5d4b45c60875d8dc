"""One listener of the stream of events: a queue in its own event loop, with a limit."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, Protocol, Self

from remit.core.ids import DEFAULT_TENANT
from remit.identity.callers import AgentCaller, Caller
from remit.services.base.event_format import StreamEvent

MAX_QUEUED: Final = 1_000
BATCH_SIZE: Final = 500
"""Events that are read, or handed on, at once."""


class Stream(Protocol):
    """What it listens to."""

    def unsubscribe(self, subscription: "Subscription") -> None: ...

    def make_lagged_event(self) -> StreamEvent: ...


class Subscription:
    """One listener, in one event loop: `async for sent in subscription`. Close it."""

    def __init__(
        self,
        events: Stream,
        caller: Caller,
        loop: asyncio.AbstractEventLoop,
        is_valid: Callable[[], bool] = lambda: True,
    ) -> None:
        self.agent = caller.id if isinstance(caller, AgentCaller) else None
        self.tenants = tenants_of(caller)
        self.loop = loop
        self.is_valid = is_valid
        self._events = events
        self._queue: deque[StreamEvent] = deque()
        self._has_events = asyncio.Event()
        self.is_ended = False
        self.ended_with_caller = False
        self.missed: AsyncIterator[StreamEvent] | None = None

    def enqueue(self, sent: Sequence[StreamEvent]) -> None:
        """In the loop. What is too much ends it: memory is for those who read."""
        if self.is_ended:
            return
        if len(self._queue) + len(sent) > MAX_QUEUED:
            self._queue.clear()
            self._queue.append(self._events.make_lagged_event())
            self.is_ended = True
        else:
            self._queue.extend(sent)
        self._has_events.set()

    def end(self) -> None:
        """In the loop: what is in the queue is still told."""
        self.is_ended = True
        self._has_events.set()

    def end_with_caller(self) -> None:
        """In the loop: he does not count any more, and is told nothing of what he has not yet taken."""
        self.ended_with_caller = True
        self._queue.clear()
        self.missed = None
        self.end()

    def close(self) -> None:
        self.is_ended = True  # first: whoever is about to join sees it, or is found to leave
        self._events.unsubscribe(self)
        self._queue.clear()
        self._has_events.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        if self.missed is not None:
            try:
                return await anext(self.missed)
            except StopAsyncIteration:
                self.missed = None
        while not self._queue:
            if self.is_ended:
                raise StopAsyncIteration
            self._has_events.clear()
            await self._has_events.wait()
        return self._queue.popleft()

    async def next_batch(self) -> list[StreamEvent]:
        """What has come, as soon as anything has; empty when it is over. A few hundred at once cost as much as one."""
        found: list[StreamEvent] = []
        while self.missed is not None and len(found) < BATCH_SIZE:
            async for sent in self.missed:
                found.append(sent)
                if len(found) >= BATCH_SIZE:
                    break
            else:
                self.missed = None
        if found:  # what happens from now on may take its time
            return found
        async for sent in self:
            found.append(sent)
            if not self._queue or len(found) >= BATCH_SIZE:
                break
        return found

    def can_receive(self, owner: str | None, tenant: str | None) -> bool:
        """To an agent, its own things; and of tenants, that of its token."""
        if self.agent is None or self.tenants is None:
            return True
        return owner == self.agent and (tenant is None or tenant in self.tenants)


def tenants_of(caller: Caller) -> frozenset[str] | None:
    """None for people: all of them."""
    if not isinstance(caller, AgentCaller):
        return None
    return frozenset({DEFAULT_TENANT, caller.token.constraints.tenant or DEFAULT_TENANT})
