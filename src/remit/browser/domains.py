"""The target of a URL, parsed as Chromium parses it, and whether a token's `domains` allow its host.

The browser operation uses the same function before it acts as the proxy before it connects. A URL that two parsers
could read as different hosts is refused: one with a backslash, a tab, credentials, an escaped dot, an address in
unusual digits, or another script.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import quote

from remit.contracts.domain_patterns import WILDCARD, normal_host
from remit.core.errors import Reason, RefusedError

MAX_URL: Final = 8_192
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_URL: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]+)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?(?P<fragment>#.*)?"
)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)")
_AUTHORITY: Final = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]+)(?::(?P<port>[0-9]+))?")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
MAX_PORT: Final = 65_535
# Chromium drops or escapes these, or goes up a folder. The page would then have another address than the given one.
_REWRITTEN: Final = re.compile(r'[\x00-\x20\x7f\\]|["<>^`{}]')
_DOTS: Final = re.compile(r"/(?:\.|%2e){1,2}(?=/|$)", re.IGNORECASE)


class Target(NamedTuple):
    """The parts of an address, each in its only accepted spelling."""

    scheme: str
    host: str
    port: int
    path: str
    query: str = ""
    """With its question mark, or empty."""
    fragment: str = ""

    @property
    def origin(self) -> str:
        port = "" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}"

    @property
    def url(self) -> str:
        return f"{self.origin}{self.path}{self.query}{self.fragment}"


def parse_target(url: str) -> Target:
    """Return the parts of an http or https URL. Refuses every other text, and a URL that can be read in two ways."""
    if len(url) > MAX_URL:
        raise _invalid_target("the target is too long")
    if _REWRITTEN.search(url):
        raise _invalid_target(
            "the target contains a character that a browser drops or rewrites, such as a space or a backslash"
        )
    scheme = _SCHEME.match(url)
    if scheme is None or "." in scheme[0]:  # with a dot it is more likely a host and its port
        raise _invalid_target("the target begins neither with https:// nor with http://", "Write the whole address.")
    if scheme[0].lower() not in DEFAULT_PORTS:
        raise _invalid_target(f"a {scheme[0][:20]}: address cannot be opened; only http: and https: addresses can")
    found = _URL.fullmatch(url)
    if found is None:
        raise _invalid_target("the target has no host after exactly two slashes")
    name = found["scheme"].lower()
    host, port = _split_authority(found["authority"], DEFAULT_PORTS[name])
    path = found["path"] or "/"
    if _DOTS.search(path):
        raise _invalid_target("the path of the target contains . or .. as a folder")
    query = _percent_encode(found["query"] or "").replace("'", "%27")  # a browser escapes it in a query, and only there
    return Target(name, host, port, _percent_encode(path), query, _percent_encode(found["fragment"] or ""))


def matches(host: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns names this host. Compares whole labels, in one spelling. An invalid host matches
    none.

    `*.example.com` means exactly one label more: it matches `shop.example.com`, but not `example.com` itself and not
    `a.b.example.com`. Each of those needs a pattern of its own.
    """
    try:
        labels = normal_host(host)
    except ValueError:
        return False
    _, _, parent = labels.partition(".")
    for pattern in patterns:
        is_wildcard = pattern.startswith(WILDCARD)
        named = normal_host(pattern.removeprefix(WILDCARD))
        if named == (parent if is_wildcard else labels):
            return True
    return False


def _split_authority(authority: str, default_port: int) -> tuple[str, int]:
    if "@" in authority:
        raise _invalid_target(
            "the target contains credentials, or hides its host behind an @", "Remove everything up to the @."
        )
    if "%" in authority or not authority.isascii():
        raise _invalid_target(
            "the host is not written in plain ASCII letters", "Write it as it is registered, for example xn--..."
        )
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise _invalid_target("the host or the port of the target is invalid")
    port = default_port
    if found["port"] is not None:
        port = int(found["port"]) if _PORT.fullmatch(found["port"]) else 0
        if not 0 < port <= MAX_PORT:
            raise _invalid_target("the port of the target is not a plain number from 1 to 65535")
    try:
        return normal_host(found["host"]), port
    except ValueError as problem:
        raise _invalid_target(str(problem)) from None


def _percent_encode(part: str) -> str:
    """Percent-encode characters that are not ASCII, as a browser does. ASCII text stays as it is."""
    try:
        return part if part.isascii() else quote(part, safe="".join(map(chr, range(0x21, 0x7F))))
    except UnicodeEncodeError:
        raise _invalid_target("the target is not valid Unicode") from None


def _invalid_target(
    what: str, next_step: str = "Give the plain address of a page, such as https://example.com/."
) -> RefusedError:
    # The URL itself is not repeated: the caller has it, and it may contain secrets.
    return RefusedError(Reason.CONSTRAINT_VIOLATED, what, where="constraints.domains", next_step=next_step)
