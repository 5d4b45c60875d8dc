"""The system calls that change a disk: their numbers, a seccomp filter that reports them, and what a report says.

The filter only watches. It asks a supervisor about each such call of the process and of everything it starts later;
a stricter filter that one of them installs for itself still decides what is refused, for an errno outranks a question.
Limits: x86_64 and aarch64; changes through a shared memory mapping are not seen.
"""

import ctypes
import os
import platform
import struct
from functools import lru_cache
from typing import Final, NamedTuple

from remit.core.faultpoints import ANNOUNCEMENT

# Name: numbers on x86_64 and aarch64 (0: it has none), then which arguments say what is changed. "fd0" is a descriptor,
# "at1" a folder's descriptor with a path in the argument after it, "path0" a path alone. The first is the one reported.
_TABLE: Final[dict[str, tuple[int, int, tuple[str, ...]]]] = {
    "write": (1, 64, ("fd0",)),
    "pwrite64": (18, 68, ("fd0",)),
    "writev": (20, 66, ("fd0",)),
    "pwritev": (296, 70, ("fd0",)),
    "pwritev2": (328, 287, ("fd0",)),
    "sendfile": (40, 71, ("fd0",)),
    "copy_file_range": (326, 285, ("fd2",)),
    "fallocate": (285, 47, ("fd0",)),
    "truncate": (76, 45, ("path0",)),
    "ftruncate": (77, 46, ("fd0",)),
    "fsync": (74, 82, ("fd0",)),
    "fdatasync": (75, 83, ("fd0",)),
    "sync_file_range": (277, 84, ("fd0",)),
    "syncfs": (306, 267, ("fd0",)),
    "open": (2, 0, ("path0",)),
    "creat": (85, 0, ("path0",)),
    "openat": (257, 56, ("at0",)),
    "openat2": (437, 437, ("at0",)),
    "rename": (82, 0, ("path0", "path1")),
    "renameat": (264, 38, ("at0", "at2")),
    "renameat2": (316, 276, ("at0", "at2")),
    "link": (86, 0, ("path1",)),
    "linkat": (265, 37, ("at2",)),
    "symlink": (88, 0, ("path1",)),
    "symlinkat": (266, 36, ("at1",)),
    "unlink": (87, 0, ("path0",)),
    "rmdir": (84, 0, ("path0",)),
    "unlinkat": (263, 35, ("at0",)),
    "mkdir": (83, 0, ("path0",)),
    "mkdirat": (258, 34, ("at0",)),
    "mknod": (133, 0, ("path0",)),
    "mknodat": (259, 33, ("at0",)),
    "chmod": (90, 0, ("path0",)),
    "fchmod": (91, 52, ("fd0",)),
    "fchmodat": (268, 53, ("at0",)),
    "fchmodat2": (452, 452, ("at0",)),
    "chown": (92, 0, ("path0",)),
    "fchown": (93, 55, ("fd0",)),
    "lchown": (94, 0, ("path0",)),
    "fchownat": (260, 54, ("at0",)),
    "utime": (132, 0, ("path0",)),
    "utimes": (235, 0, ("path0",)),
    "utimensat": (280, 88, ("at0",)),
    "setxattr": (188, 5, ("path0",)),
    "lsetxattr": (189, 6, ("path0",)),
    "fsetxattr": (190, 7, ("fd0",)),
    "removexattr": (197, 14, ("path0",)),
    "lremovexattr": (198, 15, ("path0",)),
    "fremovexattr": (199, 16, ("fd0",)),
}
STATE_CHANGING: Final = tuple(_TABLE)

_MACHINES: Final = {"x86_64": (0, 0xC000003E, 317), "aarch64": (1, 0xC00000B7, 277)}
_CREATES: Final = os.O_CREAT | os.O_TRUNC | 0o20000000
"""The last is the bit of O_TMPFILE that is its own."""

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ASK, _ALLOW = 0x7FC00000, 0x7FFF0000
_ARGUMENTS: Final = 16
"""Where `struct seccomp_data` holds the arguments, eight bytes each, the low half first."""

_NEW_LISTENER: Final = 1 << 3
_WAIT_KILLABLE: Final = 1 << 5
"""Without it a signal makes the waiting call start again, and it would be counted twice."""

_LONGEST_ANNOUNCEMENT: Final = 100
_AT_FDCWD: Final = -100
_PAGE: Final = 4096

_LINE: Final = struct.Struct("=HBBI")
"""One instruction: its code, the jumps if true and if false, an operand."""

libc: Final = ctypes.CDLL(None, use_errno=True)


class Report(NamedTuple):
    """One call that waits for an answer. `thread` is that of the caller, as the supervisor sees it."""

    id: int
    thread: int
    name: str
    arguments: tuple[int, ...]


def parse_report(raw: bytes) -> Report:
    """What the kernel wrote about a call: `struct seccomp_notif`."""
    id_, thread, _flags, number, _arch, _at, *arguments = struct.unpack("=QIIiIQ6Q", raw)
    return Report(id_, thread, _names()[number], tuple(arguments))


