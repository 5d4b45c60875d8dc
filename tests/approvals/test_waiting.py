"""Waiting for a decision: another process wakes the caller at once, without polling, and a crash loses nothing."""

import asyncio
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from remit.approvals.service import ApprovalService
from remit.approvals.watcher import ApprovalWatcher
from remit.fs import change_signal as bell_module
from remit.fs.change_signal import ChangeSignal
from remit.store.postgresql import PostgresStore
from tests.approvals.conftest import ADA, Desk, question
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.patience import SOON
from tests.support.store_fixtures import World, open_ledger

pytestmark = pytest.mark.req("VX-09")
AT_ONCE = 0.2
ANSWERING = Path(__file__).with_name("answering_process.py")


class Now:
    """The system time plus an offset that a test sets."""

    offset = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.offset


@pytest.fixture
def clock() -> Now:
    return Now()


@pytest.fixture
def desk(world: World, clock: Now) -> Desk:
    """Approvals that use the system time, as the other process does."""
    world.ledger.close()
    world.ledger = open_ledger(world.store, world.keys, world.anchor_folder, clock)  # type: ignore[arg-type]
    return Desk(world, ApprovalService(lambda: world.ledger, ChangeSignal(world.keys.parent / "approvals.bell"), clock))


def command(desk: Desk, answer: str, approval_id: str) -> list[str]:
    store = desk.world.store
    schema = store.schema if isinstance(store, PostgresStore) else ""
    return [
        preloaded.python(),
        str(ANSWERING),
        str(desk.world.keys.parent),
        desk.world.url,
        schema,
        answer,
        approval_id,
    ]


@contextmanager
def person(desk: Desk, answer: str, approval_id: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a process that has read the request and decides on a signal."""
    with subprocess.Popen(command(desk, answer, approval_id), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        yield child


def answer_now(child: "subprocess.Popen[bytes]") -> float:
    """Signal the process to decide. Return the time at which the decision is in the store."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b"go\n")
    child.stdin.flush()
    assert child.stdout.read() in {b"APPROVED", b"DENIED"}
    return time.monotonic()


def test_a_decision_in_another_process_wakes_a_waiting_caller_at_once(desk: Desk) -> None:
    asked = desk.approvals.ask(question())
    ended: list[tuple[float, str]] = []

    def wait() -> None:
        found = desk.approvals.wait(asked.approval_id, 30)
        ended.append((time.monotonic(), found.state))

    waiting = threading.Thread(target=wait)
    with person(desk, "approve", asked.approval_id) as child:
        waiting.start()
        answered = answer_now(child)
        waiting.join(10)
    [(woken, state)] = ended
    assert state == "APPROVED"
    assert woken - answered < AT_ONCE


def test_many_callers_wait_in_one_event_loop_and_each_gets_its_own_decision(desk: Desk) -> None:
    asked = [desk.approvals.ask(question(number)).approval_id for number in range(20)]

    async def wait_for_all(child: "subprocess.Popen[bytes]") -> tuple[float, list[str]]:
        watch = ApprovalWatcher(desk.approvals)
        others = [asyncio.create_task(watch.wait(one, 30)) for one in asked[1:]]
        first = asyncio.create_task(watch.wait(asked[0], 30))
        await asyncio.sleep(0)
        answered = await asyncio.to_thread(answer_now, child)
        assert (await first).state == "DENIED"
        heard = time.monotonic() - answered
        assert not any(task.done() for task in others)
        for one in asked[1:]:
            desk.approvals.decide(one, approved=True, who=ADA)
        return heard, [(await task).state for task in others]

    with person(desk, "deny", asked[0]) as child:
        heard, states = asyncio.run(wait_for_all(child))
    assert heard < AT_ONCE
    assert states == ["APPROVED"] * 19


def test_a_waiting_caller_does_not_read_the_store_while_nothing_changes(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = desk.approvals.ask(question())
    looks = []
    honest = desk.approvals.show

    def show(approval_id: str) -> object:
        looks.append(approval_id)
        return honest(approval_id)

    monkeypatch.setattr(desk.approvals, "show", show)
    assert desk.approvals.wait(asked.approval_id, 1.0).state == "PENDING"
    assert len(looks) == 2, "one before the wait, one after"


def test_a_waiting_caller_wakes_when_the_request_expires(desk: Desk, clock: Now) -> None:
    asked = desk.approvals.ask(question())
    clock.offset = timedelta(seconds=599.7)
    began = time.monotonic()
    assert desk.approvals.wait(asked.approval_id).state == "EXPIRED"
    assert time.monotonic() - began < SOON
    assert asyncio.run(ApprovalWatcher(desk.approvals).wait(asked.approval_id)).state == "EXPIRED"


@pytest.mark.parametrize("broken", ["inotify", "file"])
def test_without_a_change_signal_the_next_poll_finds_a_decision(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    monkeypatch.setattr(bell_module, "POLL_SECONDS", 0.3)
    asked = desk.approvals.ask(question())
    if broken == "inotify":
        monkeypatch.setattr(desk.approvals.change_signal, "_open", lambda: -1)
    else:
        desk.approvals.change_signal = ChangeSignal(desk.world.keys / "no such folder" / "bell")
    timer = threading.Timer(0.1, desk.yes, [asked.approval_id])
    timer.start()
    assert desk.approvals.wait(asked.approval_id, 30).state == "APPROVED"
    timer.join()


@pytest.mark.parametrize(
    "point,counts", [("append.inserted", False), ("append.before_commit", False), ("append.committed", True)]
)
def test_a_decision_of_a_killed_process_is_recorded_whole_or_not_at_all(
    desk: Desk, point: str, *, counts: bool
) -> None:
    asked = desk.approvals.ask(question())
    ended = run_child([*command(desk, "approve", asked.approval_id), "--at-once"], fault=Fault(point))
    assert ended.killed, ended.output
    assert ended.acknowledged == ()
    found = desk.approvals.wait(asked.approval_id, 0)
    assert found.state == ("APPROVED" if counts else "PENDING")
    if not counts:
        desk.yes(asked.approval_id)
    assert desk.use(asked.approval_id).state == "USED"
    assert desk.world.verify().holds
    assert desk.kinds() == ["requested", "approved", "used"]


def test_the_change_signal_is_a_private_file_and_notifying_never_fails(tmp_path: Path) -> None:
    change_signal = ChangeSignal(tmp_path / "bell")
    change_signal.notify()
    assert (tmp_path / "bell").stat().st_mode & 0o777 == 0o600
    (tmp_path / "bell").unlink()
    (tmp_path / "bell").symlink_to(tmp_path / "elsewhere")
    change_signal.notify()
    assert not (tmp_path / "elsewhere").exists()
