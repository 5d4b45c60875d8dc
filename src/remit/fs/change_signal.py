"""A signal to other processes on the same machine that an approval request has changed, so that they read it again.

The signal is a file in the state directory. A process notifies by writing to it, and the kernel wakes the listeners
(inotify). The file carries no data: the state is in the store. A signal that is missed, or made on another machine,
costs a few seconds, because every listener also polls.
"""

import asyncio
import contextlib
import ctypes
import os
import select
from collections.abc import Iterator
from pathlib import Path
from typing import Final

POLL_SECONDS: Final = 5.0
"""The longest time until a listener notices a change without a signal."""
_IN_MODIFY: Final = 0x2
_MOST: Final = 64 << 10
_OPEN_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_libc: Final = ctypes.CDLL(None, use_errno=True)


class ChangeSignal:
    """The signal at one path. The constructor does not touch the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def notify(self) -> None:
        """Wake the listeners. Never raises, because the listeners also find the change by polling."""
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, _OPEN_FLAGS, 0o600)
            try:
                os.pwrite(descriptor, b"\n", 0)
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def listening(self) -> Iterator["ChangeListener"]:
        """Listen while inside, and miss no signal from the start on. Listen first, then read the store, then wait."""
        listener = self.listen()
        try:
            yield listener
        finally:
            listener.close()

    def listen(self) -> "ChangeListener":
        """Return a listener that the caller must close."""
        return ChangeListener(self._open())

    def _open(self) -> int:
        """Return a descriptor that becomes readable with each signal, or -1 if the kernel has no more of them."""
        with contextlib.suppress(OSError):
            os.close(os.open(self._path, _OPEN_FLAGS, 0o600))
        descriptor: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:
            return -1
        if _libc.inotify_add_watch(descriptor, os.fsencode(self._path), _IN_MODIFY) < 0:
            os.close(descriptor)
            return -1
        return descriptor


class ChangeListener:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def wait(self, seconds: float) -> None:
        """Wait for the next signal, for at most `seconds` and at most `POLL_SECONDS`."""
        readable = [self.descriptor] if self.descriptor >= 0 else []
        if select.select(readable, [], [], max(0.0, min(seconds, POLL_SECONDS)))[0]:
            self.drain()

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self.descriptor, _MOST):
                pass

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class AsyncListener:
    """A listener that all waiting tasks of an event loop share, because a process may have only a few listeners."""

    def __init__(self, listener: ChangeListener) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._waiting: set[asyncio.Future[None]] = set()
        self.users = 0
        if listener.descriptor >= 0:
            self._loop.add_reader(listener.descriptor, self._on_readable)

    def next_signal(self) -> "asyncio.Future[None]":
        """Return a future that is done with the next signal."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    def _on_readable(self) -> None:
        self._listener.drain()
        for future in list(self._waiting):
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        if self._listener.descriptor >= 0:
            self._loop.remove_reader(self._listener.descriptor)
        self._listener.close()
