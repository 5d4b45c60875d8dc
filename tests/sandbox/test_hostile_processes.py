"""A task's process starts nothing, talks to nobody, keeps nothing, and dies with its host, its zygote or its task."""

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from remit.sandbox.host import InterruptedTaskError, SandboxHost
from remit.sandbox.orders import Build
from tests.sandbox.hostile_sandbox import (
    BUILDS,
    ROOMY,
    ROOT,
    Arena,
    a_host,
    an_order,
    attempt,
    attempt_watched,
    ends_within,
    is_healthy,
    make_arena,
    watching,
)

GONE_WITHIN = 1.0


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    return make_arena(tmp_path_factory.mktemp("processes") / "arena")


@pytest.fixture(scope="module", params=BUILDS)
def build(request: pytest.FixtureRequest) -> Build:
    made: Build = request.param
    return made


@pytest.fixture(scope="module")
def confined(arena: Arena, build: Build) -> Iterator[SandboxHost]:
    with a_host(arena, build=build) as host:
        yield host


@pytest.fixture(scope="module")
def loose(arena: Arena) -> Iterator[SandboxHost]:
    with a_host(arena, confined=False) as host:
        yield host


# --- starting and talking --------------------------------------------------------------------------------------------


@pytest.mark.req("EI-15", "FX-11")
def test_python_itself_can_start_nothing(
    confined: SandboxHost, loose: SandboxHost, arena: Arena, subtests: pytest.Subtests
) -> None:
    for way in ["thread", "fork", "spawn", "program", "shell"]:
        with subtests.test(way):
            assert attempt(confined, arena, "start", way=way)["errno"] in {errno.EPERM, errno.EACCES, errno.ENOSYS}
            assert attempt(loose, arena, "start", way=way) == {"started": True}, "the control"


@pytest.fixture(params=["tcp", "unix", "abstract"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str | list[str | int]]:
    """Says hello to everybody who connects."""
    kind = request.param
    listening = socket.socket(socket.AF_INET if kind == "tcp" else socket.AF_UNIX)
    address: str | list[str | int]
    if kind == "tcp":
        listening.bind(("127.0.0.1", 0))
        address = ["127.0.0.1", listening.getsockname()[1]]
    elif kind == "unix":
        address = f"/tmp/remit-{os.getpid()}.sock"  # noqa: S108 - a socket's path must be short
        listening.bind(address)
    else:
        address = f"@remit-{os.getpid()}"
        listening.bind("\0" + address[1:])
    listening.listen()
    threading.Thread(target=_greet, args=(listening,), daemon=True).start()
    yield address
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    if kind == "unix":
        Path(str(address)).unlink()


def _greet(listening: socket.socket) -> None:
    try:
        while True:
            with listening.accept()[0] as caller:
                caller.sendall(b"hello")
    except OSError:
        return


@pytest.mark.req("EI-15", "FX-11")
def test_no_server_of_this_machine_can_be_reached(
    confined: SandboxHost, loose: SandboxHost, arena: Arena, server: str | list[str | int]
) -> None:
    assert attempt(confined, arena, "connect", address=server)["errno"] in {errno.EPERM, errno.EACCES}
    assert attempt(loose, arena, "connect", address=server) == {"said": "hello"}, "the control"


@pytest.mark.req("EI-17")
def test_no_descriptor_can_be_passed_to_the_host(confined: SandboxHost, arena: Arena) -> None:
    assert attempt(confined, arena, "bridge")["errno"] == errno.EPERM


# --- limits ----------------------------------------------------------------------------------------------------------


def limits_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]
    return {line[:26].strip(): line[26:47].strip() for line in lines}


@pytest.mark.req("EI-11", "FX-12")
def test_limits_are_in_force_after_every_attempt_to_raise_them(
    confined: SandboxHost, build: Build, arena: Arena
) -> None:
    finished, limits = attempt_watched(confined, arena, "raise_limits", lambda pid, _: limits_of(pid))
    assert finished.output is not None
    assert set(finished.output["errors"]) == {errno.EPERM}
    assert limits["Max core file size"] == "0"
    assert limits["Max open files"] == str(build.open_files)
    assert int(limits["Max file size"]) <= ROOMY.write_bytes
    # What the interpreter had mapped already comes on top.
    assert ROOMY.memory_bytes <= int(limits["Max address space"]) <= ROOMY.memory_bytes + 512 * 1024 * 1024


def test_without_confinement_the_limits_of_the_zygote_can_be_set(loose: SandboxHost, arena: Arena) -> None:
    """The control. One's own hard limits take a capability to raise, which root does not have everywhere."""
    assert 0 in attempt(loose, arena, "raise_limits")["errors"]


