"""The kernel's programs say what they should, call by call, on both architectures: walked here as the kernel would."""

import errno

import pytest

from remit.core.syscalls import number_of
from remit.sandbox import landlock, seccomp
from remit.sandbox.landlock import MAKE_REG, READ_FILE, REFER, REMOVE_FILE, TRUNCATE, WRITE_FILE, decide_rights, handled
from remit.sandbox.seccomp import LOCK_DESCRIPTOR, MAX_COPY, MAX_TRANSFER, Instruction, allow_list, remove_calls

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
DENY = FAIL | errno.EPERM
HIGH = 1 << 32


def walk(program: list[Instruction], number: int, arguments: tuple[int, ...] = (), machine: str = "x86_64") -> int:
    """What the kernel would do with this call."""
    words = {0: number, 4: MACHINES.get(machine, 0x40000003)}
    for place in range(6):
        value = arguments[place] if place < len(arguments) else 0
        words |= {16 + 8 * place: value & 0xFFFFFFFF, 20 + 8 * place: value >> 32 & 0xFFFFFFFF}
    accumulator = place = 0
    while True:
        code, if_true, if_false, value = program[place]
        place += 1
        match code:
            case 0x20:
                accumulator = words[value]
            case 0x05:
                place += value
            case 0x15:
                place += if_true if accumulator == value else if_false
            case 0x25:
                place += if_true if accumulator > value else if_false
            case 0x35:
                place += if_true if accumulator >= value else if_false
            case 0x45:
                place += if_true if accumulator & value else if_false
            case 0x06:
                return value
            case _:
                raise AssertionError(f"an instruction that nobody wrote: {code:#x}")


def call(name: str, *arguments: int, machine: str = "x86_64", exchanges: bool = False) -> int:
    number = number_of(name, machine)
    assert number is not None
    return walk(allow_list(machine, exchanges=exchanges), number, arguments, machine)


@pytest.mark.req("FX-11")
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("exchanges", [False, True])
def test_exactly_the_listed_calls_are_allowed_at_all(machine: str, exchanges: bool) -> None:  # noqa: FBT001
    program = allow_list(machine, exchanges=exchanges)
    listed = {*seccomp.PLAIN, *seccomp.PRELUDE, *seccomp.RESTORES}
    plain = {number_of(name, machine) for name in listed}
    checked = {number_of(name, machine) for name in seccomp.CHECKED}
    for number in range(1_000):
        said = walk(program, number, (), machine)
        if number in plain:
            assert said == ALLOW
        elif number == 435:
            assert said == FAIL | errno.ENOSYS
        elif number not in checked:
            assert said == DENY
    assert len(program) < 4_096


@pytest.mark.req("FX-11")
@pytest.mark.parametrize("machine", MACHINES)
def test_every_conditional_jump_can_be_encoded(machine: str) -> None:
    for one in (*allow_list(machine), *allow_list(machine, exchanges=True), *remove_calls(machine, restores=False)):
        assert max(one.if_true, one.if_false) <= 255


@pytest.mark.req("FX-11")
@pytest.mark.parametrize("machine", MACHINES)
def test_a_call_of_another_architecture_kills(machine: str) -> None:
    assert walk(allow_list(machine), 0, machine="i386") == KILL


@pytest.mark.req("FX-11")
def test_a_call_by_the_other_numbering_of_this_architecture_kills() -> None:
    assert walk(allow_list("x86_64"), 0x40000000 | 1) == KILL


