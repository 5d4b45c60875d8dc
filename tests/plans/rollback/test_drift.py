"""A file that somebody changed after the run is not silently overwritten."""

from collections.abc import Callable

import pytest

from tests.plans.project import Project, create, delete, plan_of, rename, replace

EDITS: dict[str, Callable[[Project], object]] = {
    "edited": lambda project: project.write("edited.txt", "theirs\n"),
    "made again": lambda project: project.write("gone.txt", "theirs\n"),
    "created one edited": lambda project: project.write("made.txt", "theirs\n"),
    "moved one edited": lambda project: project.write("moved.txt", "theirs\n"),
    "old place taken": lambda project: project.write("old.txt", "theirs\n"),
    "removed": lambda project: (project.root / "edited.txt").unlink(),
    "a link instead": lambda project: project.link("made.txt", "/etc/passwd"),
}


def applied(project: Project) -> dict[str, tuple[bytes, int, int] | None]:
    for name in ("edited.txt", "gone.txt", "old.txt"):
        project.write(name)
    before = project.tree()
    plan = plan_of(
        replace("edit", "edited.txt"),
        delete("drop", "gone.txt"),
        create("make", "made.txt"),
        rename("move", "old.txt", "moved.txt"),
    )
    assert project.apply(plan).status.status == "SUCCESS"
    return before


@pytest.mark.req("PX-16")
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_drift_is_reported_and_nothing_is_restored(project: Project, edit: Callable[[Project], object]) -> None:
    applied(project)
    edit(project)
    after = project.tree()
    rolled = project.workspace.rollback("last")
    assert rolled.status == "REFUSED"
    assert [error.error_code for error in rolled.errors] == [2009]
    assert project.tree() == after
    assert project.kinds()[-1] == "rollback.refused"


@pytest.mark.req("PX-16")
@pytest.mark.parametrize("name", [name for name in EDITS if name != "a link instead"])
def test_a_forced_rollback_restores_the_file_and_keeps_the_drifted_content(project: Project, name: str) -> None:
    before = applied(project)
    EDITS[name](project)
    rolled = project.workspace.rollback("last", force=True)
    assert rolled.status == "EXECUTED", rolled.errors
    assert project.tree() == before
    copies = list((project.root / "agent_outputs").rglob("*.drifted-1.bak"))
    theirs = [copy.read_bytes() for copy in copies]
    assert b"theirs\n" in theirs or name == "removed"


@pytest.mark.req("PX-16")
def test_every_drifted_file_is_named(project: Project) -> None:
    applied(project)
    project.write("edited.txt", "theirs\n")
    project.write("made.txt", "theirs\n")
    (error,) = project.workspace.rollback("last").errors
    assert "edited.txt" in error.message
    assert "made.txt" in error.message


@pytest.mark.req("PX-16")
@pytest.mark.parametrize("path", ["edited.txt", "made.txt", "moved.txt"])
def test_permissions_alone_are_drift_too(project: Project, path: str) -> None:
    before = applied(project)
    (project.root / path).chmod(0o600)
    rolled = project.workspace.rollback("last")
    assert (rolled.status, [error.error_code for error in rolled.errors]) == ("REFUSED", [2009])
    assert (project.root / path).stat().st_mode & 0o777 == 0o600
    assert project.workspace.rollback("last", force=True).status == "EXECUTED"
    assert project.tree() == before


def test_permissions_that_the_plan_itself_gave_are_no_drift(project: Project) -> None:
    project.write("a.txt", mode=0o640)
    before = project.tree()
    project.apply(plan_of(replace("edit", "a.txt"), create("make", "new.txt"), preserve_permissions=False))
    assert (project.root / "a.txt").stat().st_mode & 0o777 != 0o640
    assert project.workspace.rollback("last").status == "EXECUTED"
    assert project.tree() == before
