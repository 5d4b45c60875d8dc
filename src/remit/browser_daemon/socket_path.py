"""The folder of a workspace's browser host in the state directory. Other users cannot open it."""

import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from remit.core.errors import EnvironmentFailureError, Reason
from remit.fs.atomic_write import make_private_directory
from remit.fs.state_dir import StateDirectory

SOCKET: Final = "host.sock"
LOCK: Final = "host.lock"
LOG: Final = "host.log"
MAX_LOG: Final = 4 << 20


class DaemonFolder:
    """The run folder. Sockets are opened through its descriptor, because a path may be too long for a socket's name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of(cls, state: StateDirectory) -> Self:
        return cls(state.path / "browser" / "host")

    def clear(self) -> None:
        """Remove a socket whose host has ended."""
        (self.folder / SOCKET).unlink(missing_ok=True)

    def make(self) -> None:
        make_private_directory(self.folder.parent)
        make_private_directory(self.folder)

    @property
    def log(self) -> Path:
        return self.folder / LOG

    @contextlib.contextmanager
    def _short_socket_path(self) -> Iterator[str]:
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield f"/proc/self/fd/{descriptor}/{SOCKET}"
        finally:
            os.close(descriptor)

    def connect(self, seconds: float | None = None) -> socket.socket | None:
        """Connect to the host. None if no host listens. Raises TimeoutError if it does not accept within `seconds`."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        connection.settimeout(seconds)
        try:
            with self._short_socket_path() as path:
                connection.connect(path)
            require_same_user(connection)
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            return None
        except BaseException:
            connection.close()
            raise
        return connection

    def listen(self) -> socket.socket:
        """Listen on a new socket. Only the holder of the lock may call this. It replaces the socket of a dead host."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        with contextlib.suppress(FileNotFoundError):
            (self.folder / SOCKET).unlink()
        old_umask = os.umask(0o177)
        try:
            with self._short_socket_path() as path:
                listener.bind(path)
        finally:
            os.umask(old_umask)
        listener.listen(64)
        return listener

    def lock(self) -> int | None:
        """Acquire the lock. It is held while the returned descriptor is open. None if another host holds it."""
        descriptor = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def open_log(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.log, flags, 0o600)
        if os.fstat(descriptor).st_size > MAX_LOG:
            os.ftruncate(descriptor, 0)
        return descriptor


def require_same_user(connection: socket.socket) -> None:
    """Refuse a peer of another user. Tokens and the content of pages are sent over the socket."""
    user = peer_user(connection)
    if user != os.geteuid():
        raise EnvironmentFailureError(
            Reason.STATE_UNSAFE,
            f"the other end of the browser host's socket belongs to user {user}",
            next_step="Find and end the process of that user that owns the socket.",
        )


def peer_user(connection: socket.socket) -> int:
    return _peer_credentials(connection)[1]


def open_peer(connection: socket.socket) -> int:
    """Return a descriptor of the process at the other end. It becomes readable when that process has ended."""
    return os.pidfd_open(_peer_credentials(connection)[0])


def _peer_credentials(connection: socket.socket) -> tuple[int, int]:
    """Return the peer's process and user, as they were when it began to listen or to connect."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    process, user, _ = struct.unpack("3i", credentials)
    return process, user
