"""A slice of the load with kills; `python -m tests.crash.goals` runs the whole. And the check finds what is wrong."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from remit.testing.goal_evidence import GoalEvidence, find_problems
from remit.testing.goal_workspace import TENANT, complete_goal, make_scratch
from tests.crash.goals.checking import check_all
from tests.support import preloaded

ROOT = Path(__file__).resolve().parents[3]
ONE = {"c-1": "n-1"}
CLEAN = GoalEvidence(
    dispatched={"c-1": 1},
    current_events={"c-1": "SUCCEEDED"},
    intents={"c-1": 1},
    outcomes={"c-1": 1},
    successes={"c-1": 1},
    files={"n-1": 1},
)


@pytest.mark.req("AC-08", "AC-10", "AC-13")
@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def test_goals_whose_workers_are_killed_and_that_are_given_twice_take_effect_once(
    request: pytest.FixtureRequest, store: str
) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    if store == "postgresql":
        environ["REMIT_TEST_POSTGRES_URL"] = request.getfixturevalue("postgres_admin_url")
    command = [
        preloaded.python(),
        "-m",
        "tests.crash.goals",
        "--goals=10",
        "--workers=2",
        "--kills=2",
        f"--store={store}",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environ, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout)
    assert figures["killed"] == 2
    assert figures["asked"] == 11
    assert figures["succeeded"] + figures["failed"] == 10
    assert figures["duplicate_side_effects"] == figures["problems"] == 0
    assert figures["decisions_replayed"] >= 20


def test_evidence_without_fault_has_no_problem() -> None:
    assert find_problems(CLEAN, ONE) == []
    assert CLEAN.duplicates.value == 0
    undone = dataclasses.replace(CLEAN, current_events={"c-1": "FAILED"}, successes={}, files={})
    assert find_problems(undone, ONE) == []


def test_evidence_of_a_fault_is_a_problem(subtests: pytest.Subtests) -> None:
    for changes, doubled in [
        ({"dispatched": {"c-1": 2}}, True),
        ({"intents": {"c-1": 2}}, True),
        ({"outcomes": {"c-1": 2}}, True),
        ({"files": {"n-1": 1, "n-2": 1}}, True),
        ({"files": {"n-1": 1, ".remit-0.part": 1}}, True),
        ({"current_events": {"c-1": "FAILED"}}, True),
        ({"successes": {"c-1": 2}}, False),
        ({"files": {}}, False),
        ({"current_events": {"c-1": "DISPATCHED"}, "files": {}, "successes": {}}, False),
        ({"dispatched": {}}, False),
    ]:
        with subtests.test(changes=changes, doubled=doubled):
            evidence = dataclasses.replace(CLEAN, **changes)  # type: ignore[arg-type]
            assert find_problems(evidence, ONE)
            assert bool(evidence.duplicates.count) is doubled


@pytest.mark.req("AC-10", "AC-13")
def test_the_check_finds_an_effect_that_was_not_recorded_and_a_projection_that_drifted(tmp_path: Path) -> None:
    scratch = make_scratch(tmp_path)
    with scratch.open() as workspace:
        complete_goal(workspace.goals, "c-1", "n-1")
        assert check_all(scratch, ONE).problems == []
        workspace.ledger.transact(
            lambda batch: batch.store.execute("DELETE FROM agent_execution_current WHERE tenant_id = ?", (TENANT,))
        )
    (scratch.base / "stray.txt").write_text("whence?\n")
    problems = " ".join(check_all(scratch, ONE).problems)
    assert "stray: a file that no goal requested" in problems
    assert "missing from the projection" in problems
    assert "the projection that was rebuilt is not the live one" in problems
