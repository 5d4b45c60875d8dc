"""What a page is and says: its title and a hash of it in one look, and the prices that it shows."""

import hashlib
from typing import Any, Final, NamedTuple

from remit.browser.chromium.amounts import find_amounts
from remit.browser.chromium.documents import Documents, ask, call
from remit.browser.chromium.types import Element, SeenAmount

LONGEST_TITLE: Final = 500


class ReadPage(NamedTuple):
    content_hash: str
    title: str


async def read_page(documents: Documents) -> ReadPage:
    """The hash is of the addresses and the markup of all documents of the page, in their order.

    What stands in fields is no part of it: a short secret could be guessed from a digest. Nor are shadow roots.
    """
    total = hashlib.sha256()
    top: dict[str, Any] = await documents.ask_top("serialise")
    inner = [await ask(document, "serialise") for document in await documents.inner()]
    for told in (answer.get("value", {}) for answer in (top, *inner)):
        for part in (told.get("url", ""), told.get("html", "")):
            data = part.encode("utf-8", "surrogatepass")
            total.update(len(data).to_bytes(8, "big"))
            total.update(data)
    title = str(top.get("value", {}).get("title", ""))[:LONGEST_TITLE]
    return ReadPage(f"sha256:{total.hexdigest()}", title)


async def read_amounts(documents: Documents, element: Element | None) -> list[SeenAmount]:
    """Shown in the form of the element, if there is one, and then those of all documents of the page."""
    found: list[SeenAmount] = []
    if element is not None:
        told = await call(await documents.find(element), "text")
        found += find_amounts(told["form"], in_form=True)
    for document in await documents.all():
        told = (await ask(document, "text")).get("value", {})
        found += find_amounts(told.get("page", ""), in_form=False)
    return found
