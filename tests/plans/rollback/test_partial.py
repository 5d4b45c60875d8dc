"""Chosen checkpoints only, and folders that have to stay."""

import pytest

from remit.contracts.plans.outcome import PlanOutcome
from remit.core.errors import RefusedError
from tests.plans.project import Project, create, delete, plan_of, replace


def applied(project: Project) -> PlanOutcome:
    project.write("a.txt")
    project.write("b.txt")
    return project.apply(plan_of(replace("a", "a.txt"), delete("b", "b.txt"), create("c", "new/c.txt")))


def checkpoint_of(outcome: PlanOutcome, path: str) -> str:
    assert outcome.manifest is not None
    return next(item.checkpoint_id for item in outcome.manifest.checkpoints if item.file_path == path)


@pytest.mark.req("PX-15")
def test_a_chosen_checkpoint_is_restored_and_the_others_stay(project: Project) -> None:
    outcome = applied(project)
    rolled = project.workspace.rollback("last", checkpoints=[checkpoint_of(outcome, "b.txt")])
    assert (rolled.status, rolled.restored) == ("EXECUTED", (checkpoint_of(outcome, "b.txt"),))
    assert rolled.manifest.status == "ACTIVE"
    assert project.read("b.txt") == "one\ntwo\nthree\n"
    assert project.read("a.txt") == "one\nTWO\nthree\n"
    assert (project.root / "new/c.txt").exists()

    rest = project.workspace.rollback("last")

    assert (rest.status, rest.manifest.status) == ("EXECUTED", "EXECUTED")
    assert project.read("a.txt") == "one\ntwo\nthree\n"
    assert not (project.root / "new").exists()
    restored_by = {item.file_path: item.restored_by for item in rest.manifest.checkpoints}
    assert restored_by["b.txt"] == rolled.order_id
    assert restored_by["a.txt"] == rest.order_id


@pytest.mark.req("PX-15")
def test_the_same_checkpoint_twice_is_a_no_op(project: Project) -> None:
    outcome = applied(project)
    chosen = [checkpoint_of(outcome, "b.txt")]
    first = project.workspace.rollback("last", checkpoints=chosen)
    told: list[bool] = []
    assert project.workspace.rollback("last", checkpoints=chosen, on_stored=lambda: told.append(True)) == first
    assert told == [True]


def test_an_unknown_checkpoint_is_refused(project: Project) -> None:
    applied(project)
    with pytest.raises(RefusedError, match="no such checkpoint"):
        project.workspace.rollback("last", checkpoints=["00000000-0000-4000-8000-000000000000"])


@pytest.mark.req("PX-36")
def test_a_folder_that_holds_a_foreign_file_stays_and_is_named(project: Project) -> None:
    outcome = applied(project)
    theirs = project.write("new/theirs.txt")
    rolled = project.workspace.rollback("last")
    assert rolled.status == "PARTIAL"
    (kept,) = rolled.kept
    assert kept.checkpoint_id == checkpoint_of(outcome, "new")
    assert "not empty" in kept.reason
    assert (theirs.exists(), (project.root / "new/c.txt").exists()) == (True, False)
    theirs.unlink()
    assert project.workspace.rollback("last").status == "EXECUTED"
    assert not (project.root / "new").exists()


def test_what_is_as_before_already_counts_as_restored(project: Project) -> None:
    outcome = applied(project)
    project.write("b.txt")
    rolled = project.workspace.rollback("last")
    assert rolled.status == "EXECUTED"
    assert checkpoint_of(outcome, "b.txt") in rolled.restored
