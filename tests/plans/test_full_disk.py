"""A real disk that is full: at the backups, at the new files, at the papers. Each time all is as before."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plans.project import Project, at_phase, create, plan_of, ran, refused, replace
from tests.support.small_disks import only_root, small_disk

pytestmark = [only_root, pytest.mark.req("PX-22", "PX-35")]

LARGE = "two\n" + 100_000 * "x" + "\n"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project on a disk of four megabytes; its state has all the room it wants."""
    with small_disk(tmp_path / "disk", "4m") as disk:
        made = Project(tmp_path, place=disk)
        yield made
        made.close()


def fill(project: Project) -> None:
    """To the last byte."""
    with (project.root / "filler").open("ab", buffering=0) as stream:
        for size in (1 << 16, 1 << 10, 1):
            with contextlib.suppress(OSError):
                while True:
                    stream.write(b"x" * size)


def tree_of(project: Project) -> dict[str, tuple[bytes, int, int] | None]:
    tree = project.tree()
    tree.pop("filler", None)
    return tree


def test_no_room_for_the_backups_is_a_refusal(project: Project) -> None:
    project.write("a.txt", LARGE)
    envelope = project.approve(plan_of(replace("a", "a.txt"))).canonical()
    before = project.tree()
    fill(project)
    assert refused(project.workspace.apply(envelope))[0] == 2004
    assert tree_of(project) == before
    (project.root / "filler").unlink()
    assert ran(project.workspace.apply(envelope)).status.status == "SUCCESS", "the approval was not used up"


@pytest.mark.parametrize("phase", ["RUNNING", "VERIFYING", "REPORTING"])
def test_a_disk_that_runs_full_later_undoes_everything(project: Project, phase: str) -> None:
    project.write("a.txt", LARGE)
    project.write("b.txt")
    plan = plan_of(replace("a", "a.txt"), replace("b", "b.txt"), create("c", "new/c.txt", LARGE))
    envelope = project.approve(plan).canonical()
    before = project.tree()
    outcome = ran(project.workspace.apply(envelope, on_status=at_phase(phase, lambda: fill(project))))
    assert outcome.status.status == ("FAILED" if phase == "RUNNING" else "ROLLED_BACK")
    assert {error.error_code for error in outcome.errors} == {2004}
    assert tree_of(project) == before
    assert not list(project.root.rglob(".remit-*"))


def test_reports_that_did_not_fit_on_the_disk_are_written_later(project: Project) -> None:
    project.write("a.txt", LARGE)
    envelope = project.approve(plan_of(replace("a", "a.txt"))).canonical()
    outcome = ran(project.workspace.apply(envelope, on_status=at_phase("REPORTING", lambda: fill(project))))
    assert outcome.status.status == "ROLLED_BACK"
    (project.root / "filler").unlink()
    assert project.workspace.apply(envelope) == outcome
    report = json.loads((project.report_folder(outcome) / "execution_report.json").read_text())
    assert report == outcome.report.tree()


def test_a_rollback_on_a_full_disk_touches_nothing_and_works_later(project: Project) -> None:
    project.write("a.txt", LARGE)
    project.apply(plan_of(replace("a", "a.txt"), create("c", "c.txt")))
    after = project.tree()
    fill(project)
    refusal = project.workspace.rollback("last")
    assert refusal.status == "REFUSED"
    assert [error.error_code for error in refusal.errors] == [2004]
    assert tree_of(project) == after
    assert not list(project.root.rglob(".remit-*"))
    (project.root / "filler").unlink()
    assert project.workspace.rollback("last").status == "EXECUTED"
    assert project.read("a.txt") == LARGE
