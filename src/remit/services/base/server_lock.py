"""The address of the running server, for other commands: a file in the state directory, valid while it is locked.

A server that died leaves the file without a lock. Then no server runs.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from remit.contracts.base import Contract, Count, Timestamp
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.ids import Clock, render_time
from remit.fs.state_dir import StateDirectory
from remit.parsing import read_bounded

if TYPE_CHECKING:
    from remit.workspace.workspace import Workspace

LOCK_FILE: Final = "served.json"


class RunningServer(Contract):
    """A server that runs now."""

    url: Annotated[str, Field(min_length=1, max_length=500)]
    pid: Count
    since: Timestamp


@contextlib.contextmanager
def announce_server(state: StateDirectory, url: str, clock: Clock) -> Iterator[RunningServer]:
    """Announce a server while the block runs. Refuses if another server runs already."""
    path = state.path / LOCK_FILE
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if not _try_lock(descriptor):
            raise _already_served_error(find_server(state))
        server = RunningServer(url=url, pid=os.getpid(), since=render_time(clock()))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, server.canonical(), 0)
        yield server
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def require_no_server(state: StateDirectory) -> None:
    """Refuse while a server runs. This check comes earlier than the error about a port in use."""
    if found := find_server(state):
        raise _already_served_error(found)


def _try_lock(descriptor: int) -> bool:
    """Try to lock the file for a moment, because a process in `find_server` also holds a lock briefly."""
    for _ in range(5):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.02)
    return False


def find_server(state: StateDirectory) -> RunningServer | None:
    """Find the server of this workspace, if one runs."""
    try:
        with open(state.path / LOCK_FILE, "rb") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                raw = read_bounded(stream, RunningServer.bounds, source=LOCK_FILE)
                return RunningServer.parse(raw, source=LOCK_FILE)
    except (OSError, RemitError):
        return None
    return None


def find_console_url(workspace: "Workspace") -> str | None:
    """Find the address of the console, for links in the answers of processes other than the server."""
    if (public := workspace.initial_config.web.public_url) is not None:
        return public
    server = find_server(workspace.state)
    return server.url if server is not None else None


def _already_served_error(other: RunningServer | None) -> RefusedError:
    return RefusedError(
        Reason.IN_PROGRESS,
        "this workspace already has a server" + (f", process {other.pid}" if other else ""),
        where=other.url if other else LOCK_FILE,
        next_step="Use that server, or stop it first: press Ctrl-C where it runs, or end its process.",
    )
