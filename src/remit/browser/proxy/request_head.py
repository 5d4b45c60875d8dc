"""The head of a request, read strictly. Pure.

The browser writes heads in one form only. A server could read a head in another form differently from Remit, and then
do something else than the approver saw. So such a head is refused and not repaired.
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
"""Methods that change nothing and have no body."""

_BETWEEN_US: Final = frozenset(
    {"connection", "proxy-connection", "keep-alive", "proxy-authorization", "proxy-authenticate", "te", "trailer"}
    | {"upgrade", "expect"}
)
"""Headers from the browser to the proxy that are not meant for the server."""

_LEFT_OUT_OF_WEBSOCKETS: Final = _BETWEEN_US - {"connection", "upgrade"} | {"sec-websocket-extensions"}

_CONNECTION_WORDS: Final = frozenset({"keep-alive", "close", "upgrade"})


class BadRequestError(Exception):
    """A request that cannot be shown and sent. `status` is the status of the answer to the browser."""

    def __init__(self, why: str, status: int = 400) -> None:
        super().__init__(why)
        self.why = why
        self.status = status


class Head(NamedTuple):
    method: str
    target: str
    fields: dict[str, tuple[str, str]]
    """The name and value of each field as they were written, in their order, by the name in small letters."""

    def value(self, name: str) -> str | None:
        found = self.fields.get(name)
        return None if found is None else found[1]

    @property
    def body_length(self) -> int:
        if "transfer-encoding" in self.fields:
            # A browser uses this only in HTTP/2, which it is not offered. A second kind of length would be ambiguous.
            raise BadRequestError("the length of the body is missing", 400 if "content-length" in self.fields else 411)
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
            raise BadRequestError("the expect header has an unknown value", 417)
        return value is not None

    @property
    def is_websocket(self) -> bool:
        """Whether the request asks for a WebSocket. A request for any other upgrade is refused."""
        words = self._connection_words()
        upgrade = self.value("upgrade")
        if upgrade is None and "upgrade" not in words:
            return False
        if upgrade is None or upgrade.lower() != "websocket" or "upgrade" not in words or self.method != "GET":
            raise BadRequestError("only an upgrade to a WebSocket is allowed")
        if self.value("sec-websocket-version") != "13" or not self.value("sec-websocket-key"):
            raise BadRequestError("the WebSocket is not of version 13")
        return True

    @property
    def is_navigation(self) -> bool:
        mode = self.value("sec-fetch-mode")
        # To plain http a browser does not send the mode. Then only navigations ask for https.
        return mode == "navigate" if mode is not None else self.value("upgrade-insecure-requests") == "1"

    @property
    def closes(self) -> bool:
        return "close" in self._connection_words()

    def _connection_words(self) -> set[str]:
        value = ",".join(filter(None, (self.value("connection"), self.value("proxy-connection"))))
        words = {word.strip().lower() for word in value.split(",")} - {""}
        if not words <= _CONNECTION_WORDS:
            # It could name any other header, and the server would then drop that one.
            raise BadRequestError("the connection header has an unknown value")
        return words

    def forwarded(self) -> tuple[tuple[str, str], ...]:
        """The headers for the server, in the browser's order. Nothing is added."""
        # Without extensions a message on a WebSocket is unchanged in its frame, and can be read.
        left_out = _LEFT_OUT_OF_WEBSOCKETS if self.is_websocket else _BETWEEN_US
        return tuple(pair for name, pair in self.fields.items() if name not in left_out)


def parse_head(raw: bytes) -> Head:
    """Parse the bytes up to and including the empty line."""
    lines = raw.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    first = _REQUEST_LINE.fullmatch(lines[0])
    if first is None:
        raise BadRequestError("the first line is not a request line of HTTP/1.1")
    method, target = first.groups()
    if len(lines) - 1 > MAX_FIELDS:
        raise BadRequestError(f"more than {MAX_FIELDS} header fields", 431)
    fields: dict[str, tuple[str, str]] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        value = value.strip(" \t")
        if not colon or not _NAME.fullmatch(name) or _NOT_IN_VALUE.search(value):
            raise BadRequestError("a header field is malformed")
        if name.lower() in fields:
            # A browser joins them. Of two fields, one server takes the first and another one the last.
            raise BadRequestError(f"the header field {name.lower()} occurs twice")
        fields[name.lower()] = (name, value)
    return Head(method, target, fields)


def read_endpoint(head: Head, tunnel: Endpoint | None) -> tuple[Endpoint, str]:
    """Return the destination of the request, and its path and query."""
    if head.method.upper() in _NOT_FORWARDED:
        raise BadRequestError(f"the method {head.method} is not allowed", 405)
    if tunnel is not None:
        endpoint, path = tunnel, head.target
    else:
        scheme, separator, rest = head.target.partition("://")
        if not separator or scheme.lower() != "http":
            raise BadRequestError("the request does not name a host, as a request to a proxy must")
        authority, slash, path = rest.partition("/")
        endpoint, path = read_authority(authority, "http"), slash + path
    if not path.startswith("/") or "#" in path:
        raise BadRequestError("the target is not a path and a query")
    if head.value("host") != endpoint.authority:
        raise BadRequestError("the host header names another host")
    return endpoint, path


def read_authority(text: str, scheme: str) -> Endpoint:
    try:
        return parse_authority(text, scheme=scheme)
    except AddressError as problem:
        raise BadRequestError(str(problem)) from None
