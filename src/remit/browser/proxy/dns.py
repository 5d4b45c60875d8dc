"""Names to addresses, each of them checked. What is connected to later is an address that came out of here."""

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
    """The place may not be reached."""


class LookupFailedError(Exception):
    """The name leads nowhere."""


async def resolve_with_system(host: str) -> list[str]:
    # asyncio does this in a thread.
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class Lookups:
    """For one host process."""

    def __init__(self, config: Browser, resolve: Resolve = resolve_with_system) -> None:
        self._ports = frozenset(config.ports)
        self._private = config.private_addresses
        self._hosts = {name.lower().removesuffix("."): address for name, address in config.hosts.items()}
        self._resolve = resolve
        self._cache: dict[str, tuple[float, tuple[str, ...]]] = {}

    def check_port(self, port: int) -> str | None:
        return None if port in self._ports else f"port {port} is not among browser.ports {AS_READ}"

    async def find(self, endpoint: Endpoint) -> tuple[str, ...]:
        """All addresses of the place, in the order in which they should be tried.

        One that may not be reached refuses them all: a name that leads inside and outside was made to confuse.
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
            raise LookupFailedError(f"no address is known for {host}: not in the DNS, nor in browser.hosts {AS_READ}")
        return tuple(dict.fromkeys(found))
