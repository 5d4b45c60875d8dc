"""The client of a workspace's browser host. It starts the host if there is none."""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from remit.browser_daemon.framing import error_from_frame, receive_frame, send_frame
from remit.browser_daemon.socket_path import DaemonFolder, open_peer
from remit.contracts.browser.browser import ActionResult
from remit.core.errors import EnvironmentFailureError, Reason

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 30.0
SENDING_SECONDS: Final = 10.0
"""How long a caller that does not wait for a person waits for the result after the approval."""
_started: Final[set[int]] = set()
"""Hosts that are children of this process and that it has not reaped yet."""


class PendingApproval(NamedTuple):
    """An approval request that the action waits for, or that a person has just answered."""

    approval_id: str
    expires: str
    what: str
    state: str = "PENDING"

    @property
    def is_open(self) -> bool:
        return self.state == "PENDING"


class ActionReply(NamedTuple):
    result: ActionResult
    refused: bool
    """Whether the action was refused, so that nothing was claimed or done."""
    stored: bool
    """Whether this is the stored result of an earlier call."""


class HostClient:
    """The client. `root` is the workspace's folder. `environ` is the environment for a host that has to be started."""

    def __init__(self, root: Path, folder: DaemonFolder, environ: Mapping[str, str]) -> None:
        self._root = root
        self._folder = folder
        self._environ = environ

    def browse(
        self,
        action: bytes,
        token: str,
        *,
        on_waiting: Callable[[PendingApproval], bool] = lambda _: True,
        on_retry: Callable[[int], None] = lambda _: None,
    ) -> ActionReply | None:
        """Run the action and return the result. None if `on_waiting` decided not to wait; the action then goes on in
        the host.

        After an approval the client waits for a while even then, because most results follow at once.
        """
        with self._connect_or_start() as connection:
            _send(connection, {"do": "browse", "action": action.decode("utf-8", "replace"), "token": token})
            while True:
                try:
                    message = _receive(connection)
                except TimeoutError:
                    return None
                if "retrying" in message:
                    on_retry(int(message["retrying"]))
                    continue
                if "waiting" in message:
                    approval = PendingApproval(**message["waiting"])
                    if not on_waiting(approval):
                        if approval.is_open:
                            return None
                        connection.settimeout(SENDING_SECONDS)
                    continue
                result = ActionResult.from_tree(message["result"], source="the browser host's answer")
                return ActionReply(result, bool(message["refused"]), bool(message["stored"]))

    def status(self) -> dict[str, Any] | None:
        """Return the status of the host. None if there is no host."""
        connection = self._folder.connect() if self._folder.folder.exists() else None
        if connection is None:
            return None
        with connection:
            _send(connection, {"do": "status"})
            status = _receive(connection)["status"]
            return dict(status)

    def stop(self) -> int | None:
        """Stop the host and return how many sessions ended with it. None if there was no host. When this returns, the
        process of the host has ended.
        """
        connection = self._folder.connect() if self._folder.folder.exists() else None
        if connection is None:
            return None
        sessions = 0
        with connection, contextlib.ExitStack() as stack:
            connection.settimeout(STOP_SECONDS)
            try:
                process = open_peer(connection)  # now, because after its end another process may get its number
            except ProcessLookupError:
                return None
            stack.callback(os.close, process)
            _send(connection, {"do": "stop"})
            with contextlib.suppress(ConnectionResetError):
                while (message := receive_frame(connection)) is not None:
                    if "error" in message:
                        raise error_from_frame(message["error"])
                    sessions = int(message.get("sessions", 0))
            if not select.select([process], [], [], STOP_SECONDS)[0]:
                raise EnvironmentFailureError(
                    Reason.TIMED_OUT, "the browser host does not end", where=str(self._folder.log)
                )
        return sessions

    @contextlib.contextmanager
    def _connect_or_start(self) -> Any:
        self._folder.make()
        connection = self._folder.connect()
        if connection is None:
            self._start()
            connection = self._folder.connect()
        if connection is None:
            raise _not_started_error("it ended right after its start", self._folder.log)
        with connection:
            yield connection

    def _start(self) -> None:
        """Start the host as a process in a session of its own, so that it outlives this command and its terminal."""
        _reap_ended()
        ready, write_end = os.pipe2(os.O_CLOEXEC)
        log = self._folder.open_log()
        try:
            host = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-P", "-m", "remit.browser_daemon", str(self._root), str(write_end)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=dict(self._environ),
                pass_fds=(write_end,),
                start_new_session=True,
            )
            host.returncode = 0  # no code waits for it, because it outlives a command
            _started.add(host.pid)
        finally:
            os.close(log)
            os.close(write_end)
        with os.fdopen(ready, "rb", buffering=0) as stream:
            message = _read_message(stream.fileno())
        if message != {"ready": True}:
            if "error" in message:
                raise error_from_frame(message["error"])
            raise _not_started_error("it did not report that it is ready", self._folder.log)


def _reap_ended() -> None:
    """Reap hosts that have ended. A server outlives many hosts, and each would stay in the process table until it
    ends.
    """
    for pid in tuple(_started):
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                continue
        _started.discard(pid)


def _read_message(descriptor: int) -> dict[str, Any]:
    """Read one line of JSON. Returns an empty dict if the process ended before, or takes too long."""
    deadline, line = time.monotonic() + START_SECONDS, b""
    while not line.endswith(b"\n"):
        if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            break
        piece = os.read(descriptor, 65_536)
        if not piece:
            break
        line += piece
    try:
        return dict(json.loads(line))
    except ValueError:
        return {}


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send a message. A host that hangs up at once has sent the reason before, so that error is ignored."""
    with contextlib.suppress(ConnectionError):
        send_frame(connection, message)


def _receive(connection: socket.socket) -> dict[str, Any]:
    try:
        message = receive_frame(connection)
    except ConnectionError:
        message = None
    if not isinstance(message, dict):
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            "the browser host ended before it had answered",
            next_step="Its approval requests are void. `remit recover` reports the outcome of the action.",
        )
    if "error" in message:
        raise error_from_frame(message["error"])
    return message


def _not_started_error(why: str, log: Path) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.EFFECT_FAILED,
        f"the browser host could not be started: {why}",
        where=str(log),
        next_step="Read its log.",
    )
