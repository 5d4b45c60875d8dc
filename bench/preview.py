"""Measures `remit run` of a plan with a slow pipeline against the pipeline alone and the same plan without it.

A pipeline runs once, for the preview, and its files are put in place by the apply. So the whole command must take about
as long as the pipeline and the rest of the plan together. Every figure of one run comes from one machine at one time.
The ways take turns, and medians are compared. The exit code is 1 if the target is missed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from figures import Figure, print_step, render
from remit.core.ids import system_clock
from remit.workspace.create import initialise

MOST: Final = 1.2
CODE: Final = """\
import time


def run(job):
    time.sleep({seconds})
    with open("made.txt", "w") as file:
        file.write(str(time.time()))
"""
EDIT: Final[dict[str, object]] = {
    "action_id": "a1",
    "action_type": "FILE_MODIFY",
    "target": "notes.txt",
    "operation": {"type": "text_replace", "pattern": "old", "replacement": "new"},
}
RUN: Final[dict[str, object]] = {
    "action_id": "p1",
    "action_type": "PIPELINE_RUN",
    "reversible": False,
    "operation": {"type": "pipeline_run", "pipeline": "slow"},
}


class Project:
    """A workspace with one pipeline. Each command is a process of its own."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._root = folder / "project"
        (self._root / "etl").mkdir(parents=True)
        self._environ = {**os.environ, "REMIT_STATE": str(folder / "state")}
        initialise(self._root, self._environ, system_clock)[0].close()
        slow = {"type": "python", "steps": ["etl.slow:run"], "writes": ["made.txt"]}
        config = {"version": 1, "pipelines": {"slow": slow}, "pipeline_packages": ["etl"]}
        (self._root / "remit.yaml").write_text(json.dumps(config))
        (self._root / "etl" / "__init__.py").touch()
        (self._root / "etl" / "slow.py").write_text(CODE.format(seconds=seconds))
        self._count = 0

    def run(self, *actions: dict[str, object]) -> tuple[float, int]:
        """`remit run` a plan. Returns the seconds, and the milliseconds that its report says."""
        self._count += 1
        (self._root / "notes.txt").write_text("old\n")
        plan = self._root / "plan.json"
        plan.write_text(json.dumps({"plan_id": f"bench-{self._count}", "action_plan": list(actions)}))
        command = [sys.executable, "-m", "remit", "run", "--yes", "--json", "-C", str(self._root), str(plan)]
        command += ["--allow-irreversible", "p1"] if RUN in actions else []
        began = time.perf_counter()
        done = subprocess.run(command, env=self._environ, check=True, capture_output=True, text=True)
        taken = time.perf_counter() - began
        outcome = json.loads(done.stdout)
        assert outcome["status"]["status"] == "SUCCESS", outcome
        return taken, int(outcome["report"]["duration_ms"])

    def run_pipeline_alone(self) -> float:
        """Run the function of the pipeline in a process of Python."""
        began = time.perf_counter()
        code = "from etl.slow import run; run(None)"
        subprocess.run([sys.executable, "-c", code], cwd=self._root, env=self._environ, check=True)
        taken = time.perf_counter() - began
        (self._root / "made.txt").unlink()
        return taken


def measure(folder: Path, rounds: int, seconds: float) -> list[Figure]:
    project = Project(folder, seconds)
    whole, rest, alone, reported = list[float](), list[float](), list[float](), list[float]()
    for number in range(rounds):
        print_step(f"round {number + 1} of {rounds}")
        rest.append(project.run(EDIT)[0])
        alone.append(project.run_pipeline_alone())
        taken, milliseconds = project.run(EDIT, RUN)
        whole.append(taken)
        reported.append(milliseconds / 1000)
    ratio = statistics.median(whole) / (statistics.median(alone) + statistics.median(rest))
    return [
        Figure("the pipeline alone", statistics.median(alone), "s"),
        Figure("remit run of the plan without it", statistics.median(rest), "s"),
        Figure("remit run of the plan with it", statistics.median(whole), "s"),
        Figure("  against both of them together", ratio, "times", most=MOST),
        Figure("  as its report says", statistics.median(reported), "s", least=seconds),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="What `remit run` of a slow pipeline costs.")
    parser.add_argument("--rounds", type=int, default=3, help="how often the ways take turns")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long the pipeline takes")
    parser.add_argument("--folder", type=Path, help="where to work: the disk to be measured")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        figures = measure(Path(folder), given.rounds, given.seconds)
    print(json.dumps([vars(figure) for figure in figures], indent=2) if given.json else render(figures))
    return any(figure.missed for figure in figures)


if __name__ == "__main__":
    sys.exit(main())
