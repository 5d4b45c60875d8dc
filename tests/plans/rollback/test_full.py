"""A plan taken back by command, all of it: the tree is as it was, and the manifest says so."""

import json
import shutil

import pytest

from remit.plans.model.callbacks import LaterRollback
from tests.plans.project import Project, create, delete, plan_of, ran, rename, replace


def everything() -> bytes:
    """One action of each kind, folders to be made included."""
    return plan_of(
        create("make", "new/deep/made.txt"),
        replace("edit", "edited.txt"),
        delete("drop", "gone.txt"),
        rename("move", "old.txt", "new/moved.txt"),
    )


def seed(project: Project) -> None:
    project.write("edited.txt", mode=0o640)
    project.write("gone.txt", b"\x00\xff binary", 0o600)
    project.write("old.txt", "moved as it is\n")
    project.write("beside.txt", "not named by any plan\n")


@pytest.mark.req("PX-15", "PX-36", "PX-07")
def test_everything_is_restored_and_the_manifest_is_executed(project: Project) -> None:
    seed(project)
    before = project.tree()
    outcome = project.apply(everything())
    assert outcome.status.status == "SUCCESS"
    assert project.tree() != before
    assert outcome.manifest is not None
    kinds = {(item.file_kind, item.operation_to_reverse) for item in outcome.manifest.checkpoints}
    assert kinds == {
        ("file", "CREATE"),
        ("file", "MODIFY"),
        ("file", "DELETE"),
        ("file", "RENAME"),
        ("directory", "CREATE"),
    }

    rolled = project.workspace.rollback("last")

    assert (rolled.status, rolled.kept, rolled.errors) == ("EXECUTED", (), ())
    assert sorted(rolled.restored) == sorted(item.checkpoint_id for item in outcome.manifest.checkpoints)
    assert project.tree() == before
    assert (rolled.manifest.status, rolled.manifest.executed_at) == ("EXECUTED", rolled.executed_at)
    on_disk = json.loads((project.report_folder(outcome) / "rollback_manifest.json").read_text())
    assert on_disk == rolled.manifest.tree()
    assert not list(project.root.rglob(".remit-*"))
    assert project.kinds()[-3:] == ["rollback.intent", "rollback.noted", "rollback.outcome"]
    assert project.workspace.verify_ledger().holds


@pytest.mark.req("PX-15")
def test_a_second_rollback_does_nothing_and_says_so(project: Project) -> None:
    seed(project)
    outcome = project.apply(everything())
    first = project.workspace.rollback("last")
    after = project.tree()
    entries, told = project.kinds(), []
    second = project.workspace.rollback(outcome.status.envelope_id, on_stored=lambda: told.append(True))
    assert (second, told) == (first, [True])
    assert (project.tree(), project.kinds()) == (after, entries)


@pytest.mark.req("PX-02", "PX-15")
def test_a_repeated_apply_reports_that_the_plan_was_rolled_back(project: Project) -> None:
    seed(project)
    envelope = project.approve(everything()).canonical()
    outcome = ran(project.workspace.apply(envelope))
    told: list[LaterRollback] = []
    assert project.workspace.apply(envelope, on_taken_back=told.append) == outcome
    assert told == [], "it stands"
    (made,) = (item for item in outcome.manifest.checkpoints if item.file_path == "edited.txt")  # type: ignore[union-attr]
    part = project.workspace.rollback("last", checkpoints=[made.checkpoint_id])
    assert ran(project.workspace.apply(envelope, on_taken_back=told.append)).canonical() == outcome.canonical()
    assert told == [LaterRollback(part.order_id, part.executed_at, whole=False)]
    rolled, before = project.workspace.rollback("last"), project.tree()
    assert ran(project.workspace.apply(envelope, on_taken_back=told.append)).canonical() == outcome.canonical()
    assert told[1:] == [LaterRollback(rolled.order_id, rolled.executed_at, whole=True)]
    assert project.tree() == before


def test_a_repeated_apply_does_not_report_a_refused_rollback(project: Project) -> None:
    seed(project)
    envelope = project.approve(everything()).canonical()
    outcome = ran(project.workspace.apply(envelope))
    project.write("edited.txt", "theirs\n")
    assert project.workspace.rollback("last").status == "REFUSED"
    told: list[LaterRollback] = []
    assert project.workspace.apply(envelope, on_taken_back=told.append) == outcome
    assert told == []


def test_a_run_is_found_by_each_of_its_names(project: Project) -> None:
    seed(project)
    outcome = project.apply(everything())
    folder = project.report_folder(outcome)
    names = ["last", folder.name, str(folder) + "/", outcome.status.envelope_id, outcome.status.report_id]
    rolled = [project.workspace.rollback(name) for name in names]
    assert {each.order_id for each in rolled} == {rolled[0].order_id}


def test_an_unknown_run_is_refused(project: Project) -> None:
    with pytest.raises(Exception, match="no run of a plan has this name"):
        project.workspace.rollback("last")


def test_a_rollback_can_be_followed_by_the_same_plan_again(project: Project) -> None:
    seed(project)
    first = project.apply(everything())
    after = {name: found and found[:2] for name, found in project.tree().items()}
    project.workspace.rollback("last")
    second = project.apply(everything())
    assert second.status.status == "SUCCESS"
    assert first.status.envelope_id != second.status.envelope_id
    assert {name: found and found[:2] for name, found in project.tree().items()} == after


@pytest.mark.req("PX-36")
@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_one_damaged_backup_stops_everything_before_the_first_restore(project: Project, damage: str) -> None:
    seed(project)
    outcome = project.apply(everything())
    after = project.tree()
    (backup,) = (project.report_folder(outcome) / "backups").glob("*gone.txt.bak")
    if damage == "gone":
        backup.unlink()
    else:
        backup.write_bytes(b"\x00\xff BINARY")
    rolled = project.workspace.rollback("last")
    assert rolled.status == "REFUSED"
    assert [error.error_code for error in rolled.errors] == [2010 if damage == "gone" else 2008]
    assert backup.name in rolled.errors[0].message
    assert project.tree() == after


@pytest.mark.req("PX-32")
def test_an_edited_manifest_changes_nothing(project: Project) -> None:
    """Remit acts on what the ledger vouches for."""
    seed(project)
    before = project.tree()
    outcome = project.apply(everything())
    paper = project.report_folder(outcome) / "rollback_manifest.json"
    lie = json.loads(paper.read_text())
    lie["status"], lie["executed_at"], lie["checkpoints"], lie["rollback_order"] = "EXECUTED", lie["created_at"], [], []
    paper.write_text(json.dumps(lie))
    assert project.workspace.rollback("last").status == "EXECUTED"
    assert project.tree() == before


def test_a_folder_that_is_gone_since_is_made_again(project: Project) -> None:
    project.write("kept/deep/gone.txt", "content\n")
    before = project.tree()
    project.apply(plan_of(delete("drop", "kept/deep/gone.txt")))
    shutil.rmtree(project.root / "kept")
    assert project.workspace.rollback("last").status == "EXECUTED"
    assert project.tree() == before
