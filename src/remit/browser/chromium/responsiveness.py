"""The check whether a page answers, and its time limits. A page that keeps its process busy without end is ended."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from playwright.async_api import CDPSession, Worker

from remit.browser.chromium.errors import PlaywrightError
from remit.browser.chromium.types import PageEndedError
from remit.core.errors import Reason

WORKER_FACTOR: Final = 6
"""How many times longer than a page a worker may stay silent, because it may have work to compute."""


class PageTimeouts(NamedTuple):
    """How long a session waits, in seconds."""

    late: float = 5.0
    """For work that the page has deferred because of an action."""
    page: float = 10.0
    """For a page that does not answer, before it is ended."""


async def all_responsive(sessions: Sequence[CDPSession], seconds: float) -> bool:
    """Whether each of these processes evaluates a script within that time. Processes that have ended are ignored."""
    request = {"expression": "1", "returnByValue": True}
    answers = {asyncio.ensure_future(session.send("Runtime.evaluate", request)) for session in sessions}
    try:
        _, silent = await asyncio.wait(answers, timeout=seconds)
    finally:
        for each in answers:
            each.cancel()
        await asyncio.gather(*answers, return_exceptions=True)
    return not silent


async def is_worker_responsive(worker: Worker, seconds: float) -> bool:
    with contextlib.suppress(PlaywrightError):  # it has ended
        try:
            async with asyncio.timeout(seconds):
                await worker.evaluate("1")
        except TimeoutError:
            return False
    return True


def unresponsive_error(timeouts: PageTimeouts) -> PageEndedError:
    return PageEndedError(
        Reason.TIMED_OUT,
        f"the page did not answer for {timeouts.page:g} seconds and was ended",
        next_step="Navigate again in this session. Its cookies are still there.",
    )
