"""Query files, run by a plan: all of them or none, on a copy, and taken back byte for byte."""

from collections.abc import Callable
from typing import Any

import pytest

from remit.contracts.plans.status import StatusUpdate
from remit.core.errors import RefusedError
from tests.plans.pipelines.pipeline_project import FILES, Works, nightly, pipeline
from tests.plans.project import create, plan_of, ran, refused, replace
from tests.plans.sql.shop import DATABASE, held_open, sql

AFTER = [(1, "closed", 15), (2, "closed", 25), (3, "done", 35), (4, "new", 5)]
ALL = "SELECT * FROM orders ORDER BY id"


@pytest.mark.req("PX-20", "PX-21")
def test_query_files_are_previewed_run_and_rolled_back_byte_for_byte(works: Works) -> None:
    preview = works.workspace.preview(plan_of(nightly())).document
    assert works.tree() == works.before
    (told,) = preview.pipelines
    assert [(step.name, step.state, step.rows) for step in told.steps] == [
        ("sql/raise.sql", "done", 4),
        ("sql/close.sql", "done", 2),
        ("sql/count.sql", "done", 1),
    ]
    assert (told.kind, told.reversible, told.changes) == ("sql", True, (DATABASE,))
    assert [(one.number, one.kind, one.rows_changed) for one in preview.sql[0].statements] == [
        (1, "UPDATE", 3),
        (2, "INSERT", 1),
        (3, "UPDATE", 2),
        (4, "SELECT", None),
    ]
    assert (preview.status, preview.needs.irreversible) == ("READY", ())

    outcome = works.apply(plan_of(nightly()))
    assert outcome.status.status == "SUCCESS"
    assert works.rows(ALL) == AFTER
    (reported,) = outcome.report.pipelines
    assert [(step.name, step.state, step.rows) for step in reported.steps] == [
        (step.name, step.state, step.rows) for step in told.steps
    ]
    assert works.left_over() == []

    assert works.workspace.rollback("last").status == "EXECUTED"
    assert works.tree() == works.before
    assert works.workspace.verify_ledger().holds


@pytest.mark.req("PX-21")
def test_a_reversible_pipeline_that_calls_itself_irreversible_needs_no_approval_for_it(works: Works) -> None:
    assert works.apply(plan_of(nightly(reversible=False))).status.status == "SUCCESS"


@pytest.mark.req("PX-21", "PX-36")
def test_a_parameter_stands_in_the_preview_and_nowhere_else(works: Works) -> None:
    plan = plan_of(nightly(state="quite-a-secret-state"))
    document = works.workspace.preview(plan).document
    for told in (document.sql[0], document.pipelines[0]):
        assert [one.value for one in told.parameters if one.name == "state"] == ['"quite-a-secret-state"']
    assert document.canonical().decode().count("quite-a-secret-state") == 2
    outcome = works.apply(plan)
    assert ("closed",) not in works.rows("SELECT state FROM orders")
    assert "quite-a-secret-state" not in outcome.canonical().decode()
    assert works.told_of("quite-a-secret-state") == []


@pytest.mark.req("PX-21", "PX-35")
def test_a_file_that_fails_leaves_nothing_and_says_which(works: Works) -> None:
    works.write("sql/close.sql", "UPDATE orders SET nothing = 1;\n")
    works.before = works.tree()
    preview = works.workspace.preview(plan_of(nightly())).document
    (problem,) = preview.problems
    assert problem.error_type == "PIPELINE_FAILED"
    assert "step sql/close.sql failed" in problem.message
    assert "pipeline nightly, step sql/close.sql" in problem.message
    assert [step.state for step in preview.pipelines[0].steps] == ["done", "failed", "skipped"]
    with pytest.raises(RefusedError, match=r"step sql/close\.sql failed"):
        works.approve(plan_of(nightly()))
    assert works.tree() == works.before
    assert works.left_over() == []


