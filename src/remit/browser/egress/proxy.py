"""The proxy: all requests of one session come in at one listening socket, and are asked of one gate."""

import asyncio
from socket import socket
from typing import Final

from remit.browser.egress.certificates import Authority
from remit.browser.egress.connection import Connection, Patience
from remit.browser.egress.exchange import Exchanges
from remit.browser.egress.lookups import Lookups, Resolve, ask_the_system
from remit.browser.egress.upstream import Upstream, server_trust
from remit.browser.requests import Gate
from remit.contracts.browser_config import Browser

MOST_CONNECTIONS: Final = 256
"""Of one session at a time; more have to wait. Chromium itself opens 32 to a proxy."""


class Serving:
    """What goes on at one listening socket."""

    def __init__(self, listener: socket, connection: Connection, upstream: Upstream) -> None:
        self._listener = listener
        self._connection = connection
        self._upstream = upstream
        self._room = asyncio.Semaphore(MOST_CONNECTIONS)
        self._connections: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept())

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._room.acquire()
            try:
                connected, _address = await loop.sock_accept(self._listener)
            except OSError:
                # Out of descriptors, most likely: those that are open will end.
                self._room.release()
                await asyncio.sleep(0.1)
                continue
            task = asyncio.create_task(self._connection.serve(connected))
            self._connections.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        self._room.release()

    async def close(self) -> None:
        """Ends all its connections. What is held is cancelled, and nothing more is sent. The listener stays open."""
        self._accepting.cancel()
        await asyncio.sleep(0)  # a connection that was just accepted takes its first step, or nobody would close it
        tasks = [self._accepting, *self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._upstream.close()


class Egress:
    """The ways out of one host process's browser."""

    def __init__(
        self,
        config: Browser,
        *,
        authority: Authority | None = None,
        resolve: Resolve = ask_the_system,
        patience: Patience | None = None,
    ) -> None:
        self._authority = authority or Authority()
        self._trust = server_trust(config)
        self._lookups = Lookups(config, resolve)
        self._most_bytes = config.max_body_bytes
        self._patience = patience or Patience()

    @property
    def spki(self) -> str:
        """What Chromium is told to believe: the hash of our authority's key, in base64."""
        return self._authority.spki

    async def serve(self, listener: socket, gate: Gate) -> Serving:
        """Accepts on this listening socket, for one session, until it is closed."""
        listener.setblocking(False)
        upstream = Upstream(self._trust)
        exchanges = Exchanges(gate, self._lookups, upstream, self._most_bytes)
        connection = Connection(gate, exchanges, self._authority, self._most_bytes, self._patience)
        return Serving(listener, connection, upstream)
