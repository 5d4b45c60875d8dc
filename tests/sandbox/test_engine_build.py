"""Children that are made for a database engine have a few calls more: exactly these, and only they."""

import errno
import os
from collections.abc import Iterator
from typing import Final

import pytest

from remit.core.syscalls import number_of
from remit.sandbox import seccomp
from remit.sandbox.host import SandboxHost
from remit.sandbox.orders import Build
from remit.sandbox.seccomp import allow_list
from tests.sandbox import system_call_numbers
from tests.sandbox.hostile_sandbox import Arena, a_host, attempt, make_arena
from tests.sandbox.system_call_numbers import ENDS_OR_STOPS, HARMLESS
from tests.sandbox.test_hostile_calls import (
    ATTRIBUTES,
    FILE,
    KERNEL,
    LIMITS,
    NAMES,
    NEWEST,
    OWN,
    PROBES,
    PROCESSES,
    SOCKETS,
    Call,
    here,
)
from tests.sandbox.test_seccomp import ALLOW, DENY, MACHINES, walk

ENGINE: Final = Build(engine=True)
F_GETLK, F_SETLK, F_SETLKW, F_OFD_SETLK, F_SETLEASE = 5, 6, 7, 37, 1024


@pytest.mark.req("FX-11", "PX-19")
@pytest.mark.parametrize("machine", MACHINES)
def test_the_flag_allows_the_calls_of_an_engine_and_no_other(machine: str) -> None:
    plain, engine = allow_list(machine), allow_list(machine, engine=True)
    added = {number for name in seccomp.ENGINE if (number := number_of(name, machine)) is not None}
    for number in range(1_000):
        if number in added:
            assert (walk(plain, number, (), machine), walk(engine, number, (), machine)) == (DENY, ALLOW)
        else:
            assert walk(plain, number, (), machine) == walk(engine, number, (), machine)
    assert len(engine) < 4_096
    assert all(max(one.if_true, one.if_false) <= 255 for one in engine)


@pytest.mark.req("FX-11", "PX-19")
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "command, said",
    [(F_GETLK, ALLOW), (F_SETLK, ALLOW), (F_SETLKW, DENY), (F_OFD_SETLK, DENY), (F_SETLEASE, DENY), (8, DENY)],
)
def test_an_engine_may_lock_a_file_but_not_wait_for_a_lock(machine: str, command: int, said: int) -> None:
    number = number_of("fcntl", machine) or 0
    assert walk(allow_list(machine), number, (5, command), machine) == DENY
    assert walk(allow_list(machine, engine=True), number, (5, command), machine) == said


@pytest.mark.req("FX-11", "PX-19")
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("flags, allowed", [(0, False), (1, True), (2, False)])
def test_the_flag_lets_no_file_replace_another(machine: str, flags: int, allowed: bool) -> None:  # noqa: FBT001
    number = number_of("renameat2", machine) or 0
    said = walk(allow_list(machine, engine=True), number, (5, 1, 6, 1, flags), machine)
    assert said == (ALLOW if allowed else DENY)


def test_both_flags_go_together() -> None:
    program = allow_list("x86_64", exchanges=True, engine=True)
    assert walk(program, number_of("renameat2", "x86_64") or 0, (5, 1, 6, 1, 2)) == ALLOW
    assert walk(program, number_of("unlink", "x86_64") or 0) == ALLOW


# --- in the kernel ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    return make_arena(tmp_path_factory.mktemp("engine") / "arena")


@pytest.fixture(scope="module")
def engine(arena: Arena) -> Iterator[SandboxHost]:
    with a_host(arena, build=ENGINE) as host:
        yield host


@pytest.fixture(scope="module")
def plain(arena: Arena) -> Iterator[SandboxHost]:
    with a_host(arena) as host:
        yield host


def made(host: SandboxHost, arena: Arena, call: Call) -> int:
    number = system_call_numbers.number_of(call.name)
    return int(attempt(host, arena, "call", number=number, arguments=list(call.arguments))["result"])


