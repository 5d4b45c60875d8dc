"""A process that has its order and waits to be told: it has done nothing, and can be lost without harm."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remit.core.errors import RefusedError, UsageError
from remit.sandbox.framing import encode_frame
from remit.sandbox.host import InterruptedTaskError, PrewarmedProcess, SandboxHost
from remit.sandbox.zygote_pool import AHEAD, Child
from tests.sandbox.hostile_sandbox import ROOMY, a_host, an_order, make_arena
from tests.sandbox.plain_host import QUOTAS, open_descriptors, order, plain_host
from tests.sandbox.test_host import is_gone, wait_until_gone
from tests.sandbox.test_interrupts import interrupt_at
from tests.sandbox.zygotes import children_of, kill_for_good, zygote_of


@pytest.fixture
def host(tmp_path: Path) -> Iterator[SandboxHost]:
    with plain_host(tmp_path / "state") as made:
        made.run(order("answer"))
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "files"
    made.mkdir()
    (made / "source").write_bytes(b"content")
    return made


def pid_of(standing: PrewarmedProcess) -> int:
    assert standing._ready is not None  # noqa: SLF001 - only the test wants to know
    return standing._ready.child.pid  # noqa: SLF001


def wait_until_walled_in(pid: int) -> None:
    """The second filter is the last wall."""
    for _ in range(500):
        if "Seccomp_filters:\t2" in Path(f"/proc/{pid}/status").read_text():
            return
        time.sleep(0.01)
    pytest.fail("the child did not close its walls")


@pytest.mark.req("EI-09")
def test_it_closes_its_walls_does_nothing_and_then_runs(host: SandboxHost, folder: Path) -> None:
    with host.prewarm(order("copy", folder=folder)) as standing:
        wait_until_walled_in(pid_of(standing))
        time.sleep(0.05)
        assert not (folder / "target").exists()
        finished = standing.run()
    assert finished.output == {"copied": 7}
    assert (folder / "target").read_bytes() == b"content"


@pytest.mark.req("EI-09")
def test_dismissed_it_is_dead_and_has_done_nothing(host: SandboxHost, folder: Path) -> None:
    before = open_descriptors()
    standing = host.prewarm(order("copy", folder=folder))
    pid = pid_of(standing)
    wait_until_walled_in(pid)
    standing.dismiss()
    standing.dismiss()
    assert wait_until_gone(pid)
    assert not (folder / "target").exists()
    assert open_descriptors() <= before
    with pytest.raises(UsageError, match="serves once"):
        standing.run()


def test_while_it_is_being_dismissed_no_other_thread_closes_it(
    host: SandboxHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another task closes every child whose use is over. Two threads would close one descriptor number twice."""
    moments: list[bool] = []
    close = Child.close

    def closing(self: Child) -> None:
        moments.append(self.is_abandoned())
        close(self)

    standing = host.prewarm(order("answer"))
    monkeypatch.setattr(Child, "close", closing)
    standing.dismiss()
    assert moments == [False]


def test_it_serves_once(host: SandboxHost) -> None:
    standing = host.prewarm(order("answer"))
    standing.run()
    with pytest.raises(UsageError, match="serves once"):
        standing.run()


def test_a_prewarmed_process_that_is_no_longer_held_is_closed_by_the_next_run(host: SandboxHost) -> None:
    pid = pid_of(host.prewarm(order("answer")))
    host.run(order("answer"))
    assert wait_until_gone(pid)


@pytest.mark.req("EI-12")
@pytest.mark.parametrize("ready", [False, True], ids=["on its way", "behind its walls"])
def test_killed_while_it_stands_by_it_is_replaced(host: SandboxHost, folder: Path, ready: bool) -> None:  # noqa: FBT001
    with host.prewarm(order("copy", folder=folder)) as standing:
        pid = pid_of(standing)
        if ready:
            wait_until_walled_in(pid)
        os.kill(pid, signal.SIGKILL)
        assert wait_until_gone(pid)
        assert standing.run().output == {"copied": 7}


@pytest.mark.req("EI-12")
def test_killed_before_it_has_read_that_it_may_go_it_is_replaced(host: SandboxHost, folder: Path) -> None:
    with host.prewarm(order("copy", folder=folder)) as standing:
        pid = pid_of(standing)
        wait_until_walled_in(pid)
        os.kill(pid, signal.SIGSTOP)
        notes: list[Any] = []
        with killed_in(0.2, pid):
            assert standing.run(on_note=notes.append).output == {"copied": 7}


