"""Interrupts, forks, stopped processes and used-up limits: nothing leaks, nobody waits for ever, the next task runs."""

import contextlib
import dis
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from remit.sandbox import zygote_pool as pool
from remit.sandbox.host import SandboxHost
from remit.sandbox.zygote_pool import AHEAD, ChildHandle, Zygote, close_all
from tests.sandbox.plain_host import EFFECT, QUOTAS, ROOT, open_descriptors, order, plain_host
from tests.sandbox.test_host import LONG, can_lock, is_gone, wait_until_gone
from tests.sandbox.zygotes import children_of, zygote_of
from tests.support.patience import SOON


@pytest.fixture
def host(tmp_path: Path) -> Iterator[SandboxHost]:
    with plain_host(tmp_path) as made:
        made.run(order("answer"))
        yield made


@contextlib.contextmanager
def an_interrupt_after(seconds: float) -> Iterator[None]:
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.mark.req("EI-09")
def test_interrupts_at_any_moment_leave_neither_descriptors_nor_processes(host: SandboxHost) -> None:
    """SIGINT at a random moment of each round, from outside, as a person at a terminal does it."""
    rounds = 900 if LONG else 300
    before = open_descriptors()
    chance = random.Random(7)  # noqa: S311 - moments, no secret
    hits = 0
    for _ in range(rounds):
        try:
            with an_interrupt_after(chance.uniform(0.00005, 0.004)):
                host.run(order("answer"))
        except KeyboardInterrupt:
            hits += 1
    zygote = zygote_of(host)
    assert hits > rounds // 10
    # What waits or was abandoned at the last moment is swept by the next task: nothing adds up.
    assert open_descriptors() - before <= 2 * (AHEAD + 1)
    deadline = time.monotonic() + 5
    while len(children_of(zygote)) > AHEAD + 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(children_of(zygote)) <= AHEAD + 1


@pytest.fixture(autouse=True)
def alarm_is_an_interrupt() -> Iterator[None]:
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGALRM, old)


def interrupt_at(step: int, code_files: tuple[str, ...]) -> Any:
    """A trace function that raises once, at the given one of the moments when the interpreter looks for signals.

    That is after a call, at the start of a function and when a loop goes round; in these files.
    """
    left, last = [step], dict[Any, str]()

    def trace(frame: Any, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.endswith(code_files):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before = last.get(frame, "")
            last[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if before.startswith(("CALL", "RESUME", "JUMP_BACKWARD")):
                left[0] -= 1
                if left[0] == 0:
                    last.clear()
                    raise KeyboardInterrupt
        return trace

    return trace


@pytest.mark.req("EI-09")
def test_an_interrupt_at_each_moment_of_taking_a_child_loses_nothing(host: SandboxHost) -> None:
    files = ("sandbox/zygote_pool.py", "sandbox/host.py", "sandbox/quotas.py")
    before = open_descriptors()
    for step in range(1, 3_000):
        old = sys.gettrace()
        sys.settrace(interrupt_at(step, files))
        try:
            host.run(order("answer"))
        except KeyboardInterrupt:
            pass
        else:
            break
        finally:
            sys.settrace(old)
    else:
        pytest.fail("the task has more steps than were tried")
    assert step > 50
    zygote = zygote_of(host)
    assert open_descriptors() - before <= 2 * (AHEAD + 1)
    assert len([pid for pid in children_of(zygote) if not is_gone(pid)]) <= AHEAD + 1


def test_a_child_whose_user_was_interrupted_is_closed_by_the_next_who_takes_one(tmp_path: Path) -> None:
    zygote = ready_zygote(tmp_path)
    first, second = ChildHandle(), ChildHandle()
    abandoned, kept = zygote.claim_child(first), zygote.claim_child(second)
    first.over = True
    third = ChildHandle()
    taken = zygote.claim_child(third)
    assert abandoned.descriptors == []
    assert wait_until_gone(abandoned.pid)
    assert len(kept.descriptors) == len(taken.descriptors) == 2
    zygote.close()
    kept.close()
    taken.close()


def ready_zygote(folder: Path) -> Zygote:
    lock = os.open(folder / "lock", os.O_RDONLY | os.O_CREAT, 0o600)
    zygote = Zygote((EFFECT,), QUOTAS, confined=True, lock=lock, import_paths=(str(ROOT),))
    os.close(lock)
    zygote.wait_until_ready()
    return zygote


def test_closing_twice_never_closes_descriptors_that_other_code_opened_meanwhile(tmp_path: Path) -> None:
    zygote = ready_zygote(tmp_path)
    lease = ChildHandle()
    child = zygote.claim_child(lease)
    numbers = set(child.descriptors)
    child.close()
    reused = [os.open("/dev/null", os.O_RDONLY) for _ in range(4)]
    assert numbers & set(reused)
    child.close()
    zygote.close()
    for descriptor in reused:
        os.fstat(descriptor)
    close_all(reused)


# --- forked copies ----------------------------------------------------------------------------------------------------


@pytest.mark.req("EI-12")
@pytest.mark.parametrize("busy", [False, True])
def test_an_idle_forked_copy_does_not_hold_the_lock_of_the_host(tmp_path: Path, busy: bool) -> None:  # noqa: FBT001
    """Whoever recovers for this process waits for the lock: a copy that never runs a task must not hold it."""
    host = plain_host(tmp_path)
    host.run(order("answer"))
    began, ended = threading.Event(), threading.Event()

    def task() -> None:
        host.run(order("sleep", seconds=0.5, told=True), on_progress=lambda *_: began.set())
        ended.set()

    if busy:
        threading.Thread(target=task).start()
        assert began.wait(5)
    asleep, awake = os.pipe()
    there, born = os.pipe()
    copy = os.fork()
    if copy == 0:
        os.close(awake)
        os.write(born, b"!")
        os.read(asleep, 1)
        os._exit(0)
    os.read(there, 1)
    close_all([asleep, there, born])
    sockets = [name for name in links_of(copy) if name.startswith(("socket:", "anon_inode:[pidfd]"))]
    ours = [name for name in links_of(os.getpid()) if name.startswith(("socket:", "anon_inode:[pidfd]"))]
    assert not busy or ended.wait(5), "the copy let go, and killed nobody"
    host.run(order("answer"))
    host.close()
    free = can_lock(tmp_path / "hosts" / "this.lock")
    os.close(awake)
    os.waitpid(copy, 0)
    assert free
    assert len(sockets) < len(ours)


def links_of(pid: int) -> list[str]:
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except FileNotFoundError:
            continue
    return found


def test_a_forked_copy_can_close_it_and_have_a_sandbox_of_its_own(host: SandboxHost, tmp_path: Path) -> None:
    copy = os.fork()
    if copy == 0:
        try:
            host.close()
            with plain_host(tmp_path / "copy") as own:
                os._exit(7 if own.run(order("answer")).output else 1)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) == 7
    assert host.run(order("answer")).output is not None


# --- a zygote that does not answer, or dies ---------------------------------------------------------------------------


@pytest.mark.req("EI-09")
def test_a_stopped_zygote_is_an_error_after_a_while_and_replaced_by_the_next_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "ANSWER_SECONDS", 0.5)
    with plain_host(tmp_path) as host:
        zygote = zygote_of(host)
        os.kill(zygote, signal.SIGSTOP)
        began = time.monotonic()
        # Those that were forked ahead still do their work.
        with pytest.raises(EnvironmentFailureError, match="did not answer") as failed:
            run_often(host, AHEAD + 2)
        assert time.monotonic() - began < SOON
        assert failed.value.reason is Reason.SANDBOX_UNAVAILABLE
        assert is_gone(zygote)
        assert zygote_of(host) != zygote


