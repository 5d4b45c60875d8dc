"""Where this workspace is served, for other commands to know: a file in the state directory, true while it is locked.

A server that died leaves the file behind and no lock: then nobody serves.
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

FILE: Final = "served.json"


class Served(Contract):
    """A server that runs now."""

    url: Annotated[str, Field(min_length=1, max_length=500)]
    pid: Count
    since: Timestamp


@contextlib.contextmanager
def announced(state: StateDirectory, url: str, clock: Clock) -> Iterator[Served]:
    """For as long as the block lasts. Refuses where another server is at it."""
    path = state.path / FILE
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if not _locked(descriptor):
            raise _served_already(find_served(state))
        served = Served(url=url, pid=os.getpid(), since=render_time(clock()))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, served.canonical(), 0)
        yield served
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def require_unserved(state: StateDirectory) -> None:
    """Refuses while a server runs; sooner than a port that is taken would."""
    if found := find_served(state):
        raise _served_already(found)


def _locked(descriptor: int) -> bool:
    """Tried for a moment: whoever looks whether there is a server holds the lock while he looks."""
    for _ in range(5):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.02)
    return False


def find_served(state: StateDirectory) -> Served | None:
    """The server of this workspace, if one runs."""
    try:
        with open(state.path / FILE, "rb") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                raw = read_bounded(stream, Served.bounds, source=FILE)
                return Served.parse(raw, source=FILE)
    except (OSError, RemitError):
        return None
    return None


def console_address(workspace: "Workspace") -> str | None:
    """Where people find the console, for links in the answers of other processes than the server itself."""
    if (public := workspace.opened_with.web.public_url) is not None:
        return public
    served = find_served(workspace.state)
    return served.url if served is not None else None


def _served_already(other: Served | None) -> RefusedError:
    return RefusedError(
        Reason.IN_PROGRESS,
        "this workspace is served already" + (f", by process {other.pid}" if other else ""),
        where=other.url if other else FILE,
        next_step="Use that one, or stop it first: press Ctrl-C where it runs, or end its process.",
    )
