"""The host's side of the launcher: what it is told, and the listening sockets it hands out of its namespace."""

import asyncio
import errno
import json
import os
import shlex
import socket
import struct
import sys
from pathlib import Path
from typing import Final, NamedTuple

from remit.browser.chromium import launcher
from remit.errors import EnvironmentFailed, Reason

LISTENERS: Final = 32
"""As many sessions may be open at a time."""

_DOOR: Final = "door"
_MOST_BYTES: Final = 64 << 10


class Received(NamedTuple):
    pid: int
    """Of the launcher, and so of Chromium, which it becomes."""
    listeners: dict[int, socket.socket]


class Handover:
    """One start of Chromium. `program` is what is to be executed as if it were Chromium."""

    def __init__(self, run_folder: Path, settings: dict[str, object]) -> None:
        self._folder = run_folder
        self.program = run_folder / "chromium"
        paper = run_folder / "launch.json"
        paper.write_text(json.dumps({**settings, "door": str(run_folder / _DOOR), "listeners": LISTENERS}), "utf-8")
        # A shell is between, because a `#!` line has a length that the path of an interpreter may exceed.
        words = [sys.executable, "-I", "-S", launcher.__file__, str(paper)]
        self.program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', "utf-8")
        self.program.chmod(0o700)
        self._door = self._open_door()

    def _open_door(self) -> socket.socket:
        door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        folder = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # A Unix socket's address has at most 107 bytes, so it is reached by way of its folder's descriptor.
            door.bind(f"/proc/self/fd/{folder}/{_DOOR}")
        finally:
            os.close(folder)
        door.listen(1)
        door.setblocking(False)
        return door

    async def receive(self) -> Received:
        """When the launcher has handed over and become Chromium. Raises what it says that it could not do."""
        loop = asyncio.get_running_loop()
        peer, _ = await loop.sock_accept(self._door)
        with peer:
            pid, user, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if user != os.geteuid():
                raise EnvironmentFailed(Reason.SANDBOX_UNAVAILABLE, "somebody else answered for Chromium's launcher")
            first, descriptors = await _next_message(peer)
            sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
            try:
                _raise_failure(first)
                _raise_failure((await _next_message(peer))[0] or b"{}")
            except BaseException:
                for listener in sockets:
                    listener.close()
                raise
        return Received(pid, dict(zip(json.loads(first)["ports"], sockets, strict=True)))

    def close(self) -> None:
        self._door.close()
        for name in (_DOOR, "launch.json", self.program.name):
            (self._folder / name).unlink(missing_ok=True)


async def _next_message(peer: socket.socket) -> tuple[bytes, list[int]]:
    """Empty when the other side has closed, as it does by becoming Chromium."""
    peer.setblocking(False)
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(peer, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(peer)
    try:
        message, descriptors, _, _ = socket.recv_fds(peer, _MOST_BYTES, LISTENERS)
    except ConnectionResetError:
        return b"", []
    return message, descriptors


def _raise_failure(message: bytes) -> None:
    if not message:
        raise EnvironmentFailed(
            Reason.SANDBOX_UNAVAILABLE,
            "the launcher of Chromium died",
            next_step="See `remit doctor`; run again with REMIT_DEBUG=1.",
        )
    told = json.loads(message).get("failed")
    if told is None:
        return
    what, code = str(told["what"]), int(told["errno"])
    why = f": {os.strerror(code)}" if code else ""
    advice = "Set browser.executable, browser.user or the rights of the files so that it can be done."
    if "namespace" in what or "uid_map" in what:
        advice = (
            "Let this user make namespaces (sysctl user.max_user_namespaces; kernel.apparmor_restrict_unprivileged"
            "_userns=0; in a container: a seccomp profile that allows unshare), or run Remit as root."
        )
    if code == errno.ENOSPC and "namespace" in what:
        advice = "sysctl -w user.max_net_namespaces=1000 user.max_user_namespaces=1000"
    raise EnvironmentFailed(
        Reason.SANDBOX_UNAVAILABLE,
        f"Chromium cannot be confined here: could not {what}{why}",
        next_step=f"{advice} `sandbox: unsafe-none` in remit.yaml runs it without, and says so in every result.",
    )
