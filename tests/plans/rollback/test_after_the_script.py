"""The stand-alone script took a run back, and nobody told Remit: `rollback` sees it, touches nothing, records it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from remit.contracts.plans.outcome import PlanOutcome
from remit.plans.storage.manifest import AS_BEFORE
from tests.plans.project import Project
from tests.plans.rollback.test_full import everything, seed

pytestmark = pytest.mark.req("PX-15", "PX-17")


def run_script(project: Project, outcome: PlanOutcome, *arguments: str) -> None:
    script = str(project.report_folder(outcome) / "rollback.py")
    subprocess.run([sys.executable, "-I", script, *arguments], env={}, check=True, capture_output=True, timeout=60)


def looks(root: Path) -> dict[str, tuple[int, int]]:
    """Which file has each name, and when it was last touched in any way."""
    files = [path for path in root.rglob("*") if path.is_file() and "agent_" not in str(path.relative_to(root))]
    return {str(path): (os.stat(path).st_ino, os.stat(path).st_ctime_ns) for path in files}


def test_nothing_is_done_to_the_files_and_the_manifest_is_executed(project: Project) -> None:
    seed(project)
    before = project.tree()
    outcome = project.apply(everything())
    run_script(project, outcome)
    assert project.tree() == before
    untouched = looks(project.root)

    rolled = project.workspace.rollback("last")

    assert (rolled.status, rolled.errors, rolled.kept) == ("EXECUTED", (), ())
    assert looks(project.root) == untouched
    assert rolled.manifest.status == "EXECUTED"
    assert rolled.manifest.notes.endswith(f"4 of 4 files {AS_BEFORE}")
    on_disk = json.loads((project.report_folder(outcome) / "rollback_manifest.json").read_text())
    assert on_disk == rolled.manifest.tree()
    assert project.kinds()[-2:] == ["rollback.intent", "rollback.outcome"]
    assert project.workspace.rollback("last") == rolled


def test_backups_that_are_gone_by_then_are_not_missed(project: Project) -> None:
    seed(project)
    outcome = project.apply(everything())
    run_script(project, outcome)
    backups = project.report_folder(outcome) / "backups"
    for backup in backups.iterdir():
        backup.unlink()
    backups.rmdir()
    assert project.workspace.rollback("last").status == "EXECUTED"


def test_what_the_script_left_out_is_restored(project: Project) -> None:
    seed(project)
    before = project.tree()
    outcome = project.apply(everything())
    assert outcome.manifest is not None
    (edited,) = (item for item in outcome.manifest.checkpoints if item.file_path == "edited.txt")
    run_script(project, outcome, "--checkpoint", edited.checkpoint_id)
    rolled = project.workspace.rollback("last")
    assert (rolled.status, rolled.manifest.status) == ("EXECUTED", "EXECUTED")
    assert rolled.manifest.notes.endswith(f"1 of 4 files {AS_BEFORE}")
    assert project.tree() == before


def test_what_was_changed_after_the_script_is_drift(project: Project) -> None:
    seed(project)
    outcome = project.apply(everything())
    run_script(project, outcome)
    project.write("edited.txt", "theirs\n")
    rolled = project.workspace.rollback("last")
    assert (rolled.status, [error.error_code for error in rolled.errors]) == ("REFUSED", [2009])
    assert project.read("edited.txt") == "theirs\n"


def test_the_manifest_has_no_note_where_remit_restored_everything_itself(project: Project) -> None:
    seed(project)
    project.apply(everything())
    assert AS_BEFORE not in project.workspace.rollback("last").manifest.notes
