"""The head of an answer leaves with the first part of its body: alone, each costs a system call and wakes a reader."""

import asyncio
from typing import Any, Final

_HEAD: Final = b"HTTP/1.1 "


class Gathering:
    """A transport around another. It never holds more than one head, and that only until the loop comes round."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._head:
            self._head, data = b"", self._head + data
            self._transport.write(data)
        elif data.startswith(_HEAD):
            self._head = data
            self._loop.call_soon(self.flush)
        elif data:
            self._transport.write(data)

    def flush(self) -> None:
        if self._head:
            self._head, data = b"", self._head
            self._transport.write(data)

    def close(self) -> None:
        self.flush()
        self._transport.close()
