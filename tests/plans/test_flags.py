"""stop_on_error, rollback_on_failure, preserve_permissions, verify_hashes: defaults, and what each override does."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from remit.contracts.plans.outcome import PlanOutcome
from tests.plans.project import Project, at_phase, create, delete, plan_of, ran, rename, replace

Break = Callable[[Project], object]

FAILURES: dict[str, tuple[Break, int]] = {
    "missing": (lambda project: (project.root / "b.txt").unlink(), 2001),
    "changed": (lambda project: project.write("b.txt", "theirs\n"), 2003),
}


def run(project: Project, spoil: Break, **flags: Any) -> PlanOutcome:
    """Three independent edits and one that depends on the second; the second's file is spoiled after the checkpoint."""
    for name in ("a.txt", "b.txt", "c.txt"):
        project.write(name)
    plan = plan_of(
        replace("a", "a.txt"),
        replace("b", "b.txt"),
        replace("c", "c.txt"),
        create("d", "d.txt", depends_on=["b"]),
        **flags,
    )
    envelope = project.approve(plan).canonical()
    return ran(project.workspace.apply(envelope, on_status=at_phase("RUNNING", lambda: spoil(project))))


def ends(outcome: PlanOutcome) -> tuple[list[str], list[str], list[str]]:
    report = outcome.report
    return (
        [item.action_id for item in report.actions_completed],
        [item.action_id for item in report.actions_failed],
        [item.action_id for item in report.actions_skipped],
    )


@pytest.mark.req("PX-10", "PX-13")
@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("back", [True, False])
@pytest.mark.parametrize("failure", FAILURES)
def test_the_flags_decide_how_a_failed_plan_ends(project: Project, stop: bool, back: bool, failure: str) -> None:  # noqa: FBT001
    spoil, code = FAILURES[failure]
    outcome = run(project, spoil, stop_on_error=stop, rollback_on_failure=back)
    always_back = code == 2003
    goes_back = back or always_back
    assert outcome.status.status == ("ROLLED_BACK" if goes_back else "PARTIAL")
    assert outcome.report.rollback_performed == goes_back
    stopped = stop or always_back
    assert ends(outcome) == ((["a"], ["b"], ["c", "d"]) if stopped else (["a", "c"], ["b"], ["d"]))
    assert [item.error_code for item in outcome.report.actions_failed] == [code]
    assert project.read("a.txt") == ("one\ntwo\nthree\n" if goes_back else "one\nTWO\nthree\n")
    assert project.read("c.txt") == ("one\ntwo\nthree\n" if goes_back or stopped else "one\nTWO\nthree\n")
    assert not (project.root / "d.txt").exists()
    assert not list(project.root.rglob(".remit-*"))


@pytest.mark.req("PX-09")
def test_a_dependant_of_a_failed_action_is_skipped_with_the_reason(project: Project) -> None:
    outcome = run(project, FAILURES["missing"][0], stop_on_error=False, rollback_on_failure=False)
    (skipped,) = outcome.report.actions_skipped
    assert (skipped.action_id, skipped.reason) == ("d", "Dependency b failed")
    errors = {error.details.action_id: (error.error_code, error.recovery_action) for error in outcome.errors}
    assert errors == {"b": (2001, "SKIPPED"), "d": (4003, "SKIPPED")}


@pytest.mark.req("PX-13", "PX-15")
def test_the_changes_of_a_partial_run_can_be_rolled_back(project: Project) -> None:
    outcome = run(project, FAILURES["missing"][0], stop_on_error=False, rollback_on_failure=False)
    assert outcome.status.status == "PARTIAL"
    assert outcome.manifest is not None
    assert sorted(item.file_path for item in outcome.manifest.checkpoints) == ["a.txt", "c.txt"]
    assert project.workspace.rollback("last").status == "EXECUTED"
    assert project.read("a.txt") == project.read("c.txt") == "one\ntwo\nthree\n"


@pytest.mark.req("PX-10")
def test_a_problem_known_from_the_preflight_fails_its_action_only(project: Project) -> None:
    project.write("a.txt")
    plan = plan_of(
        replace("a", "a.txt"),
        replace("b", "missing.txt"),
        delete("c", "missing.txt"),
        create("d", "new/e.txt", depends_on=["b"]),
        stop_on_error=False,
        rollback_on_failure=False,
    )
    outcome = project.apply(plan, even_if_it_fails=True)
    assert outcome.status.status == "PARTIAL"
    assert ends(outcome)[0] == ["a"]
    assert not (project.root / "new").exists()
    assert [error.error_code for error in outcome.errors if error.details.action_id == "b"] == [2001]


@pytest.mark.req("PX-10")
def test_permissions_are_kept_unless_the_plan_says_otherwise(project: Project) -> None:
    project.write("a.txt", mode=0o600)
    project.write("b.txt", mode=0o600)
    assert project.apply(plan_of(replace("a", "a.txt"))).status.status == "SUCCESS"
    assert project.apply(plan_of(replace("b", "b.txt"), preserve_permissions=False)).status.status == "SUCCESS"
    modes = [(project.root / name).stat().st_mode & 0o777 for name in ("a.txt", "b.txt")]
    assert modes == [0o600, 0o644]


@pytest.mark.req("PX-10")
def test_attributes_of_a_file_are_kept(project: Project) -> None:
    file = project.write("a.txt")
    try:
        os.setxattr(file, "user.remit-test", b"kept")
    except OSError:
        pytest.skip("this filesystem has no extended attributes")
    assert project.apply(plan_of(replace("a", "a.txt"))).status.status == "SUCCESS"
    assert project.read("a.txt") == "one\nTWO\nthree\n"
    assert os.getxattr(file, "user.remit-test") == b"kept"


@pytest.mark.req("PX-10", "PX-11")
@pytest.mark.parametrize("verify", [True, False])
def test_hashes_are_compared_after_the_run(project: Project, verify: bool) -> None:  # noqa: FBT001
    """Somebody changes a file behind the plan's back, to as many other bytes."""
    file = project.write("a.txt")
    plan = plan_of(replace("a", "a.txt"), rename("b", "old.txt", "new.txt"), verify_hashes=verify)
    project.write("old.txt")
    envelope = project.approve(plan).canonical()
    spoil = at_phase("VERIFYING", lambda: file.write_text("ONE\nTWO\nTHREE\n"))
    if verify:  # what somebody wrote is his: it stays, and only a person can say what is right
        with pytest.raises(Exception, match="the undo is not complete"):
            project.workspace.apply(envelope, on_status=spoil)
        assert project.read("a.txt") == "ONE\nTWO\nTHREE\n"
        return
    assert ran(project.workspace.apply(envelope, on_status=spoil)).status.status == "SUCCESS"
