"""An event loop in a thread of its own, for the asynchronous part of Remit: the browser and its proxy."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from remit.core.errors import SESSION_GONE, EnvironmentFailureError, Reason

T = TypeVar("T")
END_SECONDS: Final = 20.0


class LoopThread:
    """An event loop that runs coroutines for waiting threads. Close it when no work is left."""

    def __init__(self, name: str = "remit-browser") -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """Run the coroutine and return its result. It is cancelled if the caller is interrupted or waits too long."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(seconds)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise EnvironmentFailureError(
                Reason.TIMED_OUT, f"the browser did not answer within {seconds:g} seconds", next_step=SESSION_GONE
            ) from None
        except concurrent.futures.CancelledError:
            raise EnvironmentFailureError(
                Reason.CANCELLED, "the browser was closed during the action", next_step=SESSION_GONE
            ) from None
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        if self.loop.is_closed():
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(END_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()
