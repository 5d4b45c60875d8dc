"""Zygotes that have imported their effects already, for the programs of `preloaded`: forked instead of started.

As a program this runs as zygotes do, isolated and without an environment: one process that each request comes to, and
one for each kind of zygote, which has imported its effects and is forked for each. All else a zygote does itself. See
README.md beside this file.
"""

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

_LENGTH: Final = struct.Struct("!I")
_NUMBER: Final = struct.Struct("!i")
_LONGEST: Final = 65_536
_PATIENCE: Final = 30.0

_running: Final[list[subprocess.Popen[bytes]]] = []
"""For as long as it is referred to, its input is open."""


class Started:
    """One of them, as `subprocess.Popen` would show it: whoever forked it says how it ended."""

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._line = line
        self._process = os.pidfd_open(pid)

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._line], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("zygote", timeout or 0)
            told = self._line.recv(_NUMBER.size, socket.MSG_WAITALL)
            self.returncode = os.waitstatus_to_exitcode(*_NUMBER.unpack(told)) if told else -signal.SIGKILL
            self._line.close()
            os.close(self._process)
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)


def starter(address: str, otherwise: Callable[[dict[str, Any]], Any]) -> Any:
    """For the place of `remit.sandbox.zygote_pool.start_program`, which serves if nobody answers here."""

    def start(settings: dict[str, Any]) -> Any:
        line = socket.socket(socket.AF_UNIX)
        try:
            line.settimeout(_PATIENCE)
            line.connect(address)
            whole = json.dumps(settings).encode()
            socket.send_fds(line, [_LENGTH.pack(len(whole))], [settings["control"], settings["lock"]])
            line.sendall(whole)
            (pid,) = _NUMBER.unpack(line.recv(_NUMBER.size, socket.MSG_WAITALL))
            line.settimeout(None)
            return Started(pid, line)
        except (OSError, struct.error):
            line.close()
            return otherwise(settings)

    return start


def run(address: str, option: str) -> None:
    """The program, which ends when its input does: with this process."""
    flags = ["-I", "-S", "-X", "utf8", "-X", option, *(["-B"] if sys.dont_write_bytecode else [])]
    command = [sys.executable, *flags, str(Path(__file__).resolve()), address]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={})
    assert started.stdout is not None
    with started.stdout:
        assert started.stdout.readline() == b"ready\n"
    _running.append(started)


def main(address: str) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kinds: dict[str, socket.socket] = {}
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        os.write(1, b"ready\n")
        while 0 not in select.select([listening.fileno(), 0], [], [])[0]:
            line, _ = listening.accept()
            with line, contextlib.suppress(OSError, struct.error, ValueError):
                _pass_on(line, kinds)
    os._exit(0)


def _pass_on(line: socket.socket, kinds: dict[str, socket.socket]) -> None:
    head, descriptors, _, _ = socket.recv_fds(line, _LENGTH.size, 2)
    try:
        settings = json.loads(line.recv(_LENGTH.unpack(head)[0], socket.MSG_WAITALL))
        kind = json.dumps([settings["paths"], settings["effects"]])
        if kind not in kinds:
            kinds[kind] = _begin(settings, line, descriptors)
        socket.send_fds(kinds[kind], [json.dumps(settings).encode()], [*descriptors, line.fileno()])
    finally:
        for number in descriptors:
            os.close(number)


def _begin(settings: dict[str, Any], line: socket.socket, descriptors: list[int]) -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        line.close()
        for number in descriptors:
            os.close(number)
        try:
            _serve_one_kind(settings, theirs)
        finally:
            os._exit(1)
    theirs.close()
    return ours


def _serve_one_kind(settings: dict[str, Any], orders: socket.socket) -> None:
    sys.path.extend(settings["paths"])
    zygote = importlib.import_module("remit.sandbox.zygote")
    with contextlib.suppress(BaseException):  # the zygote will meet it again, and tell
        for effect in settings["effects"]:
            zygote.load_effect(effect)
    while True:
        told, descriptors, _, _ = socket.recv_fds(orders, _LONGEST, 3)
        if not told:
            return
        if os.fork() == 0:
            try:
                _attend(json.loads(told), descriptors, zygote.main)
            finally:
                os._exit(0)
        for number in descriptors:
            os.close(number)


def _attend(settings: dict[str, Any], descriptors: list[int], become: Callable[[dict[str, Any]], NoReturn]) -> None:
    """Fork it, and tell whoever asked for it who it is, and how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    control, lock, line = descriptors
    pid = os.fork()
    if pid == 0:
        try:
            _be_alone(control, lock)
            zygote, parent = os.getpid(), os.getppid
            os.getppid = lambda: settings["host"] if os.getpid() == zygote else parent()
            become({**settings, "control": control, "lock": lock})
        finally:
            os._exit(1)
    os.close(control)
    os.close(lock)
    told = socket.socket(fileno=line)
    with contextlib.suppress(OSError):
        told.sendall(_NUMBER.pack(pid))
    status = os.waitpid(pid, 0)[1]
    with contextlib.suppress(OSError):
        told.sendall(_NUMBER.pack(status))


def _be_alone(*kept: int) -> None:
    """As a program that was started: a session of its own, and only these descriptors."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    for number in [int(name) for name in os.listdir("/proc/self/fd")]:
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)


if __name__ == "__main__":
    main(sys.argv[1])
