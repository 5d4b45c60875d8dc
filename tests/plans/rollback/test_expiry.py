"""How long a plan can be taken back."""

from datetime import timedelta
from pathlib import Path

import pytest

from remit.core.ids import parse_time
from tests.plans.project import Project, plan_of, replace
from tests.support.task_workspace import MovableClock


@pytest.mark.req("PX-15")
def test_an_expired_manifest_says_so_and_restores_nothing(project: Project, clock: MovableClock) -> None:
    project.write("a.txt")
    outcome = project.apply(plan_of(replace("a", "a.txt")))
    assert outcome.manifest is not None
    assert outcome.manifest.expires_at is not None
    life = parse_time(outcome.manifest.expires_at) - parse_time(outcome.status.completed_at)
    assert life == timedelta(days=30)
    after = project.tree()
    clock.offset = timedelta(days=31)
    rolled = project.workspace.rollback("last")
    assert (rolled.status, rolled.manifest.status) == ("REFUSED", "EXPIRED")
    assert [error.error_code for error in rolled.errors] == [1012]
    assert project.tree() == after


def test_an_expired_plan_can_be_rolled_back_by_force_while_its_backups_are_there(
    project: Project, clock: MovableClock
) -> None:
    project.write("a.txt")
    before = project.tree()
    project.apply(plan_of(replace("a", "a.txt")))
    clock.offset = timedelta(days=31)
    assert project.workspace.rollback("last", force=True).status == "EXECUTED"
    assert project.tree() == before


def test_null_means_that_a_plan_never_expires(tmp_path: Path, clock: MovableClock) -> None:
    project = Project(tmp_path, clock, retention={"rollback_days": None})
    project.write("a.txt")
    outcome = project.apply(plan_of(replace("a", "a.txt")))
    assert outcome.manifest is not None
    assert outcome.manifest.expires_at is None
    clock.offset = timedelta(days=40_000)
    assert project.workspace.rollback("last").status == "EXECUTED"
    project.close()
