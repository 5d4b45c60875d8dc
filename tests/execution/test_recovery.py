"""Tasks that recovery finishes, leaves alone, or refuses to change."""

import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from remit.execution.engine import Preview
from remit.ledger.findings import RecordFault as Finding
from remit.store.claims import ClaimHeld, ClaimKey, read_claim, unfinished
from remit.store.process_identity import is_childless, lock_path
from remit.workspace.workspace import Workspace
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.task_workspace import VARIABLE, file_task, run, wait_for
from tests.tasks.declared_capabilities import register
from tests.tasks.test_killed_file_tasks import FILE_CHILD


class Killed:
    """A workspace whose last process died while it moved `source`."""

    def __init__(self, workspace: Workspace, folder: Path, base: Path) -> None:
        self.workspace = workspace
        self.folder = folder
        self.source, self.destination = base / "source", base / "destination"
        self.environ = {
            name: workspace.environ[name] for name in ("REMIT_STATE", VARIABLE) if name in workspace.environ
        }

    def kill(self, task_id: str = "t", point: str = "road.effect_done", number: str = "") -> bytes:
        source, destination = (path.with_name(path.name + number) for path in (self.source, self.destination))
        source.write_bytes(b"content")
        asked = file_task(task_id, "FILE_MOVE", source, destination)
        papers = self.folder / "task.json", self.folder / "lease.json"
        papers[0].write_bytes(asked)
        papers[1].write_bytes(self.workspace.issue_lease(asked).canonical())
        command = [preloaded.python(), "-c", FILE_CHILD, str(self.workspace.root), *map(str, papers)]
        assert run_child(command, fault=Fault(point), environment=self.environ).killed
        return asked

    def claim(self, task_id: str = "t") -> ClaimHeld:
        with self.workspace.store.reading() as connection:
            found = read_claim(connection, ClaimKey("default", "task", task_id))
        assert isinstance(found, ClaimHeld)
        return found


@pytest.fixture
def killed(workspace: Workspace, tmp_path: Path, base: Path) -> Killed:
    return Killed(workspace, tmp_path, base)


@contextmanager
def changed_row(workspace: Workspace, column: str, value: str) -> Iterator[None]:
    """Write to the database directly, without Remit and without its triggers."""
    connection = workspace.store.connect()
    sqlite = workspace.store.dialect == "sqlite"
    (guard,) = (
        connection.one("SELECT sql FROM sqlite_master WHERE name = 'claims_finish_once'") or ("",) if sqlite else ("",)
    )
    connection.script("DROP TRIGGER claims_finish_once" if sqlite else "ALTER TABLE claims DISABLE TRIGGER ALL")
    connection.execute(f"UPDATE claims SET {column} = ?", (value,))
    connection.script(guard if sqlite else "ALTER TABLE claims ENABLE TRIGGER ALL")
    connection.close()
    yield


@pytest.mark.req("EI-12")
def test_unfinished_claims_are_found_and_finished_ones_are_not(killed: Killed) -> None:
    killed.kill()
    with killed.workspace.store.reading() as connection:
        (left,) = unfinished(connection, "task")
        assert list(unfinished(connection, "plan")) == []
    assert (left.key.key, left.correlation_id) == ("t", "t")
    assert json.loads(left.checkpoint)["snapshot"] is None
    assert json.loads(left.checkpoint)["manifest"]["task_id"] == "t"
    killed.workspace.recover()
    with killed.workspace.store.reading() as connection:
        assert list(unfinished(connection, "task")) == []


@pytest.mark.req("EI-12")
def test_the_first_task_of_an_opened_workspace_recovers_interrupted_tasks(killed: Killed, base: Path) -> None:
    asked = killed.kill()
    with Workspace.open(killed.workspace.root, environ=killed.workspace.environ) as fresh:
        other = base / "other"
        other.write_bytes(b"x")
        assert run(fresh, file_task("next", "FILE_DELETE", other)).status == "SUCCESS"
        with fresh.store.reading() as connection:
            assert list(unfinished(connection, "task")) == []
        assert fresh.recover() == []
        assert run(fresh, asked).status == "SUCCESS"


def test_a_changed_checkpoint_is_evidence_of_tampering_and_nothing_is_changed(killed: Killed) -> None:
    asked = killed.kill()
    forged = killed.claim().checkpoint.replace(str(killed.destination), str(killed.source) + "-elsewhere")
    with changed_row(killed.workspace, "checkpoint", forged):
        (report,) = killed.workspace.recover()
    assert report.problem is not None
    assert report.problem.reason is Reason.EVIDENCE_INVALID
    with pytest.raises(EnvironmentFailureError, match="not the one that its intent recorded"):
        run(killed.workspace, asked)
    assert killed.destination.read_bytes() == b"content"
    found = killed.workspace.verify_ledger().findings
    assert [(finding.fault, "checkpoint of task 't'" in finding.what) for finding in found] == [
        (Finding.CLAIM_FORGED, True)
    ]


