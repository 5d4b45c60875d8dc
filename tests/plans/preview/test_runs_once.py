"""SQL and pipelines run once, for the preview. What was shown is what is approved and put in place."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from remit.core.canonical import digest_bytes
from remit.core.errors import Reason, RefusedError
from remit.plans.engines.duckdb import Engine
from remit.plans.engines.pipeline import PipelineEngine
from remit.services.plans.service import PlanService
from tests.plans.pipelines.pipeline_project import Works, nightly, pipeline, with_code
from tests.plans.project import create, plan_of, ran, refused
from tests.plans.sql.shop import DATABASE, sql
from tests.services.plans.proposal_workspace import ADMIN, APPROVER, OPERATOR, VIEWER

RANDOM = "import uuid\ndef run(job):\n    open('own.txt', 'w').write(str(uuid.uuid4()))\n"


class Runs:
    """Counts the calls of the engines. They really run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sql = self.pipelines = 0
        run_sql, run_pipeline = Engine.run, PipelineEngine.run

        def count_sql(*given: Any, **named: Any) -> Any:
            self.sql += 1
            return run_sql(*given, **named)

        def count_pipeline(*given: Any, **named: Any) -> Any:
            self.pipelines += 1
            return run_pipeline(*given, **named)

        monkeypatch.setattr(Engine, "run", count_sql)
        monkeypatch.setattr(PipelineEngine, "run", count_pipeline)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


@pytest.fixture
def plans(works: Works) -> Iterator[PlanService]:
    service = PlanService(works.workspace)
    yield service
    service.close()


@pytest.mark.req("PV-01", "PV-02", "PV-03")
def test_from_a_proposal_to_its_effect_each_runs_once(works: Works, plans: PlanService, runs: Runs) -> None:
    plan = plan_of(pipeline("p1", "report"), sql("a2", "UPDATE orders SET state = 'seen'", connection="shop"))
    proposed = plans.propose(ADMIN, plan)
    shown = plans.read_preview(VIEWER, proposed.proposal_id)
    for _ in range(10):
        assert plans.read_preview(VIEWER, proposed.proposal_id).document == shown.document
        plans.get(VIEWER, proposed.proposal_id)
        plans.list_pending(VIEWER)
    allow = shown.document.needs
    approvals = works.allowed(plan_of(create("x", "x.txt"))).approvals.model_copy(
        update={"irreversible": allow.irreversible}
    )
    decided = plans.decide(
        APPROVER, proposed.proposal_id, approved=True, preview_digest=shown.preview_digest, allow=approvals
    )
    assert decided.state == "APPROVED"
    assert plans.apply(OPERATOR, proposed.proposal_id, wait=30).state == "APPLIED"
    assert (runs.pipelines, runs.sql) == (1, 1)
    assert works.rows("SELECT DISTINCT state FROM orders") == [("seen",)]


@pytest.mark.req("PV-01", "PV-03", "PX-29")
def test_a_pipeline_that_writes_something_else_each_time_puts_the_approved_bytes_in_place(
    open_works: Callable[..., Works], runs: Runs
) -> None:
    works = with_code(open_works, RANDOM, writes=["own.txt"])
    plan = plan_of(pipeline("p1", "own"))
    document = works.workspace.preview(plan).document
    (output,) = document.outputs
    assert (output.path, output.action_id, output.size) == ("own.txt", "p1", 36)
    assert document.costs is not None
    assert [cost.action_id for cost in document.costs.actions] == ["p1"]
    envelope = works.workspace.approve(plan, irreversible=["p1"], as_seen=document.preview_digest)
    assert envelope.preview_digest == document.preview_digest
    outcome = ran(works.workspace.apply(envelope))
    assert outcome.status.status == "SUCCESS"
    assert digest_bytes((works.root / "own.txt").read_bytes()) == output.output_digest
    assert runs.pipelines == 1
    assert outcome.report.prepared_ms == document.costs.actions[0].milliseconds
    assert outcome.report.duration_ms >= outcome.report.prepared_ms > 0


@pytest.mark.req("PV-03")
def test_a_preview_computed_again_is_another_one_if_its_outputs_differ(open_works: Callable[..., Works]) -> None:
    works = with_code(open_works, RANDOM, writes=["own.txt"])
    plan = plan_of(pipeline("p1", "own"))
    first, second = works.workspace.preview(plan), works.workspace.preview(plan, fresh=True)
    assert first.document.inputs == second.document.inputs
    assert first.digest != second.digest
    for preview in (first, second):
        envelope = works.workspace.approve(plan, irreversible=["p1"], as_seen=preview.digest)
        assert envelope.preview_digest == preview.digest
    with pytest.raises(RefusedError) as refusal:
        works.workspace.approve(plan, irreversible=["p1"], as_seen="sha256:" + "0" * 64)
    assert refusal.value.reason is Reason.HASH_MISMATCH


@pytest.mark.req("PV-01")
@pytest.mark.parametrize("path", ["data/in.csv", "notes/deep/b.txt", "etl/report.py", "out/report.csv", DATABASE])
def test_an_input_that_changed_makes_the_preview_stale_and_is_named(works: Works, runs: Runs, path: str) -> None:
    plan = plan_of(pipeline("p1", "report"), nightly("a2"))
    digest = works.workspace.preview(plan).digest
    envelope = works.allowed(plan, "p1")
    ran_once = (runs.pipelines, runs.sql)
    if path == DATABASE:
        works.apply(plan_of(sql("b1", "INSERT INTO orders VALUES (9, 'new', 1)", connection="shop")))
        ran_once = (runs.pipelines, runs.sql)
    else:
        works.write(path, "something else\n")
    before = works.tree()
    code, message = refused(works.workspace.apply(envelope))
    bound = path if (works.root / path).is_file() and path in message else path.split("/", maxsplit=1)[0]
    assert (code, bound in message) == (1003, True), message
    with pytest.raises(RefusedError) as refusal:
        works.workspace.approve(plan, irreversible=["p1"], as_seen=digest)
    assert refusal.value.reason is Reason.HASH_MISMATCH
    assert bound in f"{refusal.value.where} {refusal.value.what}"
    assert (runs.pipelines, runs.sql) == ran_once
    assert works.tree() == before


@pytest.mark.req("PV-01")
def test_the_same_plan_on_the_same_files_is_computed_once(works: Works, runs: Runs) -> None:
    plan = plan_of(pipeline("p1", "report"), sql("a2", "UPDATE orders SET state = 'seen'", connection="shop"))
    first = works.workspace.preview(plan)
    for _ in range(3):
        assert works.workspace.preview(plan).document == first.document
    assert (runs.pipelines, runs.sql) == (1, 1)
    assert works.kinds().count("plan.previewed") == 1
    with works.opened() as other:  # as another process would find it
        assert other.preview(plan).document == first.document
    assert (runs.pipelines, runs.sql) == (1, 1)


@pytest.mark.req("PV-01")
def test_a_preview_with_a_problem_is_computed_again(works: Works, runs: Runs) -> None:
    plan = plan_of(pipeline("p1", "report", parameters={"mode": "fail"}))
    for number in itertools.chain([1, 2]):
        assert works.workspace.preview(plan).document.status == "WOULD_FAIL"
        assert runs.pipelines == number