@pytest.mark.req("PX-13", "PX-21")
def test_after_a_failure_the_next_action_finds_what_was_there_before(works: Works) -> None:
    """Half of a pipeline was on the copy that the next action on the same database works on."""
    works.write("sql/count.sql", "SELECT nothing FROM orders;\n")
    plan = plan_of(
        nightly("a1"),
        sql("a2", "UPDATE orders SET amount = 0 WHERE id = 3", connection="shop", target=None),
        stop_on_error=False,
        rollback_on_failure=False,
    )
    preview = works.workspace.preview(plan).document
    assert [problem.error_type for problem in preview.problems] == ["PIPELINE_FAILED", "DEPENDENCY_FAILED"]

    independent = plan_of(sql("b1", "SELECT count(*) AS n FROM orders", connection="shop", save_results_to="n.csv"))
    assert works.apply(independent).status.status == "SUCCESS"
    assert works.read("n.csv") == "n\n3\n"


@pytest.mark.req("PX-08", "PX-21")
def test_sql_before_and_after_it_work_on_what_the_one_before_left(works: Works) -> None:
    plan = plan_of(
        sql("a1", "INSERT INTO orders VALUES (9, 'open', 0)", connection="shop"),
        nightly("a2"),
        sql("a3", "DELETE FROM orders WHERE id = 1", connection="shop"),
        nightly("a4", by=0),
    )
    works.write("sql/raise.sql", "UPDATE orders SET amount = amount + $by;\n")
    works.before = works.tree()
    outcome = works.apply(plan)
    assert outcome.status.status == "SUCCESS"
    assert works.rows(ALL) == [(2, "closed", 25), (3, "done", 35), (9, "closed", 5)]
    assert [told.action_id for told in outcome.report.pipelines] == ["a2", "a4"]
    assert works.workspace.rollback("last").status == "EXECUTED"
    assert works.tree() == works.before


@pytest.mark.req("PX-10", "PX-13", "PX-21")
def test_a_mixed_plan_whose_last_action_fails_leaves_all_as_before(works: Works) -> None:
    works.write("a.txt")
    works.write("victim", "bye\n")
    works.before = works.tree()
    plan = plan_of(
        replace("a1", "a.txt"),
        nightly("a2"),
        sql("a3", "UPDATE orders SET amount = 1", connection="shop"),
        create("a4", "new/file.txt"),
        replace("a5", "victim", "bye", "hello"),
    )
    envelope = works.approve(plan)

    def meddle(update: StatusUpdate) -> None:
        if update.phase == "RUNNING" and works.read("victim") == "bye\n":
            (works.root / "victim").write_text("byE\n")

    outcome = ran(works.workspace.apply(envelope.canonical(), on_status=meddle))
    assert outcome.status.status in {"ROLLED_BACK", "FAILED"}
    works.write("victim", "bye\n")
    assert works.tree() == works.before
    assert works.left_over() == []


@pytest.mark.req("PX-21", "PX-34")
def test_a_query_file_that_was_changed_since_the_approval_is_not_run(works: Works) -> None:
    envelope = works.approve(plan_of(nightly()))
    works.write("sql/count.sql", "SELECT 1;\n")
    _, message = refused(works.workspace.apply(envelope.canonical()))
    assert "sql/count.sql" in message
    assert works.rows(ALL) != AFTER
    works.write("sql/count.sql", FILES["sql/count.sql"])
    assert ran(works.workspace.apply(envelope.canonical())).status.status == "SUCCESS"


@pytest.mark.req("PX-18", "PX-21")
def test_a_database_that_another_process_has_open_is_left_alone(works: Works) -> None:
    with held_open(works.database):
        preview = works.workspace.preview(plan_of(nightly())).document
        assert [problem.error_type for problem in preview.problems] == ["DATABASE_BUSY"]


@pytest.mark.req("PX-18", "PX-21")
def test_a_text_that_is_not_for_a_plan_is_refused_and_no_half_of_the_plan_is_kept(works: Works) -> None:
    works.write("sql/close.sql", "COPY orders TO 'stolen.csv';\n")
    preview = works.workspace.preview(
        plan_of(create("a0", "x"), nightly(), stop_on_error=False, rollback_on_failure=False)
    ).document
    assert [problem.error_type for problem in preview.problems] == ["SQL_REFUSED"]
    assert "step sql/close.sql" in preview.problems[0].message
    assert preview.would_end == "ROLLED_BACK"
    assert not list(works.root.rglob("stolen.csv"))


