"""The zygote: the small process from which children are forked. It has one thread and has imported the effects.

`sandbox.zygote_pool` starts it as a separate program, with an empty environment and isolated from the caller's folders,
so that it never has a key. It communicates only with the host, over a packet socket. When that socket closes or the
host dies, the zygote kills and reaps its children and ends.
"""

import _socket  # the module around it costs 1 MB, which every fork pays for
import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import struct
import sys
from typing import Any, Final, NoReturn

from remit.core import faultpoints
from remit.core.errors import RemitError
from remit.core.syscalls import Limit, limit, number_of, prepared, require
from remit.effects.context import Effect
from remit.effects.tasks import rehearsal
from remit.sandbox.child import (
    REHEARSED,
    Channel,
    ChildTemplate,
    Confinement,
    describe,
    initialise_child,
    rehearse,
    run_order,
    write_rehearsal,
)
from remit.sandbox.framing import GO
from remit.sandbox.landlock import LIBRARY, READ_FILE, WRITE_FILE, Landlock
from remit.sandbox.prefault import HotPages, find_private_pages
from remit.sandbox.privileges import ON_FILES, WITHOUT_MAKING_PROGRAMS, Privileges, promise_no_new_privileges
from remit.sandbox.seccomp import LOCK_DESCRIPTOR, prepare_filters

MORE: Final = b"+"
"""The request for one child. A packet may contain several."""
HOW_ENDED: Final = b"?"
MAX_PACKET: Final = 4_096

_CHILD: Final = b'{"kind":"child","number":%d,"pid":%d}'
_FIRST_FREE: Final = 10
_F_DUPFD_CLOEXEC: Final = 1_030
_REMEMBERED: Final = 512
_MANY_FILES: Final = 1 << 20
_REHEARSALS: Final = 20
_TRIAL_SECONDS: Final = 2.0
_FOR_CODE: Final = 1 << 30
"""The bytes that a program may map besides its memory: modules and stacks of threads, most of which stay unused."""
_ZONES: Final = "/usr/share/zoneinfo"
_LOCAL_TIME: Final = "/etc/localtime"
_GROUPS: Final = "/sys/fs/cgroup"
_OWN_GROUP: Final = "/proc/self/cgroup"


def main(settings: dict[str, Any]) -> NoReturn:
    """Serve until the host is gone. `settings` come from `sandbox.zygote_pool.Zygote`."""
    control = _normalise_process(settings["control"], settings["lock"])
    try:
        template = _prepare(settings)
    except BaseException as problem:  # noqa: BLE001 - an import can raise anything, and the host needs the reason
        control.send(json.dumps({"kind": "broken", **describe(problem)}).encode()[:MAX_PACKET])
        os._exit(1)
    _Nursery(template, control, settings["host"]).serve()


def _normalise_process(control: int, lock: int) -> _socket.socket:
    """Move the descriptors to known numbers, unblock all signals, and clear the environment."""
    call = prepared(ctypes.c_long, ctypes.c_long, ctypes.c_long)  # `fcntl`; its module would cost time in every fork
    control_copy, locked = (
        require(call(number_of("fcntl") or 0, number, _F_DUPFD_CLOEXEC, _FIRST_FREE), "fcntl")
        for number in (control, lock)
    )
    os.closerange(LOCK_DESCRIPTOR, _FIRST_FREE)
    for inherited in {control, lock} - {control_copy, locked}:
        with contextlib.suppress(OSError):
            os.close(inherited)
    os.dup2(locked, LOCK_DESCRIPTOR)
    os.close(locked)
    os.environ.clear()
    os.chdir("/")
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, but it must kill past the limit
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, fileno=control_copy)


