"""A supervisor counts and kills at the named points of a sandboxed process, in one order with its system calls."""

import json
import subprocess
import sys
from typing import Any

import pytest

from remit.core.faultpoints import setting_problem
from tests.sandbox.plain_host import ROOT
from tests.support.child_process import run_child

HOST = ["reach", "plan.folders_made"]
CHILD = [
    ["reach", "plan.staged"],
    ["openat", "target"],
    ["reach", "plan.switched"],
    ["write", "target"],
    ["reach", "plan.synced"],
]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.sandbox.announcing", str(tmp_path_factory.mktemp("announced"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_points_of_host_and_child_and_their_changes_come_in_one_order(told: dict[str, Any]) -> None:
    whole = told["whole"]
    assert whole["points"] == [HOST, *CHILD]
    assert (whole["killed"], whole["stopped"], whole["said"], whole["content"]) == (False, 0, ["{}"], "written")
    assert whole["output"] == "printed\n", "an announcement is no output"


def test_unless_asked_for_only_changes_are_points(told: dict[str, Any]) -> None:
    assert told["unnamed"]["points"] == [["openat", "target"], ["write", "target"]]
    assert told["unnamed"]["content"] == "written"


def test_a_kill_at_a_point_leaves_what_was_done_before_it_and_nothing_after(told: dict[str, Any]) -> None:
    points = [HOST, *CHILD]
    for number, killed in enumerate(told["killed"], 1):
        assert killed["points"] == points[:number]
        assert (killed["killed"], killed["stopped"], killed["said"]) == (True, 1, [])
    assert [killed["content"] for killed in told["killed"]] == [None, None, None, "", "", "written"]


@pytest.mark.parametrize("way", ["failed", "pretended"])
def test_a_point_cannot_fail_for_it_is_no_call(told: dict[str, Any], way: str) -> None:
    assert told[way]["points"] == [HOST, *CHILD]
    assert (told[way]["stopped"], told[way]["said"], told[way]["content"]) == (0, ["{}"], "written")


def test_a_program_can_be_started_so_that_it_announces() -> None:
    assert setting_problem("announce") == ""
    assert setting_problem("announce:1")
    program = (
        "from remit.core.faultpoints import *; reach('append.begun'); reach('plan.synced'); print(is_announcing())"
    )
    ended = run_child([sys.executable, "-c", program], environment={"REMIT_FAULT": "announce"})
    assert ended.output == "remit-fault append.begun\nremit-fault plan.synced\nTrue\n"
    assert run_child([sys.executable, "-c", program]).output == "False\n"
