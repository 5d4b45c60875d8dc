"""System calls by number, for the two architectures that Remit knows, and the functions that make them.

The sandboxed process loads this module too, so it uses the standard library only.
"""

import ctypes
import os
import sys
from typing import Any, Final

# Grouped by purpose. None if an architecture never had the call.
_NUMBERS: Final[dict[str, tuple[int | None, int | None]]] = {
    "access": (21, None),
    "brk": (12, 214),
    "capset": (126, 91),
    "chdir": (80, 49),
    "chmod": (90, None),
    "clock_getres": (229, 114),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "clone": (56, 220),
    "clone3": (435, 435),
    "close": (3, 57),
    "close_range": (436, 436),
    "connect": (42, 203),
    "copy_file_range": (326, 285),
    "dup": (32, 23),
    "dup2": (33, None),
    "dup3": (292, 24),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "fadvise64": (221, 223),
    "fchdir": (81, 50),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fchown": (93, 55),
    "fcntl": (72, 25),
    "fdatasync": (75, 83),
    "fgetxattr": (193, 10),
    "flistxattr": (196, 13),
    "fremovexattr": (199, 16),
    "fsetxattr": (190, 7),
    "fstat": (5, 80),
    "fstatfs": (138, 44),
    "fsync": (74, 82),
    "ftruncate": (77, 46),
    "futex": (202, 98),
    "getcpu": (309, 168),
    "getcwd": (79, 17),
    "getdents64": (217, 61),
    "getegid": (108, 177),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getpeername": (52, 205),
    "getpid": (39, 172),
    "getppid": (110, 173),
    "getrandom": (318, 278),
    "getrusage": (98, 165),
    "getsockname": (51, 204),
    "getsockopt": (55, 209),
    "gettid": (186, 178),
    "gettimeofday": (96, 169),
    "getuid": (102, 174),
    "ioctl": (16, 29),
    "landlock_add_rule": (445, 445),
    "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446),
    "listxattr": (194, 11),
    "llistxattr": (195, 12),
    "lseek": (8, 62),
    "lstat": (6, None),
    "madvise": (28, 233),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "munmap": (11, 215),
    "nanosleep": (35, 101),
    "newfstatat": (262, 79),
    "openat": (257, 56),
    "openat2": (437, 437),
    "poll": (7, None),
    "ppoll": (271, 73),
    "prctl": (157, 167),
    "pread64": (17, 67),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "pselect6": (270, 72),
    "pwrite64": (18, 68),
    "read": (0, 63),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "recvfrom": (45, 207),
    "recvmsg": (47, 212),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "restart_syscall": (219, 128),
    "rmdir": (84, None),
    "rseq": (334, 293),
    "rt_sigaction": (13, 134),
    "rt_sigpending": (127, 136),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "rt_sigtimedwait": (128, 137),
    "sched_getaffinity": (204, 123),
    "sched_yield": (24, 124),
    "seccomp": (317, 277),
    "select": (23, None),
    "sendto": (44, 206),
    "set_robust_list": (273, 99),
    "setsockopt": (54, 208),
    "sigaltstack": (131, 132),
    "socket": (41, 198),
    "stat": (4, None),
    "statfs": (137, 43),
    "statx": (332, 291),
    "sync_file_range": (277, 84),
    "sysinfo": (99, 179),
    "times": (100, 153),
    "umask": (95, 166),
    "uname": (63, 160),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "utime": (132, None),
    "utimensat": (280, 88),
    "utimes": (235, None),
    "write": (1, 64),
}

_COLUMN: Final = {"x86_64": 0, "aarch64": 1}

_HERE: Final = os.uname().machine

_libc: Final = ctypes.CDLL(None, use_errno=True)


def number_of(name: str, machine: str | None = None) -> int | None:
    """Return the number of the call on this or the given architecture, or None if it has no such call."""
    return _NUMBERS[name][_COLUMN[machine or _HERE]]


def number_here(name: str) -> int:
    """Return the number on this machine. If it is unknown, return -1, which a kernel answers with ENOSYS."""
    if sys.platform != "linux" or _HERE not in _COLUMN:
        return -1
    found = number_of(name)
    return -1 if found is None else found


def prepared(*arguments: Any) -> Any:
    """Return `syscall(2)` with its types declared once, as a separate function object. The call number comes first."""
    function = _libc["syscall"]
    function.restype = ctypes.c_long
    function.argtypes = [ctypes.c_long, *arguments]
    return function


def prctl(option: int, argument: int) -> None:
    """Change one setting of this process. OSError if the kernel refuses."""
    words = [ctypes.c_ulong(word) for word in (argument, 0, 0, 0)]
    require(_libc.prctl(ctypes.c_int(option), *words), "prctl")


_RESOURCES: Final = {"fsize": 1, "core": 4, "nofile": 7, "as": 9}
"""Resources of `setrlimit`, by the end of their constant's name. The module `resource` would slow every fork."""


def limit(which: str, most: int) -> int:
    """Lower a limit of this process permanently, and return it. A limit that is already lower stays."""
    number, resource = number_here("prlimit64"), _RESOURCES[which]
    call = prepared(ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    limits = (ctypes.c_uint64 * 2)()  # soft and hard limit; the largest number means no limit
    require(call(number, 0, resource, None, limits), "prlimit64")
    limits[0] = limits[1] = min(most, limits[1])
    require(call(number, 0, resource, limits, None), "prlimit64")
    return int(limits[0])


class Limit:
    """A limit that is set later by a single call.

    Right after a fork, each page that is written must first be copied.
    """

    __slots__ = ("_arguments", "_call", "_limits")

    def __init__(self, which: str, most: int) -> None:
        self._limits = (ctypes.c_uint64 * 2)(most, most)
        self._arguments = (number_here("prlimit64"), 0, _RESOURCES[which], ctypes.addressof(self._limits), None)
        self._call = prepared(ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)

    def set(self) -> None:
        """Set the limit permanently. OSError if it is already lower."""
        require(self._call(*self._arguments), "prlimit64")


def require(result: int, what: str) -> int:
    """Return the result of a call, or raise its OSError."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result