def _prepare(settings: dict[str, Any]) -> ChildTemplate:
    effects = {name: load_effect(name) for name in settings["effects"]}
    effects[REHEARSED] = rehearsal.EFFECT
    confined = settings["confined"]
    if confined:
        Privileges(ON_FILES).drop_all_others()
        promise_no_new_privileges()
    program = settings["program"]
    filters = prepare_filters(
        exchanges=settings["exchanges"], engine=settings["engine"], program=program, network=settings["network"]
    )
    libraries = libraries_of_programs() if program else {}
    confinement = Confinement(Landlock(), filters, Privileges(WITHOUT_MAKING_PROGRAMS), libraries) if confined else None
    template = warm_up_code(ChildTemplate(effects=effects, zygote=os.getpid(), confinement=confinement))
    _freeze_memory()
    # Set after the imports, which may write byte code that other users must not change. Files that programs make belong
    # to the host alone.
    os.umask(0o077 if program else 0)
    limit("core", 0)
    # The kernel counts the channel of a child as open, for all processes of a user, until the host has received it. So
    # only the children have the low limit.
    most = limit("nofile", _MANY_FILES)
    template = template._replace(open_files=Limit("nofile", min(most, settings["open_files"])))
    limit("fsize", settings["write_bytes"])
    limit("as", mapped_and_resident()[0] + settings["memory_bytes"] + (_FOR_CODE if program else 0))
    if template.rehearsal:
        with rehearsal.stub_system_calls():
            template = template._replace(hot_pages=find_hot_pages(template))
    if settings["announces"]:
        faultpoints.announce()  # after the rehearsal, which must not be reported
    return template


def libraries_of_programs() -> dict[str, int]:
    """Return the paths that any program may open: the modules of this Python, and the data about time zones.

    Also the limits of the control group, because DuckDB reads them at its start, and fails if they exist and cannot be
    read.
    """
    folders = {**dict.fromkeys((*sys.path, _ZONES), LIBRARY), _GROUPS: READ_FILE}
    files = {_LOCAL_TIME: READ_FILE, _OWN_GROUP: READ_FILE, os.devnull: READ_FILE | WRITE_FILE}
    return {
        **{path: right for path, right in folders.items() if os.path.isdir(path)},
        **{path: right for path, right in files.items() if os.path.exists(path)},
    }


def warm_up_code(template: ChildTemplate) -> ChildTemplate:
    """Run test orders until the interpreter has optimised the code. It only saves time, so a failure is ignored."""
    with contextlib.suppress(OSError, RemitError):
        template = template._replace(rehearsal=write_rehearsal())
        host, child = _socket.socketpair()
        with rehearsal.stub_system_calls():
            for _ in range(_REHEARSALS):
                rehearse(template, host, Channel(child.fileno()))
        host.close()
        child.close()
    return template


def _freeze_memory() -> None:
    gc.collect()
    # Objects that the collector never touches stay on pages that the children share.
    gc.freeze()
    gc.disable()
    with contextlib.suppress(AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)  # release the memory that imports have freed: each page makes a fork slower


def find_hot_pages(template: ChildTemplate) -> HotPages | None:
    """Find the pages that a child writes to, with a child that runs a test order and is killed. None on failure."""
    ours, theirs = _socket.socketpair()
    started: list[int] = []
    try:
        # It shares the pages that this process writes from here on. Otherwise they would seem to belong to the child.
        started.append(fork_witness())
        pid = os.fork()
        if pid == 0:
            run_child(template, theirs)
        started.append(pid)
        ours.settimeout(_TRIAL_SECONDS)
        ours.sendall(template.rehearsal + GO)
        ours.recv(MAX_PACKET)
        hot_pages = HotPages(find_private_pages(pid))
        return hot_pages if hot_pages.copy_pages() else None
    except OSError:
        return None
    finally:
        for child in started:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        ours.close()
        theirs.close()


def fork_witness() -> int:
    pid = os.fork()
    if pid == 0:
        try:
            signal.pause()
        finally:
            os._exit(1)
    return pid


def load_effect(name: str) -> Effect:
    """Import the effect with the name `package.module:name`."""
    module, _, attribute = name.partition(":")
    effect: Effect = getattr(importlib.import_module(module), attribute)
    return effect


def mapped_and_resident() -> tuple[int, int]:
    """Return the mapped and the resident memory of this process, in bytes."""
    with open("/proc/self/statm", "rb", buffering=0) as statm:
        pages = statm.read().split()
    size = os.sysconf("SC_PAGE_SIZE")
    return int(pages[0]) * size, int(pages[1]) * size


