"""Probes of what this kernel can confine. They try each feature and do not read the kernel's version.

A probe changes neither this process nor a user's file. The trial of Landlock cannot be undone, so it runs in a process
of its own: this file, started as a program, which is why it imports the standard library only. `probe_exchange` makes
two empty files in a folder and removes them. On a system other than Linux, or a processor whose system call numbers are
not listed, every probe fails, with the reason.
"""

import ctypes
import errno
import os
import platform
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Final, NamedTuple

LANDLOCK_NEEDED: Final = 3
"""The first ABI that governs both moves between directories and truncation."""

TRIAL_SECONDS: Final = 5.0


class Numbers(NamedTuple):
    """System call numbers of one architecture."""

    renameat2: int
    seccomp: int
    openat2: int
    landlock_create_ruleset: int
    landlock_restrict_self: int


SYSCALLS: Final[dict[str, Numbers]] = {
    "x86_64": Numbers(316, 317, 437, 444, 446),
    "aarch64": Numbers(276, 277, 437, 444, 446),
}

_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_GET_NO_NEW_PRIVS: Final = 39
_SECCOMP_GET_ACTION_AVAIL: Final = 2
_SECCOMP_ACTIONS: Final = {"KILL_PROCESS": 0x80000000, "ERRNO": 0x00050000, "ALLOW": 0x7FFF0000}
_RENAME_NOREPLACE: Final = 1
_RENAME_EXCHANGE: Final = 2
_AT_FDCWD: Final = -100
_CREATE_RULESET_VERSION: Final = 1
# Bits 0 to 14: every file system right of ABI 3, REFER and TRUNCATE included.
_ALL_RIGHTS_OF_ABI_3: Final = (1 << 15) - 1
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 1, 2, 4, 8
# `struct timex` on 64-bit Linux: 208 bytes, the status after one padded int and four longs.
_TIMEX_SIZE: Final = 512
_TIMEX_STATUS: Final = 40
_STA_UNSYNC: Final = 0x40
_PASSING: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})


@dataclass(frozen=True, slots=True)
class Probe:
    """The answer of one probe: whether the feature works here, and what was found."""

    works: bool
    found: str
    tried: bool = field(default=True, compare=False)
    """False if this process, and not the kernel, was the cause. Then the next try may succeed."""


@dataclass(frozen=True, slots=True)
class KernelFeatures:
    """The features that the sandbox and the checks of paths need."""

    system: str
    release: str
    machine: str
    landlock_abi: int
    landlock: Probe
    confinement: Probe
    seccomp: Probe
    no_new_privs: Probe
    openat2: Probe
    renameat2: Probe


def probe_kernel() -> KernelFeatures:
    """Probe this machine. Takes some 50 ms, most of it for the trial process."""
    system, release, machine = platform.system(), platform.release(), platform.machine()
    missing = missing_support(system, machine, sys.maxsize)
    if missing:
        return unsupported(system, release, machine, missing)
    numbers = SYSCALLS[machine]
    abi, landlock = _landlock(numbers)
    return KernelFeatures(
        system=system,
        release=release,
        machine=machine,
        landlock_abi=abi,
        landlock=landlock,
        confinement=_confinement() if abi >= LANDLOCK_NEEDED else Probe(False, "not tried: Landlock is too old"),
        seccomp=_seccomp(numbers),
        no_new_privs=_no_new_privs(),
        openat2=_openat2(numbers),
        renameat2=_renameat2(numbers),
    )


def missing_support(system: str, machine: str, word: int) -> str:
    """Return why no system call can be made from here, or an empty string."""
    if system != "Linux":
        return "not Linux"
    if machine not in SYSCALLS:
        return f"no system call numbers are known for {machine}"
    # A 32-bit interpreter on a 64-bit kernel has other numbers, so a probe would make another call.
    return "" if word > 2**32 else "a 32-bit Python"


