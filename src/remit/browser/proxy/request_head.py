"""The head of a request, read strictly. Pure.

The browser writes heads in one way only. Whatever is written in another way could be read differently by the server
behind us, and then something else would be done than what was shown: it is refused and not repaired.
"""

import re
from typing import Final, NamedTuple

from remit.browser.proxy.addresses import AddressError, Endpoint, parse_authority

MAX_HEAD: Final = 64 << 10
MAX_FIELDS: Final = 100

_TCHAR: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_REQUEST_LINE: Final = re.compile(rf"({_TCHAR}{{1,40}}) ([\x21-\x7e]+) HTTP/1\.1")
_NAME: Final = re.compile(rf"{_TCHAR}+")
_NOT_IN_VALUE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_LENGTH: Final = re.compile(r"0|[1-9][0-9]{0,14}")
_NOT_FORWARDED: Final = frozenset({"TRACE", "TRACK", "CONNECT"})

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""They ask for nothing to change, and have no body."""

_BETWEEN_US: Final = frozenset(
    {"connection", "proxy-connection", "keep-alive", "proxy-authorization", "proxy-authenticate", "te", "trailer"}
    | {"upgrade", "expect"}
)
"""Said by the browser to the proxy, and not meant for the server."""

_LEFT_OUT_OF_WEBSOCKETS: Final = _BETWEEN_US - {"connection", "upgrade"} | {"sec-websocket-extensions"}

_CONNECTION_WORDS: Final = frozenset({"keep-alive", "close", "upgrade"})


class BadRequestError(Exception):
    """Not a request that can be shown and sent. `status` is what the browser is told."""

    def __init__(self, why: str, status: int = 400) -> None:
        super().__init__(why)
        self.why = why
        self.status = status


class Head(NamedTuple):
    method: str
    target: str
    fields: dict[str, tuple[str, str]]
    """By name in small letters: name and value as they were written, in their order."""

    def value(self, name: str) -> str | None:
        found = self.fields.get(name)
        return None if found is None else found[1]

    @property
    def body_length(self) -> int:
        if "transfer-encoding" in self.fields:
            # The browser does this in HTTP/2 only, which it is not offered. Two ways to tell a length are one too many.
            raise BadRequestError("the length of the body is not told", 400 if "content-length" in self.fields else 411)
        value = self.value("content-length")
        if value is None:
            return 0
        if not _LENGTH.fullmatch(value):
            raise BadRequestError("the length of the body is not a number")
        if self.method in SAFE_METHODS and value != "0":
            raise BadRequestError(f"{self.method} has a body")
        return int(value)

    @property
    def wants_to_continue(self) -> bool:
        value = self.value("expect")
        if value is not None and value.lower() != "100-continue":
            raise BadRequestError("something unknown is expected", 417)
        return value is not None

    @property
    def is_websocket(self) -> bool:
        """Whether the connection is to become a WebSocket. To become anything else is refused."""
        words = self._connection_words()
        upgrade = self.value("upgrade")
        if upgrade is None and "upgrade" not in words:
            return False
        if upgrade is None or upgrade.lower() != "websocket" or "upgrade" not in words or self.method != "GET":
            raise BadRequestError("only a WebSocket may take a connection over")
        if self.value("sec-websocket-version") != "13" or not self.value("sec-websocket-key"):
            raise BadRequestError("not a WebSocket of version 13")
        return True

    @property
    def is_navigation(self) -> bool:
        mode = self.value("sec-fetch-mode")
        # To plain http the browser does not tell the mode; then only navigations ask for https.
        return mode == "navigate" if mode is not None else self.value("upgrade-insecure-requests") == "1"

    @property
    def closes(self) -> bool:
        return "close" in self._connection_words()

    def _connection_words(self) -> set[str]:
        value = ",".join(filter(None, (self.value("connection"), self.value("proxy-connection"))))
        words = {word.strip().lower() for word in value.split(",")} - {""}
        if not words <= _CONNECTION_WORDS:
            # It could name any other header, and have it taken away.
            raise BadRequestError("the connection header names something unknown")
        return words

    def forwarded(self) -> tuple[tuple[str, str], ...]:
        """What the server gets to see, in the browser's order. Nothing is added."""
        # Without extensions a message on a WebSocket is in its frame as it is, and can be read.
        left_out = _LEFT_OUT_OF_WEBSOCKETS if self.is_websocket else _BETWEEN_US
        return tuple(pair for name, pair in self.fields.items() if name not in left_out)


def parse_head(raw: bytes) -> Head:
    """Of the bytes up to and with the empty line."""
    lines = raw.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    first = _REQUEST_LINE.fullmatch(lines[0])
    if first is None:
        raise BadRequestError("not a request line of HTTP/1.1")
    method, target = first.groups()
    if len(lines) - 1 > MAX_FIELDS:
        raise BadRequestError(f"more than {MAX_FIELDS} header fields", 431)
    fields: dict[str, tuple[str, str]] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        value = value.strip(" \t")
        if not colon or not _NAME.fullmatch(name) or _NOT_IN_VALUE.search(value):
            raise BadRequestError("not a header field")
        if name.lower() in fields:
            # The browser joins them. Of two, one server takes the first and another one the last.
            raise BadRequestError(f"the header field {name.lower()} is there twice")
        fields[name.lower()] = (name, value)
    return Head(method, target, fields)


def read_endpoint(head: Head, tunnel: Endpoint | None) -> tuple[Endpoint, str]:
    """Where the request is to go, and the path and query it asks for there."""
    if head.method.upper() in _NOT_FORWARDED:
        raise BadRequestError(f"{head.method} is not sent", 405)
    if tunnel is not None:
        endpoint, path = tunnel, head.target
    else:
        scheme, separator, rest = head.target.partition("://")
        if not separator or scheme.lower() != "http":
            raise BadRequestError("this is a proxy, and the request is not for one")
        authority, slash, path = rest.partition("/")
        endpoint, path = read_authority(authority, "http"), slash + path
    if not path.startswith("/") or "#" in path:
        raise BadRequestError("not a path and a query")
    if head.value("host") != endpoint.authority:
        raise BadRequestError("the host header names another host")
    return endpoint, path


def read_authority(text: str, scheme: str) -> Endpoint:
    try:
        return parse_authority(text, scheme=scheme)
    except AddressError as problem:
        raise BadRequestError(str(problem)) from None
