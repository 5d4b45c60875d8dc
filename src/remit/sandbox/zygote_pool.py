"""The host's side of the zygote: it starts the zygote, requests children in advance, and closes it with the host."""

import _socket  # its objects are closed by C when they are lost
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final

from remit.core import faultpoints
from remit.core.errors import SANDBOX_OPTION, EnvironmentFailureError, Reason
from remit.sandbox.orders import Build, Quotas
from remit.sandbox.zygote import HOW_ENDED, MAX_PACKET, MORE

AHEAD: Final = 4
"""The number of children that are forked in advance."""
AT_ONCE: Final = 2
"""The least number of children in one request. Pages that the zygote writes after a fork are copied once for all."""

START_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 10.0
"""A fork takes a millisecond. A zygote that does not answer within this time is stopped or hangs."""
STOP_SECONDS: Final = 5.0

TASKS: Final = Build()

Packet = tuple[bytes, list[tuple[int, int, bytes]], int, Any]

_ANCILLARY_BYTES: Final = _socket.CMSG_SPACE(2 * 4)
_POP: Final[Callable[[Any], Any]] = deque.popleft
_LAST: Final = list.pop

_PACKAGES: Final = str(Path(__file__).resolve().parents[2])
"""The folder that contains this package."""

_PROGRAM: Final = (
    "import json, sys; settings = json.loads(sys.argv[1]); sys.path.extend(settings['paths']); "
    "from remit.sandbox.zygote import main; main(settings)"
)


class ZygoteGoneError(Exception):
    """Raised if the zygote ended unexpectedly. The next call starts another."""


class ZygoteStuckError(Exception):
    """Raised if the zygote runs and does not answer."""


class ChildHandle:
    """The use of a child by one caller. When it is `over`, or this object is lost, the child is closed."""

    __slots__ = ("__weakref__", "over")

    def __init__(self) -> None:
        self.over = False


class Child:
    """A process that waits for its order: its id, the host's end of its socket, and a descriptor to kill it.

    `descriptors` are the numbers of all descriptors of this child. Only `close` and `detach` close them.
    """

    __slots__ = ("channel", "descriptors", "is_dead", "pid", "pidfd", "user")

    def __init__(self, pid: int, channel: int, pidfd: int) -> None:
        self.pid = pid
        self.channel = channel
        self.pidfd = pidfd
        self.descriptors = [channel, pidfd]
        self.user: weakref.ref[ChildHandle] | None = None
        """None while the child waits. The reference is weak, because an interrupted caller may lose its handle."""
        self.is_dead = False
        """True when the host has seen the end of the process."""

    def signal(self, number: int) -> None:
        if self.descriptors:  # the number of a closed descriptor may belong to another process
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)

    def close(self) -> None:
        """Kill the process unless it is dead, and close its descriptors. Can be called again."""
        if not self.is_dead:
            self.signal(signal.SIGKILL)
        close_all(self.descriptors)

    def is_abandoned(self) -> bool:
        if self.user is None:
            return False
        user = self.user()
        return user is None or user.over


