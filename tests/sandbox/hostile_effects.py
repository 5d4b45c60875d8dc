"""An effect that tries to break out. Loaded by the zygote like any other; `inputs["attempt"]` says which way to try.

Each attempt returns what it saw, as JSON: the error number of a call that was refused, the bytes of a file that was
not. Everything is imported here: once a process is locked, it can load nothing more.
"""

import contextlib
import ctypes
import errno
import mmap
import os
import resource
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from remit.effects.context import EffectContext
from tests.sandbox.hostile_frames import FRAME_ATTEMPTS, channel_of
from tests.sandbox.hostile_waste import WASTE_ATTEMPTS

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_SYSCALL: Final = _LIBC.syscall
_SYSCALL.restype = ctypes.c_long
_KEPT: Final[list[str]] = []


def system_call(number: int, *arguments: int | ctypes.Array[ctypes.c_char]) -> int:
    """The result, or minus the error number. Of a call that returns twice, the second process ends here."""
    words = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    ctypes.set_errno(0)
    result = int(_SYSCALL(ctypes.c_long(number), *words))
    if result == 0 and os.getpid() != _pid():
        os._exit(0)
    return result if result >= 0 else -ctypes.get_errno()


_BORN: Final[list[int]] = []


def _pid() -> int:
    """This task's process, as it was before it tried anything."""
    if not _BORN:
        _BORN.append(os.getpid())
    return _BORN[0]


def _call(work: EffectContext) -> dict[str, Any]:
    _pid()
    arguments = [_argument(work, given) for given in work.inputs["arguments"]]
    return {"result": system_call(work.inputs["number"], *arguments)}


def _argument(work: EffectContext, given: Any) -> int | ctypes.Array[ctypes.c_char]:
    if isinstance(given, int):
        return given
    if "hex" in given:
        raw = bytes.fromhex(given["hex"])
        return ctypes.create_string_buffer(raw, len(raw))
    if "path" in given:
        return ctypes.create_string_buffer(os.fsencode(work.inputs["root"] + given["path"]))
    if given["is"] == "file":
        return os.open("own", os.O_RDWR | os.O_CREAT, 0o600, dir_fd=work.spots["target"].folder)
    return {
        "self": os.getpid,
        "parent": os.getppid,
        "folder": lambda: work.spots["target"].folder,
        "channel": channel_of,
    }[given["is"]]()


def _sweep(work: EffectContext) -> dict[str, Any]:
    """Every number but those left out, with arguments that make no sense: which are let through to the kernel?"""
    _pid()
    numbers = [number for number in range(work.inputs["up_to"]) if number not in work.inputs["leave_out"]]
    return {"let_through": [n for n in numbers if system_call(n, -1, -1, -1, -1, -1, -1) != -errno.EPERM]}


def _compatible_call(work: EffectContext) -> dict[str, Any]:
    """One harmless call by the 32-bit entry of an x86_64 kernel, which has other numbers: a filter must see both."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20; int 0x80; ret
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return {"result": int(ctypes.CFUNCTYPE(ctypes.c_int)(address)()), "pid": os.getpid()}


def _open(work: EffectContext) -> dict[str, Any]:
    """Open a name, from the root or from a folder that was given, and read or write what is there."""
    start = work.spots[work.inputs["at"]].folder if "at" in work.inputs else None
    name = work.inputs["name"].replace("{parent}", str(os.getppid())).replace("{folder}", str(start))
    flags = work.inputs["flags"]
    descriptor = os.open(name, flags, 0o600, dir_fd=start)
    if flags & (os.O_WRONLY | os.O_RDWR):
        return {"written": os.write(descriptor, b"planted")}
    if flags & os.O_DIRECTORY:
        return {"names": os.listdir(descriptor)}
    return {"read": os.read(descriptor, 64).hex()}


def _make_with_mode(work: EffectContext) -> dict[str, Any]:
    """A program that runs as its owner, for whoever finds it."""
    folder, how = work.spots["target"].folder, work.inputs["how"]
    if how == "openat":
        file = os.open("planted", os.O_WRONLY | os.O_CREAT, work.inputs["mode"], dir_fd=folder)
    else:
        how_to_open = (ctypes.c_uint64 * 3)(os.O_WRONLY | os.O_CREAT, work.inputs["mode"], 0)  # struct open_how
        name, raw = ctypes.create_string_buffer(b"planted"), bytes(how_to_open)
        file = system_call(437, folder, name, ctypes.create_string_buffer(raw, len(raw)), len(raw))
        if file < 0:
            raise OSError(-file, os.strerror(-file))
    return {"written": os.write(file, b"#!/bin/sh")}


def _reopen(work: EffectContext) -> dict[str, Any]:
    """A descriptor that gives no access, made into one that does."""
    found = os.open(work.inputs["name"], os.O_PATH)
    return {"read": os.read(os.open(f"/proc/self/fd/{found}", os.O_RDONLY), 64).hex()}


def _list_folder(work: EffectContext) -> dict[str, Any]:
    return {"names": os.listdir(work.spots[work.inputs["at"]].folder)}


def _walk_descriptors(work: EffectContext) -> dict[str, Any]:
    """From everything that is open, up and to a secret; and whatever can be read without a name."""
    reached = []
    for descriptor in range(256):
        for name in work.inputs["names"]:
            with contextlib.suppress(OSError):
                os.open(name, os.O_RDONLY, dir_fd=descriptor)
                reached.append([descriptor, name])
    return {"reached": reached, "contents": [_content(descriptor) for descriptor in range(256)]}


def _content(descriptor: int) -> str:
    with contextlib.suppress(OSError):
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.pread(descriptor, 64, 0).hex()
    return ""


def _start(work: EffectContext) -> dict[str, Any]:
    """The ways by which Python itself starts something."""
    done = threading.Event()
    ways: dict[str, Callable[[], object]] = {
        "thread": threading.Thread(target=done.set).start,
        "fork": lambda: os.fork() or os._exit(0),
        "spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
        "program": lambda: subprocess.run(["/bin/true"], check=True),
        "shell": lambda: subprocess.run("exit 0", shell=True, check=True),  # noqa: S602 - that is the attack
    }
    ways[work.inputs["way"]]()
    return {"started": True}


def _connect(work: EffectContext) -> dict[str, Any]:
    """To a server of the test's. A name that begins with @ is of the abstract kind."""
    address = work.inputs["address"]
    if isinstance(address, list):
        with socket.create_connection((address[0], address[1]), timeout=1) as there:
            return {"said": there.recv(5).decode()}
    with socket.socket(socket.AF_UNIX) as there:
        there.connect("\0" + address[1:] if address.startswith("@") else address)
        return {"said": there.recv(5).decode()}