def unsupported(system: str, release: str, machine: str, why: str) -> KernelFeatures:
    no = Probe(False, why)
    return KernelFeatures(system, release, machine, 0, no, no, no, no, no, no)


def clock_is_synchronised() -> bool | None:
    """Return whether the kernel reports that its clock is synchronised, or None if it does not report that."""
    if missing_support(platform.system(), platform.machine(), sys.maxsize):
        return None
    state = ctypes.create_string_buffer(_TIMEX_SIZE)  # all zero: read, and set nothing
    if _libc().adjtimex(state) < 0:
        return None
    status = int.from_bytes(state.raw[_TIMEX_STATUS : _TIMEX_STATUS + 4], sys.byteorder)
    return not status & _STA_UNSYNC


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: int | ctypes.Array[ctypes.c_char] | ctypes.Array[ctypes.c_uint64] | None) -> int:
    """Make one system call. Returns its result, or the negative error number."""
    call = _libc().syscall
    call.restype = ctypes.c_long
    # Plain ints would be passed as 32 bits, and the upper half of the register would be undefined.
    values = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    result = int(call(ctypes.c_long(number), *values))
    return result if result >= 0 else -ctypes.get_errno()


def _prctl(option: int, argument: int) -> int:
    """Call prctl. Returns its result, or the negative error number."""
    zero = ctypes.c_ulong(0)
    result = int(_libc().prctl(ctypes.c_int(option), ctypes.c_ulong(argument), zero, zero, zero))
    return result if result >= 0 else -ctypes.get_errno()


def _why(result: int) -> str:
    number = -result
    return f"{errno.errorcode.get(number, number)}: {os.strerror(number)}"


def _no(result: int) -> Probe:
    return Probe(False, _why(result), tried=-result not in _PASSING)


def _landlock(numbers: Numbers) -> tuple[int, Probe]:
    abi = _call(numbers.landlock_create_ruleset, None, 0, _CREATE_RULESET_VERSION)
    if abi == -errno.ENOSYS:
        return 0, Probe(False, "not built into this kernel")
    if abi == -errno.EOPNOTSUPP:
        return 0, Probe(False, "built in, but switched off at boot")
    if abi < 0:
        return 0, Probe(False, _why(abi))
    return abi, Probe(abi >= LANDLOCK_NEEDED, f"ABI {abi}")


def _seccomp(numbers: Numbers) -> Probe:
    for name, action in _SECCOMP_ACTIONS.items():
        result = _call(numbers.seccomp, _SECCOMP_GET_ACTION_AVAIL, 0, (ctypes.c_uint64 * 1)(action))
        if result < 0:
            return Probe(False, f"no filter action {name} ({_why(result)})")
    return Probe(True, "filters with " + ", ".join(_SECCOMP_ACTIONS))


def _no_new_privs() -> Probe:
    result = _prctl(_PR_GET_NO_NEW_PRIVS, 0)
    if result < 0:
        return Probe(False, _why(result))
    return Probe(True, "already set for this process" if result else "can be set")


def _openat2(numbers: Numbers) -> Probe:
    """Open a folder, and check that the kernel refuses both `..` and a symbolic link."""
    try:
        root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as problem:
        return _no(-(problem.errno or 0))
    try:
        plain = _open_beneath(numbers, root, b".")
        if plain < 0:
            return _no(plain)
        if _open_beneath(numbers, root, b"..") != -errno.EXDEV:
            return Probe(False, "`..` was not refused, so a path can leave the folder")
    finally:
        os.close(root)
    try:
        links = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return Probe(True, "stays beneath a folder (symbolic links not tried: no /proc)")
    try:
        followed = _open_beneath(numbers, links, b"self")
    finally:
        os.close(links)
    if followed not in {-errno.ELOOP, -errno.ENOENT}:
        return Probe(False, "a symbolic link was not refused")
    return Probe(True, "stays beneath a folder, follows no link")


