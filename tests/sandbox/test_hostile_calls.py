"""System calls that no effect needs are refused by the kernel, whoever runs the host and however they are made.

Each call is made with its raw number, first without confinement: there it gets through to the kernel, which answers
something else. Where that takes root, an ordinary user's kernel may refuse it in the same words, and the comparison is
left out.
"""

import errno
import os
import platform
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from remit.sandbox.host import InterruptedTaskError, SandboxHost
from tests.sandbox.hostile_sandbox import BUILDS, Arena, a_host, attempt, make_arena
from tests.sandbox.system_call_numbers import ENDS_OR_STOPS, HARMLESS, number_of

SELF, PARENT, FOLDER, FILE, CHANNEL = ({"is": word} for word in ("self", "parent", "folder", "file", "channel"))
OWN: Final = {"path": "/inside/taken/source.bin"}
NOBODY: Final = 65534
HERE: Final = -100  # AT_FDCWD
FIFO: Final = 0o010600


def text(value: str) -> dict[str, str]:
    return {"hex": (value.encode() + b"\0").hex()}


def raw(value: str) -> dict[str, str]:
    return {"hex": value.replace(" ", "")}


NO_CORE: Final = raw("00" * 16)
QUEUED: Final = raw("00000000 00000000 ffffffff" + "00" * 116)
LIKE_A_MESSAGE: Final = raw("00" * 56)


class Call(NamedTuple):
    """A system call and its arguments. `root`: only root's kernel answers it differently without a filter."""

    name: str
    arguments: tuple[Any, ...]
    root: bool = False
    controlled: bool = True

    def __str__(self) -> str:
        return self.name


