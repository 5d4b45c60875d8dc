"""Where a URL leads, read as Chromium reads it, and whether a token's `domains` allow that host.

One function for everybody who must know: the door before it acts, the proxy before it connects. What two readers could
take for different hosts is refused instead of guessed: a backslash, a tab, credentials, an escaped dot, an address in
odd digits, another script.
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
# Chromium drops or escapes these, or walks up a folder: the page would have another address than the one given.
_REWRITTEN: Final = re.compile(r'[\x00-\x20\x7f\\]|["<>^`{}]')
_DOTS: Final = re.compile(r"/(?:\.|%2e){1,2}(?=/|$)", re.IGNORECASE)


class Target(NamedTuple):
    """A place to go to, in the one spelling that there is for it."""

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
    """An http or https URL taken apart; a refusal for all else, and for what could be read in two ways."""
    if len(url) > MAX_URL:
        raise _invalid_target("the target is too long")
    if _REWRITTEN.search(url):
        raise _invalid_target(
            "the target holds a character that a browser drops or rewrites, such as a space or a backslash"
        )
    scheme = _SCHEME.match(url)
    if scheme is None or "." in scheme[0]:  # a dot: rather a host, and its port
        raise _invalid_target("the target begins neither with https:// nor with http://", "Write the whole address.")
    if scheme[0].lower() not in DEFAULT_PORTS:
        raise _invalid_target(f"a {scheme[0][:20]}: address is not one that can be gone to, only http: and https: are")
    found = _URL.fullmatch(url)
    if found is None:
        raise _invalid_target("the target has no host after exactly two slashes")
    name = found["scheme"].lower()
    host, port = _split_authority(found["authority"], DEFAULT_PORTS[name])
    path = found["path"] or "/"
    if _DOTS.search(path):
        raise _invalid_target("the path of the target holds . or .. as a folder")
    query = _percent_encode(found["query"] or "").replace(
        "'", "%27"
    )  # in a query, and there alone, a browser escapes it
    return Target(name, host, port, _percent_encode(path), query, _percent_encode(found["fragment"] or ""))


def matches(host: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns names this host. Compares whole labels, in one spelling; what is no host fits none.

    `*.example.com` stands for exactly one label before it: for `shop.example.com`, neither for `example.com` itself
    nor for `a.b.example.com`. Each is to be named.
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
            "the target holds credentials, or hides its host behind an @", "Leave out all up to the @."
        )
    if "%" in authority or not authority.isascii():
        raise _invalid_target(
            "the host is not written in plain ASCII letters", "Write it as it is registered, such as xn--..."
        )
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise _invalid_target("the host or its port cannot be read")
    port = default_port
    if found["port"] is not None:
        port = int(found["port"]) if _PORT.fullmatch(found["port"]) else 0
        if not 0 < port <= MAX_PORT:
            raise _invalid_target("the port of the target is none, or is not written plainly")
    try:
        return normal_host(found["host"]), port
    except ValueError as problem:
        raise _invalid_target(str(problem)) from None


def _percent_encode(part: str) -> str:
    """What is not ASCII as a browser sends it. Never changes what is."""
    try:
        return part if part.isascii() else quote(part, safe="".join(map(chr, range(0x21, 0x7F))))
    except UnicodeEncodeError:
        raise _invalid_target("the target is not valid Unicode") from None


def _invalid_target(
    what: str, next_step: str = "Give the plain address of a page, such as https://example.com/."
) -> RefusedError:
    # The URL itself is not repeated: whoever handed it over has it, and it may hold what nobody should read.
    return RefusedError(Reason.CONSTRAINT_VIOLATED, what, where="constraints.domains", next_step=next_step)
