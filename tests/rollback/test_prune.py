"""Only what nobody can need any more is pruned, and what the ledger says decides."""

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from remit.checkpoint.outputs import ReportFolder, list_reports
from remit.checkpoint.pruning import KnownStatus, Prunable, prunable, prune
from remit.errors import Refused
from remit.testing.children import Fault, run_child
from tests.checkpoint.project import Done, Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    place = Project(tmp_path / "project")
    place.write("a", b"before" * 100)
    return place


@pytest.fixture
def done(project: Project) -> Done:
    return project.carry_out([("modify", "a", b"after")])


def now() -> datetime:
    return datetime.now(UTC)


PAPERS = {"rollback_manifest.json"}


@pytest.mark.req("PX-32")
@pytest.mark.parametrize("status", ["EXECUTED", "EXPIRED"])
def test_backups_and_script_go_and_the_papers_stay(project: Project, done: Done, status: KnownStatus) -> None:
    [item] = prunable(project.base, {done.name: status}, now())
    assert (item.name, item.what, item.why) == (done.name, "backups", status.lower())
    script = (project.report(done) / "rollback.py").stat().st_size
    assert item.size == 600 + script
    assert {path.name for path in project.report(done).iterdir()} > PAPERS, "looking removes nothing"
    assert prune(project.base, item) == 600 + script
    assert {path.name for path in project.report(done).iterdir()} == PAPERS
    assert prunable(project.base, {done.name: status}, now()) == []
    assert (project.root / "a").read_bytes() == b"after"


@pytest.mark.req("PX-32")
def test_an_active_manifest_is_never_pruned_whatever_its_file_says(project: Project, done: Done) -> None:
    file = project.report(done) / "rollback_manifest.json"
    file.write_text(file.read_text().replace('"ACTIVE"', '"EXECUTED"'))
    os.utime(project.report(done), (0, 0))
    assert prunable(project.base, {done.name: "ACTIVE"}, now()) == []


@pytest.mark.req("PX-32")
def test_what_a_forced_rollback_put_aside_is_somebodys_work_and_stays(project: Project, done: Done) -> None:
    kept = project.root / "agent_outputs/reports" / done.name / "backups" / "0000-a.txt.drifted-1.bak"
    kept.write_bytes(b"my only copy")
    assert prunable(str(project.root), {done.name: "EXECUTED"}, datetime.now(UTC)) == []


@pytest.mark.req("PX-32")
def test_a_folder_without_a_run_goes_after_an_hour(project: Project, done: Done) -> None:
    assert prunable(project.base, {}, now() + timedelta(minutes=59)) == []
    [item] = prunable(project.base, {}, now() + timedelta(minutes=61))
    assert (item.name, item.what) == (done.name, "folder")
    assert prune(project.base, item) == item.size
    assert list_reports(project.base) == []
    assert os.listdir(project.root / "agent_outputs/reports") == []


def test_a_run_without_a_manifest_has_nothing_but_empty_room_to_prune(project: Project) -> None:
    with ReportFolder.make(project.base, "doomed") as folder:
        folder.write({"execution_report.json": b"{}"})
    [item] = prunable(project.base, {"doomed": "NONE"}, now())
    assert item.size == 0
    prune(project.base, item)
    assert os.listdir(project.root / "agent_outputs/reports/doomed") == ["execution_report.json"]


def test_without_reports_there_is_nothing_to_prune(project: Project) -> None:
    assert prunable(project.base, {}, now()) == []
    assert prune(project.base, Prunable("gone", "folder", 0, "")) == 0


@pytest.mark.req("PX-32")
def test_links_are_neither_listed_nor_followed(project: Project, done: Done, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"p")
    reports = project.root / "agent_outputs/reports"
    (reports / "planted").symlink_to(outside)
    (reports / "file").write_text("x")
    (project.report(done) / "backups/link").symlink_to(outside / "precious")
    late = now() + timedelta(days=1)
    found = prunable(project.base, {done.name: "EXPIRED"}, late)
    assert [item.name for item in found] == [done.name]
    for item in (*found, Prunable("planted", "folder", 0, "")):
        prune(project.base, item)
    assert (outside / "precious").read_bytes() == b"p"
    assert (reports / "planted").is_symlink()


def test_a_planted_link_above_the_reports_is_refused(project: Project, tmp_path: Path) -> None:
    (project.root / "agent_outputs").symlink_to(tmp_path)
    with pytest.raises(Refused):
        prunable(project.base, {}, now())


CHILD = """
import sys
from datetime import UTC, datetime, timedelta
from remit.checkpoint.pruning import prunable, prune
from remit.testing.children import acknowledge
known = {sys.argv[2]: "EXPIRED"} if sys.argv[3] == "backups" else {}
for item in prunable(sys.argv[1], known, datetime.now(UTC) + timedelta(days=1)):
    acknowledge(str(prune(sys.argv[1], item)))
"""


@pytest.mark.req("PX-28", "PX-32")
@pytest.mark.parametrize("point", ["prune.renamed", "prune.removed"])
@pytest.mark.parametrize("what", ["backups", "folder"])
def test_a_killed_pruning_goes_on_the_next_time(project: Project, done: Done, point: str, what: str) -> None:
    command = [sys.executable, "-c", CHILD, project.base, done.name, what]
    assert run_child(command, fault=Fault(point)).killed
    assert not (project.report(done) / "backups").exists(), "there is no half of it under its own name"
    assert run_child(command).exit_code == 0
    left = [path.name for path in (project.root / "agent_outputs/reports").rglob("*") if path.is_file()]
    assert left == ([] if what == "folder" else ["rollback_manifest.json"])