@pytest.mark.req("FX-11", "PX-19")
def test_what_no_effect_needs_is_refused_to_an_engine_as_well(
    engine: SandboxHost, arena: Arena, subtests: pytest.Subtests
) -> None:
    """Sockets, clone, exec, ptrace, chmod and all the rest. That they get through unconfined is shown elsewhere."""
    for call in here([*SOCKETS, *PROCESSES, *LIMITS, *ATTRIBUTES, *NAMES, *KERNEL]):
        with subtests.test(call=call):
            assert made(engine, arena, call) == -errno.EPERM


@pytest.mark.req("FX-11", "PX-19")
def test_of_all_numbers_only_the_known_ones_and_those_of_an_engine_get_through(
    engine: SandboxHost, plain: SandboxHost, arena: Arena
) -> None:
    leave_out = [*(system_call_numbers.number_of(name) for name in ENDS_OR_STOPS), *PROBES]
    seen = set(attempt(engine, arena, "sweep", up_to=NEWEST, leave_out=leave_out)["let_through"])
    without = set(attempt(plain, arena, "sweep", up_to=NEWEST, leave_out=leave_out)["let_through"])
    known = {system_call_numbers.number_of(name) for name in (*HARMLESS, "clone3")}
    added = {number for name in seccomp.ENGINE if (number := number_of(name)) is not None}
    assert seen - known == added
    assert without & added == set()


@pytest.mark.skipif(number_of("unlink") is None, reason="this architecture has no such call")
@pytest.mark.req("FX-11", "PX-19")
def test_a_file_can_be_removed_by_name_in_its_folders_and_nowhere_else(
    engine: SandboxHost, plain: SandboxHost, arena: Arena
) -> None:
    (arena.made / "scrap").write_bytes(b"x")
    scrap, secret = (
        Call("unlink", ({"path": "/inside/made/scrap"},)),
        Call("unlink", ({"path": "/outside/secret.txt"},)),
    )
    assert made(plain, arena, scrap) == -errno.EPERM
    assert made(engine, arena, secret) == -errno.EACCES
    assert arena.secret.exists()
    assert made(engine, arena, scrap) == 0
    assert not (arena.made / "scrap").exists()


@pytest.mark.skipif(number_of("stat") is None, reason="this architecture has no such call")
@pytest.mark.req("FX-11")
def test_a_file_can_be_looked_at_by_name_only_with_the_flag(
    engine: SandboxHost, plain: SandboxHost, arena: Arena
) -> None:
    inputs = {"number": number_of("stat"), "arguments": [OWN, {"hex": "00" * 512}]}
    assert attempt(plain, arena, "call", **inputs)["result"] == -errno.EPERM
    assert attempt(engine, arena, "call", **inputs)["result"] == 0


@pytest.mark.req("FX-11", "PX-19")
@pytest.mark.parametrize("command, allowed", [(F_SETLK, True), (F_SETLKW, False)])
def test_a_file_can_be_locked_only_with_the_flag(
    engine: SandboxHost,
    plain: SandboxHost,
    arena: Arena,
    command: int,
    allowed: bool,  # noqa: FBT001
) -> None:
    whole_file = {"hex": "01" + "00" * 63}  # `struct flock`: a lock to write, of all bytes
    inputs = {"number": number_of("fcntl"), "arguments": [FILE, command, whole_file]}
    assert attempt(plain, arena, "call", **inputs)["result"] == -errno.EPERM
    assert attempt(engine, arena, "call", **inputs)["result"] == (0 if allowed else -errno.EPERM)


@pytest.mark.req("FX-11", "PX-19")
def test_a_link_out_of_the_folder_is_not_followed(engine: SandboxHost, arena: Arena) -> None:
    link = arena.made / "way-out"
    link.symlink_to(arena.secret)
    try:
        opened = Call("openat", (-100, {"path": "/inside/made/way-out"}, os.O_RDONLY, 0))
        assert made(engine, arena, opened) == -errno.EACCES
    finally:
        link.unlink()
