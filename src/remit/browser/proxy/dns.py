"""The addresses of a name, each of them checked. The proxy connects only to addresses from here."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from remit.browser.proxy.addresses import Endpoint, is_reachable
from remit.contracts.config.browser import Browser

Resolve = Callable[[str], Awaitable[list[str]]]

LOOKUP_SECONDS: Final = 10.0
CACHE_SECONDS: Final = 5.0
MAX_CACHED: Final = 1_000
AS_READ: Final = "in remit.yaml, as this browser read it when it started (after a change: remit browse --stop)"


class AddressRefusedError(Exception):
    """The settings do not allow this destination."""


class LookupFailedError(Exception):
    """The name has no address."""


async def resolve_with_system(host: str) -> list[str]:
    # asyncio runs this in a thread.
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class Lookups:
    """The lookups of one host process."""

    def __init__(self, config: Browser, resolve: Resolve = resolve_with_system) -> None:
        self._ports = frozenset(config.ports)
        self._private = config.private_addresses
        self._hosts = {name.lower().removesuffix("."): address for name, address in config.hosts.items()}
        self._resolve = resolve
        self._cache: dict[str, tuple[float, tuple[str, ...]]] = {}

    def check_port(self, port: int) -> str | None:
        return None if port in self._ports else f"port {port} is not among browser.ports {AS_READ}"

    async def find(self, endpoint: Endpoint) -> tuple[str, ...]:
        """Return all addresses of the destination, in the order in which to try them.

        If one address is not allowed, all are refused. A name with a private and a public address is likely an attack.
        """
        now = asyncio.get_running_loop().time()
        cached = self._cache.get(endpoint.host)
        if cached and cached[0] > now:
            return cached[1]
        addresses = await self._resolve_host(endpoint.host)
        for address in addresses:
            if not is_reachable(address, self._private):
                raise AddressRefusedError(
                    f"{endpoint.host} leads to a private address that is not among browser.private_addresses {AS_READ}"
                )
        if len(self._cache) >= MAX_CACHED:
            self._cache.clear()
        self._cache[endpoint.host] = (now + CACHE_SECONDS, addresses)
        return addresses

    async def _resolve_host(self, host: str) -> tuple[str, ...]:
        if host in self._hosts:
            return (self._hosts[host],)
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                found = await self._resolve(host)
        except (OSError, UnicodeError):  # a timeout is an OSError
            found = []
        if not found:
            raise LookupFailedError(f"{host} has no address in the DNS or in browser.hosts {AS_READ}")
        return tuple(dict.fromkeys(found))
