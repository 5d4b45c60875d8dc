"""A rollback that fails half-way leaves what the plan left; one that cannot even do that stays to be recovered."""

from typing import Any

import pytest

from remit.execution.engine import IncompleteError
from remit.execution.journal import Journal
from remit.plans.runtime.runner import StepRun
from tests.plans.project import Project, create, delete, plan_of, ran, replace


def seed(project: Project) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        project.write(name)


def plan() -> bytes:
    return plan_of(replace("a", "a.txt"), delete("b", "b.txt"), create("d", "new/d.txt"))


@pytest.mark.req("PX-15")
def test_a_file_that_changes_during_a_rollback_is_kept_and_fails_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the files and the first switch."""
    seed(project)
    project.apply(plan())
    original = StepRun.run

    def meddle(self: StepRun, *given: Any) -> Any:
        project.write("b.txt", "theirs\n")
        return original(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(StepRun, "run", meddle)
        rolled = project.workspace.rollback("last")
    assert (rolled.status, rolled.restored, rolled.manifest.status) == ("FAILED", (), "ACTIVE")
    assert [error.error_code for error in rolled.errors] == [2002]
    assert project.read("a.txt") == "one\nTWO\nthree\n"
    assert project.read("b.txt") == "theirs\n"
    assert project.read("new/d.txt") == "new\n"
    assert not list(project.root.rglob(".remit-*"))
    (project.root / "b.txt").unlink()
    again = project.workspace.rollback("last")
    assert (again.status, again.order_id != rolled.order_id) == ("EXECUTED", True)
    assert project.read("a.txt") == project.read("b.txt") == "one\ntwo\nthree\n"


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("door", ["plan", "rollback"])
def test_a_ledger_that_fails_half_way_is_never_a_failure_that_changed_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    seed(project)
    if door == "rollback":
        project.apply(plan())
        envelope = b""
    else:
        envelope = project.approve(plan()).canonical()
    original = StepRun.run

    def cut_off(self: StepRun, *given: Any) -> Any:
        original(self, *given)
        raise OSError("the machine is in trouble, and all was switched")

    def no_note(_self: Journal, _what: Any) -> None:
        raise OSError("the ledger is out of reach")

    with monkeypatch.context() as patched:
        patched.setattr(StepRun, "run", cut_off)
        patched.setattr(Journal, "note", no_note)
        with pytest.raises(IncompleteError):
            project.workspace.apply(envelope) if door == "plan" else project.workspace.rollback("last")
    assert project.kinds()[-1] == f"{door}.intent"
    (report,) = project.workspace.recover()
    assert report.problem is None, str(report.problem)
    if door == "plan":
        assert ran(project.workspace.apply(envelope)).status.status == "SUCCESS"
        assert project.read("a.txt") == "one\nTWO\nthree\n"
    else:
        assert project.workspace.rollback("last").status == "EXECUTED"
        assert project.read("a.txt") == "one\ntwo\nthree\n"
