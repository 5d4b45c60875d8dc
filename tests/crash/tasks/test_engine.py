"""The crash-point engine is tested before it is trusted: it sees everything, stops everything, and tells the truth."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.tasks.jobs import ROOT


@pytest.fixture
def seen(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    command = [sys.executable, "-m", "tests.crash.tasks.engine_cases", request.param, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


case = pytest.mark.parametrize


@case("seen", ["in_one_order"], indirect=True)
def test_every_change_of_every_descendant_is_seen_in_one_order(seen: Any) -> None:
    expected = [["openat", "one"], ["write", "one"], ["rename", "one", "two"], ["mkdir", "three"], ["rmdir", "three"]]
    assert seen["calls"] == expected
    assert (seen["code"], seen["stopped"], seen["lingering"]) == (0, 0, [])


@case("seen", ["killed_everywhere"], indirect=True)
def test_a_kill_stops_the_whole_family_before_the_call(seen: Any) -> None:
    assert [run["code"] for run in seen] == [-9] * 5 + [0]
    assert [run["stopped"] for run in seen] == [1] * 5 + [0]
    assert [run["alive"] for run in seen] == [[]] * 6
    files = [run["files"] for run in seen]
    assert files == [{}, {"one": ""}, {"one": "1"}, {"two": "1"}, {"two": "1"}, {"two": "1"}]
    assert [run["folders"] for run in seen] == [[], [], [], [], ["three"], []]


@case("seen", ["outliving"], indirect=True)
def test_a_process_that_outlives_the_program_is_reported_and_ended(seen: Any) -> None:
    assert seen == {"lingering": 1, "alive": []}


@case("seen", ["hanging"], indirect=True)
def test_a_program_that_hangs_is_ended(seen: Any) -> None:
    assert seen.startswith("it hung")


@case("seen", ["answered"], indirect=True)
def test_a_call_can_fail_or_only_seem_to_happen(seen: Any) -> None:
    assert seen["words"] == ["EIO", "made", "made"]
    assert seen["folders"] == ["folder-2"]
    assert seen["stopped"] == 2


@case("seen", ["halved"], indirect=True)
def test_every_kind_of_write_can_be_cut_in_two(seen: Any) -> None:
    assert seen["words"] == ["2", "2", "2", "2", "3", "3"]
    assert seen["files"] == {"written": "abcdEF", "copied": "abcc"}
    assert seen["stopped"] == 5


@case("seen", ["refused_by_itself"], indirect=True)
def test_a_stricter_filter_of_the_program_still_decides(seen: Any) -> None:
    assert seen["words"] == ["refused"]
    assert seen["calls"] == [["openat", "file"], ["write", "file"]]
    assert seen["files"] == {"file": "allowed"}
