"""The bytes of one connection, and whether the other end is still there.

Not asyncio's streams, for these cannot tell that the other end hung up before they are read to their end; and a
request that is held for minutes must be dropped in the moment in which the browser gives it up.
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
    """One connection. Reading raises EOFError where the bytes end too early, ConnectionError where it broke."""

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
        """Whether the other end hung up, or broke the silence. It may still be read what was sent before."""
        self.cap: int | None = None
        """How many unread bytes may wait; with more the connection is cut. Else the other end is made to wait."""

    # --- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._expects_silence:
            # Nothing that speaks when it was not asked is understood by both sides in the same way.
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
        return False  # the transport closes itself once everything is written

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

    # --- whether the other end is there

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
        """Calls this once if the other end hangs up meanwhile, or has done so already."""
        self._hang_up_callback = callback
        try:
            if self.is_gone:
                callback()
            yield
        finally:
            self._hang_up_callback = None

    def expect_silence(self) -> None:
        """From now on the other end has nothing to say: if it does, or did already, the connection is cut."""
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
            # Also where nothing more is wanted: else it would not be noticed that the other end hangs up.
            self._paused = False
            self.transport.resume_reading()
        return data

    async def wait(self) -> bool:
        """True once there are bytes, False once there will be none."""
        while not self._buffer:
            if self._ended:
                return False
            try:
                await self._wait_for_data()
            except EOFError:
                return False
        return True

    async def read_some(self) -> bytes:
        """What is there, waiting for at least one byte; empty at the end."""
        await self.wait()
        return self._consume(len(self._buffer))

    async def read_head(self, most: int) -> bytes:
        """Up to and with the first empty line."""
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
        """So many bytes, none of which may keep us waiting for longer than that."""
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
        """Throws away what still comes. Closing on unread bytes would reset the connection, and lose our answer."""
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
        """Waits while the other end is slower than we are."""
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
