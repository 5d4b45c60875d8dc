"""Children that are made for programs have more calls than an engine: exactly these, on both architectures."""

from collections.abc import Iterator
from typing import Final

import pytest

from remit.core.syscalls import number_of
from remit.sandbox import landlock, seccomp
from remit.sandbox.host import SandboxHost
from remit.sandbox.landlock import LIBRARY, decide_rights
from remit.sandbox.orders import Build, Quotas, Usage
from remit.sandbox.quotas import decide_breach
from remit.sandbox.seccomp import allow_list, remove_calls
from tests.sandbox import system_call_numbers
from tests.sandbox.hostile_sandbox import Arena, a_host, attempt, make_arena
from tests.sandbox.system_call_numbers import ENDS_OR_STOPS, HARMLESS
from tests.sandbox.test_hostile_calls import NEWEST, PROBES
from tests.sandbox.test_seccomp import ALLOW, DENY, MACHINES, walk

PRETEND: Final = 0x00050000
PROGRAMS: Final = Build(program=True, open_files=512)
NEVER: Final = {
    "x86_64": (
        41,
        42,
        43,
        44,
        46,
        49,
        50,
        53,
        57,
        58,
        59,
        73,
        86,
        88,
        101,
        133,
        155,
        161,
        165,
        217 + 58,
        272,
        285,
        308,
    ),
    "aarch64": (198, 203, 206, 211, 200, 201, 199, 221, 32, 37, 36, 117, 33, 41, 51, 40, 76, 97, 47, 268),
}
"""Sockets, fork, exec, flock, links, ptrace, mknod, mount and its like, splice, unshare, fallocate, setns."""


@pytest.mark.req("FX-11")
@pytest.mark.parametrize("machine", MACHINES)
def test_the_flag_allows_exactly_these_calls_more(machine: str) -> None:
    plain, program = allow_list(machine, engine=True), allow_list(machine, program=True)
    added = {number_of(name, machine) for name in seccomp.PROGRAM}
    checked = {number_of(name, machine) for name in seccomp.PROGRAM_CHECKED}
    pretended = {number_of(name, machine) for name in seccomp.PRETENDED}
    for number in range(1_000):
        said = walk(program, number, (), machine)
        if number in pretended:
            assert said == PRETEND
        elif number in added:
            assert (walk(plain, number, (), machine), said) == (DENY, ALLOW)
        elif number not in checked:
            assert said == walk(plain, number, (), machine)
    assert all(walk(program, number, (), machine) == DENY for number in NEVER[machine])
    assert all(max(one.if_true, one.if_false) <= 255 for one in program)


@pytest.mark.req("FX-11", "FX-12")
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("command, said", [(5, ALLOW), (6, PRETEND), (7, DENY), (37, DENY), (38, DENY), (1024, DENY)])
def test_a_lock_is_asked_about_and_pretended_and_never_taken(command: int, said: int, machine: str) -> None:
    number = number_of("fcntl", machine) or 0
    assert walk(allow_list(machine, program=True), number, (5, command), machine) == said


@pytest.mark.req("FX-11")
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "name, arguments, allowed",
    [
        ("clone", (0x003D0F00,), True),
        ("clone", (0x007D0F00,), True),
        ("clone", (17,), False),
        ("clone", (0x003D0F00 | 0x10000000,), False),
        ("clone", (0x00010000,), False),
        ("mmap", (0, 4096, 5, 2), True),
        ("mmap", (0, 4096, 3, 0x22), True),
        ("mmap", (0, 4096, 3, 1), False),
        ("mmap", (0, 4096, 1, 1), False),  # mprotect could make it one to write to
        ("mmap", (0, 4096, 3, 3), False),
        ("mprotect", (0, 4096, 5), False),
        ("renameat2", (5, 1, 5, 1, 0), True),
        ("renameat2", (5, 1, 5, 1, 2), False),
        ("renameat2", (5, 1, 5, 1, 4), False),
        ("unlinkat", (5, 1, 0x200), True),
        ("mkdirat", (5, 1, 0o777), True),
        ("mkdirat", (5, 1, 0o377), False),
        ("mkdirat", (5, 1, 0o600), False),
        ("openat", (5, 1, 0o101, 0o4755), False),
        ("close", (3,), False),
    ],
)
def test_of_a_program_too_a_call_is_allowed_only_with_these_arguments(
    name: str,
    arguments: tuple[int, ...],
    allowed: bool,  # noqa: FBT001
    machine: str,
) -> None:
    number = number_of(name, machine)
    assert number is not None
    assert walk(allow_list(machine, program=True), number, arguments, machine) == (ALLOW if allowed else DENY)


@pytest.mark.req("FX-11")
@pytest.mark.parametrize("machine", MACHINES)
def test_with_the_order_the_means_to_lock_are_gone_and_what_is_pretended_stays_so(machine: str) -> None:
    program = remove_calls(machine, restores=False, program=True)
    assert walk(program, number_of("fchmod", machine) or 0, (), machine) == ALLOW  # as the first filter says
    for name in ("fchown", "fsetxattr", "seccomp", "recvmsg", "landlock_restrict_self"):
        assert walk(program, number_of(name, machine) or 0, (), machine) == DENY


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    return make_arena(tmp_path_factory.mktemp("build") / "arena")


@pytest.fixture(scope="module")
def programs(arena: Arena) -> Iterator[SandboxHost]:
    with a_host(arena, build=PROGRAMS) as host:
        yield host


@pytest.mark.req("FX-11")
def test_of_all_numbers_only_the_known_ones_and_those_of_a_program_get_through(
    programs: SandboxHost, arena: Arena
) -> None:
    leave_out = [*(system_call_numbers.number_of(name) for name in ENDS_OR_STOPS), *PROBES]
    seen = set(attempt(programs, arena, "sweep", up_to=NEWEST, leave_out=leave_out)["let_through"])
    known = {system_call_numbers.number_of(name) for name in (*HARMLESS, "clone3")}
    added = {
        number_of(name) for name in (*seccomp.ENGINE, *seccomp.PROGRAM, *seccomp.PROGRAM_CHECKED, *seccomp.PRETENDED)
    }
    assert seen - known <= added
    assert {number_of(name) for name in seccomp.PRETENDED} - {None} <= seen


def test_a_folder_of_copies_has_no_right_to_links_devices_or_execution() -> None:
    execute, char, sock, fifo, block, sym, ioctl = (1 << bit for bit in (0, 6, 9, 10, 11, 12, 15))
    (rights,) = decide_rights([(5, "work")]).values()
    assert not (rights | LIBRARY) & (execute | char | sock | fifo | block | sym | ioctl)
    assert not LIBRARY & (landlock.WRITE_FILE | landlock.MAKE_REG | landlock.REMOVE_FILE | landlock.TRUNCATE)


@pytest.mark.parametrize("threads, is_breach", [(256, False), (257, True)])
def test_threads_are_counted_where_there_can_be_any(threads: int, is_breach: bool) -> None:  # noqa: FBT001
    used = Usage(0.0, 0, 0, 0, threads)
    assert (decide_breach(Quotas(1, 1, 1, 1.0, threads=256), used) is not None) is is_breach
    assert decide_breach(Quotas(1, 1, 1, 1.0), used) is None
