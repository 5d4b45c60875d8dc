"""Connections to servers: to checked addresses, with a certificate for the requested name."""

import asyncio
import ssl
from itertools import chain
from typing import Final

from remit.browser.proxy.addresses import Endpoint
from remit.browser.proxy.stream import ByteStream
from remit.contracts.config.browser import Browser
from remit.core.errors import Reason, RefusedError

CONNECT_SECONDS: Final = 15.0
IDLE_SECONDS: Final = 4.0
"""Less than servers wait for the next request, so that a server rarely hangs up while Remit writes one."""
MAX_IDLE: Final = 64


class ConnectFailedError(Exception):
    """No connection was made, so nothing was sent."""


def build_tls_context(config: Browser) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=config.certificates)
    except (OSError, ssl.SSLError):
        raise RefusedError(
            Reason.MALFORMED,
            "the file of trusted certificate authorities cannot be read",
            where=f"browser.certificates: {config.certificates}",
            next_step="Name a readable file of certificates in PEM, or remove the setting.",
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


class Upstream:
    """The connections of one session. No other session ever uses them."""

    def __init__(self, tls_context: ssl.SSLContext) -> None:
        self._tls_context = tls_context
        self._idle: dict[Endpoint, list[tuple[ByteStream, asyncio.TimerHandle]]] = {}
        self._open: set[ByteStream] = set()

    async def connect(self, endpoint: Endpoint, addresses: tuple[str, ...]) -> ByteStream:
        """Connect to the first of these addresses that accepts."""
        problem = "no address is known"
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await self._connect(endpoint, address)
            except ssl.SSLCertVerificationError as refused:
                raise ConnectFailedError(f"the server's certificate is not trusted: {refused.verify_message}") from None
            except TimeoutError:
                problem = "the server did not answer"
            except UnicodeError:
                raise ConnectFailedError("the host's name cannot be written in a certificate") from None
            except OSError as failed:
                problem = f"no connection to the server: {failed.strerror or type(failed).__name__}"
        raise ConnectFailedError(problem)

    async def _connect(self, endpoint: Endpoint, address: str) -> ByteStream:
        loop = asyncio.get_running_loop()
        wire = ByteStream()
        if endpoint.scheme == "https":
            await loop.create_connection(
                lambda: wire, address, endpoint.port, ssl=self._tls_context, server_hostname=endpoint.host
            )
        else:
            await loop.create_connection(lambda: wire, address, endpoint.port)
        self._open.add(wire)
        wire.on_closed(lambda: self._open.discard(wire))
        return wire

    def acquire(self, endpoint: Endpoint) -> ByteStream | None:
        """Return a connection that was used before, if one is still open."""
        idle = self._idle.get(endpoint, [])
        while idle:
            wire, expiry = idle.pop()
            expiry.cancel()
            if not wire.is_gone:
                wire.allow_data()
                return wire
            wire.abort()
        self._idle.pop(endpoint, None)
        return None

    def release(self, endpoint: Endpoint, wire: ByteStream, *, is_reusable: bool) -> None:
        """Keep the connection for the next reading request to the same destination, or close it."""
        wire.expect_silence()
        if not is_reusable or wire.is_gone or sum(map(len, self._idle.values())) >= MAX_IDLE:
            wire.abort()
            return
        expiry = asyncio.get_running_loop().call_later(IDLE_SECONDS, wire.abort)
        self._idle.setdefault(endpoint, []).append((wire, expiry))

    async def close(self) -> None:
        for _wire, expiry in chain.from_iterable(self._idle.values()):
            expiry.cancel()
        still_open = list(self._open)
        for wire in still_open:
            wire.abort()
        for wire in still_open:
            await wire.wait_closed()
        self._idle.clear()
