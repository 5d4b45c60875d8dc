"""`make release` in a copy of the project: it builds only after both gates have said yes."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guardrails.project_copy import ROOT, Copied

GATE = "scripts/check_agent_execution_core.sh"


class Project:
    """The Makefile as it is. In .venv/bin stand a Python that writes down what it is asked to build, and a `remit`
    that says what a test wants of it.
    """

    def __init__(self, folder: Path, slo: int = 0) -> None:
        self.root = folder
        (folder / ".venv" / "bin").mkdir(parents=True)
        for name in ("Makefile", "pyproject.toml"):
            shutil.copy(ROOT / name, folder / name)
        shutil.copytree(ROOT / "requirements", folder / "requirements")
        both = b"".join((ROOT / name).read_bytes() for name in ("requirements/dev.txt", "pyproject.toml"))
        (folder / ".venv" / f".dev-{hashlib.sha256(both).hexdigest()[:16]}").touch()
        self.program(".venv/bin/remit", f'[ "$*" = "slo gate" ] && exit {slo}\nexit 99')
        builds = '*"hatchling build"*) mkdir dist && echo built >dist/remit.whl;;'
        self.program(".venv/bin/python", f'case "$*" in {builds} *) exec "{sys.executable}" "$@";; esac')

    def program(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def release(self, *words: str) -> subprocess.CompletedProcess[str]:
        told = {"PATH": os.environ["PATH"], "HOME": str(self.root)}
        command = ["make", "release", *words]
        return subprocess.run(command, cwd=self.root, env=told, capture_output=True, text=True, check=False)

    @property
    def built(self) -> bool:
        return (self.root / "dist").exists()


@pytest.mark.req("AC-27", "AC-16")
def test_a_release_is_refused_while_a_guardrail_is_broken(tmp_path: Path) -> None:
    project = Project(Copied(tmp_path / "project").root)
    shutil.copytree(ROOT / "scripts", project.root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    core = project.root / "src" / "remit" / "goals" / "core.py"
    core.write_text(core.read_text() + "import subprocess\n")
    done = project.release()
    assert done.returncode == 2
    assert "bypass: src/remit/goals/core.py:" in done.stderr
    assert "release: refused: the agent core breaks a guardrail" in done.stderr
    assert not project.built


@pytest.mark.req("AC-27", "AC-17")
def test_a_release_is_refused_while_a_service_level_is_not_met(tmp_path: Path) -> None:
    project = Project(tmp_path, slo=1)
    project.program(GATE, "exit 0")
    (tmp_path / "dist").mkdir()  # of an earlier release: what was refused must not look like it was built
    done = project.release()
    assert done.returncode == 2
    assert "release: refused: a service level is not met" in done.stderr
    assert not project.built


@pytest.mark.req("AC-27")
def test_a_release_is_built_once_both_gates_pass(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.program(GATE, "exit 0")
    done = project.release()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{hashlib.sha256(b'built' + bytes([10])).hexdigest()}  remit.whl\n"


@pytest.mark.req("AC-27")
def test_a_release_without_the_script_is_refused(tmp_path: Path) -> None:
    project = Project(tmp_path)
    done = project.release()
    assert done.returncode == 2
    assert not project.built
