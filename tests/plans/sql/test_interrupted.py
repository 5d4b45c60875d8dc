"""kill -9 while SQL is prepared, and after: the database is as before or as after, and nothing lies about."""

import fcntl
import os
from pathlib import Path
from typing import Literal

import pytest

from remit.contracts.plans.outcome import PlanOutcome
from remit.plans.engines.database_files import WorkFolder, sweep
from tests.plans.project import plan_of, ran, replace
from tests.plans.sql.shop import Shop, sql
from tests.plans.sql.test_changes import UPDATE
from tests.plans.test_recovery import APPLY, KILL_AT_STEP
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.sampling import some

PREVIEW = """
import sys
from remit.workspace.workspace import Workspace
with Workspace.open(sys.argv[1]) as workspace:
    workspace.preview(open(sys.argv[2], "rb").read())
"""
BEFORE_INTENT = ["backup.copied", "road.checkpoint_made"]
NOT_YET = ["road.intent_recorded"]
DONE = ["road.effect_done", "plan.published", "road.published", "plan.clearing", "plan.cleared_one", "plan.cleared"]

PLAN = plan_of(
    replace("a1", "notes.txt"),
    sql("a2", UPDATE),
    sql("a3", "INSERT INTO orders VALUES (4, 'new', 0)"),
    sql("a4", "SELECT * FROM orders ORDER BY id", save_results_to="out/rows.csv"),
)


def killed(shop: Shop, tmp_path: Path, fault: Fault) -> bytes:
    """Approve, and apply in a process that is killed at that point; the envelope."""
    shop.write("notes.txt")
    envelope = shop.approve(PLAN).canonical()
    kept = tmp_path / "envelope.json"
    kept.write_bytes(envelope)
    shop.before = shop.tree()
    ended = run_child(
        [preloaded.python(), "-c", APPLY, str(shop.root), str(kept)], fault=fault, environment=shop.environ
    )
    assert ended.killed, ended
    return envelope


def require_done(shop: Shop) -> None:
    assert shop.rows("SELECT id, state FROM orders ORDER BY id") == [
        (1, "done"),
        (2, "done"),
        (3, "done"),
        (4, "new"),
    ]
    assert shop.read("out/rows.csv").count("\n") == 5
    assert not list(shop.root.rglob(".remit-*"))


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("point", some(BEFORE_INTENT, 2))
def test_before_the_intent_nothing_has_happened(shop: Shop, tmp_path: Path, point: str) -> None:
    envelope = killed(shop, tmp_path, Fault(point))
    assert shop.tree() == shop.before
    assert shop.workspace.recover() == []
    assert shop.left_over() == []
    assert ran(shop.workspace.apply(envelope)).status.status == "SUCCESS"
    require_done(shop)


