"""The position of an element on the screen, the check whether a press there would hit it, and the press itself."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from playwright.async_api import Page

from remit.browser.chromium.documents import Documents, FoundElement, call_on_element
from remit.browser.chromium.errors import CALL_SECONDS, within
from remit.browser.chromium.types import Box, Element
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError

_VERDICT_SECONDS: Final = 1.0
_TRIES: Final = 4
_PAUSE: Final = 0.05
"""The pause between two inspections if the page moves: about three frames of a display."""


class ClickPoint(NamedTuple):
    x: float
    y: float
    outline: Box


async def find_click_point(
    documents: Documents, found: FoundElement, element: Element, aim: dict[str, Any]
) -> ClickPoint:
    """Find a point on the screen where a press hits the element, also through every frame around it.

    Refuses if something covers the element, or if it does not hold still.
    """
    if found.document.parent_id is None:
        return await _to_click_point(documents, found, element, aim)
    try:
        previous = await _to_click_point(documents, found, element, aim)
    except RefusedError:
        # The element is in view in its frame, but the frame may not be in view.
        await call_on_element(found, "scroll")
        previous = None
    # A frame in another process scrolls later, when that process handles it.
    for attempt in range(_TRIES):
        await asyncio.sleep(_PAUSE)
        try:
            current = await _to_click_point(documents, found, element, await call_on_element(found, "aim"))
        except RefusedError:
            if attempt == _TRIES - 1:
                raise
            continue
        if current == previous:
            return current
        previous = current
    raise _missing_error(element, "does not hold still")


async def find_outline(documents: Documents, found: FoundElement) -> Box:
    """Return the element's place on the screen, even if it is covered. Scrolls if it is out of view."""
    if (await call_on_element(found, "aim")).get("outside"):
        await call_on_element(found, "scroll")
    box = await call_on_element(found, "box")
    left, top = await _frame_offset(documents, found)
    return Box(box["x"] + left, box["y"] + top, box["width"], box["height"])


async def press(
    page: Page,
    documents: Documents,
    found: FoundElement,
    element: Element,
    point: ClickPoint,
    on_press: Callable[[], None] = lambda: None,
) -> None:
    """Press the mouse once, as a person would. If another element is at that point before the press, it gets nothing.

    `on_press` is called right before the button goes down. Before that, a RefusedError(ELEMENT_MISSING) means that the
    page received only a pointer movement. After that, the page may have received the press. No error then says that
    the element is missing, because no such error is a reason to press again.
    """
    async with within(CALL_SECONDS, f"click {element}"):
        await page.mouse.move(point.x, point.y)
        # The page may have moved the element because of the pointer, so it is located again.
        now = await _to_click_point(documents, found, element, await call_on_element(found, "guard"))
        verdict = asyncio.ensure_future(call_on_element(found, "verdict"))
        try:
            if (now.x, now.y) != (point.x, point.y):
                await page.mouse.move(now.x, now.y)
            on_press()
            await page.mouse.down()
            await page.mouse.up()
            done, _ = await asyncio.wait({verdict}, timeout=_VERDICT_SECONDS)
            if not done:
                await call_on_element(found, "unguard")
            verdict_text: str = await verdict
        except RefusedError as gone:
            # The document was left during the press, which only the pressed element can cause.
            if gone.reason is not Reason.ELEMENT_MISSING or not verdict.done():
                raise _uncertain_press_error(element, gone.what) from gone
            verdict_text = "hit"
        finally:
            verdict.cancel()
            await asyncio.gather(verdict, return_exceptions=True)
    if verdict_text != "hit":
        raise _uncertain_press_error(element, f"{verdict_text.removeprefix('missed ')} was in the way")


def _uncertain_press_error(element: Element, problem: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.EFFECT_FAILED,
        f"the mouse was pressed once at {element}, and it is not certain which element received it: {problem}",
        next_step="Remit does not repeat the press. Take a snapshot to see the state of the page.",
    )


async def _to_click_point(
    documents: Documents, found: FoundElement, element: Element, aim: dict[str, Any]
) -> ClickPoint:
    if "covered" in aim:
        raise _missing_error(element, f"is covered by {aim['covered']}")
    if "point" not in aim:
        raise _missing_error(element, "cannot be scrolled into view")
    point = aim["point"]
    left, top = await _frame_offset(documents, found, point, element)
    box = aim["box"]
    outline = Box(box["x"] + left, box["y"] + top, box["width"], box["height"])
    return ClickPoint(point["x"] + left, point["y"] + top, outline)


async def _frame_offset(
    documents: Documents, found: FoundElement, point: dict[str, float] | None = None, element: Element | None = None
) -> tuple[float, float]:
    """Return the offset of the element's frame on the screen. With a point, also check that a press there reaches the
    frame in each document around it.
    """
    if found.document.parent_id is None:
        return 0.0, 0.0
    left = top = 0.0
    everything = await documents.all()
    inner = found.document
    while (owner := await documents.owner(inner, everything)) is not None:
        edge = await call_on_element(owner, "owner")
        left, top = left + edge["x"], top + edge["y"]
        if point is not None and element is not None:
            if not edge["straight"]:
                raise _missing_error(element, "is in a frame that is scaled or rotated")
            point = {"x": point["x"] + edge["x"], "y": point["y"] + edge["y"]}
            if not await call_on_element(owner, "isAt", point):
                raise _missing_error(element, "is in a frame that is covered or not in view")
        inner = owner.document
    return left, top


def _missing_error(element: Element, problem: str) -> RefusedError:
    return RefusedError(
        Reason.ELEMENT_MISSING,
        f"{element} {problem}",
        next_step="Take a screenshot or a snapshot of the page, and name another element.",
    )
