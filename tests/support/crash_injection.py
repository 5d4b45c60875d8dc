"""Stop a program, with everything that it has started, at its N-th change to a disk.

The program runs in a forked process under a seccomp filter that asks us about every state-changing system call, its own
and its descendants', in one order. While we think, none of them can change anything: that moment is a crash point. We
can let the call happen, kill the whole tree, make the call fail, let it write only half, pretend that it happened, or
copy the disk first. Only changes below the watched folders count; sockets, pipes and byte code are let through.
With `named`, the places that call `faultpoints.reach` are points as well, in the same order.

Use it in a process of its own with one thread: it forks without exec, and reaps every child it finds.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from remit.core import faultpoints
from tests.support.seccomp_notify import (
    Report,
    announced_point,
    ask_about_changes,
    changed_paths,
    libc,
    may_create,
    parse_report,
)
from tests.support.short_writes import write_half

LONGEST_RUN: Final = 60.0
LINGERING: Final = 5.0
"""How long the last descendant may outlive the program before it is a finding."""

_RECEIVE: Final = 0xC0502100
_ANSWER: Final = 0xC0182101
_CONTINUE: Final = 1
_REPORT_SIZE: Final = 80
_SUBREAPER: Final = 36


REACH: Final = "reach"
"""Instead of a system call: a fault point with a name, which is then the only path. It can be killed at, no more."""


class Point(NamedTuple):
    """One state-changing call on a watched folder, about to happen. Numbered from 1."""

    number: int
    call: str
    paths: tuple[str, ...]
    report: Report

    def __str__(self) -> str:
        return f"{self.number} {self.call} {' -> '.join(self.paths)}"


class Proceed(NamedTuple):
    """Let it happen."""


class Kill(NamedTuple):
    """It does not happen, and nothing else ever will: the whole tree dies by SIGKILL."""


class Fail(NamedTuple):
    """It does not happen, and the caller is told so."""

    errno: int


class Pretend(NamedTuple):
    """It does not happen, and the caller is told that it did: a disk that lies, or a forgotten call."""


class Shorten(NamedTuple):
    """Half of the bytes are written, and the caller is told how many. Anything but a write proceeds."""


Action = Proceed | Kill | Fail | Pretend | Shorten
PROCEED: Final = Proceed()
Acknowledge = Callable[[str], None]
Decide = Callable[[Point, Callable[[], tuple[str, ...]]], Action]
"""Given the point, and a way to ask what was acknowledged so far."""


@dataclass(slots=True)
class InjectedRun:
    """How a run ended. `exit_code` is the program's own; `stopped` are the points where we did not let it proceed."""

    exit_code: int = 0
    points: list[Point] = field(default_factory=list)
    stopped: list[Point] = field(default_factory=list)
    acknowledged: tuple[str, ...] = ()
    output: str = ""
    lingering: list[str] = field(default_factory=list)
    """Processes that were still there when they should not have been; they were killed."""

    @property
    def killed(self) -> bool:
        return self.exit_code == -signal.SIGKILL


def proceed(_point: Point, _acknowledged: Callable[[], tuple[str, ...]]) -> Action:
    return PROCEED


def run_watched(
    work: Callable[[Acknowledge], None],
    watched: Sequence[str],
    decide: Decide = proceed,
    *,
    longest: float = LONGEST_RUN,
    patience: float = LINGERING,
    named: bool = False,
) -> InjectedRun:
    """Run `work` in a forked process, asking `decide` at each point. Returns when the whole tree is dead.

    With `named` the fault points of the program and of its sandboxes are points, too; its own settings are overruled.
    Raises TimeoutError for a tree that hangs; it is killed first.
    """
    if threading.active_count() != 1:
        raise RuntimeError("crash points need a process with one thread")
    libc.prctl(_SUBREAPER, 1, 0, 0, 0)  # whoever loses its parent becomes our child, wherever it hid
    said, printed = _memory_file("acknowledged"), _memory_file("printed")
    ours, theirs = socket.socketpair()
    with contextlib.ExitStack() as stack:
        for descriptor in (said, printed):
            stack.callback(os.close, descriptor)
        stack.enter_context(ours)
        pid = os.fork()
        if pid == 0:
            _become_the_program(work, theirs, said, printed, named=named)
        stack.callback(_kill_everything)
        theirs.close()
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        if not descriptors:
            raise OSError(f"the filter could not be installed:\n{_text(printed)}")
        stack.callback(os.close, descriptors[0])
        watch = _Watch(pid, descriptors[0], [os.path.join(folder, "") for folder in watched], decide, said)
        ended = watch.follow(time.monotonic() + longest, patience)
        ended.acknowledged, ended.output = _words(said), _text(printed)
        return ended


def run_apart(work: Callable[[Acknowledge], None], *, longest: float = LONGEST_RUN) -> InjectedRun:
    """Run `work` in a forked process to its end, unharmed: to recover, or to look, without leaving a trace in us."""
    return run_watched(work, (), longest=longest)


