"""A picture of a page, with the fields that contain secrets hidden."""

import base64
from typing import Any, NamedTuple

from remit.browser.chromium.documents import Documents, FrameDocument, call_in_document, call_on_element
from remit.browser.chromium.executable import VIEWPORT
from remit.browser.chromium.redaction import Painter
from remit.browser.chromium.secret_fields import is_hidden_in_pictures
from remit.browser.chromium.types import Box
from remit.core.errors import Reason, RefusedError


class Shot(NamedTuple):
    """A picture as it was taken, and the boxes still to be painted on it. It must not be shown to any person."""

    picture: bytes
    hidden: list[Box]
    outline: Box | None


async def shoot(documents: Documents, part: Box | None, outline: Box | None) -> Shot:
    """Take a PNG of the view or of a part of it. Fields are located before and after, so one that moves is hidden in
    both places. Limit: text outside of fields, or in a closed shadow root, is shown.
    """
    clip = Box(0, 0, *VIEWPORT) if part is None else _within_view(part)
    before = await _secret_boxes(documents)
    answer = await documents.main.send(
        "Page.captureScreenshot",
        {
            "format": "png",
            "clip": {**clip._asdict(), "scale": 1},
            "captureBeyondViewport": False,
            "optimizeForSpeed": True,  # the size matters little, because the picture stays on this machine
        },
    )
    picture = base64.b64decode(answer["data"])
    hidden = [_shift(box, clip) for box in {*before, *await _secret_boxes(documents)}]
    return Shot(picture, hidden, None if outline is None else _shift(outline, clip))


async def finish(painter: Painter, shot: Shot) -> bytes:
    """Paint on the picture in a separate page, because the pictured page may have been left meanwhile."""
    if not shot.hidden and shot.outline is None:
        return shot.picture
    return await painter.paint(shot.picture, shot.hidden, shot.outline)


def _within_view(part: Box) -> Box:
    left, top = max(part.x, 0), max(part.y, 0)
    right, bottom = min(part.x + part.width, VIEWPORT[0]), min(part.y + part.height, VIEWPORT[1])
    if right - left < 1 or bottom - top < 1:
        raise RefusedError(
            Reason.ELEMENT_MISSING, "the element has no place on the screen", next_step="Name another element."
        )
    return Box(left, top, right - left, bottom - top)


def _shift(box: Box, clip: Box) -> Box:
    return box._replace(x=box.x - clip.x, y=box.y - clip.y)


async def _secret_boxes(documents: Documents) -> set[Box]:
    everything = await documents.all()
    origins = {everything[0].frame_id: (0.0, 0.0)}
    found: set[Box] = set()
    for document in everything:
        fields = await _secret_fields(document)
        if not fields:
            continue
        left, top = await _frame_origin(documents, document, everything, origins)
        found.update(Box(box["x"] + left, box["y"] + top, box["width"], box["height"]) for box in fields)
    return found


async def _secret_fields(document: FrameDocument) -> list[dict[str, float]]:
    answer = await call_in_document(document, "fields")
    fields: list[dict[str, Any]] = answer.get("value", [])
    return [field["box"] for field in fields if is_hidden_in_pictures(field["type"], field["words"], field["value"])]


async def _frame_origin(
    documents: Documents,
    document: FrameDocument,
    everything: list[FrameDocument],
    origins: dict[str, tuple[float, float]],
) -> tuple[float, float]:
    if document.frame_id not in origins:
        owner = await documents.owner(document, everything)
        if owner is None:
            return 0.0, 0.0
        edge = await call_on_element(owner, "owner")
        left, top = await _frame_origin(documents, owner.document, everything, origins)
        origins[document.frame_id] = left + edge["x"], top + edge["y"]
    return origins[document.frame_id]
