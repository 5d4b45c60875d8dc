"""The system calls that a sandboxed process may make, as two BPF programs: one from its start, one from its order.

It is an allow-list: every other call fails with EPERM, and a call of a foreign architecture kills the process. If a
call is allowed only in part, its arguments are checked: no executable or file-backed memory, no rename that replaces,
no change of limits, times on a descriptor only, and no close of the lock that shows recovery "this child still runs".
The sandboxed process loads this module, so it uses the standard library only. The programs are made once, before the
fork.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from remit.core.syscalls import number_of, prepared, require

LOCK_DESCRIPTOR: Final = 3
MAX_TRANSFER: Final = 64 << 20
MAX_COPY: Final = 16 << 20
"""The most bytes of one call: to read or write, and to copy between files."""

PLAIN: Final = (
    *("lseek", "dup"),
    *("openat2", "fstat", "newfstatat", "statx", "fstatfs", "fgetxattr", "flistxattr"),
    *("fsync", "fdatasync", "ftruncate", "fadvise64"),
    *("brk", "munmap", "mremap", "madvise", "futex", "sched_yield", "getrandom"),
    *("clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "poll", "ppoll"),
    *("getpid", "gettid", "getppid", "getuid", "geteuid", "getgid", "getegid", "getrusage"),
    # restart_syscall: the kernel uses it to continue a sleep after the host stopped the process.
    *("rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall", "exit", "exit_group"),
)
"""Allowed with any arguments. Reading a directory, links, mkdir, chdir and kill are not here."""

PRELUDE: Final = (
    "landlock_create_ruleset",
    "landlock_add_rule",
    "landlock_restrict_self",
    "seccomp",
    "recvmsg",
    "capset",
)
"""The calls that the trusted code needs between start and order. The second program removes them."""

ENGINE: Final = ("stat", "unlink")
"""The additional calls of a database engine, which uses full paths of files and no open folder.

Landlock governs what is removed. An engine would also read links, and works without it.
"""

PROGRAM: Final = (
    *("access", "faccessat", "faccessat2", "lstat", "readlink", "readlinkat", "statfs"),
    *("getcwd", "chdir", "fchdir", "getdents64", "rmdir", "rename", "renameat"),
    *("set_robust_list", "rseq", "sched_getaffinity", "getcpu", "select", "pselect6"),
    *("uname", "sysinfo", "times"),
)
"""The additional calls of a program besides those of an engine: names of files, threads, and facts about the system.

Landlock governs what is read, made, moved and removed. Not allowed, though programs use them: links (another process
could leave a folder through one), flock (it could release the lock that recovery checks), and fallocate (its bytes are
in no count).
"""

PRETENDED: Final = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "utimensat", "umask"),
    *("listxattr", "llistxattr"),
)
"""Calls that report success to a program and do nothing.

Landlock does not govern modes and times, so a program could set them on any file of the user. Copying a file in Python
sets both.
"""

CONNECTING: Final = ("connect", "getsockopt", "setsockopt", "getsockname", "getpeername", "stat")
"""The calls for a connection, before the confinement. The second program removes them, and `socket` too.

