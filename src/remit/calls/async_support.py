"""Support for awaited calls. A call runs in its own thread, and waits for people without one.

It never uses the default executor of the host's event loop. That has few threads, and calls that call others could take
all of them and then wait for one.
"""

import asyncio
import contextvars
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from remit.approvals.service import ApprovalService
from remit.approvals.watcher import ApprovalWatcher
from remit.contracts.calls.call import CallAnswer

T = TypeVar("T")


async def run_in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Run the work in its own thread. It continues even if its caller stops awaiting it; the program waits for it."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # from here on it cannot be cancelled

    def run() -> None:
        try:
            future.set_result(work(*arguments))
        except BaseException as problem:  # noqa: BLE001 - raised again where it is awaited
            future.set_exception(problem)

    threading.Thread(target=contextvars.copy_context().run, args=(run,), name="remit-call").start()
    return await asyncio.wrap_future(future)


class ApprovalWaiter:
    """Waits for decisions of people, with one listener in each event loop for all waiting calls, and no thread."""

    def __init__(self, approvals: Callable[[], ApprovalService]) -> None:
        self._approvals = approvals
        self._watches: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, ApprovalWatcher]] = (
            weakref.WeakKeyDictionary()
        )
        self._lock = threading.Lock()

    async def call_when_approved(self, call: Callable[[], CallAnswer], wait: float | None) -> CallAnswer:
        """Make the call. While it waits for a person, wait for the decision and make it again."""
        loop = asyncio.get_running_loop()
        deadline = float("inf") if wait is None else loop.time() + wait
        while True:
            answer = await run_in_thread(call)
            left = deadline - loop.time()
            if answer.waiting is None or left <= 0:
                return answer
            approval = await self._watch(loop).wait(answer.waiting.approval_id, None if wait is None else left)
            if approval.state == "PENDING":
                return answer

    def _watch(self, loop: asyncio.AbstractEventLoop) -> ApprovalWatcher:
        with self._lock:
            if loop not in self._watches:
                self._watches[loop] = ApprovalWatcher(self._approvals(), run_in_thread)
            return self._watches[loop]
