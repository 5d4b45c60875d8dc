"""Headers and parameters by which a request asks for another method or address than its first line says. Pure.

To some servers a GET with such a header is what the header says, or what `_method` in its address says (WordPress). A
page can write one, so it would pass as reading.
"""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote_plus, urlsplit

_SEPARATORS: Final = re.compile(r"[^a-z0-9]+")
"""Servers make variables of header names, and write one sign for a hyphen, an underscore, a dot and the like."""
_METHODS: Final = re.compile(
    r"(?:method|verb)-?overr?id|overr?ide-?(?:method|verb)"
    r"|(?:http|request(?:ed)?|original|forwarded|real|actual)-?(?:method|verb)"
    r"|^x-(?:method|verb)$|^(?:x-)?http-?overr?ide$|^x-overr?ide$"
)
_ADDRESSES: Final = re.compile(
    r"(?:original|rewrite|override|forwarded|real|actual|destination|proxy|request)-?(?:url|uri|path)"
    r"|(?:url|uri|path)-?overr?id"
)
_OF_THE_BROWSER: Final = frozenset({"access-control-request-method"})
_BETWEEN_PARAMETERS: Final = re.compile(r"[&;]")
_READING: Final = frozenset({"", "GET", "HEAD", "OPTIONS"})
_CHANGING: Final = frozenset(
    {"POST", "PUT", "PATCH", "DELETE", "MERGE", "MOVE", "COPY", "LINK", "UNLINK", "PURGE", "LOCK", "UNLOCK", "MKCOL"}
)


def find_override_header(headers: Iterable[tuple[str, str]]) -> str:
    """The name of the first such header, as it is written; empty where there is none."""
    for name, _ in headers:
        plain = _SEPARATORS.sub("-", name.lower()).strip("-")
        if plain not in _OF_THE_BROWSER and (_METHODS.search(plain) or _ADDRESSES.search(plain)):
            return name
    return ""


def find_override_parameter(url: str) -> str:
    """The name of the first parameter of an address that names a method which is more than reading; else empty.

    It is `_method`, or what a header for that is called. A bare `method=` is what many sites call something else.
    """
    try:
        query = urlsplit(url).query
    except ValueError:
        return ""
    for pair in _BETWEEN_PARAMETERS.split(query):
        name, _, value = (unquote_plus(part, errors="replace").strip() for part in pair.partition("="))
        plain = _SEPARATORS.sub("-", name.lower()).strip("-")
        if name.startswith("_") and plain == "method":
            is_method = value.upper() not in _READING
        else:
            is_method = _METHODS.search(plain) is not None and value.upper() in _CHANGING
        if is_method:
            return name
    return ""
