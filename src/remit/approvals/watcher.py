"""Waits for many decisions at once in an event loop, with one listener and one query for all, and no idle thread."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from remit.approvals.service import ApprovalService
from remit.contracts.browser.browser import Approval
from remit.fs.change_signal import POLL_SECONDS, AsyncListener

T = TypeVar("T")


class ThreadRunner(Protocol):
    """A function such as `asyncio.to_thread` that reads the store outside of the event loop."""

    def __call__(self, work: Callable[..., T], /, *arguments: Any) -> Awaitable[T]: ...


class ApprovalWatcher:
    """The waiting callers of one event loop. Listens while a caller waits. `run_apart` reads the store in a thread."""

    def __init__(self, approvals: ApprovalService, run_apart: ThreadRunner = asyncio.to_thread) -> None:
        self._approvals = approvals
        self._run_apart = run_apart
        self._listener: AsyncListener | None = None
        self._running: asyncio.Task[frozenset[str]] | None = None
        self._queued: asyncio.Task[frozenset[str]] | None = None

    async def wait(self, approval_id: str, wait_seconds: float | None = None) -> Approval:
        """Wait until a person decides, the request is closed, or the time passes. After that time it is PENDING.

        Takes the whole id. A thread reads the store after a signal, when the request expires, and every few seconds in
        case a signal was missed.
        """
        loop = asyncio.get_running_loop()
        deadline = float("inf") if wait_seconds is None else loop.time() + wait_seconds
        listener = self._join()
        try:
            found = await self._run_apart(self._approvals.show, approval_id)
            while found.state == "PENDING" and loop.time() < deadline:
                signal = listener.next_signal()  # before the query, so that a change during the query is noticed
                if approval_id not in await self._pending():
                    signal.cancel()
                    return await self._run_apart(self._approvals.show, approval_id)
                left = min(deadline - loop.time(), self._approvals.seconds_left(found), POLL_SECONDS)
                await asyncio.wait([signal], timeout=max(left, 0))
                signal.cancel()
            return found
        finally:
            self._leave(listener)

    async def _pending(self) -> frozenset[str]:
        """Return the pending ids by a query that begins after this call. Callers that ask meanwhile share it."""
        if self._queued is None:
            self._queued = asyncio.create_task(self._read_pending(self._running))
        return await asyncio.shield(self._queued)  # a cancelled caller leaves the query to the other callers

    async def _read_pending(self, earlier: "asyncio.Task[frozenset[str]] | None") -> frozenset[str]:
        if earlier is not None:
            await asyncio.wait([earlier])
        self._running, self._queued = self._queued, None
        return await self._run_apart(self._approvals.pending)

    def _join(self) -> AsyncListener:
        if self._listener is None:
            self._listener = AsyncListener(self._approvals.change_signal.listen())
        self._listener.users += 1
        return self._listener

    def _leave(self, listener: AsyncListener) -> None:
        listener.users -= 1
        if listener.users == 0:
            listener.close()
            self._listener = None
