"""The inspection of an element before an action: whether it can be used, and what its use would cause."""

from typing import Any, NamedTuple

from remit.browser.chromium.click import ClickPoint, find_click_point
from remit.browser.chromium.documents import Documents, FoundElement, call_on_element
from remit.browser.chromium.secret_fields import secret_kind
from remit.browser.chromium.types import Element, ElementDescription, Form
from remit.core.errors import Reason, RefusedError


class ElementInfo(NamedTuple):
    found: FoundElement
    description: ElementDescription
    point: ClickPoint
    input_method: str
    """How text is entered: insert, set, choose, or never."""


async def inspect_element(
    documents: Documents, found: FoundElement, element: Element, *, with_role: bool
) -> ElementInfo:
    """Inspect one element. Refuses if it is not visible, not enabled, or if a press in its middle would miss it.
    Scrolls.

    `with_role` also reads the role and the name that a screen reader would speak.
    """
    answer = await call_on_element(found, "look")
    for problem, is_met in (("is not visible", answer["visible"]), ("is disabled", answer["enabled"])):
        if not is_met:
            raise RefusedError(
                Reason.ELEMENT_MISSING,
                f"{element} {problem}",
                next_step="Take a snapshot and name an element that can be used.",
            )
    point = await find_click_point(documents, found, element, answer["aimed"])
    role, name = await _read_role_and_name(found) if with_role else ("", "")
    form = answer["form"]
    description = ElementDescription(
        tag=answer["tag"],
        type=answer["type"],
        role=role,
        name=name,
        is_password=answer["isPassword"],
        secret_kind=secret_kind(answer["type"], [*answer["words"], name]) if answer["typing"] != "never" else None,
        words=tuple(answer["words"]),
        submits=answer["submits"],
        form=None if form is None else Form(**{**form, "fields": tuple(form["fields"])}),
        href=answer["href"],
        outline=point.outline,
        frame_url=answer["url"],
    )
    return ElementInfo(found, description, point, "never" if answer["readOnly"] else answer["typing"])


async def _read_role_and_name(found: FoundElement) -> tuple[str, str]:
    """Read the role and the name that Chromium computes for a screen reader."""
    answer = await found.document.cdp.send(
        "Accessibility.getPartialAXTree", {"objectId": found.handle, "fetchRelatives": False}
    )
    node: dict[str, Any] = next(iter(answer["nodes"]), {})
    read = [str(node.get(name, {}).get("value", ""))[:500] for name in ("role", "name")]
    return read[0], read[1]