class _Watch:
    """One run: what is known of it, and the answers given."""

    def __init__(self, pid: int, listener: int, watched: list[str], decide: Decide, said: int) -> None:
        self._pid, self._listener, self._watched, self._decide, self._said = pid, listener, watched, decide, said
        self._gone = False
        self._ended = InjectedRun()

    def follow(self, deadline: float, patience: float) -> InjectedRun:
        """Until nobody is left who could ask: the kernel hangs up."""
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        program = os.pidfd_open(self._pid)
        poll.register(program, select.POLLIN)
        try:
            while True:
                events = dict(poll.poll(20 if self._gone else 1000))
                asked = events.get(self._listener, 0)
                if asked & select.POLLIN and not self._answer():
                    return self._ended
                if program in events:
                    poll.unregister(program)
                    deadline = min(deadline, time.monotonic() + patience)
                self._reap()
                if asked & select.POLLHUP and self._gone:
                    return self._ended
                if time.monotonic() > deadline:
                    self._give_up()
                    return self._ended
        finally:
            os.close(program)

    def _answer(self) -> bool:
        """One question. False once everything was killed."""
        raw = bytearray(_REPORT_SIZE)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, raw)
        except FileNotFoundError:
            return True  # the caller died while it waited
        report = parse_report(bytes(raw))
        try:
            point = self._point(report)
        except OSError:  # a descriptor or an address that leads nowhere: the kernel will tell the caller so
            point = None
        if point is None:
            self._reply(report, 0, 0, _CONTINUE)
            return True
        self._ended.points.append(point)
        action = self._decide(point, lambda: _words(self._said))
        if point.call == REACH and not isinstance(action, Kill):
            self._reply(report, report.arguments[2], 0, 0)  # as if it were written: it is no output
            return True
        return self._inject(action, point)

    def _inject(self, action: Action, point: Point) -> bool:
        report = point.report
        if isinstance(action, Shorten):
            written = write_half(report)
            action = PROCEED if written is None else action
        else:
            written = 0
        if not isinstance(action, Proceed):
            self._ended.stopped.append(point)
        match action:
            case Kill():
                self._kill()
                return False
            case Fail(number):
                self._reply(report, 0, -number, 0)
            case Pretend() | Shorten():
                self._reply(report, written or 0, 0, 0)
            case Proceed():
                self._reply(report, 0, 0, _CONTINUE)
        return True

    def _point(self, report: Report) -> Point | None:
        if not self._watched or not may_create(report):
            return None
        if name := announced_point(report):
            return Point(len(self._ended.points) + 1, REACH, (name,), report)
        paths = changed_paths(report)
        if not any(os.path.join(path, "").startswith(folder) for path in paths for folder in self._watched):
            return None
        return Point(len(self._ended.points) + 1, report.name, paths, report)

    def _reply(self, report: Report, value: int, error: int, flags: int) -> None:
        answer = struct.pack("=QqiI", report.id, value, error, flags)
        # Nobody there: the caller died while it waited.
        with contextlib.suppress(FileNotFoundError):
            fcntl.ioctl(self._listener, _ANSWER, answer)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._pid:
                    self._gone = True
                    self._ended.exit_code = os.waitstatus_to_exitcode(status)

    def _kill(self) -> None:
        statuses = _kill_everything()
        if self._pid in statuses:
            self._ended.exit_code = os.waitstatus_to_exitcode(statuses[self._pid])

    def _give_up(self) -> None:
        self._ended.lingering = [f"{pid} {_command(pid)}" for pid in _descendants()]
        hung = not self._gone
        self._kill()
        if hung:
            raise TimeoutError(
                f"it hung: {self._ended.lingering}, last at {self._ended.points[-1:]}\n{_words(self._said)}"
            )


def _become_the_program(
    work: Callable[[Acknowledge], None], ours: socket.socket, said: int, printed: int, *, named: bool
) -> None:
    """In the forked process. Never returns."""
    code = 1
    try:
        os.setsid()
        for stream in (1, 2):
            os.dup2(printed, stream)
        listener = ask_about_changes()
        socket.send_fds(ours, [b"."], [listener])
        os.close(listener)
        ours.close()
        if named:
            faultpoints.announce()
        work(lambda word: _say(said, word))
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:  # noqa: BLE001 - nothing may return into the parent's code
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _say(said: int, word: str) -> None:
    """One line, in one write."""
    os.write(said, json.dumps(word).encode() + b"\n")


def _words(said: int) -> tuple[str, ...]:
    return tuple(json.loads(line) for line in os.pread(said, os.fstat(said).st_size, 0).splitlines())


def _text(printed: int) -> str:
    return os.pread(printed, os.fstat(printed).st_size, 0).decode(errors="replace")


def _memory_file(name: str) -> int:
    """It needs no reader while the program runs, and outlives it. Appending: two writers never share a place."""
    descriptor = os.memfd_create(name)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_APPEND)
    return descriptor


def _kill_everything() -> dict[int, int]:
    """SIGKILL for every descendant until there is none, each reaped: pid and status of those who were our children.

    Whoever is not dead yet cannot change a watched disk meanwhile: nobody answers its question.
    """
    statuses: dict[int, int] = {}
    while True:
        for pid in _descendants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return statuses
        statuses[pid] = status


def _descendants() -> list[int]:
    """Every process below this one, found by its parents: it may have a session and a group of its own."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{name}/stat") as stream:
                # After the last parenthesis: a program's name may hold spaces and parentheses of its own.
                state, parent = stream.read().rpartition(")")[2].split()[:2]
                if state not in {"Z", "X"}:
                    parents[int(name)] = int(parent)
    found, border = [], {os.getpid()}
    while border:
        border = {pid for pid, parent in parents.items() if parent in border}
        found += sorted(border)
    return found


def _command(pid: int) -> str:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as stream:
        return stream.read().replace(b"\0", b" ").decode(errors="replace").strip()
    return "?"
