"""Hosts, ports and addresses that may be reached. Pure."""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, NamedTuple

_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL}){{0,126}}")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_AUTHORITY: Final = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,254})(?::([1-9][0-9]{0,4}))?", re.IGNORECASE)

DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class AddressError(ValueError):
    pass


class Endpoint(NamedTuple):
    scheme: str
    """The scheme: http or https."""
    host: str
    """The host in small letters, without a dot at the end and without brackets."""
    port: int
    authority: str
    """The authority as the browser writes it in URLs and in the host header, without the port if that is the default.
    """


def parse_authority(text: str, *, scheme: str) -> Endpoint:
    """Parse `host` or `host:port`, as the browser writes them. Without a port, it is the default port of the scheme."""
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        raise AddressError("not a host and a port")
    written, digits = found.groups()
    written = written.lower()
    port = int(digits) if digits else DEFAULT_PORTS[scheme]
    if port > 65_535:
        raise AddressError("there is no such port")
    authority = written if port == DEFAULT_PORTS[scheme] else f"{written}:{port}"
    return Endpoint(scheme, _parse_host(written), port, authority)


def _parse_host(written: str) -> str:
    if written.startswith("["):
        try:
            return str(IPv6Address(written[1:-1]))
        except ValueError:
            raise AddressError("not an IPv6 address") from None
    host = written.removesuffix(".")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        # 127.1, 0x7f000001 and 2130706433 are addresses too, but programs disagree about which ones.
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise AddressError("not an IPv4 address in its usual form") from None
    if len(host) > 253 or not _HOST_NAME.fullmatch(host):
        raise AddressError("not a host name")
    return host


# --- addresses -------------------------------------------------------------------------------------------------------

_NOT_PUBLIC: Final = tuple(
    map(
        ip_network,
        [
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "168.63.129.16/32",  # looks public, but is the address at which a cloud serves its own machines
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/3",  # multicast, and all reserved addresses
            "2001::/23",  # Teredo and other special uses
            "2001:db8::/32",
            "2002::/16",  # 6to4: leads to an IPv4 address
            "3fff::/20",
        ],
    )
)
_PUBLIC_IPV6: Final = ip_network("2000::/3")
_EMBEDS_IPV4: Final = (ip_network("::ffff:0:0/96"), ip_network("64:ff9b::/96"))
_TELLS_SECRETS: Final = frozenset(map(ip_address, ["169.254.169.254", "fd00:ec2::254", "168.63.129.16"]))
"""The addresses at which clouds give a machine its credentials. Only an entry for exactly such an address allows it,
not an entry for a network.
"""

Address = IPv4Address | IPv6Address


def is_reachable(text: str, private_addresses: Iterable[str]) -> bool:
    """Whether the address is public, or is among the named private addresses."""
    try:
        address = _unwrapped(ip_address(text))
    except ValueError:
        return False
    if _is_public(address):
        return True
    named = [ip_network(network) for network in private_addresses]
    if address in _TELLS_SECRETS:
        named = [network for network in named if network.num_addresses == 1]
    return any(address in network for network in named)


def _unwrapped(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address embeds, else the address itself."""
    if any(address in network for network in _EMBEDS_IPV4):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def _is_public(address: Address) -> bool:
    if any(address in network for network in _NOT_PUBLIC):
        return False
    return address.version == 4 or address in _PUBLIC_IPV6
