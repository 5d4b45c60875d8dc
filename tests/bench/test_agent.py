"""The benchmark of goals runs, and its documentation names its figures and targets. Times are not judged."""

import json
import os
import subprocess
from pathlib import Path

from tests.support import preloaded

BENCH = Path(__file__).resolve().parents[2] / "bench"


def test_every_figure_is_there_and_every_target_in_the_documentation(tmp_path: Path) -> None:
    command = [preloaded.python(), str(BENCH / "agent.py"), "--rounds=1", "--goals=3", "--json", f"--folder={tmp_path}"]
    environ = {**os.environ, "PYTHONPATH": str(BENCH.parent / "src")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ, timeout=110)
    assert done.returncode in {0, 1}, done.stderr
    figures = {figure["name"]: figure for figure in json.loads(done.stdout)}
    assert len(figures) == 21
    text = (BENCH / "README.md").read_text("utf-8")
    for name, figure in figures.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
        assert figure["most"] is None or f"| at most {figure['most']:,g} |" in line
