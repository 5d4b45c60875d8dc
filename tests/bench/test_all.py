"""`make bench`: every program runs to its end, there is one table, and one exit code for all of them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
BENCH: Final = ROOT / "bench"


def figure(name: str, value: float, **target: float) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": "ms", "most": None, "least": None, **target}


def program(folder: Path, name: str, body: str) -> str:
    """A stand-in that leaves a file when it ran, whatever it does after that."""
    file = folder / f"{name}.py"
    file.write_text(f"import sys, pathlib\npathlib.Path({str(folder / name)!r}).touch()\n{body}\n")
    return str(file)


def telling(folder: Path, name: str, told: Any, code: int) -> str:
    return program(folder, name, f"assert '--json' in sys.argv\nprint({json.dumps(told)!r})\nsys.exit({code})")


def run(*programs: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH / "all.py"), *programs]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def line_of(done: subprocess.CompletedProcess[str], *words: str) -> str:
    (line,) = [line for line in done.stdout.splitlines() if all(word in line for word in words)]
    return line


def test_a_miss_and_a_crash_keep_no_other_program_from_running(tmp_path: Path) -> None:
    misses = telling(tmp_path, "misses", [figure("slow", 9, most=5), figure("plain", 1)], 1)
    crashes = program(tmp_path, "crashes", "raise SystemExit('no database')")
    breaks = telling(tmp_path, "breaks", [figure("partly", 1, most=5)], 3)
    holds = telling(tmp_path, "holds", [figure("quick", 2, most=5), figure("many", 7, least=6)], 0)
    done = run(misses, crashes, breaks, holds)
    assert done.returncode == 1
    assert all((tmp_path / name).exists() for name in ("misses", "crashes", "breaks", "holds"))
    assert sum(line.startswith("program ") for line in done.stdout.splitlines()) == 1
    assert line_of(done, "misses.py", "slow").split() == [
        "misses.py",
        "slow",
        "9.00",
        "ms",
        "at",
        "most",
        "5",
        "MISSED",
    ]
    assert line_of(done, "misses.py", "plain").endswith("ms")
    assert line_of(done, "crashes.py").endswith("FAILED, exit code 1")
    assert line_of(done, "breaks.py", "partly").endswith("held")
    assert line_of(done, "breaks.py", "FAILED").endswith("exit code 3")
    assert line_of(done, "holds.py", "quick").endswith("at most 5   held")
    assert line_of(done, "holds.py", "many").endswith("at least 6  held")
    assert done.stdout.endswith("3 of 6 results are missed or failed\n")
    assert "no database" in done.stderr


def test_without_a_miss_the_exit_code_is_0(tmp_path: Path) -> None:
    holds = telling(tmp_path, "holds", [figure("quick", 2, most=5), figure("no target", 3)], 0)
    done = run(holds, holds)
    assert (done.returncode, done.stderr.count("== ")) == (0, 2)
    assert done.stdout.endswith("all 2 targets held\n")


@pytest.mark.parametrize("wrong, code", [([], 0), (["a.txt"], 1)])
def test_the_counts_of_a_history_are_figures_too(wrong: list[str], code: int, tmp_path: Path) -> None:
    history = telling(tmp_path, "history", {"applied": 3, "actions": 9, "wrong": wrong}, code)
    done = run(history)
    assert done.returncode == code
    assert line_of(done, "files that differed").endswith("MISSED" if wrong else "held")


def test_make_bench_runs_every_program_of_the_folder() -> None:
    listed = subprocess.run(["make", "-n", "bench"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "bench/all.py" in listed.stdout
    text = (BENCH / "all.py").read_text("utf-8")
    own = {"all.py", "figures.py", "served.py", "peer_dbos.py"}
    for file in BENCH.glob("*.py"):
        assert (file.name in own) or f'"{file.name}' in text, file.name