SOCKETS: Final = [
    Call("socket", (2, 1, 0)),  # TCP
    Call("socket", (2, 2, 0)),  # UDP
    Call("socket", (10, 1, 0)),  # TCP over IPv6
    Call("socket", (1, 1, 0)),  # Unix
    Call("socket", (16, 3, 0)),  # netlink
    Call("socket", (17, 3, 0x0300), root=True),  # packets
    Call("socket", (38, 5, 0)),  # the kernel's ciphers
    Call("socket", (40, 1, 0)),  # the machine's own host
    Call("socketpair", (1, 1, 0, raw("00" * 8))),
    Call("connect", (CHANNEL, raw("0100 2f00"), 4)),
    Call("bind", (CHANNEL, raw("0100"), 2)),
    Call("listen", (CHANNEL, 1)),
    Call("accept4", (CHANNEL, 0, 0, 0)),
    Call("sendto", (CHANNEL, text("x"), 0, 0, 0, 0)),
    Call("sendmsg", (CHANNEL, LIKE_A_MESSAGE, 0)),
    Call("sendmmsg", (CHANNEL, 0, 0, 0)),
]
PROCESSES: Final = [
    Call("fork", ()),
    Call("vfork", (), controlled=False),  # returns twice on one stack: no safe way to let it succeed from here
    Call("clone", (17, 0, 0, 0, 0)),  # SIGCHLD: a fork
    Call("clone", (0x10000, 0, 0, 0, 0)),  # CLONE_THREAD
    Call("clone", (0x10000000 | 17, 0, 0, 0, 0)),  # CLONE_NEWUSER
    Call("execve", (text("/nothing/here"), 0, 0)),
    Call("execveat", (HERE, text("/nothing/here"), 0, 0, 0)),
    Call("memfd_create", (text("code"), 0)),
    Call("kill", (PARENT, 0)),
    Call("kill", (-1, 0)),
    Call("tkill", (PARENT, 0)),
    Call("tgkill", (PARENT, PARENT, 0)),
    Call("rt_sigqueueinfo", (PARENT, 0, QUEUED)),
    Call("rt_tgsigqueueinfo", (PARENT, PARENT, 0, QUEUED)),
    Call("pidfd_open", (PARENT, 0)),
    Call("pidfd_send_signal", (-1, 0, 0, 0)),
    Call("pidfd_getfd", (-1, 0, 0)),
    Call("ptrace", (17, PARENT, 0, 0)),  # PTRACE_DETACH
    Call("process_vm_readv", (PARENT, 0, 0, 0, 0, 0)),
    Call("process_vm_writev", (PARENT, 0, 0, 0, 0, 0)),
    Call("process_madvise", (-1, 0, 0, 0, 0)),
    Call("process_mrelease", (-1, 0)),
    Call("prctl", (1, 0, 0, 0, 0)),  # PR_SET_PDEATHSIG: to outlive the parent
    Call("prctl", (36, 1, 0, 0, 0)),  # PR_SET_CHILD_SUBREAPER
    Call("prctl", (4, 1, 0, 0, 0)),  # PR_SET_DUMPABLE
    Call("setuid", (NOBODY,), root=True),  # any change of user also clears the parent-death signal
    Call("setgid", (NOBODY,), root=True),
    Call("setreuid", (-1, -1)),
    Call("setresuid", (-1, -1, -1)),
    Call("setresgid", (-1, -1, -1)),
    Call("setfsuid", (NOBODY,)),
    Call("setgroups", (0, 0), root=True),
    Call("capset", (0, 0)),
    Call("personality", (0xFFFFFFFF,)),
]
LIMITS: Final = [
    # Not even one that is in force already: 4 is RLIMIT_CORE, of which nothing is left.
    Call("setrlimit", (4, NO_CORE)),
    Call("prlimit64", (0, 4, NO_CORE, 0)),
    Call("prlimit64", (SELF, 4, NO_CORE, 0)),
    Call("prlimit64", (PARENT, 4, NO_CORE, 0)),
    Call("prlimit64", (PARENT, 7, 0, NO_CORE)),
    Call("sched_setscheduler", (0, 1, raw("01000000")), root=True),  # SCHED_FIFO: to starve whoever watches
    Call("sched_setattr", (0, 0, 0)),
    Call("sched_setaffinity", (0, 8, raw("01" + "00" * 7))),
    Call("setpriority", (0, 0, -10), root=True),
    Call("ioprio_set", (1, 0, 1 << 13), root=True),
]
ATTRIBUTES: Final = [
    Call("chmod", (OWN, 0o777)),
    Call("fchmod", (FILE, 0o777)),
    Call("fchmodat", (FOLDER, text("own"), 0o777)),
    Call("fchmodat2", (FOLDER, text("own"), 0o777, 0)),
    Call("chown", (OWN, -1, -1)),
    Call("lchown", (OWN, -1, -1)),
    Call("fchown", (FILE, -1, -1)),
    Call("fchownat", (HERE, OWN, -1, -1, 0)),
    Call("utime", (OWN, 0)),
    Call("utimes", (OWN, 0)),
    Call("futimesat", (HERE, OWN, 0)),
    Call("utimensat", (HERE, OWN, 0, 0)),
    Call("setxattr", (OWN, text("user.x"), text("1"), 1, 0)),
    Call("lsetxattr", (OWN, text("user.x"), text("1"), 1, 0)),
    Call("fsetxattr", (FILE, text("user.x"), text("1"), 1, 0)),
    Call("setxattrat", (HERE, OWN, 0, text("user.x"), 0, 0)),
    Call("removexattr", (OWN, text("user.none"))),
    Call("fremovexattr", (FILE, text("user.none"))),
    Call("ioctl", (FILE, 0x80086601, raw("00" * 8))),  # FS_IOC_GETFLAGS, the harmless sister of SETFLAGS
    Call("ioctl", (FILE, 0x5412, text("x"))),  # TIOCSTI: type into a terminal
]
NAMES: Final = [
    Call("symlink", (text("/etc"), {"path": "/inside/made/link-1"})),
    Call("symlinkat", (text("/etc"), FOLDER, text("link-2"))),
    Call("mknod", ({"path": "/inside/made/fifo-1"}, FIFO, 0)),
    Call("mknodat", (FOLDER, text("fifo-2"), FIFO, 0)),
    Call("mkdir", ({"path": "/inside/made/folder-1"}, 0o700)),
    Call("mkdirat", (FOLDER, text("folder-2"), 0o700)),
    Call("getdents64", (FOLDER, raw("00" * 1024), 1024)),
]
KERNEL: Final = [
    Call("io_uring_setup", (0, 0)),
    Call("io_uring_enter", (-1, 0, 0, 0, 0, 0)),
    Call("io_uring_register", (-1, 0, 0, 0)),
    Call("io_setup", (0, 0)),
    Call("mount", (0, 0, 0, 0, 0)),
    Call("umount2", (text("/nothing/here"), 0)),
    Call("pivot_root", (0, 0), root=True),
    Call("chroot", (text("/"),), root=True),
    Call("fsopen", (text("nothing"), 0), root=True),
    Call("fsmount", (-1, 0, 0), root=True),
    Call("open_tree", (HERE, text("/"), 0)),
    Call("move_mount", (-1, 0, -1, 0, 0), root=True),
    Call("mount_setattr", (-1, 0, 0, 0, 0)),
    Call("name_to_handle_at", (-1, text("x"), 0, 0, 0)),
    Call("open_by_handle_at", (-1, 0, 0), root=True),
    Call("unshare", (0,)),
    Call("setns", (-1, 0)),
    Call("keyctl", (9999, 0, 0, 0, 0)),
    Call("add_key", (0, 0, 0, 0, 0)),
    Call("request_key", (0, 0, 0, 0)),
    Call("bpf", (9999, raw("00" * 8), 8), root=True),
    Call("userfaultfd", (0x7FFFFFFF,)),
    Call("perf_event_open", (0, 0, 0, 0, 0)),
    Call("reboot", (0, 0, 0, 0), root=True),
    Call("sethostname", (0, -1), root=True),
    Call("init_module", (0, 0, text("")), root=True),
    Call("finit_module", (-1, text(""), 0), root=True),
    Call("delete_module", (text("nothing"), 0), root=True),
    Call("kexec_load", (0, 0, 0, 0xFFFF), root=True),
    Call("swapon", (text("/nothing/here"), 0), root=True),
    Call("settimeofday", (0, 0), root=True),
    Call("clock_settime", (1, raw("00" * 16))),
    Call("iopl", (0,)),
    Call("ioperm", (0, 0, 0)),
    Call("modify_ldt", (0, 0, 0)),
    Call("acct", (text("/nothing/here"),), root=True),
    Call("syslog", (10, 0, 0), root=True),
    Call("quotactl", (0xFFFFFFFF, 0, 0, 0)),
    Call("fanotify_init", (0xFFFFFFFF, 0), root=True),
    Call("inotify_init1", (0xFFFFFFFF,)),
    Call("mq_open", (text("nothing"), 0, 0, 0)),
    Call("shmget", (0, 0, 0)),
    Call("msgget", (12345, 0)),
    Call("semget", (12345, 0, 0)),
    Call("splice", (-1, 0, -1, 0, 0, 0)),
    Call("tee", (-1, -1, 0, 0)),
    Call("vmsplice", (-1, 0, 0, 0)),
    Call("fallocate", (FILE, 0, 0, 4096)),
    Call("sendfile", (FILE, FILE, 0, 0)),
    # One of these can name the same memory a thousand times, and its bytes are counted when it is over.
    *(Call(name, (-1, 0, 0, 0, 0, 0)) for name in ("readv", "writev", "preadv", "pwritev", "preadv2", "pwritev2")),
]