def run_often(host: SandboxHost, times: int) -> None:
    for _ in range(times):
        host.run(order("answer"))


def test_a_stopped_zygote_does_not_keep_the_host_from_closing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "STOP_SECONDS", 0.3)
    host = plain_host(tmp_path)
    zygote = zygote_of(host)
    os.kill(zygote, signal.SIGSTOP)
    began = time.monotonic()
    host.close()
    assert time.monotonic() - began < SOON
    assert is_gone(zygote)


def kill_as_it_starts(monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """The first ones that are started are killed before they can say that they are ready."""
    start = pool.start_program
    killed: list[int] = []

    def start_and_kill(settings: dict[str, Any]) -> Any:
        process = start(settings)
        if len(killed) < times:
            killed.append(process.pid)
            process.kill()
        return process

    monkeypatch.setattr(pool, "start_program", start_and_kill)
    return killed


def test_a_zygote_that_is_killed_while_it_starts_is_started_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = kill_as_it_starts(monkeypatch, 1)
    with plain_host(tmp_path) as host:
        assert zygote_of(host) not in killed
    assert len(killed) == 1


def test_one_that_dies_again_is_not_said_to_have_bad_effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = kill_as_it_starts(monkeypatch, 2)
    before = open_descriptors()
    with plain_host(tmp_path) as host:
        with pytest.raises(EnvironmentFailureError, match=r"died twice while it started \(signal 9\)") as failed:
            host.run(order("answer"))
        assert failed.value.reason is Reason.SANDBOX_UNAVAILABLE
        assert "could not be loaded" not in str(failed.value)
        assert len(killed) == 2
        assert host.run(order("answer")).output is not None
    assert open_descriptors() <= before


def test_one_that_hangs_while_it_starts_is_an_error_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "START_SECONDS", 0.3)
    (tmp_path / "slow_effect.py").write_text("import time\ntime.sleep(60)\n")
    effects = ["slow_effect:SLOW", EFFECT]
    with SandboxHost(effects, QUOTAS, lock=tmp_path / "lock", import_paths=[str(ROOT), str(tmp_path)]) as host:
        began = time.monotonic()
        with pytest.raises(EnvironmentFailureError, match=r"not ready after 0\.3 seconds"):
            host.run(order("answer"))
        assert time.monotonic() - began < SOON
