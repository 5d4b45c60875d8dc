"""The content of a page: its title and its hash, read together, and the prices that it shows."""

import hashlib
from typing import Any, Final, NamedTuple

from remit.browser.chromium.amounts import find_amounts
from remit.browser.chromium.documents import Documents, call_in_document, call_on_element
from remit.browser.chromium.types import Element, PageAmount

LONGEST_TITLE: Final = 500


class ReadPage(NamedTuple):
    content_hash: str
    title: str


async def read_page(documents: Documents) -> ReadPage:
    """Read the title and the hash of a page. The hash covers the addresses and the markup of all its documents, in
    order.

    It does not cover the values of fields, because a short secret could be guessed from a digest. It does not cover
    shadow roots either.
    """
    total = hashlib.sha256()
    top: dict[str, Any] = await documents.call_top("serialise")
    inner = [await call_in_document(document, "serialise") for document in await documents.inner()]
    for part_answer in (answer.get("value", {}) for answer in (top, *inner)):
        for part in (part_answer.get("url", ""), part_answer.get("html", "")):
            data = part.encode("utf-8", "surrogatepass")
            total.update(len(data).to_bytes(8, "big"))
            total.update(data)
    title = str(top.get("value", {}).get("title", ""))[:LONGEST_TITLE]
    return ReadPage(f"sha256:{total.hexdigest()}", title)


async def read_amounts(documents: Documents, element: Element | None) -> list[PageAmount]:
    """Read the prices in the form of the element, if there is one, and then those in all documents of the page."""
    found: list[PageAmount] = []
    if element is not None:
        texts = await call_on_element(await documents.find(element), "text")
        found += find_amounts(texts["form"], in_form=True)
    for document in await documents.all():
        texts = (await call_in_document(document, "text")).get("value", {})
        found += find_amounts(texts.get("page", ""), in_form=False)
    return found