@pytest.mark.req("PX-25")
@pytest.mark.parametrize("own", [True, False])
def test_a_pipeline_of_sql_is_stopped_when_its_time_is_over(open_works: Callable[..., Works], own: bool) -> None:  # noqa: FBT001
    long: dict[str, Any] = {"type": "sql", "connection": "shop", "steps": ["sql/count.sql", "sql/long.sql"]}
    works = open_works(pipelines={"long": {**long, "timeout_seconds": 1} if own else long})
    works.write("sql/long.sql", "CREATE TABLE much AS SELECT count(*) AS n FROM range(100000000000) t(a);\n")
    works.before = works.tree()
    more = {} if own else {"timeout_seconds": 1}
    preview = works.workspace.preview(plan_of(pipeline("a1", "long", reversible=True, **more))).document
    (problem,) = preview.problems
    assert problem.error_type == "TIMED_OUT"
    assert "its pipeline took longer than 1 seconds" in problem.message
    assert [step.state for step in preview.pipelines[0].steps] == ["done", "failed"]
    assert works.tree() == works.before


@pytest.mark.req("PX-21")
def test_a_listener_learns_which_step_is_running(works: Works) -> None:
    heard: list[StatusUpdate] = []
    works.workspace.preview(plan_of(nightly()), on_status=heard.append)
    said = [update.what for update in heard if update.phase == "CHECKING" and update.what]
    assert said[:1] == ["nightly: sql/raise.sql (1 of 3)"]
    assert "nightly: sql/count.sql (3 of 3)" in said


@pytest.mark.req("PX-21")
def test_a_pipeline_that_is_new_to_the_project_makes_its_database(open_works: Callable[..., Works]) -> None:
    works = open_works(
        connections={"fresh": {"type": "duckdb", "path": "made/fresh.duckdb"}},
        pipelines={"first": {"type": "sql", "connection": "fresh", "steps": ["sql/make.sql", "sql/fill.sql"]}},
    )
    works.write("sql/make.sql", "CREATE TABLE t (a INTEGER);\n")
    works.write("sql/fill.sql", "INSERT INTO t SELECT range FROM range(10);\n")
    works.before = works.tree()
    outcome = works.apply(plan_of(pipeline("a1", "first", reversible=True)))
    assert outcome.status.status == "SUCCESS"
    assert (works.root / "made/fresh.duckdb").exists()
    assert works.workspace.rollback("last").status == "EXECUTED"
    assert works.tree() == works.before


@pytest.mark.req("PX-13", "PX-21")
def test_a_rule_about_rows_is_asked_of_what_the_pipeline_left(works: Works) -> None:
    def with_rule(count: int) -> bytes:
        rule = {
            "type": "sql_expect",
            "connection": "shop",
            "query": "SELECT count(*) FROM orders",
            "expected": [[count]],
        }
        return plan_of(nightly(), rules=[rule])

    assert works.workspace.preview(with_rule(4)).document.would_end == "SUCCESS"
    assert works.workspace.preview(with_rule(3)).document.would_end != "SUCCESS"
    assert works.apply(with_rule(4)).status.status == "SUCCESS"


@pytest.mark.req("PX-09", "PX-21")
def test_pipelines_in_a_plan_that_runs_in_parallel(works: Works) -> None:
    plan = plan_of(
        create("a1", "one.txt"),
        pipeline("p1", "report"),
        nightly("a2"),
        create("a3", "two.txt"),
        execution_order="parallel",
    )
    outcome = ran(works.workspace.apply(works.allowed(plan, "p1").canonical()))
    assert outcome.status.status == "SUCCESS"
    assert works.rows(ALL) == AFTER
    assert works.read("out/report.csv").count("\n") == 3
    assert works.workspace.rollback("last").status == "EXECUTED"
    assert works.tree() == works.before