class killed_in:  # noqa: N801 - reads as a word
    def __init__(self, seconds: float, pid: int) -> None:
        self._seconds, self._pid = seconds, pid

    def __enter__(self) -> None:
        self._helper = os.fork()
        if self._helper == 0:
            time.sleep(self._seconds)
            os.kill(self._pid, signal.SIGKILL)
            os._exit(0)

    def __exit__(self, *_: object) -> None:
        os.waitpid(self._helper, 0)


def test_a_zygote_that_died_meanwhile_is_replaced_too(host: SandboxHost) -> None:
    zygote = zygote_of(host)
    with host.prewarm(order("answer")) as standing:
        kill_for_good(zygote)
        assert standing.run().output is not None


def test_what_is_wrong_with_the_folders_is_heard_when_it_runs(host: SandboxHost, folder: Path) -> None:
    asked = order("copy", folder=folder)
    (folder / "source").unlink()
    folder.rmdir()
    with host.prewarm(asked) as standing, pytest.raises(RefusedError, match="does not exist"):
        standing.run()


@pytest.mark.req("EI-10")
def test_the_clock_starts_when_it_may_go(tmp_path: Path) -> None:
    with plain_host(tmp_path, replace(QUOTAS, seconds=2.0)) as host:
        with host.prewarm(order("sleep", seconds=0.01)) as standing:
            time.sleep(2.1)
            assert standing.run().usage.seconds < 2.0
        with (
            host.prewarm(order("sleep", seconds=5)) as standing,
            pytest.raises(InterruptedTaskError, match="longer than"),
        ):
            standing.run()


@pytest.mark.req("EI-09")
def test_meanwhile_it_is_killed_and_afterwards_it_is_dead(host: SandboxHost) -> None:
    seen: list[Any] = []
    with host.prewarm(order("look_around")) as standing:
        pid = pid_of(standing)
        finished = standing.run(meanwhile=seen.append)
        assert is_gone(pid)
    assert seen == [finished.output]


@pytest.mark.req("EI-09", "EI-12")
def test_one_that_said_it_is_done_and_works_on_does_not_when_run_has_returned(tmp_path: Path) -> None:
    arena = make_arena(tmp_path)
    raw = encode_frame({"kind": "done", "output": None}).hex()
    sizes: list[int] = []
    with a_host(arena, ROOMY) as host, host.prewarm(an_order(arena, "work_on", raw=raw)) as standing:
        standing.run(meanwhile=lambda _: sizes.append((arena.made / "target.bin").stat().st_size))
        sizes.append((arena.made / "target.bin").stat().st_size)
        time.sleep(0.1)
        sizes.append((arena.made / "target.bin").stat().st_size)
    assert sizes[0] <= sizes[1] == sizes[2]


def test_what_is_raised_meanwhile_comes_out_and_it_is_dead(host: SandboxHost) -> None:
    def fail(_: Any) -> None:
        raise LookupError("meanwhile")

    with host.prewarm(order("answer")) as standing:
        pid = pid_of(standing)
        with pytest.raises(LookupError, match="meanwhile"):
            standing.run(meanwhile=fail)
        assert is_gone(pid)


def test_nothing_is_called_meanwhile_where_the_task_failed(host: SandboxHost) -> None:
    seen: list[Any] = []
    with pytest.raises(RefusedError):
        host.run(order("refuse", kind="RefusedError", reason="file_conflict"), meanwhile=seen.append)
    assert seen == []


def test_a_large_order_that_does_not_fit_at_once_stands_by_as_well(host: SandboxHost) -> None:
    text = "x" * 900_000
    with host.prewarm(order("answer", text=text)) as standing:
        output = standing.run().output
    assert output is not None
    assert output["inputs"]["text"] == text


@pytest.mark.req("EI-09")
def test_an_interrupt_at_each_moment_of_standing_by_loses_nothing(host: SandboxHost, folder: Path) -> None:
    files = ("sandbox/zygote_pool.py", "sandbox/host.py", "sandbox/quotas.py", "sandbox/session.py")
    before = open_descriptors()
    for step in range(1, 3_000):
        old = sys.gettrace()
        sys.settrace(interrupt_at(step, files))
        try:
            standing = host.prewarm(order("copy", folder=folder))
            standing.dismiss()
        except KeyboardInterrupt:
            pass
        else:
            break
        finally:
            sys.settrace(old)
    else:
        pytest.fail("standing by has more steps than were tried")
    assert step > 50
    assert not (folder / "target").exists()
    zygote = zygote_of(host)
    assert open_descriptors() - before <= 2 * (AHEAD + 1)
    assert len([pid for pid in children_of(zygote) if not is_gone(pid)]) <= AHEAD + 1
