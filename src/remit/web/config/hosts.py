"""The host names and origins of this server, for the Host header, the Origin header, cookies and links.

A page of another site can make the browser call 127.0.0.1 under a name of that site (DNS rebinding). The server refuses
an unknown name before it checks anything else.
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
    """Whether only this machine can reach the host. A name other than localhost may resolve to any address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def split_host(text: str) -> tuple[str, str] | None:
    """Return the name and port of a Host header, in lower case. None if the header is not valid."""
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
    """Return the rate limit key of an address. For IPv6 it is the network, because one client has all its addresses."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if address.version == 6 and not address.is_loopback:
        return str(ipaddress.ip_network((address.packed, 64), strict=False))
    return str(address)


@dataclass(frozen=True, slots=True)
class Addresses:
    """The host names, origins and cookie name that follow from the settings."""

    names: frozenset[tuple[str, str]]
    """Accepted host names, each with its port. Without a port, any port is accepted."""
    public_origin: str | None
    is_secure: bool
    """Whether browsers reach the server by TLS, directly or through a proxy."""

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
        """Whether this Host header names this server."""
        found = split_host(host)
        return found is not None and (found in self.names or (found[0], "") in self.names)

    def is_own_origin(self, origin: str, scheme: str, host: str) -> bool:
        """Whether a page of this origin belongs to this server. The caller has already checked `host`."""
        return origin.lower() in {_origin(scheme, host), self.public_origin}

    @property
    def session_cookie(self) -> str:
        """The cookie's name. Under TLS it has a prefix, so that no other host and no plain HTTP can set the cookie."""
        return f"__Host-{SESSION_COOKIE}" if self.is_secure else SESSION_COOKIE


def _origin(scheme: str, host: str) -> str:
    """Return the origin as a browser writes it: in lower case and without the default port of the scheme."""
    return f"{scheme}://{host}".lower().removesuffix({"https": ":443", "http": ":80"}.get(scheme, ""))
