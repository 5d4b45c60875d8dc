"""Painting on a picture of a page. It is done in a separate page, so that the pictured page cannot see it."""

import asyncio
import base64
from collections.abc import Sequence
from typing import Final

from playwright.async_api import Browser, Page

from remit.browser.chromium.types import Box

_NOWHERE: Final = "http://127.0.0.1:9"
"""A proxy address where nothing listens, because the context of the painter needs no network."""

_PAINT: Final = """async ({ picture, hidden, outline }) => {
  const raw = atob(picture), bytes = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at++) bytes[at] = raw.charCodeAt(at);
  const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const canvas = new OffscreenCanvas(image.width, image.height);
  const brush = canvas.getContext("2d");
  brush.drawImage(image, 0, 0);
  brush.fillStyle = "#303030";
  for (const [x, y, width, height] of hidden) brush.fillRect(x - 2, y - 2, width + 4, height + 4);
  if (outline) {
    brush.strokeStyle = "#e00000";
    brush.lineWidth = 3;
    brush.strokeRect(outline[0] - 3, outline[1] - 3, outline[2] + 6, outline[3] + 6);
  }
  const reader = new FileReader(), read = new Promise((done) => { reader.onload = done; });
  reader.readAsDataURL(await canvas.convertToBlob({ type: "image/png" }));
  await read;
  return reader.result.slice(reader.result.indexOf(",") + 1);
}"""


class Painter:
    """The painter of a browser, for all its sessions. Its page is made when it is first needed."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._page: Page | None = None
        self._guard = asyncio.Lock()

    async def paint(self, picture: bytes, hidden: Sequence[Box], outline: Box | None) -> bytes:
        """Return the picture with these boxes filled and that one outlined. Boxes are in the picture's pixels."""
        async with self._guard:
            if self._page is None or self._page.is_closed():
                context = await self._browser.new_context(
                    proxy={"server": _NOWHERE, "bypass": "<-loopback>"}, offline=True, service_workers="block"
                )
                self._page = await context.new_page()
            arguments = {
                "picture": base64.b64encode(picture).decode(),
                "hidden": [list(box) for box in hidden],
                "outline": None if outline is None else list(outline),
            }
            painted: str = await self._page.evaluate(_PAINT, arguments)
        return base64.b64decode(painted)