`stat` is here because the library looks up the trusted certificates by their paths.
"""

CONNECTED: Final = ("rt_sigpending", "rt_sigtimedwait")
"""The calls that a library needs, besides sending and receiving, to notice that its connection was closed."""

RESTORES: Final = ("fchmod", "fchown", "fsetxattr", "fremovexattr")
"""Owner, mode and attributes, on a descriptor: only for an effect that restores a file from a snapshot."""

_PROT_EXEC: Final = 4
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_MAP_SHARED: Final = 1
_AT_REMOVEDIR: Final = 0x200
# CLONE_VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, SETTLS, PARENT_SETTID, CHILD_CLEARTID: the flags with which C libraries
# start a thread. One library adds CLONE_DETACHED, which has no effect.
_A_THREAD: Final = (0x003D0F00, 0x007D0F00)
_READ_WRITE_AND_ENTER: Final = (0o400, 0o200, 0o100)
_MAP_ANONYMOUS: Final = 0x20
_RENAME_NOREPLACE, _RENAME_EXCHANGE = 1, 2
_SYNC_FILE_RANGE_WRITE: Final = 2
_SET_ID_BITS: Final = 0o6000
_FIONCLEX, _FIOCLEX = 0x5450, 0x5451
_F_DUPFD, _F_GETFD, _F_SETFD, _F_GETFL, _F_SETFL, _F_DUPFD_CLOEXEC = 0, 1, 2, 3, 4, 1030
_F_GETLK, _F_SETLK = 5, 6
_COMMANDS: Final = (_F_DUPFD, _F_GETFD, _F_SETFD, _F_GETFL, _F_SETFL, _F_DUPFD_CLOEXEC)


class Instruction(NamedTuple):
    """One `struct sock_filter`."""

    code: int
    if_true: int
    if_false: int
    value: int


class ArgumentCheck(NamedTuple):
    """A condition on one argument: in, not_in, null, most (64 bits), lacks (a bit), has (a bit)."""

    kind: str
    argument: int
    values: tuple[int, ...] = ()


# Flags, commands and descriptors have 32 bits in the kernel, which ignores the upper half. The checks do the same.
CHECKED: Final[dict[str, tuple[ArgumentCheck, ...]]] = {
    # Only anonymous memory, because mapped files are not in the count of bytes. Never executable, so that no code can
    # be added.
    "mmap": (ArgumentCheck("lacks", 2, (_PROT_EXEC,)), ArgumentCheck("has", 3, (_MAP_ANONYMOUS,))),
    # The kernel counts bytes, and acts on a kill, when such a call ends, so none may take long. For the same reason
    # readv and similar calls are not allowed: they can list one piece of memory a thousand times.
    "copy_file_range": (ArgumentCheck("most", 4, (MAX_COPY,)),),
    **dict.fromkeys(("read", "write", "pread64", "pwrite64"), (ArgumentCheck("most", 2, (MAX_TRANSFER,)),)),
    "mprotect": (ArgumentCheck("lacks", 2, (_PROT_EXEC,)),),
    "renameat2": (ArgumentCheck("in", 4, (_RENAME_NOREPLACE,)),),
    # Only the flag that starts the writing. The other flags wait.
    "sync_file_range": (ArgumentCheck("in", 3, (_SYNC_FILE_RANGE_WRITE,)),),
    # No file may be created as a program that runs as its owner. The arguments of openat2 are not visible to a filter;
    # there the missing privilege prevents it.
    "openat": (ArgumentCheck("lacks", 3, (_SET_ID_BITS,)),),
    "unlinkat": (ArgumentCheck("in", 2, (0,)),),
    "utimensat": (ArgumentCheck("null", 1),),
    "prlimit64": (ArgumentCheck("in", 0, (0,)), ArgumentCheck("null", 2)),
    "ioctl": (ArgumentCheck("in", 1, (_FIOCLEX, _FIONCLEX)),),
    # Not allowed: leases, locks and owners, with which a descriptor can disturb other processes.
    "fcntl": (ArgumentCheck("in", 1, _COMMANDS),),
    "close": (ArgumentCheck("not_in", 0, (LOCK_DESCRIPTOR,)),),
    "dup2": (ArgumentCheck("not_in", 1, (LOCK_DESCRIPTOR,)),),
    "dup3": (ArgumentCheck("not_in", 1, (LOCK_DESCRIPTOR,)),),
}

_LOAD, _JUMP, _EQUAL, _MORE_THAN, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x05, 0x15, 0x25, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16  # in `struct seccomp_data`
_KILL: Final = 0x80000000
_ALLOW: Final = 0x7FFF0000
_FAIL: Final = 0x00050000
_ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32: Final = 0x40000000
_SET_MODE_FILTER: Final = 1

_FAR: Final = 255
"""The most instructions that a conditional jump can skip. An unconditional jump can skip any number."""
_TOGETHER: Final = 5

_deny: Final = Instruction(_RETURN, 0, 0, _FAIL | errno.EPERM)
_allow: Final = Instruction(_RETURN, 0, 0, _ALLOW)
_pretend: Final = Instruction(_RETURN, 0, 0, _FAIL)


PROGRAM_CHECKED: Final[dict[str, tuple[ArgumentCheck, ...]]] = {
    # Modules are mapped from files, and files may be mapped for reading. Writing needs calls that are counted. A
    # program can bring its own code in any case, so executable memory adds no risk: the limit is the few calls.
    "mmap": (ArgumentCheck("lacks", 3, (_MAP_SHARED,)),),
    "renameat2": (ArgumentCheck("in", 4, (0, _RENAME_NOREPLACE)),),
    "unlinkat": (ArgumentCheck("in", 2, (0, _AT_REMOVEDIR)),),
    "clone": (ArgumentCheck("in", 0, _A_THREAD),),
    # A folder that its owner cannot read could not be removed later.
    "mkdir": tuple(ArgumentCheck("has", 1, (bit,)) for bit in _READ_WRITE_AND_ENTER),
    "mkdirat": tuple(ArgumentCheck("has", 2, (bit,)) for bit in _READ_WRITE_AND_ENTER),
}


NETWORK_CHECKED: Final[dict[str, tuple[ArgumentCheck, ...]]] = {
    "socket": (ArgumentCheck("in", 0, (_AF_UNIX, _AF_INET, _AF_INET6)),),
    # Only to the other end of the connection.
    "sendto": (ArgumentCheck("null", 4), ArgumentCheck("most", 2, (MAX_TRANSFER,))),
    "recvfrom": (ArgumentCheck("null", 4), ArgumentCheck("most", 2, (MAX_TRANSFER,))),
}


def checks_of(
    *, exchanges: bool, engine: bool, program: bool = False, network: bool = False
) -> dict[str, tuple[ArgumentCheck, ...]]:
    """Return the checks of the calls that are allowed in part.

    With `exchanges`, two files may be exchanged, which loses neither. Otherwise the new name of a rename must be free.
    An engine locks its database, so that no other engine writes to it. It may not wait for a lock. A program could take
    any number of locks, and each needs kernel memory that no quota includes. It works on copies that no other process
    opens, so its locks report success and none is taken.
    """
    checked = dict(CHECKED)
    if exchanges:
        checked["renameat2"] = (ArgumentCheck("in", 4, (_RENAME_NOREPLACE, _RENAME_EXCHANGE)),)
    if program:
        checked |= PROGRAM_CHECKED
    if engine or program:
        checked["fcntl"] = (ArgumentCheck("in", 1, (*_COMMANDS, _F_GETLK, _F_SETLK)),)
    if network:
        checked |= NETWORK_CHECKED
    return checked


def allow_list(
    machine: str, *, exchanges: bool = False, engine: bool = False, program: bool = False, network: bool = False
) -> list[Instruction]:
    """Return the program from the start on: a balanced tree over the numbers, which the kernel walks for every call."""
    blocks: dict[int, list[Instruction]] = {}
    checked = checks_of(exchanges=exchanges, engine=engine, program=program, network=network)
    more = (*ENGINE, *PROGRAM) if program else ENGINE if engine else ()
    if network:
        more = (*more, *CONNECTING, *CONNECTED)
    for name in (*PLAIN, *PRELUDE, *RESTORES, *more, *checked):
        if (number := number_of(name, machine)) is not None:
            checks = [instruction for check in checked.get(name, ()) for instruction in compile_check(check)]
            blocks[number] = [*checks, _allow]
    if program:
        number = number_of("fcntl", machine) or 0
        blocks[number] = [*_pretend_if(1, _F_SETLK), *blocks[number]]
    for name in PRETENDED if program else ():
        if (number := number_of(name, machine)) is not None:
            blocks[number] = [_pretend]
    # The C library then falls back on clone, which is refused with EPERM.
    blocks[number_of("clone3", machine) or 0] = [Instruction(_RETURN, 0, 0, _FAIL | errno.ENOSYS)]
    return [
        Instruction(_LOAD, 0, 0, _ARCHITECTURE_AT),
        Instruction(_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        Instruction(_RETURN, 0, 0, _KILL),
        Instruction(_LOAD, 0, 0, _NUMBER_AT),
        Instruction(_AT_LEAST, 0, 1, _X32),
        Instruction(_RETURN, 0, 0, _KILL),
        *_tree(_leaves(sorted(blocks.items()))),
    ]


def remove_calls(machine: str, *, restores: bool, program: bool = False, network: bool = False) -> list[Instruction]:
    """Return the program from the order on: a short list of calls to remove. The first program stays in force."""
    names: tuple[str, ...] = PRELUDE if restores else (*PRELUDE, *RESTORES)
    if program:  # if two programs answer, the kernel uses the answer of the later one
        names = tuple(name for name in names if name not in PRETENDED)
    if network:
        names = (*names, "socket", *CONNECTING)
    numbers = [number for name in names if (number := number_of(name, machine)) is not None]
    jumps = [Instruction(_EQUAL, len(numbers) - place, 0, number) for place, number in enumerate(numbers)]
    return [Instruction(_LOAD, 0, 0, _NUMBER_AT), *jumps, _allow, _deny]


def _pretend_if(argument: int, value: int) -> list[Instruction]:
    """Return instructions that report success, without the call, if the argument has this value."""
    load = Instruction(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument)
    return [load, Instruction(_EQUAL, 0, 1, value), _pretend]


def compile_check(check: ArgumentCheck) -> list[Instruction]:
    """Return instructions that return EPERM unless the condition is true."""
    low = _ARGUMENTS_AT + 8 * check.argument
    load, count = Instruction(_LOAD, 0, 0, low), len(check.values)
    match check.kind:
        case "in":
            return [load, *(Instruction(_EQUAL, count - i, 0, v) for i, v in enumerate(check.values)), _deny]
        case "not_in":
            jumps = (Instruction(_EQUAL, count - i, 0, v) for i, v in enumerate(check.values))
            return [load, *jumps, Instruction(_JUMP, 0, 0, 1), _deny]
        case "null":
            high = Instruction(_LOAD, 0, 0, low + 4)
            return [load, Instruction(_EQUAL, 0, 2, 0), high, Instruction(_EQUAL, 1, 0, 0), _deny]
        case "most":
            high = Instruction(_LOAD, 0, 0, low + 4)
            return [high, Instruction(_EQUAL, 0, 2, 0), load, Instruction(_MORE_THAN, 0, 1, check.values[0]), _deny]
        case "lacks":
            return [load, Instruction(_ANY_BIT, 0, 1, check.values[0]), _deny]
        case "has":
            return [load, Instruction(_ANY_BIT, 1, 0, check.values[0]), _deny]
    raise ValueError(f"there is no check {check.kind!r}")


Leaf = tuple[int, list[Instruction]]
"""The lowest call number of a leaf, and its instructions for the numbers from there up to the next leaf."""


def _leaves(blocks: Sequence[tuple[int, list[Instruction]]]) -> list[Leaf]:
    """Return the leaves of the tree. Neighbours that are always allowed share one leaf.

    The kernel compiles the program for every child, so each instruction costs time.
    """
    leaves: list[Leaf] = []
    together: list[int] = []
    for number, block in blocks:
        if together and (block != [_allow] or len(together) == _TOGETHER):
            leaves.append(_plain_leaf(together))
            together = []
        if block == [_allow]:
            together.append(number)
        else:
            leaves.append((number, [Instruction(_EQUAL, 0, len(block), number), *block, _deny]))
    return [*leaves, _plain_leaf(together)] if together else leaves


def _plain_leaf(numbers: list[int]) -> Leaf:
    jumps = [Instruction(_EQUAL, len(numbers) - place, 0, number) for place, number in enumerate(numbers)]
    return numbers[0], [*jumps, _deny, _allow]


def _tree(leaves: Sequence[Leaf]) -> list[Instruction]:
    if len(leaves) == 1:
        return leaves[0][1]
    middle = len(leaves) // 2
    left, right = _tree(leaves[:middle]), _tree(leaves[middle:])
    first = leaves[middle][0]
    if len(left) <= _FAR:
        return [Instruction(_AT_LEAST, len(left), 0, first), *left, *right]
    return [Instruction(_AT_LEAST, 0, 1, first), Instruction(_JUMP, 0, 0, len(left)), *left, *right]


class Filter:
    """A program that a child installs with one system call."""

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        # An array of `struct sock_filter`, and the `struct sock_fprog` that points to it.
        self._filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in instructions))
        program = struct.pack("HP", len(instructions), ctypes.addressof(self._filters))
        self._program = ctypes.create_string_buffer(program)
        self._address = ctypes.addressof(self._program)
        self._call = prepared(ctypes.c_ulong, ctypes.c_ulong, ctypes.c_void_p)
        self._number = number_of("seccomp") or 0

    def install(self) -> None:
        """Install the program permanently. Needs no_new_privs."""
        require(self._call(self._number, _SET_MODE_FILTER, 0, self._address), "seccomp")


class Filters(NamedTuple):
    """The filters that a child may need, made in the zygote."""

    birth: Filter
    order: Filter
    order_to_restore: Filter


def prepare_filters(
    *, exchanges: bool = False, engine: bool = False, program: bool = False, network: bool = False
) -> Filters:
    machine = os.uname().machine
    return Filters(
        Filter(allow_list(machine, exchanges=exchanges, engine=engine, program=program, network=network)),
        Filter(remove_calls(machine, restores=False, program=program, network=network)),
        Filter(remove_calls(machine, restores=True, network=network)),
    )
