"""The program that becomes Chromium. Before that, it gives up its network and its access to Remit's files.

Playwright runs it by its path, as `python -I -S launcher.py SETTINGS ARGUMENT...`, in the place of Chromium. With
`--probe` it stops before the last step, so that a check can see whether Chromium can be confined. It imports only the
standard library, at the top, because soon after the folders with the modules may be hidden.

The steps, in order. Make namespaces of its own: network and mounts, and for an ordinary user also users. Start
loopback. Open listening sockets there and send them to the host over a Unix socket. Hide the folders, change the user,
and close the inherited descriptors. Execute Chromium in this same process. An error before that is reported to the
host.
"""

import array
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import signal
import socket
import struct
import sys
from typing import Any, Final, NoReturn

_NEW_MOUNTS: Final = 0x00020000
_NEW_USERS: Final = 0x10000000
_NEW_NETWORK: Final = 0x40000000
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _NO_PROGRAMS = 1, 2, 4, 8
_RECURSIVE, _PRIVATE = 1 << 14, 1 << 18
_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914
_PARENT_DEATH, _NO_NEW_PRIVILEGES = 1, 38
_DETACH: Final = 2

PIPE: Final = (3, 4)
"""The descriptors between Playwright and Chromium. Chromium ends when they close."""

BACKLOG: Final = 128
SCRATCH: Final = "/tmp"  # noqa: S108 - the launcher mounts an empty folder there
_GENERAL: Final = (SCRATCH, "/var/tmp", "/run", "/dev/shm", "/home", "/root")  # noqa: S108
"""Folders that are also hidden, unless Chromium itself is in one. They have files of other users, and sockets through
which Chromium could leave its confinement.
"""

_libc: Final = ctypes.CDLL(None, use_errno=True)


class LaunchError(Exception):
    """A step that failed, and the error of the Linux kernel."""

    def __init__(self, what: str, code: int = 0) -> None:
        super().__init__(what)
        self.details = {"what": what, "errno": code}


def main(settings_path: str, arguments: list[str]) -> NoReturn:
    with open(settings_path, encoding="utf-8") as file:
        settings = json.load(file)
    channel = _connect(settings["door"])
    try:
        listeners = _confine(settings) if settings["confined"] else []
        ports = [listener.getsockname()[1] for listener in listeners]
        message = json.dumps({"ports": ports}).encode()
        descriptors = array.array("i", [listener.fileno() for listener in listeners])
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)] if listeners else []
        channel.sendmsg([message], rights)
        _become(settings, arguments, channel)
    except (LaunchError, OSError) as problem:
        with contextlib.suppress(OSError):
            channel.send(json.dumps({"failed": _describe_failure(problem)}).encode())
    os._exit(1)


def probe(text: str) -> NoReturn:
    """Run all steps except the start of Chromium. Prints the outcome on the standard output."""
    settings = json.loads(text)
    answer: dict[str, Any] = {}
    try:
        _confine(settings)
        _change_user(settings)
        _require_program(settings["executable"])
        answer = {"own_sandbox": _can_make_user_namespace()}
    except (LaunchError, OSError) as problem:
        answer = {"failed": _describe_failure(problem)}
    print(json.dumps(answer), flush=True)  # noqa: T201 - the caller reads this
    os._exit(0)


def _describe_failure(problem: LaunchError | OSError) -> dict[str, Any]:
    return problem.details if isinstance(problem, LaunchError) else {"what": str(problem), "errno": problem.errno or 0}


def _connect(path: str) -> socket.socket:
    """Connect through a descriptor of the folder, because the address of a Unix socket has at most 107 bytes."""
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    os.close(folder)
    return channel


# --- confinement -----------------------------------------------------------------------------------------------------


def _confine(settings: dict[str, Any]) -> list[socket.socket]:
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        _require(_libc.unshare(_NEW_NETWORK | _NEW_MOUNTS), "make a network namespace")
    else:
        _require(_libc.unshare(_NEW_USERS | _NEW_NETWORK | _NEW_MOUNTS), "make a user and a network namespace")
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    _enable_loopback()
    listeners = [_listen() for _ in range(settings["listeners"])]
    _hide_folders(settings)
    return listeners


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError as problem:
        raise LaunchError(f"write {path}", problem.errno or 0) from problem


def _enable_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh22x", b"lo", 0)
        flags = struct.unpack("16sh22x", fcntl.ioctl(control, _GET_FLAGS, request))[1]
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sh22x", b"lo", flags | 1))


def _listen() -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(BACKLOG)
    return listener