def run_child(template: ChildTemplate, channel: _socket.socket) -> NoReturn:
    try:
        initialise_child(template, channel.fileno())
        run_order(template)
    finally:
        os._exit(1)  # after any error, because this process must not continue as a second zygote


class _Nursery:
    """The loop of the zygote, and the children that it has not reaped yet."""

    def __init__(self, template: ChildTemplate, control: _socket.socket, host: int) -> None:
        self._cell = template
        self._control = control
        self._host = host
        self._running: set[int] = set()
        self._ended: dict[int, int] = {}
        self._fork_count = 0
        self._busy = False

    def serve(self) -> NoReturn:
        try:
            self._serve()
        finally:
            self._end()  # after any error, so that no child is left

    def _serve(self) -> None:
        watched = select.poll()
        watched.register(self._control, select.POLLIN)
        watched.register(os.pidfd_open(self._host), select.POLLIN)
        if os.getppid() != self._host:
            return  # the host died before this process could watch it
        signal.signal(signal.SIGCHLD, self._reap)
        _, resident = mapped_and_resident()
        self._send({"kind": "ready", "resident": resident})
        while True:
            ready = watched.poll()
            # The host may be dead while a process that it forked still holds its end of the socket.
            if any(descriptor != self._control.fileno() for descriptor, _ in ready):
                return
            packet = self._control.recv(MAX_PACKET)
            if packet and not packet.strip(MORE):
                self._fork(len(packet))
            elif packet.startswith(HOW_ENDED):
                self._reap()
                pid = int(packet[1:])
                self._send({"kind": "ended", "pid": pid, "status": self._ended.pop(pid, None)})
            else:
                return

    def _fork(self, count: int) -> None:
        """Fork children, and send an answer for each.

        All forks come first, because after a fork each page must be copied before it is written.
        """
        pairs: list[tuple[_socket.socket, _socket.socket]] = []
        forked: list[tuple[int, int]] = []
        failed = ""
        try:
            pairs.extend(_socket.socketpair() for _ in range(count))
            forked.extend(self._fork_one(theirs) for _, theirs in pairs)
        except OSError as problem:
            failed = f"a process could not be started: {problem}"
        for (ours, _), (pid, pidfd) in zip(pairs, forked, strict=False):
            try:
                self._send_child(pid, pidfd, ours)
            except OSError as problem:  # too many descriptors are in transit; the other children can still be sent
                os.kill(pid, signal.SIGKILL)
                self._send({"kind": "failed", "what": f"a process could not be sent to the host: {problem}"})
        for ours, theirs in pairs:
            ours.close()
            theirs.close()
        for _ in range(count - len(forked)):
            self._send({"kind": "failed", "what": failed})
        self._reap()

    def _fork_one(self, channel: _socket.socket) -> tuple[int, int]:
        self._busy = True
        try:
            pid = os.fork()
            if pid == 0:
                run_child(self._cell, channel)
            self._running.add(pid)
            return pid, os.pidfd_open(pid)
        finally:
            self._busy = False

    def _send_child(self, pid: int, pidfd: int, channel: _socket.socket) -> None:
        self._fork_count += 1
        try:
            channel.setblocking(False)  # for the host, which must never wait for a message of a child
            rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("2i", channel.fileno(), pidfd))
            self._control.sendmsg([_CHILD % (self._fork_count, pid)], [rights])
        finally:
            os.close(pidfd)

    def _send(self, message: dict[str, Any]) -> None:
        self._control.send(json.dumps(message).encode())

    def _reap(self, *_: object) -> None:
        """Reap the children that have ended. SIGCHLD can call it at any time.

        It does nothing while it runs already, or before a new child is stored.
        """
        if self._busy:
            return
        self._busy = True
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                self._running.discard(found[0])
                self._ended[found[0]] = found[1]
                if len(self._ended) > _REMEMBERED:
                    del self._ended[next(iter(self._ended))]
        except ChildProcessError:
            pass
        finally:
            self._busy = False

    def _end(self) -> NoReturn:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for pid in tuple(self._running):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
        os._exit(0)
