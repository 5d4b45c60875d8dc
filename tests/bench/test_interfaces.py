"""The benchmarks of the ways in run, lose nothing, and have their targets documented. Times are not judged."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
SMALL = {"over_http.py": ["--rounds=1", "--each=8"], "sse.py": ["--tasks=32", "--listeners=20"]}


@pytest.mark.long
@pytest.mark.parametrize("program", SMALL)
def test_it_runs_and_its_targets_are_in_the_documentation(program: str, tmp_path: Path) -> None:
    command = [sys.executable, str(BENCH / program), *SMALL[program], "--json", f"--folder={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stderr
    figures: dict[str, dict[str, Any]] = {figure["name"]: figure for figure in json.loads(done.stdout)}
    text = (BENCH / "README.md").read_text("utf-8")
    for name, figure in figures.items():
        if figure["most"] is not None:
            (line,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
            assert f"| at most {figure['most']:g} |" in line
    if program == "sse.py":
        assert figures["events lost"]["value"] == 0
        assert figures["listeners that were let go"]["value"] == 0
        assert figures["events told"]["value"] == 20 * 32 * 3
