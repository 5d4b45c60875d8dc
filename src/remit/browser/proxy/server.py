"""The proxy: all requests of one session arrive at one listening socket, and one gate decides about them."""

import asyncio
from socket import socket
from typing import Final

from remit.browser.model.requests import Gate
from remit.browser.proxy.certificates import Authority
from remit.browser.proxy.connection import BrowserConnection, ConnectionTimeouts
from remit.browser.proxy.dns import Lookups, Resolve, resolve_with_system
from remit.browser.proxy.exchange import Exchanges
from remit.browser.proxy.upstream import Upstream, build_tls_context
from remit.contracts.config.browser import Browser

MOST_CONNECTIONS: Final = 256
"""The connections of one session at a time; more have to wait. Chromium itself opens 32 to a proxy."""


class ProxyListener:
    """The connections of one listening socket."""

    def __init__(self, listener: socket, connection: BrowserConnection, upstream: Upstream) -> None:
        self._listener = listener
        self._connection = connection
        self._upstream = upstream
        self._connections: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._listen()

    # There is no accepting task. If it were cancelled at the wrong moment, a connection would be lost and stay open.

    def _listen(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        try:
            connected, _address = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:
            # Most likely the process has no free descriptors. Open connections will end.
            self._loop.remove_reader(self._listener)
            self._loop.call_later(0.1, self._listen)
            return
        connected.setblocking(False)
        task = self._loop.create_task(self._connection.serve(connected))
        self._connections.add(task)
        task.add_done_callback(self._ended)
        if len(self._connections) >= MOST_CONNECTIONS:
            self._loop.remove_reader(self._listener)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        if len(self._connections) == MOST_CONNECTIONS - 1:
            self._listen()

    async def close(self) -> None:
        """End all connections. Held requests are cancelled, and nothing more is sent. The listener stays open."""
        self._closed = True
        self._loop.remove_reader(self._listener)
        await asyncio.sleep(0)  # a connection that was just accepted has to run once, or its socket would stay open
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._upstream.close()


class BrowserProxy:
    """The proxy of one host process's browser."""

    def __init__(
        self,
        config: Browser,
        *,
        authority: Authority | None = None,
        resolve: Resolve = resolve_with_system,
        timeouts: ConnectionTimeouts | None = None,
    ) -> None:
        self._authority = authority or Authority()
        self._trust = build_tls_context(config)
        self._lookups = Lookups(config, resolve)
        self._most_bytes = config.max_body_bytes
        self._timeouts = timeouts or ConnectionTimeouts()

    @property
    def spki(self) -> str:
        """The hash of the authority's key, in base64. Chromium is started to trust it."""
        return self._authority.spki

    async def serve(self, listener: socket, gate: Gate) -> ProxyListener:
        """Accept connections of one session on this listening socket until it is closed."""
        listener.setblocking(False)
        upstream = Upstream(self._trust)
        exchanges = Exchanges(gate, self._lookups, upstream, self._most_bytes)
        connection = BrowserConnection(gate, exchanges, self._authority, self._most_bytes, self._timeouts)
        return ProxyListener(listener, connection, upstream)
