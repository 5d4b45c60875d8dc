"""The programs that measure plans run, find what is wrong, and are documented. Times are not judged."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


def run_program(name: str, *arguments: str) -> Any:
    environ = {"PYTHONPATH": str(BENCH.parent / "src"), "PATH": os.environ["PATH"]}
    command = [sys.executable, str(BENCH / name), *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    assert done.returncode in {0, 1}, done.stderr
    return json.loads(done.stdout)


def require_documented(figures: Any, text: str, targets: int) -> None:
    found = {figure["name"]: figure["most"] for figure in figures if figure["most"] is not None}
    assert len(found) == targets
    for name, most in found.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
        assert f"| at most {most:g} |" in line


@pytest.mark.long
def test_every_figure_of_a_plan_is_there_and_its_target_is_documented(tmp_path: Path) -> None:
    figures = run_program("plan.py", "--rounds=1", "--tree=1000", "--without-peers", f"--folder={tmp_path}")
    assert all(figure["value"] > 0 for figure in figures)
    text = (BENCH / "README.md").read_text("utf-8").replace("100,000", "1,000")
    require_documented(figures, text, 3)


def test_every_figure_of_sql_is_there_and_its_target_is_documented(tmp_path: Path) -> None:
    figures = run_program("sql.py", "--rounds=1", "--megabytes=2", f"--folder={tmp_path}")
    differences = {"what a plan adds to a file of statements, p50", "  of it: the rest"}
    assert all(figure["value"] > 0 for figure in figures if figure["name"] not in differences)
    assert len(figures) == 16
    text = (BENCH / "README.md").read_text("utf-8").replace("100 MB", "2 MB")
    require_documented(figures, text, 2)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Files made, changed, renamed, deleted, made executable; and two commits that no plan can express."""
    folder = tmp_path / "repository"
    folder.mkdir()
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "core.quotepath=off")

    def git(*arguments: str) -> None:
        subprocess.run(["git", *who, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    def commit(message: str) -> None:
        git("add", "--all")
        git("commit", "--quiet", "--message", message)

    git("init", "--quiet")
    (folder / "src").mkdir()
    (folder / "src/a.txt").write_bytes(b"one\r\ntwo\r\n")
    (folder / "文書.bin").write_bytes(bytes(range(256)))
    (folder / ".env").write_text("REGION=north\n")
    commit("made")
    (folder / "src/a.txt").write_bytes(b"one\r\n2\r\n")
    (folder / "run.sh").write_text("#!/bin/sh\ntrue\n")
    (folder / "run.sh").chmod(0o755)
    commit("changed")
    (folder / "src/a.txt").rename(folder / "b.txt")
    (folder / "文書.bin").unlink()
    (folder / "run.sh").chmod(0o644)
    commit("renamed, deleted, another mode")
    (folder / "link").symlink_to("b.txt")
    commit("a link")
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src/c.txt").write_text("three\n")
    commit("after the link")
    (folder / "src/c.txt").unlink()
    (folder / "src").rmdir()
    (folder / "src").write_text("a file now\n")
    commit("a file for a folder")
    return folder


@pytest.mark.req("PX-03", "PX-15")
def test_a_history_is_applied_rolled_back_and_applied_again_byte_for_byte(repository: Path, tmp_path: Path) -> None:
    tally = run_program("history.py", str(repository), f"--folder={tmp_path / 'work'}")
    assert tally["wrong"] == []
    assert tally["refused"] == {"a symbolic link": 1, "a file and a folder of one name": 1}
    assert (tally["applied"], tally["actions"]) == (4, 9)


LOOK = """
import sys
from pathlib import Path
import history
repository = history.Repository(Path(sys.argv[1]))
tree = repository.tree("HEAD")
root = Path(sys.argv[2])
history.set_tree(repository, root, tree)
assert history.differences(root, tree) == []
(root / "b.txt").write_bytes(b"other")
(root / ".env").chmod(0o600)
(root / "run.sh").unlink()
(root / "new").touch()
print(*history.differences(root, tree))
"""


def test_whatever_differs_is_named(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    environ = {"PYTHONPATH": os.pathsep.join((str(BENCH), str(BENCH.parent / "src"))), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", LOOK, str(repository), str(tmp_path / "tree")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    assert done.stdout.split() == [".env", "b.txt", "new", "run.sh"]