def ask_about_changes() -> int:
    """In the process to be watched: install the filter for good. Returns the descriptor that the reports come from."""
    _, arch, seccomp = _machine()
    numbers = {name: number for number, name in _names().items()}
    plain = [number for name, number in numbers.items() if name not in {"open", "openat"}]
    # An open that creates nothing is too common to ask about, and changes nothing. The flags of openat2 lie in memory,
    # out of the filter's reach: `may_create` sorts those out.
    opens = [(numbers[name], place) for name, place in (("open", 1), ("openat", 2)) if name in numbers]
    program = _assemble(arch, plain, opens)
    if libc.prctl(38, 1, 0, 0, 0):  # PR_SET_NO_NEW_PRIVS
        raise OSError(ctypes.get_errno(), "no_new_privs")
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // _LINE.size, ctypes.addressof(buffer))
    listener: int = libc.syscall(seccomp, 1, _NEW_LISTENER | _WAIT_KILLABLE, header)
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return listener


def _assemble(arch: int, plain: list[int], opens: list[tuple[int, int]]) -> bytes:
    """Each question stands right behind its test, so that no jump is longer than four lines."""
    allow, ask = _LINE.pack(_RETURN, 0, 0, _ALLOW), _LINE.pack(_RETURN, 0, 0, _ASK)
    # A call of another architecture, such as a 32-bit one, has other numbers.
    lines = [_LINE.pack(_LOAD, 0, 0, 4), _LINE.pack(_EQUAL, 1, 0, arch), allow, _LINE.pack(_LOAD, 0, 0, 0)]
    for number, place in opens:
        lines.append(_LINE.pack(_EQUAL, 0, 4, number))
        lines.append(_LINE.pack(_LOAD, 0, 0, _ARGUMENTS + 8 * place))
        lines += [_LINE.pack(_ANY_BIT, 0, 1, _CREATES), ask, allow]
    for number in plain:
        lines += [_LINE.pack(_EQUAL, 0, 1, number), ask]
    return b"".join([*lines, allow])


def _machine() -> tuple[int, int, int]:
    machine = platform.machine()
    if machine not in _MACHINES:
        raise OSError(f"no system call numbers are known for {machine}")
    return _MACHINES[machine]


@lru_cache(maxsize=1)
def _names() -> dict[int, str]:
    first = _machine()[0] == 0
    return {on_x86 if first else on_arm: name for name, (on_x86, on_arm, _) in _TABLE.items() if first or on_arm}


def may_create(report: Report) -> bool:
    """False for an openat2 that creates nothing. Reads `struct open_how`, which begins with the flags."""
    if report.name != "openat2":
        return True
    return bool(int.from_bytes(read_memory(report.thread, report.arguments[2], 8), "little") & _CREATES)


def announced_point(report: Report) -> str:
    """The name of the fault point that this write announces, or an empty string: most writes announce nothing."""
    if report.name != "write" or report.arguments[0] != 1 or report.arguments[2] > _LONGEST_ANNOUNCEMENT:
        return ""
    written = read_memory(report.thread, report.arguments[1], report.arguments[2])
    return written.removeprefix(ANNOUNCEMENT).decode().strip() if written.startswith(ANNOUNCEMENT) else ""


def changed_paths(report: Report) -> tuple[str, ...]:
    """What the call is about to change, as absolute paths; no link is followed in the last step of a name.

    Something that is no file has no path: `socket:[123]`.
    """
    found = []
    for what in _TABLE[report.name][2]:
        kind, place = what[:-1], int(what[-1])
        if kind == "fd":
            found.append(_opened(report.thread, report.arguments[place]))
        elif kind == "path":
            found.append(_named(report.thread, _AT_FDCWD, report.arguments[place]))
        else:
            found.append(_named(report.thread, report.arguments[place], report.arguments[place + 1]))
    return tuple(found)


def _named(thread: int, folder: int, pointer: int) -> str:
    name = read_text(thread, pointer) if pointer else ""
    if name.startswith("/"):
        return os.path.normpath(name)
    number = ctypes.c_int(folder & 0xFFFFFFFF).value
    base = os.readlink(f"/proc/{thread}/cwd") if number == _AT_FDCWD else _opened(thread, folder)
    return os.path.normpath(os.path.join(base, name))


def _opened(thread: int, descriptor: int) -> str:
    return os.readlink(f"/proc/{thread}/fd/{descriptor & 0xFFFFFFFF}").removesuffix(" (deleted)")


def read_memory(thread: int, address: int, length: int) -> bytes:
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
        return os.pread(memory.fileno(), length, address)


def write_memory(thread: int, address: int, data: bytes) -> None:
    with open(f"/proc/{thread}/mem", "r+b", buffering=0) as memory:
        os.pwrite(memory.fileno(), data, address)


def read_text(thread: int, address: int) -> str:
    """A string that ends in a zero byte. Page by page: the one after it may not be mapped."""
    text = b""
    while b"\0" not in text:
        piece = read_memory(thread, address + len(text), _PAGE - (address + len(text)) % _PAGE)
        if not piece:
            break
        text += piece
    return os.fsdecode(text.partition(b"\0")[0])