@pytest.mark.req("FX-11", "EI-11")
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "name, arguments, allowed",
    [
        ("mmap", (0, 4096, 3, 0x22), True),
        ("mmap", (0, 4096, 7, 0x22), False),
        ("mmap", (0, 4096, 3, 0x02), False),
        ("mprotect", (0, 4096, 3), True),
        ("mprotect", (0, 4096, 5), False),
        ("renameat2", (1, 1, 1, 1, 1), True),
        ("renameat2", (1, 1, 1, 1, HIGH | 1), True),  # the kernel does not see the upper half
        ("renameat2", (1, 1, 1, 1, 0), False),
        ("renameat2", (1, 1, 1, 1, 2), False),
        ("sync_file_range", (5, 0, HIGH, 2), True),
        ("sync_file_range", (5, 0, 0, 1), False),  # waits for what is under way
        ("sync_file_range", (5, 0, 0, 7), False),
        ("unlinkat", (1, 1, 0), True),
        ("unlinkat", (1, 1, 0x200), False),
        ("utimensat", (5, 0, 1, 0), True),
        ("utimensat", (5, 0x1000, 1, 0), False),
        ("utimensat", (5, HIGH, 1, 0), False),
        ("prlimit64", (0, 7, 0, 1), True),
        ("prlimit64", (0, 7, 1, 0), False),
        ("prlimit64", (0, 7, HIGH, 0), False),
        ("prlimit64", (42, 7, 0, 1), False),
        ("ioctl", (1, 0x5451), True),
        ("ioctl", (1, 0x5450), True),
        ("ioctl", (1, 0x5412), False),
        ("fcntl", (1, 1030), True),
        ("fcntl", (1, 8), False),
        ("fcntl", (1, 1024), False),
        ("close", (LOCK_DESCRIPTOR,), False),
        ("close", (HIGH | LOCK_DESCRIPTOR,), False),
        ("close", (LOCK_DESCRIPTOR + 1,), True),
        ("dup3", (5, LOCK_DESCRIPTOR, 0), False),
        ("dup3", (5, 6, 0), True),
        ("openat", (5, 1, 0o101, 0o755), True),
        ("openat", (5, 1, 0o101, 0o4755), False),
        ("openat", (5, 1, 0o101, 0o2755), False),
        ("copy_file_range", (5, 0, 6, 0, MAX_COPY, 0), True),
        ("copy_file_range", (5, 0, 6, 0, MAX_COPY + 1, 0), False),
        ("copy_file_range", (5, 0, 6, 0, HIGH, 0), False),
        ("read", (5, 1, MAX_TRANSFER), True),
        ("read", (5, 1, MAX_TRANSFER + 1), False),
        ("pwrite64", (5, 1, HIGH | 1), False),
    ],
)
def test_a_call_is_allowed_only_with_these_arguments(
    name: str,
    arguments: tuple[int, ...],
    allowed: bool,  # noqa: FBT001
    machine: str,
) -> None:
    assert call(name, *arguments, machine=machine) == (ALLOW if allowed else DENY)


@pytest.mark.req("FX-11")
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("flags, allowed", [(0, False), (1, True), (2, True), (3, False), (4, False), (HIGH | 2, True)])
def test_where_files_may_change_places_they_still_may_not_replace_one_another(
    flags: int,
    allowed: bool,  # noqa: FBT001
    machine: str,
) -> None:
    """4 is RENAME_WHITEOUT, which Landlock lets pass: it would leave a device behind."""
    said = call("renameat2", 5, 1, 6, 1, flags, machine=machine, exchanges=True)
    assert said == (ALLOW if allowed else DENY)


@pytest.mark.req("EI-11", "FX-11")
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("restores", [True, False])
def test_with_the_order_the_means_to_lock_and_unless_restoring_those_to_change_modes_are_gone(
    machine: str,
    restores: bool,  # noqa: FBT001
) -> None:
    program = remove_calls(machine, restores=restores)
    gone = {number_of(name, machine) for name in seccomp.PRELUDE}
    if not restores:
        gone |= {number_of(name, machine) for name in seccomp.RESTORES}
    for number in range(1_000):
        assert walk(program, number, (), machine) == (DENY if number in gone else ALLOW)


@pytest.mark.req("FX-11")
def test_a_folder_gets_the_rights_of_its_use_and_no_more() -> None:
    assert decide_rights([(5, "read")]) == {5: READ_FILE}
    assert decide_rights([(5, "take")]) == {5: READ_FILE | REMOVE_FILE | MAKE_REG | REFER}
    assert decide_rights([(5, "read"), (6, "make")]) == {5: READ_FILE, 6: landlock.RIGHTS["make"]}


def test_uses_of_one_folder_add_up() -> None:
    assert decide_rights([(5, "read"), (5, "make")]) == {5: landlock.RIGHTS["make"]}


def test_a_file_that_is_moved_gains_no_right_or_the_kernel_would_refuse_to_rename_it() -> None:
    rights = decide_rights([(5, "take"), (6, "make"), (7, "read")])
    content = READ_FILE | WRITE_FILE | TRUNCATE
    assert rights[5] & content == rights[6] & content
    assert rights[7] == READ_FILE


@pytest.mark.parametrize(
    "abi, words",
    [
        (3, (0x7FFF,)),
        (4, (0x7FFF, 0b11)),
        (5, (0xFFFF, 0b11)),
        (6, (0xFFFF, 0b11, 0b11)),
        (7, (0xFFFF, 0b11, 0b11)),
        (9, (0xFFFF, 0b11, 0b11)),
    ],
)
def test_everything_that_an_abi_knows_is_handled(abi: int, words: tuple[int, ...]) -> None:
    assert handled(abi) == words
