"""The queue of messages for one caller, and whether the caller is still connected."""

import contextlib
import select
import socket
import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, Self

Message = dict[str, Any]


class Outbox:
    """The queue. A thread that adds a message never waits. A thread that waits for a message wakes up as soon as the
    caller disconnects.
    """

    def __init__(self, caller: socket.socket) -> None:
        self._caller = caller
        self._queue: deque[Message] = deque()
        self._lock = threading.Lock()
        self._wake, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self.caller_left: Future[None] = Future()
        """Done when the caller has disconnected."""

    def put(self, message: Message) -> bool:
        """Add a message. Returns False if the caller has disconnected. May be called from any thread."""
        with self._lock:
            if self.caller_left.done():
                return False
            self._queue.append(message)
            with contextlib.suppress(BlockingIOError):  # the reader is awake already
                self._waker.send(b"x")
            return True

    def next(self) -> Message:
        """Wait for a message and return it. Raises ConnectionResetError when the caller has disconnected."""
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
                if not self._queue:  # and no message can be added any more
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
