"""Waiting for many answers at once in an event loop: one listener and one look for all, and no idle thread."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from remit.approvals.service import ApprovalService
from remit.contracts.browser.browser import Approval
from remit.fs.change_signal import POLL_SECONDS, AsyncListener

T = TypeVar("T")


class ThreadRunner(Protocol):
    """As `asyncio.to_thread`: how the store is read beside the event loop."""

    def __call__(self, work: Callable[..., T], /, *arguments: Any) -> Awaitable[T]: ...


class ApprovalWatcher:
    """For one event loop. Listens while anybody waits. `run_apart` runs what reads the store, apart from the loop."""

    def __init__(self, approvals: ApprovalService, run_apart: ThreadRunner = asyncio.to_thread) -> None:
        self._approvals = approvals
        self._run_apart = run_apart
        self._listener: AsyncListener | None = None
        self._running: asyncio.Task[frozenset[str]] | None = None
        self._queued: asyncio.Task[frozenset[str]] | None = None

    async def wait(self, approval_id: str, wait_seconds: float | None = None) -> Approval:
        """Until somebody decided, or the question is closed, or so many seconds have passed: then it is PENDING still.

        Takes the whole id. The store is read in a thread, and only after a signal; or when the question expires; or
        every few seconds, for the signal that was missed.
        """
        loop = asyncio.get_running_loop()
        deadline = float("inf") if wait_seconds is None else loop.time() + wait_seconds
        listener = self._join()
        try:
            found = await self._run_apart(self._approvals.show, approval_id)
            while found.state == "PENDING" and loop.time() < deadline:
                signal = listener.next_signal()  # before the reading: what happens after it is noticed
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
        """What waits for an answer, by a look that begins after this call. Whoever asks meanwhile shares it."""
        if self._queued is None:
            self._queued = asyncio.create_task(self._read_pending(self._running))
        return await asyncio.shield(self._queued)  # whoever is cancelled leaves the look to the others

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
