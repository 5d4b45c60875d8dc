"""Backups go when nobody can need them any more, and not a moment earlier."""

import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace
from tests.plans.project import Project, plan_of, replace
from tests.plans.test_recovery import edits, killed, seed
from tests.support.child_process import Fault
from tests.support.task_workspace import MovableClock


def applied(project: Project) -> str:
    project.write("a.txt")
    return project.apply(plan_of(replace("a", "a.txt"))).status.folder


@pytest.mark.req("PX-32")
def test_backups_of_a_run_that_can_be_rolled_back_are_never_removed(project: Project) -> None:
    folder = project.root / applied(project)
    assert project.workspace.prune() == []
    assert any((folder / "backups").iterdir())
    assert project.workspace.rollback("last").status == "EXECUTED"


@pytest.mark.req("PX-32")
@pytest.mark.parametrize("why", ["executed", "expired"])
def test_backups_of_a_rolled_back_or_expired_run_are_removed_and_its_reports_stay(
    project: Project, clock: MovableClock, why: str
) -> None:
    folder = project.root / applied(project)
    if why == "executed":
        project.workspace.rollback("last")
    else:
        clock.offset = timedelta(days=31)
    (would,) = project.workspace.prune(dry_run=True)
    assert (would.folder, would.why) == (folder.name, why)
    assert (folder / "backups").exists()
    (pruned,) = project.workspace.prune()
    assert (pruned.folder, pruned.size > 0) == (folder.name, True)
    assert sorted(path.name for path in folder.iterdir()) == [
        "change_log.json",
        "execution_report.json",
        "rollback_manifest.json",
        "status.json",
    ]
    assert project.kinds()[-1] == "plan.pruned"
    assert project.workspace.prune() == []


@pytest.mark.req("PX-28")
def test_a_folder_of_a_run_that_never_began_goes_after_an_hour(
    project: Project, clock: MovableClock, tmp_path: object
) -> None:
    seed(project)
    killed(project, tmp_path, edits(), Fault("backup.manifest_written"))  # type: ignore[arg-type]
    (stray,) = (project.root / "agent_outputs/reports").iterdir()
    assert project.workspace.prune() == []
    old = time.time() - 7_200
    os.utime(stray, (old, old))
    (pruned,) = project.workspace.prune()
    assert (pruned.folder, stray.exists()) == (stray.name, False)


@pytest.mark.req("PX-32")
def test_with_a_new_state_nothing_of_an_earlier_run_is_removed(project: Project, tmp_path: Path) -> None:
    """The state directory was lost, or the project was moved: its ledger knows nothing of the backups."""
    folder = project.root / applied(project)
    before = sorted(path.name for path in folder.rglob("*"))
    os.utime(folder, (0, 0))
    environ = {"REMIT_STATE": str(tmp_path / "new state")}
    made, _ = initialise(project.root, environ, project.clock, new=True)
    made.close()
    with Workspace.open(project.root, environ=environ, clock=project.clock) as workspace:
        assert workspace.prune() == []
    assert sorted(path.name for path in folder.rglob("*")) == before
    subprocess.run([sys.executable, "-I", str(folder / "rollback.py")], check=True, capture_output=True, timeout=60)
    assert project.read("a.txt") == "one\ntwo\nthree\n"
