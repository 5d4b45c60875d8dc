"""The translation of errors of Playwright and Chromium into Remit's errors. No other module knows their errors."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from playwright.async_api import Error as PlaywrightError

from remit.browser.chromium.types import PageEndedError
from remit.core.errors import SESSION_GONE, EnvironmentFailureError, Reason, RemitError

CALL_SECONDS: Final = 10.0
"""How long one inspection or one step in a page may take. This limits an endless loop in a page."""

__all__ = ["CALL_SECONDS", "PlaywrightError", "translate_error", "within"]


@asynccontextmanager
async def within(seconds: float, what: str) -> AsyncIterator[None]:
    """Limit the body to that time, and translate errors of Playwright."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except RemitError:
        raise
    except TimeoutError as late:
        raise _timeout_error(what, seconds) from late
    except PlaywrightError as problem:
        raise translate_error(problem, what, seconds) from problem


def translate_error(problem: PlaywrightError, what: str, seconds: float) -> EnvironmentFailureError:
    text = problem.message.partition("\n")[0]
    if problem.name == "TimeoutError":
        return _timeout_error(what, seconds)
    if "crashed" in text:
        return PageEndedError(Reason.EFFECT_FAILED, "the page's process died", next_step="Navigate again.")
    if "has been closed" in text or "Connection closed" in text:
        return EnvironmentFailureError(
            Reason.EFFECT_FAILED, "the browser or its session has ended", next_step=SESSION_GONE
        )
    for method in ("Page.goto: ", "CDPSession.send: "):
        text = text.removeprefix(method)
    return EnvironmentFailureError(Reason.EFFECT_FAILED, f"could not {what}: {text}")


def _timeout_error(what: str, seconds: float) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.TIMED_OUT,
        f"could not {what} within {seconds:g} seconds",
        next_step="The page may be busy or stuck. Take a snapshot to see its state, or navigate to another page.",
    )