def here(calls: list[Call]) -> list[Call]:
    """Those that this architecture has at all."""
    return [call for call in calls if number_of(call.name) is not None]


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    return make_arena(tmp_path_factory.mktemp("calls") / "arena")


@pytest.fixture(scope="module", params=BUILDS)
def confined(arena: Arena, request: pytest.FixtureRequest) -> Iterator[SandboxHost]:
    with a_host(arena, build=request.param) as host:
        yield host


@pytest.fixture(scope="module")
def loose(arena: Arena) -> Iterator[SandboxHost]:
    with a_host(arena, confined=False) as host:
        yield host


def refused_with(confined: SandboxHost, loose: SandboxHost, arena: Arena, call: Call) -> int:
    """The error number of the confined attempt, once the loose one has ended otherwise."""
    inputs = {"number": number_of(call.name), "arguments": list(call.arguments)}
    result = int(attempt(confined, arena, "call", **inputs)["result"])
    if call.controlled and (os.geteuid() == 0 or not call.root):
        assert attempt(loose, arena, "call", **inputs)["result"] != result, "the control was refused in the same way"
    return -result


@pytest.mark.req("EI-15", "FX-11")
def test_no_kind_of_socket_can_be_made_or_used(
    confined: SandboxHost, loose: SandboxHost, arena: Arena, subtests: pytest.Subtests
) -> None:
    for call in here(SOCKETS):
        with subtests.test(call=call):
            assert refused_with(confined, loose, arena, call) == errno.EPERM


@pytest.mark.req("EI-15", "EI-17", "FX-11")
def test_no_process_can_be_started_changed_or_reached(
    confined: SandboxHost, loose: SandboxHost, arena: Arena, subtests: pytest.Subtests
) -> None:
    for call in here(PROCESSES):
        with subtests.test(call=call):
            assert refused_with(confined, loose, arena, call) == errno.EPERM


@pytest.mark.req("EI-15", "FX-11")
def test_the_newest_way_to_start_a_thread_does_not_exist(
    confined: SandboxHost, loose: SandboxHost, arena: Arena
) -> None:
    """ENOSYS, so that a C library falls back to the call that is refused by name."""
    assert refused_with(confined, loose, arena, Call("clone3", (0, 0))) == errno.ENOSYS