def _open_beneath(numbers: Numbers, folder: int, name: bytes) -> int:
    how = (ctypes.c_uint64 * 3)(
        os.O_PATH | os.O_CLOEXEC, 0, _NO_XDEV | _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH
    )  # struct open_how: flags, mode, resolve
    result = _call(numbers.openat2, folder, ctypes.create_string_buffer(name), how, ctypes.sizeof(how))
    if result >= 0:
        os.close(result)
    return result


def _renameat2(numbers: Numbers) -> Probe:
    """Rename an empty name, which cannot exist. A kernel with the call and the flag returns ENOENT."""
    nothing = ctypes.create_string_buffer(b"")
    result = _call(numbers.renameat2, _AT_FDCWD, nothing, _AT_FDCWD, nothing, _RENAME_NOREPLACE)
    if result == -errno.ENOENT:
        return Probe(True, "can refuse to replace")
    return Probe(False, _why(result))


def probe_exchange(folder: str) -> Probe:
    """Return whether two files in this folder can be exchanged in one step.

    This depends on the file system too, so the probe does it, in a folder of its own below, which is removed again.
    """
    missing = missing_support(platform.system(), platform.machine(), sys.maxsize)
    if missing:
        return Probe(False, missing)
    try:
        with tempfile.TemporaryDirectory(prefix=".remit-probe-", dir=folder) as place:
            return _exchange(SYSCALLS[platform.machine()], place)
    except OSError as problem:
        return Probe(False, f"not tried: {problem.strerror}", tried=False)


def _exchange(numbers: Numbers, place: str) -> Probe:
    one, other = os.path.join(place, "one"), os.path.join(place, "other")
    for name in (one, other):
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    before = os.stat(one).st_ino, os.stat(other).st_ino
    names = [ctypes.create_string_buffer(os.fsencode(name)) for name in (one, other)]
    result = _call(numbers.renameat2, _AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
    if result < 0:
        return _no(result)
    if (os.stat(other).st_ino, os.stat(one).st_ino) != before:
        return Probe(False, "the two files were not exchanged")
    return Probe(True, "two files can be exchanged in one step")


def _confinement() -> Probe:
    """Try Landlock in a process. It may be listed and still be refused, for example by the filter of a container."""
    # It is not forked, since this process may have threads. It is isolated, so that neither the environment nor this
    # folder can add code.
    command = [sys.executable, "-I", "-S", __file__]
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter and this file
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRIAL_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as problem:
        return Probe(False, f"the trial process did not run: {type(problem).__name__}", tried=False)
    output = done.stdout.decode("utf-8", errors="replace").strip()[:200]
    if done.returncode != 0:
        # Without output the trial has no result, unless a filter killed the process.
        tried = bool(output) or done.returncode == -signal.SIGSYS
        return Probe(False, output or f"the trial process ended with {done.returncode}", tried=tried)
    return Probe(True, output)


def _confine_this_process() -> tuple[int, str]:
    """Drop every right to files, then open a folder. Only for the trial process, because it cannot be undone."""
    numbers = SYSCALLS[platform.machine()]
    promised = _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if promised < 0:
        return 1, f"no_new_privs cannot be set ({_why(promised)})"
    handled = (ctypes.c_uint64 * 1)(_ALL_RIGHTS_OF_ABI_3)
    ruleset = _call(numbers.landlock_create_ruleset, handled, ctypes.sizeof(handled), 0)
    if ruleset < 0:
        return 1, f"no ruleset can be made ({_why(ruleset)})"
    restricted = _call(numbers.landlock_restrict_self, ruleset, 0)
    if restricted < 0:
        return 1, f"a process cannot restrict itself ({_why(restricted)})"
    try:
        os.close(os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except PermissionError:
        return 0, "a process that dropped its rights was refused"
    return 1, "a process that dropped its rights could still open a folder"


if __name__ == "__main__":
    _code, _output = _confine_this_process()
    sys.stdout.write(_output + "\n")
    sys.exit(_code)