def _bridge(work: EffectContext) -> dict[str, Any]:
    """Pass an open folder to whoever listens on the other side of the channel."""
    channel = socket.socket(fileno=os.dup(channel_of()))
    return {"sent": socket.send_fds(channel, [b"x"], [work.spots["target"].folder])}


def _raise_limits(work: EffectContext) -> dict[str, Any]:
    """Every limit, on oneself and on the parent, by both calls; then let the test look at what is in force."""
    outcomes = []
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
        pids = (0, os.getpid(), os.getppid())
        outcomes += [_error(partial(resource.prlimit, pid, limit, (-1, -1))) for pid in pids]
        outcomes.append(_error(partial(resource.setrlimit, limit, (-1, -1))))
    # Not even to what it is already.
    outcomes.append(_error(partial(resource.prlimit, os.getppid(), resource.RLIMIT_CORE, (0, 0))))
    work.ask({"pid": os.getpid(), "parent": os.getppid()})
    return {"errors": outcomes}


def _error(action: Callable[[], object]) -> int:
    try:
        action()
    except OSError as problem:
        return problem.errno or -1
    except ValueError:
        # `resource` says so, without a number, where the kernel said EPERM.
        return errno.EPERM
    return 0


def _be_looked_at(work: EffectContext) -> dict[str, Any]:
    work.ask({"pid": os.getpid(), "parent": os.getppid()})
    return {"environment": dict(os.environ)}


def _cling(work: EffectContext) -> dict[str, Any]:
    """Try everything that could keep a process alive without its host, tell the test, and stay."""
    for number in range(1, signal.NSIG):
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    _LIBC.prctl(1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG: none
    for escape in (os.setsid, lambda: os.setresgid(1, 1, 1), lambda: os.setresuid(1, 1, 1)):
        with contextlib.suppress(OSError):
            escape()
    work.ask({"pid": os.getpid(), "parent": os.getppid()})
    if work.inputs.get("cut_off"):
        os.close(channel_of())
    while True:
        time.sleep(0.05)


def _remember(work: EffectContext) -> dict[str, Any]:
    """Leave something in memory, and say what the task before left there."""
    found = list(_KEPT)
    _KEPT.append(work.task_id)
    return {"found": found, "pid": os.getpid()}


def _tamper_with_the_lock(work: EffectContext) -> dict[str, Any]:
    """Release the lock by which recovery knows that a process of this host is still at work; then spoil its file."""
    outcomes = []
    for descriptor in range(3, 256):
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                outcomes.append(system_call(work.inputs["flock"], descriptor, 8))  # LOCK_UN
                outcomes.append(-_error(partial(os.write, descriptor, b"spoilt")))
                outcomes.append(-_error(partial(os.ftruncate, descriptor, 0)))
                outcomes.append(-_error(partial(os.close, descriptor)))
                outcomes.append(-_error(partial(os.dup2, 0, descriptor)))
    work.ask({"pid": os.getpid(), "parent": os.getppid()})
    return {"results": outcomes}


ATTEMPTS: Final[dict[str, Callable[[EffectContext], dict[str, Any]]]] = {
    "call": _call,
    "sweep": _sweep,
    "compatible_call": _compatible_call,
    "open": _open,
    "reopen": _reopen,
    "make_with_mode": _make_with_mode,
    "list_folder": _list_folder,
    "walk_descriptors": _walk_descriptors,
    "start": _start,
    "connect": _connect,
    "bridge": _bridge,
    "raise_limits": _raise_limits,
    "be_looked_at": _be_looked_at,
    "cling": _cling,
    "remember": _remember,
    "tamper_with_the_lock": _tamper_with_the_lock,
    **FRAME_ATTEMPTS,
    **WASTE_ATTEMPTS,
}


class Hostile:
    """Tries what it is told to. An attempt that was refused is a result: its error number, and no exception."""

    def run(self, work: EffectContext) -> dict[str, Any]:
        try:
            return ATTEMPTS[work.inputs["attempt"]](work)
        except OSError as problem:
            return {"errno": problem.errno, "problem": str(problem)}
        except (RuntimeError, subprocess.SubprocessError) as problem:
            return {"errno": errno.EPERM, "problem": str(problem)}

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:
        return self.run(work) if finish else None


HOSTILE: Final = Hostile()
