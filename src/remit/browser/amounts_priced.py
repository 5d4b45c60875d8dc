"""Where a request may name a price: its query, its body, and a text in it that is not plainly parted. Pure.

People are shown a body as everybody reads it, or as the text that it is. Its server may read that text all the same,
and of two equal names the first or the last: so here all of them count.
"""

import json
import re
from collections.abc import Iterable, Iterator
from html import unescape
from typing import Any, Final

from remit.browser.model.form_fields import JSON_BOUNDS, Field

_NAME: Final = r"(?P<name>(?:amount|total|price|charge|betrag|cost|(?<![a-z])sum)[\w.:\[\]-]{0,40})"
_VALUE: Final = r"[\s\"'\\\[{(]{0,20}(?P<value>(?:[^\"'\\<>&\s,;}\]]|[ ,](?=\d|[A-Z]{3})){1,100})"
_PAIR: Final = re.compile(rf"{_NAME}[\"'\\]{{0,4}}\s{{0,20}}[=:]{_VALUE}", re.IGNORECASE)
_ELEMENT: Final = re.compile(rf"<[\w:.-]{{0,40}}{_NAME}(?:\s[^<>]{{0,500}})?>{_VALUE}", re.IGNORECASE)
_STRUCTURED: Final = ("{", "[", "<", "\ufeff")
_MOST: Final = 2_000


def priced_fields(fields: Iterable[Field]) -> Iterator[Field]:
    """The fields, and those inside of a text or a field that is a document itself."""
    for field in fields:
        yield field
        if field.is_ours or field.value.lstrip().startswith(_STRUCTURED):
            yield from _inner(field.value)


def _inner(text: str) -> Iterator[Field]:
    leaves = _json(text)
    if leaves is not None:
        yield from leaves
        return
    plain = unescape(text.replace("<![CDATA[", "")) if "<" in text else text
    count = 0
    for pattern in (_PAIR, _ELEMENT):
        for found in pattern.finditer(plain):
            count += 1
            if count > _MOST:  # nobody reads so many, and a page must not keep us busy: a price that cannot be read
                yield Field("total", f"more than {_MOST} in one text")
                return
            yield Field(found["name"], found["value"])


class _Members(list[tuple[str, Any]]):
    """Of an object, repeated names too."""


def _json(text: str) -> list[Field] | None:
    """With each number as it is written. None: it is not JSON, or too much of it."""
    if len(text) > JSON_BOUNDS.max_bytes:
        return None
    try:
        tree = json.loads(text.lstrip("\ufeff"), object_pairs_hook=_Members, parse_int=str, parse_float=str)
        return list(_leaves(tree, ""))
    except (ValueError, RecursionError):
        return None


def _leaves(tree: Any, path: str) -> Iterator[Field]:
    if isinstance(tree, _Members):
        for name, child in tree:
            yield from _leaves(child, f"{path}.{name}")
    elif isinstance(tree, list):
        for child in tree:
            yield from _leaves(child, f"{path}[]")
    else:
        yield Field(path.removeprefix("."), str(tree))