class Zygote:
    """One running zygote. Thread-safe.

    An interrupt can come between any two steps of Python, but not within a call in C. So each descriptor from the
    kernel is stored by the same call that fetches it. All other work can be done twice.
    """

    def __init__(
        self,
        effects: Sequence[str],
        quotas: Quotas,
        *,
        confined: bool,
        lock: int,
        import_paths: Sequence[str],
        build: Build = TASKS,
    ) -> None:
        self.resident = 0
        self._guard = threading.Lock()
        self._requested: deque[int] = deque()
        """One item for each child that was requested and has not arrived."""
        self._packets: deque[Packet] = deque()
        self._children: dict[int, Child] = {}
        try:
            self._control, theirs = _socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            settings = {
                "control": theirs.fileno(),
                "lock": lock,
                "host": os.getpid(),
                "effects": list(effects),
                "confined": confined,
                "memory_bytes": quotas.memory_bytes,
                "write_bytes": quotas.write_bytes,
                "exchanges": build.exchanges,
                "engine": build.engine,
                "program": build.program,
                "network": build.network,
                "open_files": build.open_files,
                "announces": build.announces or faultpoints.is_announcing(),
                "paths": [_PACKAGES, *import_paths, *(site_folders() if build.program else ())],
            }
            try:
                self._process = start_program(settings)
            except BaseException:
                self._control.close()
                raise
            finally:
                theirs.close()
        except OSError as problem:
            raise EnvironmentFailureError(
                Reason.SANDBOX_UNAVAILABLE,
                f"the process that sandboxes are forked from could not be started: {problem}",
                next_step="Run fewer requests at once, or raise the limits on processes and open files"
                " (ulimit -u, ulimit -n).",
            ) from problem

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ready(self) -> int:
        """The number of children that wait for an order and have arrived. Takes no lock, because it is for metrics."""
        return sum(child.user is None and bool(child.descriptors) for child in tuple(self._children.values()))

    def wait_until_ready(self) -> None:
        """Wait until the zygote is ready.

        Raises EnvironmentFailureError, for example if an effect cannot be imported, and ZygoteGoneError if it died.
        """
        self._control.settimeout(START_SECONDS)
        try:
            message = self._next()
        except TimeoutError:
            raise EnvironmentFailureError(
                Reason.SANDBOX_UNAVAILABLE,
                f"the process that sandboxes are forked from was not ready after {START_SECONDS:g} seconds",
                next_step="The import of a registered effect must not wait. If no effect waits, try again.",
            ) from None
        if message["kind"] != "ready":
            raise EnvironmentFailureError(
                Reason.SANDBOX_UNAVAILABLE,
                f"the effects could not be loaded: {message.get('what', '')}",
                where=message.get("where", ""),
                next_step="Every registered effect must be importable with only the standard library and Remit.",
            )
        self.resident = message["resident"]
        self._control.settimeout(ANSWER_SECONDS)

    def claim_child(self, user: ChildHandle) -> Child:
        """Return a child that waits for its order. It belongs to `user` until that is over.

        Call `fork_ahead` after it has its order.
        """
        with self._guard:
            try:
                while self._packets:
                    self._receive_packet()  # left by an interrupted caller; its child must be stored first
                self._sweep()
                while not (waiting := self._waiting()):
                    if not self._requested:
                        self._request_children(1 + AHEAD)
                    self._next()
            except TimeoutError:
                raise ZygoteStuckError from None
            except OSError:
                raise ZygoteGoneError from None
            waiting[0].user = weakref.ref(user)
            return waiting[0]

    def fork_ahead(self) -> None:
        """Request children in advance, after a child has its order.

        Earlier, the zygote would compete with that child for a processor.
        """
        if self._guard.locked():
            return  # another thread is claiming a child, and requests some if there is none
        with self._guard:
            missing = AHEAD - len(self._requested) - len(self._waiting())
            if missing >= AT_ONCE:
                with contextlib.suppress(OSError):  # the next claim of a child reports it
                    self._request_children(missing)

    def wait_status(self, pid: int) -> int | None:
        """Return the wait status of a dead child, or None if it is not known any more."""
        with self._guard:
            try:
                self._control.send(HOW_ENDED + str(pid).encode())
                while True:
                    message = self._next()
                    if message["kind"] == "ended" and message["pid"] == pid:
                        status: int | None = message["status"]
                        return status
            except (OSError, ZygoteGoneError, EnvironmentFailureError):
                return None

    def close(self, *, at_once: bool = False) -> bool:
        """End the zygote and its children.

        The zygote sees the end of its socket, kills its children, and ends. If it does not, it is killed, and the
        kernel kills its children. Can be called again. Returns whether no caller uses one of its children.
        """
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for a child
        if at_once:
            self._process.kill()
        with self._guard:
            self._control.close()
            while self._packets:
                self._receive_packet()
            for child in self._waiting():
                child.close()
            self._sweep()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        return not self._children

    def exit_description(self) -> str:
        """Return how the zygote ended, as a text. Called after `close`."""
        code = self._process.returncode
        return f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"

    def detach(self) -> None:
        """Close the descriptors in a process that was forked from the host, and nothing that the host still uses.

        Takes no lock, because the thread that held it is not in this process.
        """
        self._control.close()
        while self._packets:
            self._receive_packet()
        for child in tuple(self._children.values()):
            close_all(child.descriptors)
        self._process.returncode = 0  # it is not a child of this process, so there is nothing to wait for

    def _request_children(self, count: int) -> None:
        # One call in C sends the request and stores one item for each byte that was sent.
        sent = map(self._control.send, (MORE * count,))
        self._requested.extend(chain.from_iterable(map(repeat, (1,), sent)))

    def _waiting(self) -> list[Child]:
        return [child for child in self._children.values() if child.user is None and child.descriptors]

    def _sweep(self) -> None:
        """Close the children whose caller was interrupted before it closed them."""
        for number, child in tuple(self._children.items()):
            if child.descriptors and child.is_abandoned():
                child.close()
            if not child.descriptors:
                self._children.pop(number, None)

    def _next(self) -> dict[str, Any]:
        """Return the next message. A child that comes with it is stored when this returns."""
        if not self._packets:
            receive = self._control.recvmsg
            try:
                self._packets.extend(map(receive, (MAX_PACKET,), (_ANCILLARY_BYTES,), (socket.MSG_CMSG_CLOEXEC,)))
            except TimeoutError:
                raise
            except OSError:
                raise ZygoteGoneError from None
        message = self._receive_packet()
        if message["kind"] == "gone":
            raise ZygoteGoneError
        if message["kind"] == "failed":
            raise EnvironmentFailureError(
                Reason.SANDBOX_UNAVAILABLE,
                message["what"],
                next_step="Run fewer requests at once, or raise the limits on processes and open files"
                " (ulimit -u, ulimit -n).",
            )
        return message

    def _receive_packet(self) -> dict[str, Any]:
        """Handle the oldest packet. After an interrupt, the next call begins with the same packet."""
        raw, extras, _, _ = self._packets[0]
        message: dict[str, Any] = json.loads(raw) if raw else {"kind": "gone"}
        descriptors = [number for _, _, numbers in extras for number in memoryview(numbers).cast("i")]
        if message["kind"] not in {"child", "failed"}:
            self._packets.popleft()
            return message
        if len(descriptors) == 2:
            self._children.setdefault(message["number"], Child(message["pid"], *descriptors))
            descriptors.clear()
        elif message["kind"] == "child":
            message = {"kind": "failed", "what": "this process has no file descriptor left for another sandbox"}
        list(map(_POP, (self._requested, self._packets)))
        close_all(descriptors)
        return message


def close_all(descriptors: list[int]) -> None:
    """Close each descriptor once, even after interrupts: a closed number is removed from the list."""
    while descriptors:
        with contextlib.suppress(OSError):
            list(map(os.close, map(_LAST, [descriptors] * len(descriptors))))


def site_folders() -> list[str]:
    """Return the folders of packages installed for this Python. The isolated zygote does not know them."""
    return list(dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib")))


def start_program(settings: dict[str, Any]) -> subprocess.Popen[bytes]:
    # Isolated (-I -S), so that neither the environment nor a folder of the caller can add code.
    options = ["-I", "-S", "-X", "utf8", "-X", SANDBOX_OPTION, *(["-B"] if sys.dont_write_bytecode else [])]
    return subprocess.Popen(  # noqa: S603 - this interpreter and this package
        [sys.executable, *options, "-c", _PROGRAM, json.dumps(settings)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        pass_fds=[settings["control"], settings["lock"]],
        # Ctrl-C at the terminal must reach only the host, which then ends the processes.
        start_new_session=True,
    )
