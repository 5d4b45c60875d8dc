"""Fault points, and the child processes that they kill: the tools are tested before they are trusted."""

import subprocess
import sys

import pytest

from remit.core.faultpoints import reach
from tests.support.child_process import Fault, acknowledge, run_child

PASSING = """
from remit.core.faultpoints import reach
from tests.support.child_process import acknowledge
for number in range(3):
    reach("append.begun")
    acknowledge(f"passed {number}")
print("the end")
"""


def test_a_point_that_is_not_armed_does_nothing() -> None:
    for _ in range(3):
        reach("append.begun")
    ended = run_child([sys.executable, "-c", PASSING])
    assert (ended.exit_code, ended.killed, ended.output) == (0, False, "the end\n")
    assert ended.acknowledged == ("passed 0", "passed 1", "passed 2")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_armed_point_kills_at_its_count_and_not_before(count: int) -> None:
    ended = run_child([sys.executable, "-c", PASSING], fault=Fault("append.begun", count))
    assert ended.killed
    assert ended.acknowledged == tuple(f"passed {number}" for number in range(count - 1))
    assert ended.output == "", "nothing runs after the kill, not even a flush"


def test_an_armed_error_is_raised_once() -> None:
    ended = run_child([sys.executable, "-c", PASSING], fault=Fault("append.begun", 2, "error"))
    assert ended.exit_code == 1
    assert "InjectedFaultError: [Errno 28] fault injected: 'append.begun'" in ended.output


def test_another_point_has_no_effect() -> None:
    assert run_child([sys.executable, "-c", PASSING], fault=Fault("append.signed")).exit_code == 0


@pytest.mark.parametrize("setting", ["append.begum", "append.begun:0", "append.begun:1:die", "append.begun:x"])
def test_a_mistyped_setting_stops_the_program(setting: str) -> None:
    ended = run_child([sys.executable, "-c", PASSING], environment={"REMIT_FAULT": setting})
    assert ended.exit_code == 1
    assert "ValueError" in ended.output
    assert ended.acknowledged == ()


def test_a_fault_at_an_unknown_point_is_refused() -> None:
    with pytest.raises(ValueError, match="no fault point"):
        Fault("append.begum")


def test_a_child_that_hangs_is_killed_and_reported() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_child([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.5)


def test_an_acknowledgement_is_one_line() -> None:
    with pytest.raises(ValueError, match="one line"):
        acknowledge("two\nlines")


def test_an_acknowledgement_cut_short_by_the_kill_is_not_reported() -> None:
    program = """
import os
from tests.support.child_process import ACKNOWLEDGE_TO
os.write(int(os.environ[ACKNOWLEDGE_TO]), b"whole\\nhal")
"""
    assert run_child([sys.executable, "-c", program]).acknowledged == ("whole",)
