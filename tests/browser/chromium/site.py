"""Pages behind a listener of Chromium's, answered as a proxy would: no name is looked up, nothing leaves here."""

import asyncio
import socket
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit


class Request(NamedTuple):
    method: str
    url: str
    body: bytes


class Site:
    """Knows its pages by host and path; `*` is a path for all that is not named. Remembers what was asked."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[str, bytes, str]] = {}
        self.asked: list[Request] = []
        self.connections = 0
        self.held: set[str] = set()
        self.empty: set[str] = set()
        self.release = asyncio.Event()
        self._servers: list[asyncio.Server] = []

    def put(self, place: str, body: str | bytes, kind: str = "text/html; charset=utf-8", more: str = "") -> str:
        data = body if isinstance(body, bytes) else body.encode()
        self.pages[place] = (kind, data, more)
        return f"http://{place}"

    def put_all(self, pages: Mapping[str, str]) -> None:
        for place, body in pages.items():
            self.put(place, body)

    async def serve(self, listener: socket.socket) -> None:
        self._servers.append(await asyncio.start_server(self._answer, sock=listener))

    async def close(self) -> None:
        self.release.set()
        for server in self._servers:
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self._answer_one(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, url, _ = first.split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.asked.append(Request(method, url, body))
        parts = urlsplit(url)
        place = f"{parts.netloc}{parts.path}"
        if place in self.held:
            await self.release.wait()
        kind, data, more = self.pages.get(place, ("text/html", b"<title>nothing</title>", ""))
        status = "200 OK" if place in self.pages else "404 Not Found"
        if place in self.empty:
            status, data = "204 No Content", b""
        if method == "CONNECT":
            status, data = "403 Forbidden", b""
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n"
            f"Connection: close\r\n{more}\r\n".encode()
            + data
        )
        await writer.drain()
