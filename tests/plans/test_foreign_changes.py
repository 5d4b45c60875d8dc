"""What others did meanwhile: never lost, never taken for the plan's own work, and always said."""

from pathlib import Path

import pytest

from remit.cli.plans.render import render_final_state
from remit.core.errors import Reason
from tests.plans.project import Project, at_phase, create, plan_of, ran, replace
from tests.plans.test_recovery import killed
from tests.support.child_process import Fault


@pytest.fixture
def project(project: Project) -> Project:
    project.write("edited.txt")
    return project


NEVER = [{"type": "file_exists", "path": "never.txt"}]


@pytest.mark.req("PX-11", "PX-28")
def test_an_old_file_that_was_removed_after_a_crash_does_not_prove_that_the_plan_was_verified(
    project: Project, tmp_path: Path
) -> None:
    plan = plan_of(replace("edit", "edited.txt"), rules=NEVER)
    killed(project, tmp_path, plan, Fault("road.effect_done"))
    (aside,) = project.root.glob(".remit-*.part")
    aside.unlink()
    (report,) = project.workspace.recover()
    assert report.outcome is None
    assert report.problem is not None
    assert report.problem.reason is Reason.ROLLBACK_FAILED
    assert "rollback_manifest.json" in report.problem.next_step


@pytest.mark.req("PX-28")
def test_recovery_of_a_verified_and_published_plan_removes_its_old_files(project: Project, tmp_path: Path) -> None:
    plan = plan_of(replace("edit", "edited.txt"), create("make", "made.txt"))
    killed(project, tmp_path, plan, Fault("plan.cleared_one"))
    (report,) = project.workspace.recover()
    assert report.problem is None
    assert report.took_effect
    assert list(project.root.glob(".remit-*")) == []


@pytest.mark.req("PX-11", "PX-35")
def test_a_report_of_a_rollback_names_what_is_not_as_before(project: Project) -> None:
    made = project.root / "made.txt"

    def write_into_it() -> None:
        with made.open("a") as file:
            file.write("mine\n")

    envelope = project.approve(plan_of(create("make", "made.txt", "theirs\n"))).canonical()
    outcome = ran(project.workspace.apply(envelope, on_status=at_phase("VERIFYING", write_into_it)))
    assert outcome.status.status == "ROLLED_BACK"
    assert made.read_text() == "theirs\nmine\n"
    assert any("made.txt is not as before the run" in warning for warning in outcome.report.warnings)
    assert "everything is as before" not in render_final_state(outcome.report)
