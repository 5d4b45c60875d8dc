"""What one caller is to be told, in its order, and whether he is still there to hear it."""

import contextlib
import select
import socket
import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, Self

Saying = dict[str, Any]


class Sayings:
    """Whoever speaks never waits; whoever waits to be told wakes as soon as the caller hangs up."""

    def __init__(self, caller: socket.socket) -> None:
        self._caller = caller
        self._queue: deque[Saying] = deque()
        self._lock = threading.Lock()
        self._wake, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self.left: Future[None] = Future()
        """Done once nobody is there any more."""

    def put(self, saying: Saying) -> bool:
        """Whether there is anybody to hear it. From any thread."""
        with self._lock:
            if self.left.done():
                return False
            self._queue.append(saying)
            with contextlib.suppress(BlockingIOError):  # then he is awake
                self._waker.send(b"x")
            return True

    def next(self) -> Saying:
        """Waits for it. ConnectionResetError once the caller is gone."""
        poll = select.poll()
        for end in (self._wake, self._caller):
            poll.register(end, select.POLLIN)
        while True:
            with self._lock:
                if self._queue:
                    return self._queue.popleft()
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._wake.fileno() in ready:
                self._wake.recv(4_096)
                continue
            with self._lock:
                if not self._queue:  # and nothing can be put any more
                    self._leave()
                    raise ConnectionResetError("the caller hung up")

    def _leave(self) -> None:
        if not self.left.done():
            self.left.set_result(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._leave()
            self._wake.close()
            self._waker.close()
