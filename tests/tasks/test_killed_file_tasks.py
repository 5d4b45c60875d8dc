"""kill -9 around a task that changes files: afterwards all is as before or as after, and the record says which."""

from pathlib import Path

import pytest

from remit.workspace.workspace import Workspace
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.sampling import some
from tests.support.task_workspace import file_task, made_workspace, manifest, run
from tests.tasks.declared_capabilities import register

FILE_CHILD = """
import sys
from tests.support.child_process import acknowledge
from remit.workspace.workspace import Workspace
from tests.tasks.declared_capabilities import register
with Workspace.open(sys.argv[1]) as workspace:
    register(workspace, "EXPLODE")
    manifest, lease = (open(name, "rb").read() for name in sys.argv[2:4])
    acknowledge("begun")
    acknowledge(workspace.execute_task(manifest, lease).canonical().decode())
"""

RECOVERING_CHILD = """
import sys
from tests.support.child_process import acknowledge
from remit.workspace.workspace import Workspace
with Workspace.open(sys.argv[1]) as workspace:
    acknowledge(str(len(workspace.recover())))
"""

CAPABILITIES = ["FILE_MOVE", "FILE_COPY", "FILE_DELETE", "FILE_RESTORE"]
FILE_POINTS = {
    "road.checkpoint_made": False,
    "claim.before_commit": False,
    "road.intent_recorded": False,
    "road.effect_done": True,
    "road.published": True,
    "road.outcome_recorded": True,
}
"""Whether the effect had taken place by then."""


class Site:
    """A workspace with one leased task, and the files it is about."""

    def __init__(self, folder: Path, capability_id: str) -> None:
        self.environ = {"REMIT_STATE": str(folder / "state")}
        self.project, self.base = folder / "project", (folder / "base").resolve()
        self.papers = folder / "task.json", folder / "lease.json"
        with made_workspace(folder, self.environ) as workspace:
            register(workspace, "EXPLODE")
            source, destination = self.base / "source", self.base / "destination"
            source.write_bytes(b"content")
            source.chmod(0o640)
            if capability_id == "FILE_RESTORE":
                gone = run(workspace, file_task("gone", "FILE_DELETE", source)).tree()
                inputs = {**gone["output"]["undo_metadata"], "destination_path": str(source)}
                self.asked = manifest("killed", capability_id, inputs=inputs)
            else:
                taken = None if capability_id == "EXPLODE" else source
                made = None if capability_id == "FILE_DELETE" else destination
                self.asked = file_task("killed", capability_id, taken, made)
            self.before = self.files()
            self.papers[0].write_bytes(self.asked)
            self.papers[1].write_bytes(workspace.issue_lease(self.asked).canonical())
        names = {"FILE_MOVE": ["destination"], "FILE_COPY": ["destination", "source"], "FILE_RESTORE": ["source"]}
        self.after = {str(self.base / name): (b"content", 0o640) for name in names.get(capability_id, [])}
        assert self.before != self.after

    def files(self) -> dict[str, tuple[bytes, int]]:
        return {str(path): (path.read_bytes(), path.stat().st_mode & 0o7777) for path in self.base.rglob("*")}

    def execute(self, fault: Fault) -> None:
        command = [preloaded.python(), "-c", FILE_CHILD, str(self.project), *map(str, self.papers)]
        ended = run_child(command, fault=fault, environment=self.environ)
        assert ended.killed, ended
        assert ended.acknowledged == ("begun",)

    def open(self) -> Workspace:
        return Workspace.open(self.project, environ=self.environ)


def kinds(workspace: Workspace) -> list[str]:
    query = "SELECT kind FROM ledger_entries WHERE task_id = 'killed' ORDER BY seq"
    with workspace.store.reading() as connection:
        return [row[0] for row in connection.rows(query)]


def steps(workspace: Workspace) -> list[str]:
    """Without what the effect noted on its way."""
    return [kind for kind in kinds(workspace) if kind != "task.noted"]


@pytest.mark.req("EI-12", "EI-14")
@pytest.mark.parametrize("capability_id", CAPABILITIES)
@pytest.mark.parametrize("point", some(FILE_POINTS, 2))
def test_what_a_kill_left_is_as_before_or_as_after_once_it_is_recovered(
    tmp_path: Path, capability_id: str, point: str
) -> None:
    site = Site(tmp_path, capability_id)
    site.execute(Fault(point))
    with site.open() as workspace:
        claimed = point not in {"road.checkpoint_made", "claim.before_commit"}
        finished = point == "road.outcome_recorded"
        reports = workspace.recover()
        assert [report.took_effect for report in reports] == ([FILE_POINTS[point]] if claimed and not finished else [])
        assert all(report.problem is None for report in reports)
        assert site.files() == (site.after if FILE_POINTS[point] else site.before)
        assert workspace.recover() == []
        again = run(workspace, site.asked)
        assert again.status == ("SUCCESS" if FILE_POINTS[point] or not claimed else "FAILURE")
        assert site.files() == (site.after if again.status == "SUCCESS" else site.before)
        if again.error is not None:
            assert "nothing was changed" in again.error.message
        assert [report.outcome for report in reports] in ([], [again])
        workspace.kernel.accept(again.canonical(), site.asked)
        assert kinds(workspace).count("task.intent") == kinds(workspace).count("task.outcome") == 1
        assert workspace.verify_ledger().holds


