"""Somebody acts while a plan runs: swaps folders for links, revokes the key, lets the time pass, applies it too.

race-007, a guessed temporary name: a part's name holds 80 random bits and is made with O_EXCL, so there is nothing to
plant; what is planted under any such name stays where it is, as tests/effects shows. race-008, two processes and one
envelope, is in test_recovery.py.
"""

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from remit.contracts.plans.outcome import PlanOutcome
from remit.core.errors import RemitError
from remit.core.ids import Clock
from tests.effects.tasks.test_swap_race import SECONDS, SWAPPER
from tests.plans.hostile_project import SECRET, HostileProject, action, plan_of
from tests.support.task_workspace import MovableClock

CHAIN: Final = [
    action("modify", "sub/ok.txt", "a1"),
    action("modify", "sub/ok.txt", "a2")
    | {"operation": {"type": "text_replace", "pattern": "t", "replacement": "T"}, "depends_on": ["a1"]},
    action("create", "sub/new.txt", "a3") | {"depends_on": ["a2"]},
]


@pytest.fixture
def hand() -> MovableClock:
    return MovableClock()


@pytest.fixture
def hostile(tmp_path: Path, hand: Clock) -> Iterator[HostileProject]:
    made = HostileProject.make(tmp_path / "hostile", hand)
    yield made
    made.workspace.close()


@contextmanager
def swapping(*pairs: Path) -> Iterator[None]:
    """Each two of them change places without pause."""
    command = [sys.executable, "-c", SWAPPER, *map(str, pairs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as swapper:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        try:
            yield
        finally:
            swapper.kill()


@pytest.mark.timeout(SECONDS * 2 + 60)
@pytest.mark.req("PX-05", "PX-23")
def test_no_swapped_link_lets_a_plan_write_outside_or_read_a_secret(hostile: HostileProject) -> None:
    """race-002 and race-003: the folder of the targets, and the file itself, against links that lead outside."""
    root, outside = hostile.root, hostile.folder / "outside"
    (root / "file").write_bytes(b"inside, with an e\n")
    (outside / "file").write_bytes(SECRET)
    (outside / "ok.txt").write_bytes(SECRET)
    (root / "evil").symlink_to(outside)
    (root / "link").symlink_to(outside / "file")
    counted: Counter[str] = Counter()
    until = time.monotonic() + SECONDS
    with swapping(root / "sub", root / "evil", root / "file", root / "link"):
        number = 0
        while time.monotonic() < until:
            number += 1
            counted[_attempt(hostile, number)] += 1
            assert sorted(path.name for path in outside.iterdir()) == ["file", "ok.txt", "secret.txt"]
            assert all(path.read_bytes() == SECRET for path in outside.iterdir())
    kept = [path for path in (root / "agent_outputs").rglob("*") if path.is_file()]
    assert [path for path in kept if SECRET in path.read_bytes()] == []
    assert number > 5, counted
    hostile.workspace.recover()
    assert hostile.workspace.verify_ledger().holds


def _attempt(hostile: HostileProject, number: int) -> str:
    plans = (
        plan_of(action("create", f"sub/new-{number}")),
        plan_of(action("modify", "sub/ok.txt")),
        plan_of(action("modify", "file")),
        plan_of(action("modify", "file", "a1"), action("create", f"sub/also-{number}", "a2")),
    )
    try:
        envelope = hostile.workspace.approve(plans[number % len(plans)])
        outcome = hostile.workspace.apply(envelope.canonical())
    except RemitError as problem:
        return problem.reason.value
    return outcome.status.status if isinstance(outcome, PlanOutcome) else "refused"


@pytest.mark.req("PX-02")
def test_fifty_callers_with_one_envelope_have_one_effect(hostile: HostileProject) -> None:
    """race-009."""
    asked = {"type": "text_replace", "pattern": "here", "replacement": "here and here"}
    envelope = hostile.workspace.approve(plan_of(action("modify", "sub/ok.txt") | {"operation": asked})).canonical()
    outcomes: list[bytes] = []
    callers = [
        threading.Thread(target=lambda: outcomes.append(hostile.workspace.apply(envelope).canonical()))
        for _ in range(50)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert len(outcomes) == 50
    assert len(set(outcomes)) == 1
    assert (hostile.root / "sub/ok.txt").read_bytes() == b"some text here and here\n"


@pytest.mark.req("PX-02", "PX-10")
@pytest.mark.parametrize("how, code", [("race-010 revoked", 1002), ("race-011 expired", 1004)])
def test_authority_that_ends_in_the_middle_stops_the_plan_and_undoes_it(
    hostile: HostileProject, hand: MovableClock, how: str, code: int
) -> None:
    before = hostile.world()
    envelope = hostile.workspace.approve(plan_of(*CHAIN)).canonical()
    ended: list[Any] = []

    def end_it(done: int, _total: int) -> None:
        if done >= 1 and not ended:
            ended.append(how)
            if "revoked" in how:
                with type(hostile.workspace).open(hostile.root, environ=hostile.workspace.environ) as elsewhere:
                    elsewhere.rotate_key("protocol", revoke=True)
            else:
                hand.offset += timedelta(hours=2)

    outcome = hostile.workspace.apply(envelope, on_progress=end_it)
    assert ended
    assert isinstance(outcome, PlanOutcome)
    assert outcome.status.status == "ROLLED_BACK"
    assert code in hostile.codes(outcome)
    assert hostile.world() == before
