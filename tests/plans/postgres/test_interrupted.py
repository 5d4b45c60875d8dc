"""kill -9 at every point: afterwards the files and the rows agree, and the ledger says what they are."""

import os
import subprocess
from pathlib import Path

import pytest

from remit.contracts.plans.outcome import PlanOutcome, RollbackOutcome
from tests.plans.postgres.postgres_project import Store, mixed, on_shop
from tests.plans.project import create, plan_of, ran, replace
from tests.plans.test_recovery import APPLY, KILL_AT_STEP, ROLL_BACK
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.sampling import some

BEFORE_INTENT = ["backup.copied", "elsewhere.begun", "road.checkpoint_made"]
BACK = [
    "road.intent_recorded",
    "elsewhere.rows_kept",
    "plan.folders_made",
    "road.effect_done",
    "plan.published",
    "elsewhere.noted",
]
FORWARD = [
    "elsewhere.committed",
    "road.published",
    "plan.clearing",
    "plan.cleared_one",
    "plan.cleared",
]
ROLLED_FORWARD = ["elsewhere.committed", "road.published", "rollback.clearing", "plan.cleared_one", "plan.cleared"]
ROLLED_BACK = ["road.intent_recorded", "elsewhere.begun", "road.effect_done", "elsewhere.noted"]

PLAN = mixed(create("a5", "new/made.txt"))


def killed(store: Store, tmp_path: Path, fault: Fault, plan: bytes = PLAN) -> bytes:
    """Approve, and apply in a process that is killed at that point; the envelope."""
    envelope = store.approve(plan).canonical()
    kept = tmp_path / "envelope.json"
    kept.write_bytes(envelope)
    command = [preloaded.python(), "-c", APPLY, str(store.root), str(kept)]
    ended = run_child(command, fault=fault, environment=store.environ)
    assert ended.killed, ended
    return envelope


def recovered(store: Store) -> PlanOutcome:
    (report,) = store.workspace.recover()
    assert isinstance(report.outcome, PlanOutcome), report.problem
    assert store.workspace.verify_ledger().holds
    assert not list(store.root.rglob(".remit-*"))
    return report.outcome


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("point", some(BEFORE_INTENT, 2))
def test_before_the_intent_nothing_has_happened(store: Store, tmp_path: Path, point: str) -> None:
    envelope = killed(store, tmp_path, Fault(point))
    assert store.state() == "before"
    assert store.workspace.recover() == []
    assert ran(store.workspace.apply(envelope)).status.status == "SUCCESS"
    assert store.state() == "after"


@pytest.mark.req("PX-20", "PX-28")
@pytest.mark.parametrize("point", some(BACK, 2))
def test_a_change_that_was_not_committed_is_undone_with_its_files(store: Store, tmp_path: Path, point: str) -> None:
    envelope = killed(store, tmp_path, Fault(point))
    outcome = recovered(store)
    assert outcome.status.status == "ROLLED_BACK"
    assert store.state() == "before"
    assert ran(store.workspace.apply(envelope)) == outcome
    assert store.state() == "before"
    assert store.apply(PLAN).status.status == "SUCCESS"
    assert store.state() == "after"


@pytest.mark.req("PV-03", "PX-28")
@pytest.mark.parametrize("point", ["road.intent_recorded", "elsewhere.rows_kept", "road.effect_done", "plan.published"])
def test_a_repeated_apply_undoes_it_and_runs_the_statements_again(store: Store, tmp_path: Path, point: str) -> None:
    envelope = killed(store, tmp_path, Fault(point))
    outcome = ran(store.workspace.apply(envelope))
    assert outcome.status.status == "SUCCESS", outcome.errors
    assert store.state() == "after"
    assert store.kinds().count("plan.intent") == store.kinds().count("plan.outcome") == 1
    assert store.workspace.verify_ledger().holds
    assert store.workspace.rollback("last").status == "EXECUTED"
    assert store.state() == "before"


@pytest.mark.req("PV-03", "PX-28", "PX-36")
def test_a_repeated_apply_that_finds_other_rows_is_undone_and_says_that_its_approval_is_used(
    store: Store, tmp_path: Path
) -> None:
    envelope = killed(store, tmp_path, Fault("plan.published"))
    store.ask("UPDATE orders SET total = 11 WHERE id = 1")
    rows = store.rows()
    outcome = ran(store.workspace.apply(envelope))
    assert outcome.status.status == "FAILED"
    message = outcome.errors[-1].message
    assert "not those that were approved" in message
    assert "Its approval is used" in message
    assert "stays valid" not in message
    assert (store.tree(), store.rows()) == (store.before[0], rows)
    store.ask("UPDATE orders SET total = 10.50 WHERE id = 1")
    assert ran(store.workspace.apply(envelope)) == outcome
    assert store.state() == "before"


@pytest.mark.req("PX-28")
def test_before_images_of_a_killed_process_that_are_incomplete_are_replaced(store: Store, tmp_path: Path) -> None:
    envelope = killed(store, tmp_path, Fault("elsewhere.rows_kept"))
    (kept,) = store.root.rglob("rows.bak")
    kept.write_bytes(kept.read_bytes()[:10])
    assert ran(store.workspace.apply(envelope)).status.status == "SUCCESS"
    assert store.workspace.rollback("last").status == "EXECUTED"
    assert store.state() == "before"