@pytest.mark.req("EI-12")
@pytest.mark.parametrize("capability_id, took_effect", [("FILE_COPY", []), ("FILE_DELETE", ["yes"])])
def test_a_kill_right_after_a_note_leaves_what_the_note_says(
    tmp_path: Path, capability_id: str, took_effect: list[str]
) -> None:
    """A copy is noted before it gets its name, and is cleared away; a delete with its file set aside, and is done."""
    site = Site(tmp_path, capability_id)
    site.execute(Fault("road.noted"))
    with site.open() as workspace:
        assert [report.took_effect for report in workspace.recover()] == [bool(took_effect)]
        assert site.files() == (site.after if took_effect else site.before)
        assert "task.noted" in kinds(workspace)
        assert workspace.verify_ledger().holds


@pytest.mark.req("EI-12")
@pytest.mark.parametrize("capability_id", CAPABILITIES)
@pytest.mark.parametrize("point", ["road.intent_recorded", "road.effect_done"])
def test_a_repeat_under_a_live_lease_completes_what_a_kill_left(tmp_path: Path, capability_id: str, point: str) -> None:
    site = Site(tmp_path, capability_id)
    site.execute(Fault(point))
    with site.open() as workspace:
        result = workspace.execute_task(site.asked, site.papers[1].read_bytes())
        assert result.status == "SUCCESS", result
        assert site.files() == site.after
        assert steps(workspace) == ["lease.issued", "task.intent", "task.resumed", "task.outcome"]
        assert workspace.recover() == []
        assert workspace.verify_ledger().holds


@pytest.mark.req("EI-12")
@pytest.mark.parametrize("capability_id", ["FILE_MOVE", "FILE_DELETE"])
@pytest.mark.parametrize("first", some(["road.effect_done", "road.intent_recorded"], 1))
@pytest.mark.parametrize("point", ["road.taken_over", "road.settled", "append.before_commit", "road.outcome_recorded"])
def test_a_recovery_that_is_killed_is_completed_by_the_next_one(
    tmp_path: Path, capability_id: str, point: str, first: str
) -> None:
    site = Site(tmp_path, capability_id)
    site.execute(Fault(first))
    effect_done = first == "road.effect_done"
    command = [preloaded.python(), "-c", RECOVERING_CHILD, str(site.project)]
    fault = Fault(point, 2 if point == "append.before_commit" else 1)  # the first append there takes it over
    ended = run_child(command, fault=fault, environment=site.environ)
    assert ended.killed, ended
    assert ended.acknowledged == ()
    with site.open() as workspace:
        reports = workspace.recover()
        assert len(reports) == (0 if point == "road.outcome_recorded" else 1)
        assert site.files() == (site.after if effect_done else site.before)
        assert run(workspace, site.asked).status == ("SUCCESS" if effect_done else "FAILURE")
        assert kinds(workspace).count("task.intent") == kinds(workspace).count("task.outcome") == 1
        assert workspace.verify_ledger().holds


def test_a_kill_after_a_failed_effect_was_undone_leaves_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path, "EXPLODE")
    site.execute(Fault("road.undone"))
    with site.open() as workspace:
        register(workspace, "EXPLODE")
        (report,) = workspace.recover()
        assert report.outcome is not None
        assert report.outcome.status == "FAILURE"
        assert site.files() == site.before
        assert workspace.verify_ledger().holds


FULL_DISK_CHILD = """
import sys
from remit.core.errors import RemitError
from tests.support.child_process import acknowledge
from remit.workspace.workspace import Workspace
with Workspace.open(sys.argv[1]) as workspace:
    manifest, lease = (open(name, "rb").read() for name in sys.argv[2:4])
    try:
        workspace.execute_task(manifest, lease)
    except (RemitError, OSError) as problem:
        acknowledge(type(problem).__name__)
    acknowledge(workspace.execute_task(manifest, lease).status)
"""


@pytest.mark.req("EI-12")
@pytest.mark.parametrize("capability_id, appends", [("FILE_MOVE", 1), ("FILE_DELETE", 2)])
def test_an_outcome_that_could_not_be_written_is_written_by_the_next_call(
    tmp_path: Path, capability_id: str, appends: int
) -> None:
    site = Site(tmp_path, capability_id)
    command = [preloaded.python(), "-c", FULL_DISK_CHILD, str(site.project), *map(str, site.papers)]
    # Before it come the intent and, for a delete, the note that the file is set aside.
    outcome = Fault("append.before_commit", appends + 1, "error")
    ended = run_child(command, fault=outcome, environment=site.environ)
    assert (ended.exit_code, len(ended.acknowledged), ended.acknowledged[-1]) == (0, 2, "SUCCESS"), ended
    assert site.files() == site.after
    with site.open() as workspace:
        assert steps(workspace) == ["lease.issued", "task.intent", "task.resumed", "task.outcome"]
        assert workspace.verify_ledger().holds
