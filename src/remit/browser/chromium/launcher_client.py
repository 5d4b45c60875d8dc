"""The host's side of the launcher: its settings, and the listening sockets that it sends from its namespace."""

import asyncio
import json
import os
import shlex
import socket
import struct
from pathlib import Path
from typing import Final, NamedTuple

from remit.browser.chromium.confinement import LAUNCHER, raise_failure
from remit.core.errors import EnvironmentFailureError, Reason

LISTENERS: Final = 32
"""The number of sessions that may be open at a time."""

_SOCKET_NAME: Final = "door"
_MAX_BYTES: Final = 64 << 10


class Received(NamedTuple):
    pid: int
    """The process id of the launcher, and so of Chromium, which it becomes."""
    listeners: dict[int, socket.socket]


class Handover:
    """One start of Chromium. `program` is the program to execute in the place of Chromium."""

    def __init__(self, run_folder: Path, settings: dict[str, object]) -> None:
        self._folder = run_folder
        self.program = run_folder / "chromium"
        settings_path = run_folder / "launch.json"
        settings_path.write_text(
            json.dumps({**settings, "door": str(run_folder / _SOCKET_NAME), "listeners": LISTENERS}), "utf-8"
        )
        # A shell script, because the path of an interpreter may be too long for a `#!` line.
        command = [*LAUNCHER, str(settings_path)]
        self.program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', "utf-8")
        self.program.chmod(0o700)
        self._channel = self._open_channel()

    def _open_channel(self) -> socket.socket:
        (self._folder / _SOCKET_NAME).unlink(missing_ok=True)  # of a host that was killed while it started
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        folder = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # A Unix socket's address has at most 107 bytes, so it is bound through its folder's descriptor.
            channel.bind(f"/proc/self/fd/{folder}/{_SOCKET_NAME}")
        finally:
            os.close(folder)
        channel.listen(1)
        channel.setblocking(False)
        return channel

    async def receive(self) -> Received:
        """Wait until the launcher has sent its sockets and become Chromium. Raises the failure that it reports."""
        loop = asyncio.get_running_loop()
        peer, _ = await loop.sock_accept(self._channel)
        with peer:
            pid, user, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if user != os.geteuid():
                raise EnvironmentFailureError(
                    Reason.SANDBOX_UNAVAILABLE, "another process answered in place of Chromium's launcher"
                )
            first, descriptors = await _next_message(peer)
            sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
            try:
                raise_failure(first)
                raise_failure((await _next_message(peer))[0] or b"{}")
            except BaseException:
                for listener in sockets:
                    listener.close()
                raise
        return Received(pid, dict(zip(json.loads(first)["ports"], sockets, strict=True)))

    def close(self) -> None:
        self._channel.close()
        for name in (_SOCKET_NAME, "launch.json", self.program.name):
            (self._folder / name).unlink(missing_ok=True)


async def _next_message(peer: socket.socket) -> tuple[bytes, list[int]]:
    """Return the next message. It is empty when the other end has closed, which happens when it becomes Chromium."""
    peer.setblocking(False)
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(peer, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(peer)
    try:
        message, descriptors, _, _ = socket.recv_fds(peer, _MAX_BYTES, LISTENERS)
    except ConnectionResetError:
        return b"", []
    return message, descriptors
