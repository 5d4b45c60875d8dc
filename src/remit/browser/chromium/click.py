"""Where an element is on the screen, whether a press there would hit it, and the press itself."""

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
"""Between two looks, if something moves: about three frames of a display."""


class ClickPoint(NamedTuple):
    x: float
    y: float
    outline: Box


async def find_click_point(
    documents: Documents, found: FoundElement, element: Element, aim: dict[str, Any]
) -> ClickPoint:
    """A point on the screen where a press hits the element, in every frame around it too.

    Refused where something covers it, or it does not hold still.
    """
    if found.document.parent_id is None:
        return await _to_click_point(documents, found, element, aim)
    try:
        previous = await _to_click_point(documents, found, element, aim)
    except RefusedError:
        # It is in view in its frame; the frame may not be.
        await call_on_element(found, "scroll")
        previous = None
    # A frame in another process scrolls when that process gets to it.
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
    """Its place on the screen, covered or not. Scrolls if it is not to be seen."""
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
    """A real press of the mouse, once. Something else that is under it before it begins gets nothing.

    `on_press` is called right before the button goes down. Until then a RefusedError(ELEMENT_MISSING) says that the
    page received nothing but a pointer that moved. After that the page may have received the press, and no error says
    that the element is missing: none of them is a reason to press again.
    """
    async with within(CALL_SECONDS, f"click {element}"):
        await page.mouse.move(point.x, point.y)
        # The page may have moved things because the pointer came: look again.
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
            # The document went while it was pressed, which only what is pressed there can do.
            if gone.reason is not Reason.ELEMENT_MISSING or not verdict.done():
                raise _uncertain_press_error(element, gone.what) from gone
            verdict_text = "hit"
        finally:
            verdict.cancel()
            await asyncio.gather(verdict, return_exceptions=True)
    if verdict_text != "hit":
        raise _uncertain_press_error(element, f"{verdict_text.removeprefix('missed ')} came between")


def _uncertain_press_error(element: Element, problem: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.EFFECT_FAILED,
        f"the mouse was pressed once where {element} was, and it is not certain what received it: {problem}",
        next_step="The press is not repeated. Take a snapshot to see what the page made of it.",
    )


async def _to_click_point(
    documents: Documents, found: FoundElement, element: Element, aim: dict[str, Any]
) -> ClickPoint:
    if "covered" in aim:
        raise _missing_error(element, f"is covered by {aim['covered']}")
    if "point" not in aim:
        raise _missing_error(element, "cannot be brought to where it is seen")
    point = aim["point"]
    left, top = await _frame_offset(documents, found, point, element)
    box = aim["box"]
    outline = Box(box["x"] + left, box["y"] + top, box["width"], box["height"])
    return ClickPoint(point["x"] + left, point["y"] + top, outline)


async def _frame_offset(
    documents: Documents, found: FoundElement, point: dict[str, float] | None = None, element: Element | None = None
) -> tuple[float, float]:
    """Of the element's frame on the screen. With a point: in each document around, a press there goes to the frame."""
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
                raise _missing_error(element, "is in a frame that is scaled or turned")
            point = {"x": point["x"] + edge["x"], "y": point["y"] + edge["y"]}
            if not await call_on_element(owner, "isAt", point):
                raise _missing_error(element, "is in a frame that is covered there, or not in view")
        inner = owner.document
    return left, top


def _missing_error(element: Element, problem: str) -> RefusedError:
    return RefusedError(
        Reason.ELEMENT_MISSING,
        f"{element} {problem}",
        next_step="Take a screenshot or a snapshot to see what is there, and name another element.",
    )
