"""The zygote as the host holds it: started when needed, asked for children ahead of need, closed with the host."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from remit.errors import EnvironmentFailed, Reason
from remit.sandbox.orders import Quotas
from remit.sandbox.zygote import HOW_ENDED, MAX_PACKET, MORE

AHEAD: Final = 4
"""Children that are forked before anybody asks."""

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 5.0

_PACKAGES: Final = str(Path(__file__).resolve().parents[2])
"""The folder that this package was found in."""

_PROGRAM: Final = (
    "import json, sys; settings = json.loads(sys.argv[1]); sys.path.extend(settings['paths']); "
    "from remit.sandbox.zygote import main; main(settings)"
)


class ZygoteGone(Exception):
    """It ended without being asked to. The next call starts another."""


@dataclass(frozen=True, slots=True)
class Child:
    """A process that waits for its order: its id, our end of its socket, and a descriptor to kill it by."""

    pid: int
    channel: socket.socket
    pidfd: int

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def close(self) -> None:
        """Let go of it. It is killed, in case that something interrupted whoever should have done so."""
        self.signal(signal.SIGKILL)
        self.channel.close()
        os.close(self.pidfd)


class Zygote:
    """One running zygote. Thread-safe."""

    def __init__(
        self, effects: Sequence[str], quotas: Quotas, *, confined: bool, lock: int, import_paths: Sequence[str]
    ) -> None:
        self._asked = 0
        self._ready: deque[Child] = deque()
        self._guard = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        settings = {
            "control": theirs.fileno(),
            "lock": lock,
            "host": os.getpid(),
            "effects": list(effects),
            "confined": confined,
            "memory_bytes": quotas.memory_bytes,
            "write_bytes": quotas.write_bytes,
            "paths": [_PACKAGES, *import_paths],
        }
        try:
            with theirs:
                self._process = _start(settings)
        except OSError as problem:
            self._control.close()
            raise EnvironmentFailed(
                Reason.SANDBOX_UNAVAILABLE,
                f"the process that sandboxes are forked from could not be started: {problem}",
                next_step="`remit doctor` shows what holds on this machine.",
            ) from problem
        self.resident = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Raises with what went wrong, such as an effect that cannot be imported."""
        self._control.settimeout(START_SECONDS)
        try:
            message, _ = self._receive()
        except (TimeoutError, ZygoteGone):
            message = {"kind": "broken", "what": "it did not answer"}
        self._control.settimeout(None)
        if message["kind"] != "ready":
            raise EnvironmentFailed(
                Reason.SANDBOX_UNAVAILABLE,
                f"the effects could not be loaded: {message.get('what', '')}",
                where=message.get("where", ""),
                next_step="Every registered effect must be importable, with the standard library and Remit alone.",
            )
        self.resident = message["resident"]

    def take(self) -> Child:
        """A child that waits for its order. Another one is asked for at once."""
        with self._guard:
            try:
                while self._asked + len(self._ready) <= AHEAD:
                    self._control.send(MORE)
                    self._asked += 1
            except OSError:
                raise ZygoteGone from None
            return self._ready.popleft() if self._ready else self._receive_child()

    def ended(self, pid: int) -> int | None:
        """The wait status of a child that is dead, if it is still known."""
        with self._guard:
            try:
                self._control.send(HOW_ENDED + str(pid).encode())
                while True:
                    message, descriptors = self._receive()
                    if message["kind"] == "ended" and message["pid"] == pid:
                        status: int | None = message["status"]
                        return status
                    self._keep(message, descriptors)
            except (OSError, ZygoteGone, EnvironmentFailed):
                return None

    def close(self) -> None:
        """The zygote sees the end of its socket, kills its children, and ends."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for a child
        with self._guard:
            self._control.close()
            while self._ready:
                self._ready.popleft().close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def forget(self) -> None:
        """In a process that was forked from the host: let go, and touch nothing that the host still uses."""
        self._control.close()
        self._process.returncode = 0  # not our child: nothing to wait for

    def _receive_child(self) -> Child:
        while not self._ready:
            message, descriptors = self._receive()
            self._keep(message, descriptors)
        return self._ready.popleft()

    def _keep(self, message: dict[str, Any], descriptors: list[int]) -> None:
        if message["kind"] == "child" and len(descriptors) == 2:
            self._asked -= 1
            channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=descriptors[0])
            self._ready.append(Child(message["pid"], channel, descriptors[1]))
            return
        for descriptor in descriptors:
            os.close(descriptor)
        if message["kind"] in {"child", "failed"}:
            self._asked -= 1
            raise EnvironmentFailed(
                Reason.SANDBOX_UNAVAILABLE,
                message.get("what", "this process has no file descriptor left for another sandbox"),
                next_step="Run less at once, or raise the limits on processes and open files (ulimit -u, ulimit -n).",
            )

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        try:
            raw, descriptors, _, _ = socket.recv_fds(self._control, MAX_PACKET, 2, socket.MSG_CMSG_CLOEXEC)
        except TimeoutError:
            raise
        except OSError:
            raise ZygoteGone from None
        if not raw:
            raise ZygoteGone
        message: dict[str, Any] = json.loads(raw)
        return message, descriptors


def _start(settings: dict[str, Any]) -> subprocess.Popen[bytes]:
    # Isolated (-I -S): neither the environment nor a folder of the caller's can add code.
    bytecode = ["-B"] if sys.dont_write_bytecode else []
    return subprocess.Popen(  # noqa: S603 - this interpreter and this package
        [sys.executable, "-I", "-S", "-X", "utf8", *bytecode, "-c", _PROGRAM, json.dumps(settings)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        pass_fds=[settings["control"], settings["lock"]],
        # Ctrl-C at the terminal is for the host, which then kills what it must.
        start_new_session=True,
    )
