"""A listener of the stream of events: a limited queue in the event loop of the listener."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, Protocol, Self

from remit.core.ids import DEFAULT_TENANT
from remit.identity.callers import AgentCaller, Caller
from remit.services.base.event_format import StreamEvent

MAX_QUEUED: Final = 1_000
BATCH_SIZE: Final = 500
"""The number of events that are read or returned at once."""


class Stream(Protocol):
    """The stream that a subscription listens to."""

    def unsubscribe(self, subscription: "Subscription") -> None: ...

    def make_lagged_event(self) -> StreamEvent: ...


class Subscription:
    """One listener, in one event loop. Read it with `async for sent in subscription`, and close it afterwards."""

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
        """Add events to the queue. Call it in the event loop.

        If the queue is full, the subscription ends, so that a listener that does not read cannot fill the memory.
        """
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
        """End the subscription after the queued events. Call it in the event loop."""
        self.is_ended = True
        self._has_events.set()

    def end_with_caller(self) -> None:
        """End the subscription of a caller that is no longer valid, and drop the queued events. Call it in the loop."""
        self.ended_with_caller = True
        self._queue.clear()
        self.missed = None
        self.end()

    def close(self) -> None:
        self.is_ended = True  # first: a concurrent join either sees this, or is removed by the next line
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
        """Wait for the next event, and return it with all queued ones. Empty after the end of the subscription.

        To send a few hundred events at once costs as much as to send one.
        """
        found: list[StreamEvent] = []
        while self.missed is not None and len(found) < BATCH_SIZE:
            async for sent in self.missed:
                found.append(sent)
                if len(found) >= BATCH_SIZE:
                    break
            else:
                self.missed = None
        if found:  # do not wait for new events while there are missed ones to return
            return found
        async for sent in self:
            found.append(sent)
            if not self._queue or len(found) >= BATCH_SIZE:
                break
        return found

    def can_receive(self, owner: str | None, tenant: str | None) -> bool:
        """Return whether the listener may get an event. An agent gets its own events, of its token's tenant only."""
        if self.agent is None or self.tenants is None:
            return True
        return owner == self.agent and (tenant is None or tenant in self.tenants)


def tenants_of(caller: Caller) -> frozenset[str] | None:
    """Return the tenants whose events the caller may get. None for people, who get those of all tenants."""
    if not isinstance(caller, AgentCaller):
        return None
    return frozenset({DEFAULT_TENANT, caller.token.constraints.tenant or DEFAULT_TENANT})
