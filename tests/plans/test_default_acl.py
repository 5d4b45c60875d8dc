"""A folder that gives new files access rights of its own: nothing is written there, and that is said beforehand."""

import os
import shutil
from typing import Any

import pytest

from remit.contracts.plans.outcome import PlanOutcome
from remit.core.errors import EnvironmentFailureError, RefusedError
from remit.fs import openat as beneath
from tests.plans.project import Project, at_phase, create, delete, plan_of, ran, rename, replace
from tests.support.default_acl import ACCESS_ACL, DEFAULT_ACL, give_default_acl

NEW_FILES: dict[str, dict[str, Any]] = {
    "create": create("b", "shared/new.txt"),
    "modify": replace("b", "shared/old.txt"),
    "create in a new folder": create("b", "shared/one/two/new.txt"),
    "rename into a new folder": rename("b", "free.txt", "shared/one/two/new.txt"),
}


@pytest.fixture
def shared(project: Project) -> Project:
    project.write("shared/old.txt", mode=0o640)
    project.write("free.txt")
    give_default_acl(project.root / "shared")
    return project


def test_a_folder_with_a_default_acl_is_known_by_its_attribute(shared: Project) -> None:
    """And it is as bad as that: what is made in it belongs to somebody else, too."""
    for name, gives in (("shared", True), (".", False)):
        folder = os.open(shared.root / name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            assert beneath.has_default_acl(folder) is gives
        finally:
            os.close(folder)
    made = shared.write("shared/made.txt")
    assert ACCESS_ACL in os.listxattr(made)


def test_a_folder_whose_acl_cannot_be_read_is_an_error() -> None:
    folder = os.open("/", os.O_PATH)
    try:
        with pytest.raises(EnvironmentFailureError, match="default ACL"):
            beneath.has_default_acl(folder)
    finally:
        os.close(folder)


def test_a_filesystem_without_attributes_has_no_default_acl() -> None:
    folder = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert beneath.has_default_acl(folder) is False
    finally:
        os.close(folder)


@pytest.mark.req("PX-22", "PX-29")
@pytest.mark.parametrize("kind", NEW_FILES)
def test_a_plan_that_would_write_under_a_default_acl_fails_before_it_begins(shared: Project, kind: str) -> None:
    before = shared.tree()
    plan = plan_of(create("a", "first.txt"), NEW_FILES[kind])
    document = shared.workspace.preview(plan).document
    assert document.status == "WOULD_FAIL"
    assert (document.folders, [file.action_id for file in document.files]) == ((), ["a"])
    (problem,) = document.problems
    assert (problem.error_code, problem.details.action_id) == (3001, "b")
    assert "default ACL" in problem.message
    assert "setfacl -k" in problem.message
    with pytest.raises(RefusedError, match="default ACL"):
        shared.approve(plan)
    os.removexattr(shared.root / "shared", DEFAULT_ACL)
    envelope = shared.approve(plan)
    give_default_acl(shared.root / "shared")
    outcome = ran(shared.workspace.apply(envelope.canonical()))
    assert outcome.status.status == "FAILED"
    assert [failed.error_code for failed in outcome.report.actions_failed] == [3001]
    assert shared.tree() == before


@pytest.mark.req("PX-22", "PX-29")
@pytest.mark.parametrize("phase", ["CHECKPOINT", "RUNNING"])
@pytest.mark.parametrize("kind", NEW_FILES)
def test_a_default_acl_that_is_set_at_the_last_moment_is_noticed(project: Project, kind: str, phase: str) -> None:
    project.write("shared/old.txt", mode=0o640)
    project.write("free.txt")
    before = project.tree()
    envelope = project.approve(plan_of(create("a", "first.txt"), NEW_FILES[kind])).canonical()
    spoil = at_phase(phase, lambda: give_default_acl(project.root / "shared"))
    outcome = ran(project.workspace.apply(envelope, on_status=spoil))
    assert outcome.status.status in {"FAILED", "ROLLED_BACK"}
    (error,) = outcome.errors
    assert (error.error_code, "default ACL" in error.message) == (3001, True)
    assert project.tree() == before
    assert not list(project.root.rglob(".remit-*"))


@pytest.mark.req("PX-22")
def test_the_other_actions_are_done_if_the_plan_says_so(shared: Project) -> None:
    plan = plan_of(
        create("a", "first.txt"), create("b", "shared/new.txt"), stop_on_error=False, rollback_on_failure=False
    )
    outcome = shared.apply(plan, even_if_it_fails=True)
    assert outcome.status.status == "PARTIAL"
    assert [failed.action_id for failed in outcome.report.actions_failed] == ["b"]
    assert shared.read("first.txt") == "new\n"
    assert not (shared.root / "shared/new.txt").exists()


@pytest.mark.req("PX-22")
def test_renames_under_a_default_acl_are_done_and_rolled_back(shared: Project) -> None:
    before = shared.tree()
    plan = plan_of(rename("a", "free.txt", "shared/moved.txt"), rename("b", "shared/old.txt", "shared/older.txt"))
    assert shared.apply(plan).status.status == "SUCCESS"
    assert ACCESS_ACL not in os.listxattr(shared.root / "shared/moved.txt")
    assert shared.workspace.rollback("last").status == "EXECUTED"
    assert shared.tree() == before


def refused_then_restored(project: Project, outcome: PlanOutcome, before: object) -> None:
    """Refused as long as the folder gives rights, and done when it does not any more."""
    assert outcome.status.status == "SUCCESS"
    after = project.tree()
    rolled = project.workspace.rollback("last")
    assert (rolled.status, rolled.restored) == ("REFUSED", ())
    assert [error.error_code for error in rolled.errors] == [3001]
    assert "default ACL" in rolled.errors[0].message
    assert project.tree() == after
    os.removexattr(project.root / "shared", DEFAULT_ACL)
    assert project.workspace.rollback("last").status == "EXECUTED"
    assert project.tree() == before


@pytest.mark.req("PX-15", "PX-16")
def test_a_deleted_file_is_not_restored_under_a_default_acl(shared: Project) -> None:
    before = shared.tree()
    refused_then_restored(shared, shared.apply(plan_of(delete("a", "shared/old.txt"))), before)


@pytest.mark.req("PX-15", "PX-16")
def test_a_changed_file_is_not_restored_if_its_folder_got_a_default_acl_meanwhile(project: Project) -> None:
    project.write("shared/old.txt", mode=0o640)
    before = project.tree()
    outcome = project.apply(plan_of(replace("a", "shared/old.txt")))
    give_default_acl(project.root / "shared")
    refused_then_restored(project, outcome, before)


@pytest.mark.req("PX-15", "PX-16")
def test_a_file_is_not_restored_if_its_folder_would_be_made_under_a_default_acl(project: Project) -> None:
    project.write("shared/deep/old.txt", mode=0o640)
    before = project.tree()
    outcome = project.apply(plan_of(delete("a", "shared/deep/old.txt")))
    shutil.rmtree(project.root / "shared/deep")
    give_default_acl(project.root / "shared")
    refused_then_restored(project, outcome, before)