@pytest.mark.req("EI-11")
def test_no_limit_and_no_priority_can_be_changed(
    confined: SandboxHost, loose: SandboxHost, arena: Arena, subtests: pytest.Subtests
) -> None:
    for call in here(LIMITS):
        with subtests.test(call=call):
            assert refused_with(confined, loose, arena, call) == errno.EPERM


@pytest.mark.req("FX-11")
def test_owner_mode_times_and_attributes_stay_even_on_files_within_reach(
    confined: SandboxHost, loose: SandboxHost, arena: Arena, subtests: pytest.Subtests
) -> None:
    for call in here(ATTRIBUTES):
        with subtests.test(call=call):
            assert refused_with(confined, loose, arena, call) == errno.EPERM


@pytest.mark.req("FX-11")
def test_no_link_device_or_folder_can_be_made_and_no_folder_be_listed(
    confined: SandboxHost, loose: SandboxHost, arena: Arena, subtests: pytest.Subtests
) -> None:
    for call in here(NAMES):
        with subtests.test(call=call):
            assert refused_with(confined, loose, arena, call) == errno.EPERM


@pytest.mark.req("FX-11")
def test_the_rest_of_the_kernel_is_out_of_reach(
    confined: SandboxHost, loose: SandboxHost, arena: Arena, subtests: pytest.Subtests
) -> None:
    for call in here(KERNEL):
        with subtests.test(call=call):
            assert refused_with(confined, loose, arena, call) == errno.EPERM


# uretprobe and uprobe on x86_64: no filter sees them, and but for the kernel's own trampoline they end the process.
PROBES: Final = (335, 336) if platform.machine() == "x86_64" else ()
NEWEST: Final = 480
"""Past the last number that any kernel of today knows."""


@pytest.mark.req("FX-11", "EI-17")
def test_of_all_numbers_there_are_only_these_get_through(
    confined: SandboxHost, loose: SandboxHost, arena: Arena
) -> None:
    """Made with arguments that make no sense. Those that are let through with some arguments only have tests above."""
    leave_out = [*(number_of(name) for name in ENDS_OR_STOPS), *PROBES]
    seen = attempt(confined, arena, "sweep", up_to=NEWEST, leave_out=leave_out)["let_through"]
    known = {number_of(name) for name in (*HARMLESS, "clone3")}
    assert [number for number in seen if number not in known] == []
    assert len(seen) > 30, "the control: it is not that everything fails"


@pytest.mark.parametrize("name", ["fchmod", "fchown", "fsetxattr"])
def test_only_an_effect_that_restores_may_set_attributes_and_only_of_what_it_has_open(
    confined: SandboxHost, arena: Arena, name: str
) -> None:
    (call,) = (call for call in ATTRIBUTES if call.name == name)
    inputs = {"number": number_of(name), "arguments": list(call.arguments)}
    assert attempt(confined, arena, "call", restores=True, **inputs)["result"] == 0
    assert attempt(confined, arena, "call", **inputs)["result"] == -errno.EPERM


def test_an_effect_that_restores_may_set_no_attribute_by_name(
    confined: SandboxHost, arena: Arena, subtests: pytest.Subtests
) -> None:
    for call in [call for call in here(ATTRIBUTES) if FILE not in call.arguments]:
        with subtests.test(call=call):
            inputs = {"number": number_of(call.name), "arguments": list(call.arguments)}
            assert attempt(confined, arena, "call", restores=True, **inputs)["result"] == -errno.EPERM


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86_64 has a second set of numbers")
@pytest.mark.req("FX-11")
def test_the_numbers_of_32_bit_programs_are_no_way_round_the_filter(
    confined: SandboxHost, loose: SandboxHost, arena: Arena
) -> None:
    free = attempt(loose, arena, "compatible_call")
    assert free["result"] == free["pid"], "the control: this kernel has the second entry"
    held = attempt(confined, arena, "compatible_call")
    assert held["errno"] == errno.EPERM, "no memory can be made executable, so there is no code that could do it"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86_64 has a third set of numbers")
@pytest.mark.req("FX-11")
def test_the_numbers_of_x32_programs_are_no_way_round_the_filter(confined: SandboxHost, arena: Arena) -> None:
    getpid = 0x40000000 + 39
    assert attempt(confined, arena, "call", number=39, arguments=[])["result"] > 0, "the control"
    with pytest.raises(InterruptedTaskError, match="SIGSYS"):
        attempt(confined, arena, "call", number=getpid, arguments=[])
