"""kill -9 between intent, effect and outcome loses no acknowledged record, and no task runs twice."""

from pathlib import Path

import pytest

from remit.core.errors import Reason, RefusedError
from remit.core.ids import system_clock
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.task_workspace import manifest

CHILD = """
import sys
from tests.support.child_process import acknowledge
from remit.workspace.workspace import Workspace
with Workspace.open(sys.argv[1]) as workspace:
    manifest = open(sys.argv[2], "rb").read()
    lease = workspace.issue_lease(manifest)
    acknowledge(lease.lease_id)
    acknowledge(workspace.execute_task(manifest, lease.canonical()).signature)
"""

POINTS = ["road.intent_recorded", "road.effect_done", "road.published", "road.outcome_recorded"]


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_leaves_a_record_that_verifies_and_a_task_that_runs_at_most_once(tmp_path: Path, point: str) -> None:
    project, environ = tmp_path / "project", {"REMIT_STATE": str(tmp_path / "state")}
    project.mkdir()
    initialise(project, environ, system_clock)[0].close()
    asked = tmp_path / "task.json"
    asked.write_bytes(manifest())
    ended = run_child(
        [preloaded.python(), "-c", CHILD, str(project), str(asked)], fault=Fault(point), environment=environ
    )
    assert ended.killed, ended
    assert len(ended.acknowledged) == 1
    with Workspace.open(project, environ=environ) as workspace:
        assert workspace.verify_ledger().holds
        kinds = [row[0] for row in _rows(workspace, "SELECT kind FROM ledger_entries ORDER BY seq")]
        assert kinds.count("task.intent") == 1
        again = workspace.execute_task(manifest(), workspace.issue_lease(manifest()).canonical())
        assert again.status == "SUCCESS"
        kinds = [row[0] for row in _rows(workspace, "SELECT kind FROM ledger_entries")]
        assert kinds.count("task.intent") == kinds.count("task.outcome") == 1
        assert kinds.count("task.resumed") == (0 if point == "road.outcome_recorded" else 1)
        assert workspace.verify_ledger().holds


INIT_POINTS = [
    "durable.written",
    "durable.renamed",
    "keys.private_written",
    "keys.keyring_written",
    "migration.statement",
    "migration.before_commit",
    "migration.committed",
    "append.before_commit",
    "append.committed",
]


@pytest.mark.parametrize("point", INIT_POINTS)
@pytest.mark.parametrize("count", [1, 2])
def test_an_init_that_was_killed_is_completed_by_the_next_one(tmp_path: Path, point: str, count: int) -> None:
    project, environ = tmp_path / "project", {"REMIT_STATE": str(tmp_path / "state")}
    project.mkdir()
    command = [preloaded.python(), "-m", "remit", "init", str(project)]
    ended = run_child(command, fault=Fault(point, count), environment=environ)
    assert ended.killed or ended.exit_code == 0, ended
    workspace, _ = initialise(project, environ, system_clock)
    with workspace:
        assert workspace.execute_task(manifest(), workspace.issue_lease(manifest()).canonical()).status == "SUCCESS"
        verdict = workspace.verify_ledger()
        assert verdict.holds, verdict
        assert (project / "remit.yaml").exists()
        created = _rows(workspace, "SELECT count(*) FROM ledger_entries WHERE kind = 'workspace.created'")
        assert created == [(1,)]


def test_a_second_init_cannot_move_the_ledger_to_another_database(tmp_path: Path) -> None:
    environ = {"REMIT_STATE": str(tmp_path / "state"), "URL": "postgresql://nowhere"}
    (tmp_path / "project").mkdir()
    initialise(tmp_path / "project", environ, system_clock)[0].close()
    with pytest.raises(RefusedError) as refused:
        initialise(tmp_path / "project", environ, system_clock, url_variable="URL")
    assert refused.value.reason is Reason.STATE_UNSAFE


def _rows(workspace: Workspace, query: str) -> list[tuple[object, ...]]:
    with workspace.store.reading() as connection:
        return list(connection.rows(query))
