"""Which texts may stand in a token's `domains`: a host name, an IP address, or `*.` and a host name.

Checked wherever a token is issued or read, so that nobody has to ask later what a strange one could mean. Whether a
host fits a pattern is decided in `remit.browser.domains`.
"""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Annotated, Final

from pydantic import AfterValidator, Field

MAX_HOST: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
# Names under which registries sell names. Under a country's two letters these stand for a whole branch of trade, so
# `*.co.uk` would be half a country. Short on purpose: no list in a program is ever complete, and no network is asked.
_SECOND_LEVEL: Final = frozenset(
    {"ac", "asso", "co", "com", "ed", "edu", "go", "gob", "gouv", "gov", "gv", "id", "ltd", "me", "mil", "ne", "net"}
    | {"nom", "or", "org", "plc", "sch"}
)
# Where strangers get a name for nothing: `*.github.io` is everybody who has an account there.
_SHARED: Final = frozenset(
    {"amazonaws.com", "appspot.com", "azurewebsites.net", "blogspot.com", "cloudfront.net", "firebaseapp.com"}
    | {"fly.dev", "github.io", "gitlab.io", "herokuapp.com", "netlify.app", "ngrok.io", "onrender.com", "pages.dev"}
    | {"vercel.app", "web.app", "workers.dev"}
)
_COUNTRY_LETTERS: Final = 2
WILDCARD: Final = "*."


def normal_host(text: str) -> str:
    """The one spelling of a host: lower case, no dot at the end, an address in its plain form. ValueError if none.

    ASCII only: what another script looks like, and what it is turned into on the way, is not for us to guess.
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
    if _NUMBER.fullmatch(labels[-1]):  # then a browser takes the whole for an address, in whatever spelling
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
    """The pattern as it was given, if it is one that says whom it means."""
    host = normal_host(text.removeprefix(WILDCARD))
    if not text.startswith(WILDCARD):
        return text
    labels = host.split(".")
    if host.startswith("[") or _NUMBER.fullmatch(labels[-1]):
        raise ValueError("an address has no names below it")
    if is_public_suffix(labels):
        raise ValueError("anybody can have a name below this one: name the site itself")
    return text


def is_public_suffix(labels: list[str]) -> bool:
    """Whether strangers can get names below it, as far as a short list knows. A single label always is one."""
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
"""A host name in ASCII, or an IP address (IPv6 in brackets), or `*.` and a host name: one label more than that name."""
