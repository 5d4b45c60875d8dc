"""Waiting for many answers at once in an event loop: one listener for all, and no thread that sits there."""

import asyncio

from remit.approval.approvals import Approvals
from remit.approval.bell import LOOK_SECONDS, AsyncListener
from remit.contracts.browser import Approval


class AnswerWatch:
    """For one event loop. Listens while anybody waits."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals
        self._listener: AsyncListener | None = None

    async def wait(self, approval_id: str, patience: float | None = None) -> Approval:
        """Until somebody decided, or the question is closed, or so many seconds have passed: then it is PENDING still.

        The store is read in a thread, and only after a ring; or when the question expires; or every few seconds, for
        the ring that was missed.
        """
        loop = asyncio.get_running_loop()
        deadline = float("inf") if patience is None else loop.time() + patience
        listener = self._join()
        try:
            while True:
                ring = listener.next_ring()  # before the look: what happens after it is heard
                found = await asyncio.to_thread(self._approvals.show, approval_id)
                left = min(deadline - loop.time(), self._approvals.seconds_left(found), LOOK_SECONDS)
                if found.state != "PENDING" or deadline <= loop.time():
                    ring.cancel()
                    return found
                await asyncio.wait([ring], timeout=max(left, 0))
                ring.cancel()
        finally:
            self._leave(listener)

    def _join(self) -> AsyncListener:
        if self._listener is None:
            self._listener = AsyncListener(self._approvals.bell.listen())
        self._listener.users += 1
        return self._listener

    def _leave(self, listener: AsyncListener) -> None:
        listener.users -= 1
        if listener.users == 0:
            listener.close()
            self._listener = None
