"""The process that the children are forked from: small, one thread, effects imported, everything prepared.

Started by `sandbox.pool` as a program of its own, with an empty environment and isolated from the caller's folders, so
that it has never held a key. It talks to the host only, over a socket of packets; when that closes or the host dies, it
kills and reaps its children and ends.
"""

import _socket  # the module around it costs 1 MB, which every fork pays for
import array
import contextlib
import fcntl
import gc
import importlib
import json
import os
import resource
import select
import signal
from typing import Any, Final, NoReturn

from remit.effects.work import Effect
from remit.sandbox.child import Cell, Channel, Walls, be_born, describe, limit, live, rehearse
from remit.sandbox.landlock import Landlock
from remit.sandbox.privileges import ON_FILES, WITHOUT_MAKING_PROGRAMS, Privileges, promise_no_new_privileges
from remit.sandbox.seccomp import LOCK_DESCRIPTOR, prepare_filters

MORE: Final = b"+"
HOW_ENDED: Final = b"?"
MAX_PACKET: Final = 4_096

_FIRST_FREE: Final = 10
_REMEMBERED: Final = 512
_REHEARSALS: Final = 20


def main(settings: dict[str, Any]) -> NoReturn:
    """Serve until the host is gone. `settings` come from `sandbox.pool.Zygote`."""
    control = _tidy(settings["control"], settings["lock"])
    try:
        cell = _prepare(settings)
    except BaseException as problem:  # noqa: BLE001 - importing an effect can raise anything, and the host is to know
        control.send(json.dumps({"kind": "broken", **describe(problem)}).encode()[:MAX_PACKET])
        os._exit(1)
    _Nursery(cell, control, settings["host"]).serve()


def _tidy(control: int, lock: int) -> _socket.socket:
    """Descriptors at known places, no signal blocked, no environment."""
    kept = fcntl.fcntl(control, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
    locked = fcntl.fcntl(lock, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
    os.closerange(LOCK_DESCRIPTOR, _FIRST_FREE)
    for inherited in {control, lock} - {kept, locked}:
        with contextlib.suppress(OSError):
            os.close(inherited)
    os.dup2(locked, LOCK_DESCRIPTOR)
    os.close(locked)
    os.environ.clear()
    os.chdir("/")
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it: past the limit it is to kill
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, fileno=kept)


def _prepare(settings: dict[str, Any]) -> Cell:
    effects = {name: load_effect(name) for name in settings["effects"]}
    confined = settings["confined"]
    if confined:
        Privileges(ON_FILES).keep_only_these()
        promise_no_new_privileges()
    walls = Walls(Landlock(), prepare_filters(), Privileges(WITHOUT_MAKING_PROGRAMS)) if confined else None
    cell = Cell(effects=effects, zygote=os.getpid(), walls=walls)
    for _ in range(_REHEARSALS):
        rehearse(cell, Channel())
    gc.collect()
    # Objects that the collector never touches stay on pages that the children share.
    gc.freeze()
    gc.disable()
    os.umask(0)  # not before: importing may write byte code, which nobody else is to change
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, settings["write_bytes"])
    limit(resource.RLIMIT_AS, mapped_and_resident()[0] + settings["memory_bytes"])
    return cell


def load_effect(name: str) -> Effect:
    """`package.module:name`."""
    module, _, attribute = name.partition(":")
    effect: Effect = getattr(importlib.import_module(module), attribute)
    return effect


def mapped_and_resident() -> tuple[int, int]:
    """This process's own memory, in bytes."""
    with open("/proc/self/statm", "rb", buffering=0) as statm:
        pages = statm.read().split()
    size = os.sysconf("SC_PAGE_SIZE")
    return int(pages[0]) * size, int(pages[1]) * size


class _Nursery:
    """The loop, and the children it has not reaped yet."""

    def __init__(self, cell: Cell, control: _socket.socket, host: int) -> None:
        self._cell = cell
        self._control = control
        self._host = host
        self._living: set[int] = set()
        self._ended: dict[int, int] = {}
        self._born = 0
        self._busy = False

    def serve(self) -> NoReturn:
        try:
            self._serve()
        finally:
            self._end()  # whatever happened, no child is left behind

    def _serve(self) -> None:
        watched = select.poll()
        watched.register(self._control, select.POLLIN)
        watched.register(os.pidfd_open(self._host), select.POLLIN)
        if os.getppid() != self._host:
            return  # it died before we could watch it
        signal.signal(signal.SIGCHLD, self._reap)
        _, resident = mapped_and_resident()
        self._answer({"kind": "ready", "resident": resident})
        while True:
            ready = watched.poll()
            # The host may be dead while a process that it forked still holds its end of the socket.
            if any(descriptor != self._control.fileno() for descriptor, _ in ready):
                return
            packet = self._control.recv(MAX_PACKET)
            if packet == MORE:
                self._fork()
            elif packet.startswith(HOW_ENDED):
                self._reap()
                pid = int(packet[1:])
                self._answer({"kind": "ended", "pid": pid, "status": self._ended.pop(pid, None)})
            else:
                return

    def _fork(self) -> None:
        try:
            ours, theirs = _socket.socketpair()
        except OSError as problem:
            self._answer({"kind": "failed", "what": f"a process could not be started: {problem}"})
            return
        try:
            ours.setblocking(False)  # for the host, which must never wait for what a child says
            pid, pidfd = self._fork_one(theirs)
            self._born += 1
            try:
                self._answer({"kind": "child", "number": self._born, "pid": pid}, [ours.fileno(), pidfd])
            finally:
                os.close(pidfd)
        except ConnectionError:
            raise
        except OSError as problem:
            self._answer({"kind": "failed", "what": f"a process could not be started: {problem}"})
        finally:
            ours.close()
            theirs.close()
        self._reap()

    def _fork_one(self, channel: _socket.socket) -> tuple[int, int]:
        self._busy = True
        try:
            pid = os.fork()
            if pid == 0:
                self._become_a_child(channel)
            self._living.add(pid)
            return pid, os.pidfd_open(pid)
        finally:
            self._busy = False

    def _become_a_child(self, channel: _socket.socket) -> NoReturn:
        try:
            be_born(self._cell, channel.fileno())
            live(self._cell)
        finally:
            os._exit(1)  # whatever it was, this process must not run on as a second zygote

    def _answer(self, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        self._control.sendmsg([json.dumps(message).encode()], rights)

    def _reap(self, *_: object) -> None:
        """Also called by SIGCHLD, at any moment: not within itself, nor before a new child is remembered."""
        if self._busy:
            return
        self._busy = True
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                self._living.discard(found[0])
                self._ended[found[0]] = found[1]
                if len(self._ended) > _REMEMBERED:
                    del self._ended[next(iter(self._ended))]
        except ChildProcessError:
            pass
        finally:
            self._busy = False

    def _end(self) -> NoReturn:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for pid in tuple(self._living):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
        os._exit(0)
