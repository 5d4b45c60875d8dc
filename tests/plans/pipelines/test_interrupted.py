"""kill -9 while a pipeline is prepared, and after: its files are as before or as after, all of them together."""

from pathlib import Path

import pytest

from remit.contracts.plans.outcome import PlanOutcome
from tests.plans.pipelines.pipeline_project import Works, nightly, pipeline
from tests.plans.project import plan_of, ran, replace
from tests.plans.sql.test_interrupted import PREVIEW
from tests.plans.test_recovery import APPLY, KILL_AT_STEP
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.sampling import some

BEFORE_INTENT = ["road.checkpoint_made"]
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


@pytest.mark.req("PV-03")
@pytest.mark.parametrize("point", some(NOT_YET, 2))
def test_a_repeat_puts_the_kept_outputs_in_place(works: Works, tmp_path: Path, point: str) -> None:
    envelope = killed(works, tmp_path, Fault(point))
    assert ran(works.workspace.apply(envelope)).status.status == "SUCCESS"
    require_done(works)


@pytest.mark.parametrize("point", ["sql.copied", "pipeline.filled", "pipeline.taken", "preview.outputs_copied"])
def test_a_preview_that_is_killed_leaves_nothing(works: Works, tmp_path: Path, point: str) -> None:
    works.write("notes.txt")
    works.write("out/summary.json", "{}")
    given, before = tmp_path / "plan.json", works.tree()
    given.write_bytes(PLAN)
    command = [preloaded.python(), "-c", PREVIEW, str(works.root), str(given)]
    assert run_child(command, fault=Fault(point), environment=works.environ).killed
    works.workspace.recover()
    assert works.tree() == before
    assert works.left_over() == []
    assert "plan.previewed" not in works.kinds()


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
