"""The crash tests find bugs: each one planted here is caught by the very check that the real code passes."""

import sys
from pathlib import Path

import pytest

from remit.core.ids import system_clock
from remit.crypto.keyring import create_keys
from tests.crash.store.cases import MakePlace, run
from tests.crash.store.crash_workspace import what_was_lost
from tests.crash.store.test_kill_keys import what_is_wrong
from tests.support.child_process import Fault
from tests.support.strace_kill import run_killed_at


@pytest.mark.parametrize("point", ["append.signed", "append.before_commit"])
def test_an_acknowledgement_before_the_commit_is_caught(make_place: MakePlace, point: str) -> None:
    place = make_place("sqlite")
    place.prepare()
    ended = run(place, "append-early", Fault(point, 2))
    problems = what_was_lost(place, ended.acknowledged)
    assert [problem.partition(":")[0] for problem in problems] == ["acknowledged and lost"]


def test_an_anchor_before_the_commit_is_caught(make_place: MakePlace) -> None:
    place = make_place("sqlite")
    place.prepare()
    ended = run(place, "append", Fault("append.before_commit", 3), bug="anchor-before-commit")
    problems = what_was_lost(place, ended.acknowledged)
    assert any("the tail was cut off" in problem for problem in problems), problems


def test_a_keyring_written_in_place_is_caught(make_place: MakePlace) -> None:
    place = make_place("sqlite")
    create_keys(place.keys, system_clock)
    run(place, "rotate", Fault("durable.written", 2), count=1, bug="write-in-place")
    assert what_is_wrong(place) != []


def test_a_key_destroyed_too_early_is_caught(make_place: MakePlace) -> None:
    place = make_place("sqlite")
    create_keys(place.keys, system_clock)
    run(place, "rotate", Fault("durable.synced", 2), count=1, bug="old-key-first")
    assert any("is missing" in problem for problem in what_is_wrong(place))


def test_a_kill_at_a_system_call_comes_before_it_and_after_the_one_before(tmp_path: Path) -> None:
    script = f"import os; os.mkdir({str(tmp_path / 'a')!r}); os.mkdir({str(tmp_path / 'b')!r})"
    assert run_killed_at([sys.executable, "-c", script], "mkdir", 2).killed
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert run_killed_at([sys.executable, "-c", "pass"], "mkdir", 1).exit_code == 0
