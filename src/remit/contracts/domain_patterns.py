"""The patterns that a token's `domains` may contain: a host name, an IP address, or `*.` and a host name.

Every pattern is checked when a token is issued and when it is read, so no later code meets an unclear one.
`remit.browser.domains` decides whether a host fits a pattern.
"""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Annotated, Final

from pydantic import AfterValidator, Field

MAX_HOST: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
# Names under which registries sell names. Below the two letters of a country each is a whole branch of trade, so
# `*.co.uk` would allow half a country. The list is short on purpose: no list in a program is complete, and Remit does
# not query the network for one.
_SECOND_LEVEL: Final = frozenset(
    {"ac", "asso", "co", "com", "ed", "edu", "go", "gob", "gouv", "gov", "gv", "id", "ltd", "me", "mil", "ne", "net"}
    | {"nom", "or", "org", "plc", "sch"}
)
# Domains under which strangers get a name for free: `*.github.io` fits every account there.
_SHARED: Final = frozenset(
    {"amazonaws.com", "appspot.com", "azurewebsites.net", "blogspot.com", "cloudfront.net", "firebaseapp.com"}
    | {"fly.dev", "github.io", "gitlab.io", "herokuapp.com", "netlify.app", "ngrok.io", "onrender.com", "pages.dev"}
    | {"vercel.app", "web.app", "workers.dev"}
)
_COUNTRY_LETTERS: Final = 2
WILDCARD: Final = "*."


def normal_host(text: str) -> str:
    """Return the one spelling of a host: lower case, no dot at the end, an address in its plain form.

    ASCII only. A name in another script can look like a different name, and its conversion is not unique.

    Raises:
        ValueError: The text is not a host name or an address.
    """
    if not text.isascii():
        raise ValueError("a host name is written in ASCII here, such as xn--bcher-kva.example")
    host = text.lower()
    if host.startswith("["):
        return _normal_v6(host)
    host = host.removesuffix(".")
    labels = host.split(".")
    if not host or len(host) > MAX_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("this is not a host name")
    if _NUMBER.fullmatch(labels[-1]):  # then a browser reads the whole as an address, in any spelling
        return _normal_v4(host)
    return host


def _normal_v4(host: str) -> str:
    try:
        address = str(IPv4Address(host))
    except AddressValueError:
        address = ""
    if address != host:
        raise ValueError("an IPv4 address is written as four plain numbers, such as 192.0.2.1")
    return address


def _normal_v6(host: str) -> str:
    inside = host[1:-1] if host.endswith("]") and "%" not in host else ""
    try:
        return f"[{IPv6Address(inside)}]"
    except AddressValueError:
        raise ValueError("this is not an IPv6 address in brackets") from None


def require_pattern(text: str) -> str:
    """Return the pattern unchanged if it names a site or an address clearly.

    Raises:
        ValueError: It is malformed, or strangers can have names below it.
    """
    host = normal_host(text.removeprefix(WILDCARD))
    if not text.startswith(WILDCARD):
        return text
    labels = host.split(".")
    if host.startswith("[") or _NUMBER.fullmatch(labels[-1]):
        raise ValueError("an address has no names below it")
    if is_public_suffix(labels):
        raise ValueError("strangers can have names below this one: name the site itself")
    return text


def is_public_suffix(labels: list[str]) -> bool:
    """Whether strangers can get names below it, according to a short list. A single label always is such a suffix."""
    if len(labels) == 1:
        return True
    is_trade = len(labels) == 2 and len(labels[1]) == _COUNTRY_LETTERS and labels[0] in _SECOND_LEVEL
    return is_trade or ".".join(labels) in _SHARED


DomainPattern = Annotated[
    str,
    Field(
        max_length=255,
        pattern=r"^(?:(?:\*\.)?[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63}){0,20}\.?|\[[0-9A-Fa-f:.]{2,45}\])$",
    ),
    AfterValidator(require_pattern),
]
"""A host name in ASCII, an IP address (IPv6 in brackets), or `*.` and a host name. `*.` is exactly one label."""