@pytest.mark.req("EI-09")
def test_a_process_is_confined_by_every_means_that_the_kernel_shows(confined: SandboxHost, arena: Arena) -> None:
    def look(pid: int, parent: int) -> tuple[dict[str, str], int, int, int]:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        status = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return status, os.getpgid(pid), pid, parent

    _, (status, group, pid, parent) = attempt_watched(confined, arena, "be_looked_at", look)
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert int(status["Seccomp_filters"]) >= 1
    assert status["Threads"] == "1"
    assert status["Umask"] == "0000"
    assert group == pid
    assert parent != os.getpid(), "its parent is the zygote, not the host"


# --- ending ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("EI-09", "EI-17")
def test_a_process_is_gone_when_its_task_is_over(confined: SandboxHost, arena: Arena) -> None:
    _, child = attempt_watched(confined, arena, "be_looked_at", lambda pid, _: os.pidfd_open(pid))
    try:
        assert ends_within(child, GONE_WITHIN)
    finally:
        os.close(child)


@pytest.mark.req("EI-17")
def test_nothing_left_in_memory_by_one_task_reaches_the_next(confined: SandboxHost, arena: Arena) -> None:
    seen = [attempt(confined, arena, "remember", task_id=f"task-{number}") for number in range(5)]
    assert [each["found"] for each in seen] == [[]] * 5
    assert len({each["pid"] for each in seen}) == 5


@pytest.mark.req("EI-09")
@pytest.mark.parametrize("confined", [True, False])
@pytest.mark.parametrize("how", ["killed", "exits"])
def test_no_process_outlives_its_host(tmp_path: Path, how: str, confined: bool) -> None:  # noqa: FBT001
    """The task ignores every signal and has tried to cut all ties."""
    arena = make_arena(tmp_path / "arena")
    command = [sys.executable, "-m", "tests.sandbox.lone_host", str(arena.root), how, str(int(confined))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, env=environment, cwd="/") as host:
        assert host.stdout is not None
        pids = [int(word) for word in host.stdout.readline().split()]
        assert len(pids) == 2
        with watching(*pids) as (child, zygote):
            assert not ends_within(child, 0.1), "the control: it is there, and stays"
            if how == "killed":
                host.kill()
            host.communicate(timeout=10)
            try:
                assert ends_within(child, GONE_WITHIN)
                assert ends_within(zygote, GONE_WITHIN)
            finally:
                for left in (child, zygote):
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(left, signal.SIGKILL)


@pytest.mark.req("EI-09")
@pytest.mark.parametrize("cut_off", [False, True])
def test_no_process_outlives_its_zygote_and_the_host_starts_another(
    tmp_path: Path,
    cut_off: bool,  # noqa: FBT001
) -> None:
    arena = make_arena(tmp_path / "arena")
    children: list[int] = []

    def kill_the_zygote(question: Mapping[str, Any]) -> Mapping[str, Any]:
        children.append(os.pidfd_open(question["pid"]))
        assert not ends_within(children[0], 0.05), "the control"
        os.kill(question["parent"], signal.SIGKILL)
        return {}

    with a_host(arena) as host:
        with pytest.raises(EnvironmentFailureError) as failed:
            host.run(an_order(arena, "cling", cut_off=cut_off), on_ask=kill_the_zygote)
        assert ends_within(children[0], GONE_WITHIN)
        os.close(children[0])
        assert failed.value.reason is Reason.EFFECT_FAILED
        assert is_healthy(host, arena)


@pytest.mark.req("EI-09")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGRTMIN + 6])
def test_a_process_that_is_killed_from_outside_is_an_interrupted_task(
    confined: SandboxHost, arena: Arena, number: int
) -> None:
    def kill_it(question: Mapping[str, Any]) -> Mapping[str, Any]:
        os.kill(question["pid"], number)
        return {}

    with pytest.raises(InterruptedTaskError) as failed:
        confined.run(an_order(arena, "be_looked_at"), on_ask=kill_it)
    assert failed.value.reason is Reason.EFFECT_FAILED
    assert is_healthy(confined, arena)


@pytest.mark.req("EI-09", "EI-15")
def test_a_process_that_hangs_up_is_ended_and_does_not_work_on(confined: SandboxHost, arena: Arena) -> None:
    children: list[int] = []

    def see(question: Mapping[str, Any]) -> Mapping[str, Any]:
        children.append(os.pidfd_open(question["pid"]))
        return {}

    with pytest.raises(EnvironmentFailureError) as failed:
        confined.run(an_order(arena, "hang_up"), on_ask=see)
    assert failed.value.reason is Reason.EFFECT_FAILED
    assert ends_within(children[0], 0), "certainly dead when the host says so"
    os.close(children[0])
    assert is_healthy(confined, arena)
