"""Headers by which a request asks for another method or another address than its first line says. Pure.

To some servers a GET with such a header is what the header says. A page can write one, so it would pass as reading.
"""

import re
from collections.abc import Iterable
from typing import Final

_SEPARATORS: Final = re.compile(r"[^a-z0-9]+")
"""Servers make variables of header names, and write one sign for a hyphen, an underscore, a dot and the like."""
_METHODS: Final = re.compile(
    r"(?:method|verb)-?overr?id|overr?ide-?(?:method|verb)|(?:http|request|original|forwarded|real|actual)-?(?:method|verb)"
    r"|^x-(?:method|verb)$"
)
_ADDRESSES: Final = re.compile(
    r"(?:original|rewrite|override|forwarded|real|actual|destination|proxy|request)-?(?:url|uri|path)"
    r"|(?:url|uri|path)-?overr?id"
)
_OF_THE_BROWSER: Final = frozenset({"access-control-request-method"})


def names_another(headers: Iterable[tuple[str, str]]) -> str:
    """The name of the first such header, as it is written; empty where there is none."""
    for name, _ in headers:
        plain = _SEPARATORS.sub("-", name.lower()).strip("-")
        if plain not in _OF_THE_BROWSER and (_METHODS.search(plain) or _ADDRESSES.search(plain)):
            return name
    return ""
