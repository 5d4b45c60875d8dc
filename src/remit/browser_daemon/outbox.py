"""What one caller is to be told, in its order, and whether he is still there to hear it."""

import contextlib
import select
import socket
import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, Self

Message = dict[str, Any]


class Outbox:
    """Whoever speaks never waits; whoever waits to be told wakes as soon as the caller hangs up."""

    def __init__(self, caller: socket.socket) -> None:
        self._caller = caller
        self._queue: deque[Message] = deque()
        self._lock = threading.Lock()
        self._wake, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self.caller_left: Future[None] = Future()
        """Done once nobody is there any more."""

    def put(self, message: Message) -> bool:
        """Whether there is anybody to hear it. From any thread."""
        with self._lock:
            if self.caller_left.done():
                return False
            self._queue.append(message)
            with contextlib.suppress(BlockingIOError):  # then he is awake
                self._waker.send(b"x")
            return True

    def next(self) -> Message:
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
                    self._mark_caller_left()
                    raise ConnectionResetError("the caller hung up")

    def _mark_caller_left(self) -> None:
        if not self.caller_left.done():
            self.caller_left.set_result(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._mark_caller_left()
            self._wake.close()
            self._waker.close()