def _hide_folders(settings: dict[str, Any]) -> None:
    """Mount an empty folder in memory over each folder. Only this process sees the mounts."""
    _mount(None, "/", None, _RECURSIVE | _PRIVATE, "")
    program = os.path.realpath(settings["executable"])
    needed = {program, settings["executable"]}
    hidden = [os.path.realpath(folder) for folder in settings["hidden"]]
    for folder in hidden:
        if any(_is_below(path, folder) for path in needed):
            raise LaunchError(f"hide {folder}, in which Chromium itself is installed", errno.EBUSY)
    hidden += [folder for folder in _GENERAL if not any(_is_below(path, folder) for path in needed)]
    if SCRATCH not in hidden:
        raise LaunchError(f"use a Chromium that is installed below {SCRATCH}", errno.EBUSY)
    secured = _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS
    # The outermost first. A folder inside of a hidden one is gone, and must not be mounted again.
    for folder in sorted({os.path.realpath(folder) for folder in hidden}):
        if not os.path.isdir(folder):
            continue
        if folder in (SCRATCH, "/dev/shm"):  # noqa: S108
            _mount("tmpfs", folder, "tmpfs", secured, "mode=1777,size=1g")
        else:
            _mount("tmpfs", folder, "tmpfs", secured | _READ_ONLY, "mode=0555,size=4k")


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str) -> None:
    arguments = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    result = _libc.mount(*arguments, ctypes.c_ulong(flags), data.encode())
    _require(result, f"hide {target}")


# --- becoming Chromium -----------------------------------------------------------------------------------------------


def _become(settings: dict[str, Any], arguments: list[str], channel: socket.socket) -> NoReturn:
    if not settings["confined"]:
        os.makedirs(settings["profile"], mode=0o700, exist_ok=True)
    home = SCRATCH if settings["confined"] else settings["profile"]
    if settings["user"] is not None and not settings["confined"]:
        os.chown(home, *settings["user"])
    _change_user(settings)
    profile = os.path.join(home, "profile")
    os.umask(0o077)
    os.makedirs(profile, exist_ok=True)
    if _can_make_user_namespace():
        # Without a user namespace, Chromium's own sandbox needs its set-user-ID helper, which this would disable.
        _require(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "give up new privileges")
    # After the change of user, which resets it. It survives the exec, unless the program changes the user again.
    _require(_libc.prctl(_PARENT_DEATH, int(signal.SIGKILL), 0, 0, 0), "set the signal for the end of its parent")
    executable = settings["executable"]
    _require_program(executable)
    environ = {
        "PATH": os.defpath,
        "HOME": home,
        "TMPDIR": home,
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "XDG_RUNTIME_DIR": home,
    }
    os.chdir("/")
    command = [executable, *_adapt_arguments(arguments, profile)]
    _close_all_but({0, 1, 2, *PIPE, channel.fileno()})
    for standard in PIPE:
        os.set_inheritable(standard, True)
    # The exec closes the channel. The host learns from that, and from no message, that this was the last step.
    os.execve(executable, command, environ)  # noqa: S606 - the purpose of this program


def _change_user(settings: dict[str, Any]) -> None:
    if settings["user"] is not None:
        user, group = settings["user"]
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)


def _require_program(executable: str) -> None:
    if not os.access(executable, os.X_OK):
        raise LaunchError(f"execute {executable} as user {os.geteuid()}", errno.EACCES)


def _adapt_arguments(arguments: list[str], profile: str) -> list[str]:
    """Return the arguments with Remit's profile. Lists of features are joined, because Chromium uses only the last one
    of a repeated option.
    """
    adapted: list[str] = []
    features: dict[str, list[str]] = {}
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name == "--user-data-dir":
            adapted.append(f"{name}={profile}")
        elif name in ("--disable-features", "--enable-features"):
            features.setdefault(name, []).extend(value.split(","))
        else:
            adapted.append(argument)
    # An argument that is not an option is an address to open, and comes last.
    options = [f"{name}={','.join(dict.fromkeys(values))}" for name, values in features.items()]
    return [*options, *adapted]


def _can_make_user_namespace() -> bool:
    child = os.fork()
    if child == 0:
        os._exit(0 if _libc.unshare(_NEW_USERS) == 0 else 1)
    return os.waitpid(child, 0)[1] == 0


def _close_all_but(open_descriptors: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in open_descriptors:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _require(result: int, what: str) -> None:
    if result < 0:
        raise LaunchError(what, ctypes.get_errno())


if __name__ == "__main__":
    if sys.argv[1] == "--probe":
        probe(sys.argv[2])
    main(sys.argv[1], sys.argv[2:])
