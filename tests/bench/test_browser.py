"""The browser's benchmark runs, and its documentation names its targets. Times are not judged."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.mark.long
def test_every_figure_is_there_and_every_target_in_the_documentation() -> None:
    command = [sys.executable, str(BENCH / "browser.py"), "--rounds=1", "--json"]
    environ = {**os.environ, "PYTHONPATH": str(BENCH.parent / "src")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ, timeout=110)
    assert done.returncode in {0, 1}, done.stderr
    figures = {figure["name"]: figure for figure in json.loads(done.stdout)}
    assert len(figures) == 9
    text = (BENCH / "README.md").read_text("utf-8")
    for name, figure in figures.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
        assert figure["most"] is None or f"| at most {figure['most']:g} |" in line
