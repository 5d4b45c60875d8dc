"""What an element is, before anything is done with it: that it can be used, and what using it would set off."""

from typing import Any, NamedTuple

from remit.browser.chromium.click import Aimed, place_of
from remit.browser.chromium.documents import Documents, FoundElement, call
from remit.browser.chromium.secret_fields import secret_kind
from remit.browser.chromium.types import Described, Element, Form
from remit.core.errors import Reason, RefusedError


class ElementInfo(NamedTuple):
    found: FoundElement
    described: Described
    place: Aimed
    typing: str
    """How text is put in: insert, set, choose, or never."""


async def look_at(documents: Documents, found: FoundElement, element: Element, *, spoken: bool) -> ElementInfo:
    """At one element, which can be used: it is visible, enabled, and a press in its middle hits it. Scrolls.

    `spoken`: with what a screen reader would say of it.
    """
    told = await call(found, "look")
    for problem, holds in (("is not visible", told["visible"]), ("is disabled", told["enabled"])):
        if not holds:
            raise RefusedError(
                Reason.ELEMENT_MISSING,
                f"{element} {problem}",
                next_step="Take a snapshot, and name an element that can be used.",
            )
    place = await place_of(documents, found, element, told["aimed"])
    role, name = await _spoken(found) if spoken else ("", "")
    form = told["form"]
    described = Described(
        tag=told["tag"],
        type=told["type"],
        role=role,
        name=name,
        is_password=told["isPassword"],
        secret_kind=secret_kind(told["type"], [*told["words"], name]) if told["typing"] != "never" else None,
        words=tuple(told["words"]),
        submits=told["submits"],
        form=None if form is None else Form(**{**form, "fields": tuple(form["fields"])}),
        href=told["href"],
        outline=place.outline,
        frame_url=told["url"],
    )
    return ElementInfo(found, described, place, "never" if told["readOnly"] else told["typing"])


async def _spoken(found: FoundElement) -> tuple[str, str]:
    """Role and name as Chromium tells them to a screen reader."""
    answer = await found.document.cdp.send(
        "Accessibility.getPartialAXTree", {"objectId": found.handle, "fetchRelatives": False}
    )
    node: dict[str, Any] = next(iter(answer["nodes"]), {})
    read = [str(node.get(name, {}).get("value", ""))[:500] for name in ("role", "name")]
    return read[0], read[1]
