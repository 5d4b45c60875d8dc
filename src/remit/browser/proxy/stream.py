"""The bytes of one connection, and whether the other end is still connected.

asyncio's streams are not used, because they report that the other end hung up only after all bytes were read. A request
that is held for minutes must be dropped at the moment when the browser gives it up.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, cast

HIGH_WATER: Final = 256 << 10
END_OF_HEAD: Final = b"\r\n\r\n"


class HeadTooLargeError(Exception):
    pass


class ByteStream(asyncio.Protocol):
    """One connection. Reading raises EOFError if the bytes end too early, and ConnectionError if it broke."""

    transport: asyncio.Transport

    def __init__(self, already_read: bytes = b"") -> None:
        self._buffer = bytearray(already_read)
        self._ended = False
        self._paused = False
        self._reading: asyncio.Future[None] | None = None
        self._writing: asyncio.Future[None] | None = None
        self._hang_up_callback: Callable[[], object] | None = None
        self._expects_silence = False
        self._lost = asyncio.get_running_loop().create_future()
        self.is_gone = False
        """Whether the other end hung up, or sent when it must not. Bytes that it sent before can still be read."""
        self.cap: int | None = None
        """How many unread bytes may wait before the connection is cut. None: reading pauses and the other end waits."""

    # --- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._expects_silence:
            # The two ends would disagree about the meaning of bytes that nothing asked for.
            self.abort()
            return
        self._buffer += data
        if self.cap is not None:
            if len(self._buffer) > self.cap:
                self.abort()
        elif len(self._buffer) > HIGH_WATER and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self._end()
        return False  # the transport closes itself when everything is written

    def connection_lost(self, problem: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        self._end()
        if self._writing is not None and not self._writing.done():
            self._writing.set_result(None)
        if not self._lost.done():
            self._lost.set_result(None)

    def pause_writing(self) -> None:
        self._writing = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._writing is not None and not self._writing.done():
            self._writing.set_result(None)
        self._writing = None

    # --- whether the other end is connected

    def _end(self) -> None:
        self._ended = True
        self._wake()
        self._mark_gone()

    def _mark_gone(self) -> None:
        if not self.is_gone:
            self.is_gone = True
            if self._hang_up_callback is not None:
                self._hang_up_callback()

    @contextmanager
    def on_hang_up(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call this once if the other end hangs up meanwhile, or has hung up already."""
        self._hang_up_callback = callback
        try:
            if self.is_gone:
                callback()
            yield
        finally:
            self._hang_up_callback = None

    def expect_silence(self) -> None:
        """From now on the other end must not send. If it sends, or has sent already, the connection is cut."""
        self._expects_silence = True
        if self._buffer:
            self.abort()

    def allow_data(self) -> None:
        self._expects_silence = False

    # --- reading

    @property
    def has_unread(self) -> bool:
        return bool(self._buffer)

    def _wake(self) -> None:
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)

    async def _wait_for_data(self) -> None:
        if self._ended:
            raise EOFError
        self._reading = asyncio.get_running_loop().create_future()
        try:
            await self._reading
        finally:
            self._reading = None

    def _consume(self, count: int) -> bytes:
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        if self._paused and len(self._buffer) <= HIGH_WATER:
            # Reading also resumes if no more bytes are needed. Otherwise a hang-up of the other end would go unnoticed.
            self._paused = False
            self.transport.resume_reading()
        return data

    async def wait(self) -> bool:
        """Wait. Return True when there are bytes, and False when there will be none."""
        while not self._buffer:
            if self._ended:
                return False
            try:
                await self._wait_for_data()
            except EOFError:
                return False
        return True

    async def read_some(self) -> bytes:
        """Return the available bytes, at least one. Empty at the end."""
        await self.wait()
        return self._consume(len(self._buffer))

    async def read_head(self, most: int) -> bytes:
        """Read up to and including the first empty line."""
        searched = 0
        while (found := self._buffer.find(END_OF_HEAD, searched)) < 0:
            searched = max(0, len(self._buffer) - len(END_OF_HEAD) + 1)
            if len(self._buffer) > most:
                raise HeadTooLargeError
            await self._wait_for_data()
        end = found + len(END_OF_HEAD)
        if end > most:
            raise HeadTooLargeError
        return self._consume(end)

    async def read_exactly(self, count: int, seconds: float) -> bytes:
        """Read that many bytes. The wait for each piece is limited to that many seconds."""
        parts: list[bytes] = []
        missing = count
        while missing:
            if not self._buffer:
                async with asyncio.timeout(seconds):
                    await self._wait_for_data()
            parts.append(self._consume(missing))
            missing -= len(parts[-1])
        return b"".join(parts)

    async def discard(self, seconds: float, most: int) -> None:
        """Discard the bytes that still arrive. Closing with unread bytes would reset the connection and lose the
        answer.
        """
        try:
            async with asyncio.timeout(seconds):
                while most > 0 and (data := await self.read_some()):
                    most -= len(data)
        except (TimeoutError, OSError):
            return

    # --- writing

    def write(self, data: bytes | bytearray) -> None:
        if self.transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        self.transport.write(data)

    async def drain(self) -> None:
        """Wait while the other end reads more slowly than this one writes."""
        if self._writing is not None:
            await self._writing
        if self.transport.is_closing():
            raise ConnectionResetError("the connection is closed")

    def close(self) -> None:
        self.transport.close()

    def abort(self) -> None:
        self.transport.abort()
        self._end()

    def on_closed(self, callback: Callable[[], object]) -> None:
        self._lost.add_done_callback(lambda _lost: callback())

    async def wait_closed(self) -> None:
        await asyncio.shield(self._lost)
