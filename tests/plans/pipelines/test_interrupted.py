"""kill -9 while a pipeline is prepared, and after: its files are as before or as after, all of them together."""

from pathlib import Path

import pytest

from remit.contracts.plans.outcome import PlanOutcome
from tests.plans.pipelines.pipeline_project import Works, nightly, pipeline
from tests.plans.project import plan_of, ran, replace
from tests.plans.test_recovery import APPLY, KILL_AT_STEP
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.sampling import some

BEFORE_INTENT = ["sql.copied", "sql.prepared", "pipeline.filled", "pipeline.taken", "road.checkpoint_made"]
NOT_YET = ["road.intent_recorded"]
DONE = ["road.effect_done", "plan.published", "road.published", "plan.clearing", "plan.cleared_one", "plan.cleared"]
PLAN = plan_of(replace("a1", "notes.txt"), pipeline("p1", "report"), nightly("a2"))

pytestmark = pytest.mark.req("PX-21", "PX-28")


def killed(works: Works, tmp_path: Path, fault: Fault) -> bytes:
    """Approve, and apply in a process that is killed at that point; the envelope."""
    works.write("notes.txt")
    works.write("out/summary.json", "{}")
    envelope = works.allowed(PLAN, "p1").canonical()
    kept = tmp_path / "envelope.json"
    kept.write_bytes(envelope)
    works.before = works.tree()
    ended = run_child(
        [preloaded.python(), "-c", APPLY, str(works.root), str(kept)], fault=fault, environment=works.environ
    )
    assert ended.killed, ended
    return envelope


def require_done(works: Works) -> None:
    assert works.read("out/report.csv") == "id,amount\n1,10\n2,20\n"
    assert works.read("out/summary.json") != "{}"
    assert works.rows("SELECT count(*) FROM orders") == [(4,)]
    assert not list(works.root.rglob(".remit-*"))


@pytest.mark.parametrize("point", some(BEFORE_INTENT, 2))
def test_before_the_intent_nothing_has_happened(works: Works, tmp_path: Path, point: str) -> None:
    envelope = killed(works, tmp_path, Fault(point))
    assert works.tree() == works.before
    assert works.workspace.recover() == []
    assert works.left_over() == []
    assert ran(works.workspace.apply(envelope)).status.status == "SUCCESS"
    require_done(works)


@pytest.mark.parametrize("point", some(NOT_YET, 2))
def test_what_was_prepared_dies_with_its_process_and_is_approved_again(
    works: Works, tmp_path: Path, point: str
) -> None:
    envelope = killed(works, tmp_path, Fault(point))
    outcome = ran(works.workspace.apply(envelope))
    assert outcome.status.status == "FAILED"
    assert "the prepared results were lost" in outcome.errors[0].message
    assert works.tree() == works.before
    assert ran(works.workspace.apply(works.allowed(PLAN, "p1").canonical())).status.status == "SUCCESS"
    require_done(works)


@pytest.mark.parametrize("point", some(DONE, 2))
def test_what_was_done_is_finished_without_running_anything_again(works: Works, tmp_path: Path, point: str) -> None:
    killed(works, tmp_path, Fault(point))
    works.write("etl/report.py", "raise SystemExit\n")  # nobody looks at it any more
    (recovered,) = works.workspace.recover()
    assert isinstance(recovered.outcome, PlanOutcome)
    assert recovered.outcome.status.status == "SUCCESS"
    assert [told.action_id for told in recovered.outcome.report.pipelines] == ["p1", "a2"]
    require_done(works)
    assert works.workspace.verify_ledger().holds


@pytest.mark.parametrize("done", some([1, 2, 3], 1))
def test_after_a_kill_between_its_files_all_or_none_of_them_stay(works: Works, tmp_path: Path, done: int) -> None:
    works.write("notes.txt")
    works.write("out/summary.json", "{}")
    kept = tmp_path / "envelope.json"
    kept.write_bytes(works.allowed(PLAN, "p1").canonical())
    before = works.tree()
    command = [preloaded.python(), "-c", KILL_AT_STEP, str(works.root), str(kept), str(done)]
    assert run_child(command, environment=works.environ).killed
    (report,) = works.workspace.recover()
    assert isinstance(report.outcome, PlanOutcome), report.problem
    if report.outcome.status.status == "SUCCESS":  # all of it had reached the world
        require_done(works)
    else:
        assert (report.outcome.status.status, works.tree()) == ("ROLLED_BACK", before)
    assert not list(works.root.rglob(".remit-*"))