@pytest.mark.req("PX-20", "PX-28", "PX-29")
@pytest.mark.parametrize("point", some(FORWARD, 2))
def test_a_committed_change_is_finished_and_can_be_rolled_back(store: Store, tmp_path: Path, point: str) -> None:
    envelope = killed(store, tmp_path, Fault(point))
    outcome = recovered(store)
    assert outcome.status.status == "SUCCESS", outcome.errors
    assert store.state() == "after"
    assert {told.action_id for told in outcome.report.sql} == {"a2", "a3"}
    assert outcome.manifest is not None
    assert outcome.manifest.rows is not None
    assert ran(store.workspace.apply(envelope)) == outcome
    assert store.workspace.rollback("last").status == "EXECUTED"
    assert store.state() == "before"


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("point", ["elsewhere.noted", "elsewhere.committed"])
def test_a_repeated_apply_asks_the_server_whether_it_committed(store: Store, tmp_path: Path, point: str) -> None:
    envelope = killed(store, tmp_path, Fault(point))
    outcome = ran(store.workspace.apply(envelope))
    assert outcome.status.status == ("SUCCESS" if point == "elsewhere.committed" else "ROLLED_BACK")
    assert store.state() == ("after" if point == "elsewhere.committed" else "before")


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("point", ["elsewhere.noted", "elsewhere.committed"])
def test_a_plan_without_a_file_is_settled_too(store: Store, tmp_path: Path, point: str) -> None:
    killed(store, tmp_path, Fault(point), plan_of(on_shop("a1", "DELETE FROM orders")))
    outcome = recovered(store)
    left = store.ask("SELECT count(*) FROM orders")[0][0]
    assert (outcome.status.status, left) == (("SUCCESS", 0) if point == "elsewhere.committed" else ("ROLLED_BACK", 3))


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("done", [1, 2])
def test_after_a_kill_between_two_files_everything_is_undone(store: Store, tmp_path: Path, done: int) -> None:
    kept = tmp_path / "envelope.json"
    kept.write_bytes(store.approve(PLAN).canonical())
    command = [preloaded.python(), "-c", KILL_AT_STEP, str(store.root), str(kept), str(done)]
    assert run_child(command, environment=store.environ).killed
    assert recovered(store).status.status == "ROLLED_BACK"
    assert store.state() == "before"


@pytest.mark.req("PX-28")
def test_a_recovery_that_is_killed_itself_can_be_repeated(store: Store, tmp_path: Path) -> None:
    killed(store, tmp_path, Fault("elsewhere.noted"))
    script = "import sys\nfrom remit.workspace.workspace import Workspace\nWorkspace.open(sys.argv[1]).recover()"
    for point in ("road.noted", "road.settled"):
        ended = run_child(
            [preloaded.python(), "-c", script, str(store.root)], fault=Fault(point), environment=store.environ
        )
        assert ended.killed, ended
    assert recovered(store).status.status == "ROLLED_BACK"
    assert store.state() == "before"


@pytest.mark.req("PX-19", "PX-28")
@pytest.mark.parametrize("point", some([*ROLLED_BACK, *ROLLED_FORWARD], 2))
def test_a_rollback_that_was_killed_ends_with_files_and_rows_that_agree(
    store: Store, tmp_path: Path, point: str
) -> None:
    store.apply(PLAN)
    after = store.world()
    ended = run_child(
        [preloaded.python(), "-c", ROLL_BACK, str(store.root)], fault=Fault(point), environment=store.environ
    )
    assert ended.killed, ended
    (report,) = store.workspace.recover()
    assert isinstance(report.outcome, RollbackOutcome), report.problem
    if point in ROLLED_FORWARD:
        assert report.outcome.status == "EXECUTED"
        assert report.outcome.manifest.status == "EXECUTED"
        assert store.state() == "before"
    else:
        assert report.outcome.status == "FAILED"
        assert store.rows() == after[1]
        assert {path: each and each[:2] for path, each in store.tree().items()} == {
            path: each and each[:2] for path, each in after[0].items()
        }
    assert store.workspace.verify_ledger().holds
    assert store.workspace.rollback("last").status == "EXECUTED"
    assert store.state() == "before"


@pytest.mark.req("PX-20")
def test_two_processes_with_one_envelope_change_the_rows_once(store: Store, tmp_path: Path) -> None:
    kept = tmp_path / "envelope.json"
    kept.write_bytes(store.approve(plan_of(replace("a1", "a.txt"), on_shop("a2", ADD_ONE))).canonical())
    script = APPLY.replace("acknowledge(workspace", "print(workspace")
    command = [preloaded.python(), "-c", script, str(store.root), str(kept)]
    environment = {**os.environ, **store.environ}
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=90)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert said[0] == said[1]
    assert store.ask("SELECT total::text FROM orders WHERE id = 3") == [("6",)]
    assert store.kinds().count("plan.intent") == store.kinds().count("plan.outcome") == 1


ADD_ONE = "UPDATE orders SET total = total + 1"
