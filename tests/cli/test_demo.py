"""`remit demo` shows every promise on real files, and checks each before it says so."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from remit.cli.demo.stage import require
from remit.core.errors import EnvironmentFailureError
from tests.cli.conftest import Remit

PLAN_STEPS = (
    "A plan is previewed",
    "A person approves it",
    "The approved plan, changed by one byte",
    "The approved plan",
    "The same envelope again",
    "Three changes, and a check that fails afterwards",
    "A plan that touches .env",
    "The same, with .env allowed by its name",
    "The last plan is rolled back",
    "The same rollback again",
)


SQL_STEPS = (
    "A plan makes a database",
    "A plan of two edits and a migration is previewed",
    "The same plan, with a last statement that fails",
    "The good plan",
    "The good plan is rolled back",
)
GOAL_STEPS = (
    "A person promotes a simulation",
    "Mia asks: archive the note june",
    "Mia answers: okay",
    "Mia answers: yes",
    "The history of this goal",
    "The same in Arabic: أرشف الملاحظة july",
    "Tom asks for the same, and confirms",
    "Mia asks for three steps: archive april then may then june",
    "The same in German: archiviere april dann may dann june",
)
WITHOUT_DUCKDB = "import sys; sys.modules['duckdb'] = None; from remit.cli import main; main()"


@pytest.mark.req("PX-33")
def test_the_demo_runs_as_promised_and_shows_plans_from_diff_to_rollback(remit: Remit) -> None:
    shown = remit("demo", "--json")
    assert shown.code == 0, shown
    steps = {step["title"]: step["result"] for step in shown.document["steps"]}
    assert [title for title in steps if title in PLAN_STEPS] == list(PLAN_STEPS)
    assert '-  "retries": 3,; +  "retries": 5,' in steps["A plan is previewed"]
    assert [title for title in steps if title in SQL_STEPS] == list(SQL_STEPS)
    assert "three actions undone" in steps["The same plan, with a last statement that fails"]
    assert [title for title in steps if title in GOAL_STEPS] == list(GOAL_STEPS)
    assert shown.out == json.dumps(shown.document, indent=2, ensure_ascii=False) + "\n"


def test_without_duckdb_the_demo_says_so_and_goes_on(tmp_path: Path) -> None:
    environ = {**os.environ, "REMIT_STATE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_DUCKDB, "demo", "--json"], capture_output=True, check=True, env=environ
    )
    steps = {step["title"]: step["result"] for step in json.loads(done.stdout)["steps"]}
    assert steps["SQL in a plan"] == "left out: DuckDB is not installed here; pip install 'remit[sql]'"
    assert not set(SQL_STEPS) & set(steps)
    assert "The ledger" in steps


def test_the_demo_fails_if_one_of_its_checks_fails() -> None:
    with pytest.raises(EnvironmentFailureError, match="the demo found a problem: it rained"):
        require([], "it rained")
