"""Headers and parameters with which a request names another method or address than its first line. Pure.

Some servers treat a GET with such a header as the method in the header, or as the method in `_method` in its address
(WordPress). A page can send one, and it would pass as a reading request.
"""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote_plus, urlsplit

_SEPARATORS: Final = re.compile(r"[^a-z0-9]+")
"""Servers turn header names into variable names, with one character for a hyphen, an underscore, a dot and others."""
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
    """Return the name of the first such header, as it is written, or an empty text."""
    for name, _ in headers:
        plain = _SEPARATORS.sub("-", name.lower()).strip("-")
        if plain not in _OF_THE_BROWSER and (_METHODS.search(plain) or _ADDRESSES.search(plain)):
            return name
    return ""


def find_override_parameter(url: str) -> str:
    """Return the name of the first parameter of an address that names a changing method, or an empty text.

    Its name is `_method` or the name of such a header. A bare `method=` is not included, because many sites use that
    name for something else.
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
