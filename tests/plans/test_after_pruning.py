"""When old files are being cleared away there is only forward, whatever others do to the files meanwhile; and before
that moment nobody's bytes are cleared away with them.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remit.contracts.plans.outcome import PlanOutcome, RollbackOutcome
from remit.plans.reports import publish as papers
from tests.plans.project import Project, create, delete, plan_of, ran, replace
from tests.plans.test_recovery import CLEARING, CLEARING_BACK, ROLL_BACK, killed
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.sampling import some

pytestmark = pytest.mark.req("PX-28")


def plan() -> bytes:
    return plan_of(
        replace("first", "a.txt"), replace("second", "in/b.txt"), create("make", "c.txt"), delete("drop", "d.txt")
    )


def seed(project: Project) -> None:
    for path in ("a.txt", "in/b.txt", "d.txt"):
        project.write(path)


@pytest.mark.parametrize("point", CLEARING)
@pytest.mark.parametrize("edited", some(["a.txt", "in/b.txt", "c.txt"], 1))
def test_an_edit_after_a_crash_is_kept_and_the_plan_stands(
    project: Project, tmp_path: Path, point: str, edited: str
) -> None:
    seed(project)
    killed(project, tmp_path, plan(), Fault(point))
    done = {path: project.read(path) for path in ("a.txt", "in/b.txt", "c.txt")}
    with (project.root / edited).open("a") as file:
        file.write("and mine\n")
    (report,) = project.workspace.recover()
    assert report.problem is None, str(report.problem)
    assert isinstance(report.outcome, PlanOutcome)
    assert report.outcome.status.status == "SUCCESS"
    assert {path: project.read(path) for path in done} == {**done, edited: done[edited] + "and mine\n"}
    assert not (project.root / "d.txt").exists()
    assert not list(project.root.rglob(".remit-*"))
    assert project.workspace.recover() == []


@pytest.mark.parametrize("point", CLEARING_BACK)
def test_an_edit_after_a_crash_is_kept_and_the_rollback_stands(project: Project, point: str) -> None:
    seed(project)
    before = {path: project.read(path) for path in ("a.txt", "in/b.txt", "d.txt")}
    project.write("new/there.txt")
    project.apply(plan_of(replace("first", "a.txt"), delete("drop", "d.txt"), create("make", "made/c.txt")))
    ended = run_child(
        [preloaded.python(), "-c", ROLL_BACK, str(project.root)], fault=Fault(point), environment=project.environ
    )
    assert ended.killed, ended
    with (project.root / "a.txt").open("a") as file:
        file.write("and mine\n")
    (report,) = project.workspace.recover()
    assert report.problem is None, str(report.problem)
    assert isinstance(report.outcome, RollbackOutcome)
    assert report.outcome.status == "EXECUTED"
    found = {path: project.read(path) for path in before}
    assert found == {**before, "a.txt": before["a.txt"] + "and mine\n"}
    assert not (project.root / "made/c.txt").exists()
    assert project.workspace.recover() == []


APPLY = """
import sys
from remit.workspace.workspace import Workspace
with Workspace.open(sys.argv[1]) as workspace:
    workspace.apply(open(sys.argv[2], "rb").read())
"""


def test_an_outcome_that_could_not_be_recorded_is_recorded_later_as_it_was(project: Project, tmp_path: Path) -> None:
    """No process dies here: the ledger cannot take the last entry, and somebody edits a file before `recover`."""
    seed(project)
    kept = tmp_path / "envelope.json"
    kept.write_bytes(project.approve(plan()).canonical())
    ended = run_child(
        [preloaded.python(), "-c", APPLY, str(project.root), str(kept)],
        fault=Fault("append.before_commit", count=3, action="error"),
        environment=project.environ,
    )
    assert "its outcome could not be recorded" in ended.output
    assert "remit recover" in ended.output
    with (project.root / "a.txt").open("a") as file:
        file.write("and mine\n")
    (report,) = project.workspace.recover()
    assert report.problem is None, str(report.problem)
    assert isinstance(report.outcome, PlanOutcome)
    assert report.outcome.status.status == "SUCCESS"
    assert project.read("a.txt").endswith("TWO\nthree\nand mine\n")
    assert project.read("c.txt")


# --- somebody who has an old file open -------------------------------------------------------------------------------


@contextlib.contextmanager
def writing_when(path: Path, is_time: Callable[[], bool]) -> Iterator[list[bool]]:
    """Somebody holds the file open, and appends a line as soon as it is time."""
    wrote: list[bool] = []
    over = threading.Event()

    def write() -> None:
        with path.open("ab", buffering=0) as file:
            ready.set()
            while not over.is_set():
                if is_time():
                    file.write(b"my work\n")
                    wrote.append(True)
                    return
                time.sleep(0.0002)

    ready = threading.Event()
    thread = threading.Thread(target=write)
    thread.start()
    ready.wait()
    try:
        yield wrote
    finally:
        over.set()
        thread.join()


def is_anywhere(project: Project, words: bytes) -> bool:
    return any(words in path.read_bytes() for path in project.root.rglob("*") if path.is_file())


@pytest.mark.req("PX-16")
def test_a_rollback_does_not_lose_what_is_written_to_a_file_while_it_replaces_it(project: Project) -> None:
    seed(project)
    project.apply(plan_of(replace("first", "a.txt")))
    path = project.root / "a.txt"
    old = path.stat().st_ino
    with writing_when(path, lambda: path.stat().st_ino != old) as wrote:
        outcome = project.workspace.rollback("last")
    assert wrote
    assert outcome.status == "FAILED", "it was noticed in time"
    assert is_anywhere(project, b"my work\n")


def test_a_plan_does_not_lose_what_another_process_writes_while_its_reports_are_written(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(project)
    before = project.read("a.txt")
    approved = project.approve(plan_of(replace("first", "a.txt"))).canonical()
    with (project.root / "a.txt").open("a") as open_since_before:

        def write_then(point: str) -> None:
            if point == "plan.published" and not open_since_before.closed:
                open_since_before.write("my work\n")
                open_since_before.close()

        monkeypatch.setattr(papers, "reach", write_then)
        outcome = ran(project.workspace.apply(approved))
    assert outcome.status.status == "ROLLED_BACK"
    assert project.read("a.txt") == before + "my work\n"
