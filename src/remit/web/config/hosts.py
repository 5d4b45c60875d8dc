"""What this server is called, and by which names: for the Host header, the Origin header, cookies and links.

A page of another site can have the browser ask 127.0.0.1 under a name of its own (DNS rebinding); such a name is none
of ours, and is refused before anything else is looked at.
"""

import functools
import ipaddress
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

from remit.web.config.settings import ANYWHERE, WebSettings

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
SESSION_COOKIE: Final = "remit_session"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it. A name other than localhost may lead anywhere."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def split_host(text: str) -> tuple[str, str] | None:
    """Name and port of a Host header, in lower case; None if it is no such thing."""
    try:
        parts = urlsplit(f"//{text}")
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not name or parts.username is not None or parts.path or parts.query or parts.fragment:
        return None
    return f"[{name}]" if ":" in name else name.rstrip("."), "" if port is None else str(port)


@functools.lru_cache(1_024)
def rate_key(text: str) -> str | None:
    """What an address is counted as. Of IPv6 its network: whoever has one address there has them all."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if address.version == 6 and not address.is_loopback:
        return str(ipaddress.ip_network((address.packed, 64), strict=False))
    return str(address)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Everything that follows from the settings about names and schemes."""

    names: frozenset[tuple[str, str]]
    """Host names that may be asked for, each with its port, or with none for any."""
    public_origin: str | None
    is_secure: bool
    """Whether browsers reach it by TLS, here or at a proxy."""

    @classmethod
    def of(cls, settings: WebSettings) -> Self:
        config = settings.config
        texts = [*LOOPBACK_NAMES, *config.allowed_hosts]
        if settings.host not in ANYWHERE:
            texts.append(f"[{settings.host.strip('[]')}]" if settings.host.count(":") > 1 else settings.host)
        public = urlsplit(config.public_url) if config.public_url else None
        names = {found for text in texts if (found := split_host(text)) is not None}
        if public is not None and (found := split_host(public.netloc)) is not None:
            names.add((found[0], ""))
        origin = _origin(public.scheme, public.netloc) if public is not None else None
        is_secure = config.tls is not None or (public is not None and public.scheme == "https")
        return cls(frozenset(names), origin, is_secure)

    def is_known_host(self, host: str) -> bool:
        """Whether a request with this Host header is meant for us."""
        found = split_host(host)
        return found is not None and (found in self.names or (found[0], "") in self.names)

    def is_own_origin(self, origin: str, scheme: str, host: str) -> bool:
        """Whether a page of this origin is one of ours. `host` was found to be ours before."""
        return origin.lower() in {_origin(scheme, host), self.public_origin}

    @property
    def session_cookie(self) -> str:
        """Under TLS with a prefix that binds it to this very host: no other one, and no plain HTTP, can set it."""
        return f"__Host-{SESSION_COOKIE}" if self.is_secure else SESSION_COOKIE


def _origin(scheme: str, host: str) -> str:
    """As a browser spells it: in lower case, and without the scheme's own port."""
    return f"{scheme}://{host}".lower().removesuffix({"https": ":443", "http": ":80"}.get(scheme, ""))
