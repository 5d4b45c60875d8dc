"""The benchmark runs, and its documentation names its targets. Times are not judged: others use the machine too."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
SMALL = ["--entries=1200", "--rounds=1", "--each=20", "--json"]


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    command = [sys.executable, str(BENCH / "ledger.py"), *SMALL, f"--folder={tmp_path_factory.mktemp('bench')}"]
    source = str(BENCH.parent / "src")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": source})
    assert done.returncode in {0, 1}, done.stderr
    return {figure["name"]: figure for figure in json.loads(done.stdout)}


def test_every_figure_is_there_and_positive(figures: dict[str, dict[str, Any]]) -> None:
    assert len(figures) == 15
    assert all(figure["value"] > 0 for figure in figures.values())


def test_every_target_is_in_the_documentation(figures: dict[str, dict[str, Any]]) -> None:
    text = (BENCH / "README.md").read_text("utf-8")
    targets = {name: figure["most"] for name, figure in figures.items() if figure["most"] is not None}
    assert len(targets) == 4
    for name, most in targets.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
        assert f"| at most {most:g} |" in line


def test_group_commit_shares_fsyncs(figures: dict[str, dict[str, Any]]) -> None:
    assert figures["fsyncs an entry, 32 callers"]["value"] <= 0.2


def test_memory_of_verification_does_not_follow_the_ledger(figures: dict[str, dict[str, Any]]) -> None:
    assert figures["growth of the peak memory"]["value"] <= 1.2