@pytest.mark.req("PX-28", "PV-03")
@pytest.mark.parametrize("point", some(NOT_YET, 2))
def test_a_repeat_puts_the_kept_outputs_in_place(shop: Shop, tmp_path: Path, point: str) -> None:
    envelope = killed(shop, tmp_path, Fault(point))
    assert ran(shop.workspace.apply(envelope)).status.status == "SUCCESS"
    require_done(shop)
    assert shop.workspace.verify_ledger().holds


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("point", some(NOT_YET, 2))
def test_a_repeat_says_that_the_kept_outputs_are_gone(shop: Shop, tmp_path: Path, point: str) -> None:
    envelope = killed(shop, tmp_path, Fault(point))
    shop.workspace.prune()
    outcome = ran(shop.workspace.apply(envelope))
    assert outcome.status.status == "FAILED"
    (error,) = outcome.errors
    assert "the prepared results were lost" in error.message
    assert shop.tree() == shop.before
    assert shop.apply(PLAN).status.status == "SUCCESS"
    require_done(shop)


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("point", some(NOT_YET, 2))
def test_recovery_rolls_back_a_plan_whose_changes_had_not_begun(shop: Shop, tmp_path: Path, point: str) -> None:
    killed(shop, tmp_path, Fault(point))
    (report,) = shop.workspace.recover()
    assert isinstance(report.outcome, PlanOutcome)
    assert report.outcome.status.status == "ROLLED_BACK"
    assert shop.tree() == shop.before


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("done", [1, 2])
def test_after_a_kill_between_two_actions_on_one_database_everything_is_undone(
    shop: Shop, tmp_path: Path, done: int
) -> None:
    shop.write("notes.txt")
    kept = tmp_path / "envelope.json"
    kept.write_bytes(shop.approve(PLAN).canonical())
    before = shop.tree()
    command = [preloaded.python(), "-c", KILL_AT_STEP, str(shop.root), str(kept), str(done)]
    assert run_child(command, environment=shop.environ).killed
    (report,) = shop.workspace.recover()
    assert isinstance(report.outcome, PlanOutcome), report.problem
    assert report.outcome.status.status == "ROLLED_BACK"
    assert shop.tree() == before
    assert not list(shop.root.rglob(".remit-*"))


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("point", some(DONE, 2))
def test_what_was_done_is_finished_without_what_was_prepared(shop: Shop, tmp_path: Path, point: str) -> None:
    envelope = killed(shop, tmp_path, Fault(point))
    (report,) = shop.workspace.recover()
    assert isinstance(report.outcome, PlanOutcome)
    assert report.outcome.status.status == "SUCCESS", report.outcome.errors
    assert [told.action_id for told in report.outcome.report.sql] == ["a2", "a3", "a4"]
    require_done(shop)
    assert ran(shop.workspace.apply(envelope)) == report.outcome
    shop.workspace.rollback("last")
    assert shop.tree() == shop.before


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("point", ["sql.copied", "sql.prepared", "preview.outputs_copied", "preview.outputs_kept"])
@pytest.mark.parametrize("action", ["kill", "error"])
def test_a_preview_that_is_interrupted_leaves_nothing(
    shop: Shop, tmp_path: Path, point: str, action: Literal["kill", "error"]
) -> None:
    """By kill -9, and by a full disk."""
    shop.write("notes.txt")
    given, before = tmp_path / "plan.json", shop.tree()
    given.write_bytes(PLAN)
    command = [preloaded.python(), "-c", PREVIEW, str(shop.root), str(given)]
    ended = run_child(command, fault=Fault(point, action=action), environment=shop.environ)
    assert (ended.killed, ended.exit_code != 0) == (action == "kill", True)
    assert shop.tree() == before
    shop.workspace.recover()
    shop.workspace.prune()
    assert shop.left_over() == []
    assert list(shop.workspace.state.prepared.glob("*")) == []
    assert "plan.previewed" not in shop.kinds()
    assert shop.apply(PLAN).status.status == "SUCCESS"


def test_only_folders_that_no_process_holds_are_removed(tmp_path: Path) -> None:
    work = tmp_path / "work"
    assert sweep(work) == 0
    with WorkFolder.make(work) as held:
        (held.folder("inside") / "file").write_text("x")
        left = work / ("a" * 32)
        (left / "deep").mkdir(parents=True)
        (left / "deep" / "copy").write_text("x")
        (work / "not-ours").mkdir()
        assert sweep(work) == 1
        assert sorted(path.name for path in work.iterdir()) == sorted([held.path.name, "not-ours"])
        assert held.path.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in work.iterdir()] == ["not-ours"]


def test_a_link_in_place_of_a_work_folder_is_left_alone(tmp_path: Path) -> None:
    work, precious = tmp_path / "work", tmp_path / "precious"
    for folder in (work, precious):
        folder.mkdir()
    (precious / "file").write_text("x")
    (work / ("b" * 32)).symlink_to(precious)
    inside = work / ("c" * 32)
    inside.mkdir()
    (inside / "link").symlink_to(precious)
    assert sweep(work) == 1
    assert (precious / "file").read_text() == "x"


def test_a_folder_that_is_locked_by_another_descriptor_stays(tmp_path: Path) -> None:
    folder = tmp_path / "work" / ("d" * 32)
    folder.mkdir(parents=True)
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert sweep(folder.parent) == 0
    os.close(lock)
    assert sweep(folder.parent) == 1


def test_nothing_stays_open_that_was_prepared(shop: Shop) -> None:
    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    shop.write("notes.txt")
    shop.apply(PLAN)  # all sandboxes are there now
    shop.workspace.rollback("last")
    before = opened()
    for number in range(2):
        shop.workspace.preview(PLAN)
        shop.apply(PLAN.replace(b"plan-001", f"again-{number}".encode()))
        shop.workspace.rollback("last")
    assert opened() <= before + 2  # a pool of processes may be a child ahead


@pytest.mark.req("PX-28")
def test_a_half_written_report_that_a_killed_process_left_is_removed_by_recovery(shop: Shop, tmp_path: Path) -> None:
    """Killed after the second of the three times that papers are renamed: the last of them has no name yet."""
    killed(shop, tmp_path, Fault("durable.synced", 2))
    half_written = [path.name for path in shop.root.glob("agent_outputs/reports/*/.*.tmp")]
    assert any(name.startswith(".status.json.") for name in half_written), half_written
    (report,) = shop.workspace.recover()
    assert isinstance(report.outcome, PlanOutcome)
    folder = shop.report_folder(report.outcome)
    assert (folder / "status.json").exists()
    assert list(folder.glob(".*")) == []