def test_the_database_itself_keeps_the_checkpoint_of_a_running_claim(killed: Killed) -> None:
    killed.kill()
    connection = killed.workspace.store.connect()
    for column in ("checkpoint", "correlation_id"):
        with pytest.raises(Exception, match="append-only"):
            connection.execute(f"UPDATE claims SET {column} = '{{}}'")
    connection.close()


def test_a_task_that_cannot_be_recovered_is_reported_and_the_others_are_recovered(killed: Killed) -> None:
    killed.kill("stuck", number="-1")
    there = killed.destination.with_name("destination-1")
    there.rename(there.with_name("hidden"))
    killed.kill("fine", number="-2")  # that process tried to recover the first one too
    reports = {report.key: report for report in killed.workspace.recover()}
    assert reports["fine"].took_effect
    problem = reports["stuck"].problem
    assert problem is not None
    assert problem.next_step
    there.with_name("hidden").rename(there)
    (again,) = killed.workspace.recover()
    assert again.took_effect
    assert killed.workspace.verify_ledger().holds


def test_work_in_progress_is_not_recovered(workspace: Workspace, base: Path) -> None:
    register(workspace, "SLOW")
    asked = file_task("t", "SLOW", None, base / "made")
    results: list[str] = []
    worker = threading.Thread(target=lambda: results.append(run(workspace, asked).status))
    worker.start()
    wait_for(base / "made")
    with Workspace.open(workspace.root, environ=workspace.environ) as elsewhere:
        assert elsewhere.recover() == []
    worker.join(30)
    assert results == ["SUCCESS"]


def test_recovery_waits_for_the_children_of_a_dead_process(killed: Killed) -> None:
    killed.kill()
    path = lock_path(killed.workspace.state.hosts, killed.claim().owner)
    assert path.exists()
    holder = os.open(path, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_SH)  # as a child that is still alive
    threading.Timer(0.5, os.close, (holder,)).start()
    began = time.monotonic()
    (report,) = killed.workspace.recover()
    assert report.took_effect
    assert time.monotonic() - began > 0.4
    assert not path.exists()


def test_recovery_gives_up_on_a_child_that_does_not_end(killed: Killed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(is_childless, "__defaults__", (0.5,))  # seconds to wait
    killed.kill()
    holder = os.open(lock_path(killed.workspace.state.hosts, killed.claim().owner), os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_SH)
    (report,) = killed.workspace.recover()
    os.close(holder)
    assert report.problem is not None
    assert report.problem.reason is Reason.IN_PROGRESS
    assert killed.claim().token
    (report,) = killed.workspace.recover()
    assert report.took_effect


def test_a_process_on_another_machine_is_not_reported_dead(killed: Killed) -> None:
    killed.kill()
    boot, _, pid, started = killed.claim().owner.split(":")
    with changed_row(killed.workspace, "owner", f"{boot}:1:{pid}:{started}"):
        (report,) = killed.workspace.recover()
    assert report.problem is not None
    assert "--dead" in report.problem.next_step
    (report,) = killed.workspace.recover(presumed_dead=["t"])
    assert report.took_effect


def test_the_task_of_an_unregistered_executor_stays_for_later(workspace: Workspace, base: Path, tmp_path: Path) -> None:
    killed = Killed(workspace, tmp_path, base)
    register(workspace, "EXPLODE")
    asked = file_task("t", "EXPLODE", None, base / "made")
    for name, text in (("task.json", asked), ("lease.json", workspace.issue_lease(asked).canonical())):
        (tmp_path / name).write_bytes(text)
    command = [preloaded.python(), "-c", FILE_CHILD, str(workspace.root), str(tmp_path / "task.json")]
    ended = run_child([*command, str(tmp_path / "lease.json")], fault=Fault("road.undone"), environment=killed.environ)
    assert ended.killed
    with Workspace.open(workspace.root, environ=workspace.environ) as fresh:
        (report,) = fresh.recover()
        assert report.problem is not None
        assert report.problem.reason is Reason.CAPABILITY_UNSUPPORTED
        register(fresh, "EXPLODE")
        (report,) = fresh.recover()
        assert report.outcome is not None


def test_a_dry_run_of_an_interrupted_task_says_so_and_changes_nothing(killed: Killed) -> None:
    asked = killed.kill()
    token = killed.claim().token
    preview = killed.workspace.preview_task(asked, killed.workspace.issue_lease(asked).canonical())
    assert isinstance(preview, Preview)
    assert "a dead process had started it" in preview.summary
    assert killed.claim().token == token
