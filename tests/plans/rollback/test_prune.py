"""Only what nobody can need any more is pruned, and what the ledger says decides."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from remit.core.errors import RefusedError
from remit.plans.storage.pruning import KnownStatus, Prunable, in_use, prunable, prune
from remit.plans.storage.run_folder import ReportFolder, list_reports
from tests.plans.storage.project import Done, Project
from tests.support import preloaded
from tests.support.child_process import Fault, run_child


@pytest.fixture
def project(tmp_path: Path) -> Project:
    place = Project(tmp_path / "project")
    place.write("a", b"before" * 100)
    return place


@pytest.fixture
def done(project: Project) -> Done:
    return project.run_plan([("modify", "a", b"after")])


def now() -> datetime:
    return datetime.now(UTC)


PAPERS = {"rollback_manifest.json"}


@pytest.mark.req("PX-32")
@pytest.mark.parametrize("status", ["EXECUTED", "EXPIRED"])
def test_backups_and_script_are_removed_and_the_reports_stay(project: Project, done: Done, status: KnownStatus) -> None:
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
def test_drifted_content_that_a_forced_rollback_kept_is_not_pruned(project: Project, done: Done) -> None:
    kept = project.root / "agent_outputs/reports" / done.name / "backups" / "0000-a.txt.drifted-1.bak"
    kept.write_bytes(b"my only copy")
    assert prunable(str(project.root), {done.name: "EXECUTED"}, datetime.now(UTC)) == []


def late() -> datetime:
    return now() + timedelta(days=1)


def unbegun(project: Project, done: Done) -> Path:
    """As a run leaves its folder that was killed just before its intent: nothing was changed yet."""
    project.write("a", b"before" * 100)
    return project.report(done)


@pytest.mark.req("PX-32")
@pytest.mark.parametrize("killed", ["before its intent", "before its manifest"])
def test_a_folder_without_a_run_goes_after_an_hour(project: Project, done: Done, killed: str) -> None:
    folder = unbegun(project, done)
    if killed == "before its manifest":
        (folder / "rollback.py").unlink()
        (folder / "rollback_manifest.json").rename(folder / ".rollback_manifest.json.0011223344556677.tmp")
    assert prunable(project.base, {}, now() + timedelta(minutes=59)) == []
    [item] = prunable(project.base, {}, now() + timedelta(minutes=61))
    assert (item.name, item.what) == (done.name, "folder")
    assert prune(project.base, item) == item.size
    assert list_reports(project.base) == []
    assert os.listdir(project.root / "agent_outputs/reports") == []


@pytest.mark.req("PX-32")
def test_a_run_that_the_ledger_does_not_know_stays_while_it_can_be_rolled_back(project: Project, done: Done) -> None:
    """The state may be new, or the project was moved: the backups are the only way back."""
    assert prunable(project.base, {}, late()) == []
    project.write("a", b"mine")
    assert prunable(project.base, {}, late()) == []


@pytest.mark.req("PX-32")
@pytest.mark.parametrize(
    "path",
    ["status.json", "execution_report.json", "mine.txt", "x.tmp", "folder/f", "backups/0000-a.drifted-1.bak"],
)
def test_a_folder_that_the_ledger_does_not_know_stays_with_anything_else_in_it(
    project: Project, done: Done, path: str
) -> None:
    file = unbegun(project, done) / path
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"{}")
    os.utime(project.report(done), (0, 0))
    assert prunable(project.base, {}, late()) == []
    (project.report(done)).rename(project.report(done).with_name(".pruned-" + done.name))
    assert prunable(project.base, {}, late()) == [], "nor is such a folder believed for its name"


@pytest.mark.req("PX-32")
@pytest.mark.parametrize("content", [b"", b"[" * 200_000, b'{"checkpoints": []}', b"\xff"])
def test_a_manifest_that_cannot_be_read_keeps_its_folder(project: Project, done: Done, content: bytes) -> None:
    (unbegun(project, done) / "rollback_manifest.json").write_bytes(content)
    assert prunable(project.base, {}, late()) == []


@pytest.mark.req("PX-32")
@pytest.mark.parametrize("what", ["backups", "folder"])
def test_what_was_put_there_since_it_was_judged_stays(project: Project, done: Done, what: str) -> None:
    folder = unbegun(project, done)
    [item] = prunable(project.base, {done.name: "EXPIRED"} if what == "backups" else {}, late())
    (folder / "backups/0000-a.drifted-1.bak").write_bytes(b"my only copy")
    there = sorted(path.name for path in folder.rglob("*"))
    assert (item.what, prune(project.base, item)) == (what, 0)
    assert sorted(path.name for path in folder.rglob("*")) == there
    assert [path.name for path in folder.parent.iterdir()] == [done.name]


@pytest.mark.req("PX-32")
@pytest.mark.parametrize("what", ["backups", "folder"])
def test_what_a_rollback_uses_right_now_stays(project: Project, done: Done, what: str) -> None:
    folder = unbegun(project, done)
    [item] = prunable(project.base, {done.name: "EXPIRED"} if what == "backups" else {}, late())
    with ReportFolder.open(project.base, done.name) as used, in_use(used.descriptor):
        assert prune(project.base, item) == 0
        assert (folder / "backups").is_dir()
    assert prune(project.base, item) == item.size


@pytest.mark.parametrize("status", ["EXPIRED", None])
def test_a_folder_among_the_backups_stops_only_the_pruning_of_its_own_run(
    project: Project, done: Done, status: KnownStatus | None, caplog: pytest.LogCaptureFixture
) -> None:
    nested = unbegun(project, done) / "backups/mine/deep"
    nested.mkdir(parents=True)
    with ReportFolder.make(project.base, "zzz"):
        pass
    known: dict[str, KnownStatus] = {} if status is None else {done.name: status, "zzz": status}
    found = prunable(project.base, known, late())
    assert [item.name for item in found] == ["zzz"]
    assert [vars(record)["folder"] for record in caplog.records] == [done.name]
    item = found[0]._replace(name=done.name)
    assert prune(project.base, item) == 0, "also if it was made since"
    assert nested.is_dir()


def test_a_run_without_a_manifest_has_only_an_empty_folder_to_prune(project: Project) -> None:
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
    found = prunable(project.base, {done.name: "EXPIRED"}, late())
    assert [item.name for item in found] == [done.name]
    for item in (*found, Prunable("planted", "folder", 0, "")):
        prune(project.base, item)
    assert (outside / "precious").read_bytes() == b"p"
    assert (reports / "planted").is_symlink()


def test_a_planted_link_above_the_reports_is_refused(project: Project, tmp_path: Path) -> None:
    (project.root / "agent_outputs").symlink_to(tmp_path)
    with pytest.raises(RefusedError):
        prunable(project.base, {}, now())


CHILD = """
import sys
from datetime import UTC, datetime, timedelta
from remit.plans.storage.pruning import prunable, prune
from tests.support.child_process import acknowledge
known = {sys.argv[2]: "EXPIRED"} if sys.argv[3] == "backups" else {}
for item in prunable(sys.argv[1], known, datetime.now(UTC) + timedelta(days=1)):
    acknowledge(str(prune(sys.argv[1], item)))
"""


@pytest.mark.req("PX-28", "PX-32")
@pytest.mark.parametrize("point", ["prune.renamed", "prune.removed"])
@pytest.mark.parametrize("what", ["backups", "folder"])
def test_a_killed_pruning_goes_on_the_next_time(project: Project, done: Done, point: str, what: str) -> None:
    unbegun(project, done)
    command = [preloaded.python(), "-c", CHILD, project.base, done.name, what]
    assert run_child(command, fault=Fault(point)).killed
    assert not (project.report(done) / "backups").exists(), "there is no half of it under its own name"
    assert run_child(command).exit_code == 0
    left = [path.name for path in (project.root / "agent_outputs/reports").rglob("*") if path.is_file()]
    assert left == ([] if what == "folder" else ["rollback_manifest.json"])
