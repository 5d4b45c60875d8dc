"""Functions of the project, run by a plan in a copy of what they name: what they leave is exchanged, and goes back."""

import json
import time
from collections.abc import Callable

import click
import pytest

from remit.cli.plans.render import render_outcome, render_preview
from remit.contracts.plans.status import StatusUpdate
from remit.core.canonical import digest_bytes
from remit.core.errors import Reason, RefusedError, RemitError
from remit.plans.model.callbacks import PlanHooks
from remit.services.plans.service import PlanService
from tests.plans.pipelines.pipeline_project import FILES, Works, nightly, pipeline, problem_of, with_code
from tests.plans.project import create, plan_of, ran, refused
from tests.plans.sql.shop import DATABASE, held_open, sql
from tests.services.plans.proposal_workspace import ADMIN

PLAN = plan_of(pipeline("p1", "report", parameters={"greeting": "hello"}))
WRITES = ("out/report.csv", "out/summary.json")


@pytest.mark.req("PX-21")
def test_a_pipeline_is_previewed_run_and_its_new_files_are_removed_by_the_rollback(works: Works) -> None:
    preview = works.workspace.preview(PLAN).document
    assert works.tree() == works.before
    (told,) = preview.pipelines
    assert [(step.name, step.state, step.rows) for step in told.steps] == [
        ("etl.clean:run", "done", 2),
        ("etl.report:run", "done", 2),
    ]
    assert (told.reversible, told.changes, told.log) == (False, WRITES, ("cleaned", "reported"))
    assert [(file.path, file.operation) for file in preview.files] == [(path, "CREATE") for path in WRITES]
    assert "+1,10\n+2,20\n" in preview.files[0].diff
    assert (preview.status, preview.risk, preview.needs.irreversible) == ("NEEDS_APPROVAL", "HIGH", ("p1",))

    outcome = ran(works.workspace.apply(works.allowed(PLAN, "p1").canonical()))
    assert outcome.status.status == "SUCCESS"
    assert works.read("out/report.csv") == "id,amount\n1,10\n2,20\n"
    assert json.loads(works.read("out/summary.json")) == {"greeting": "hello", "notes": ["first\n", "second\n"]}
    assert outcome.report.actions_summary.total == 1
    assert [change.file_path for change in outcome.change_log.changes] == list(WRITES)
    (reported,) = outcome.report.pipelines
    assert [(step.name, step.state, step.rows) for step in reported.steps] == [
        (step.name, step.state, step.rows) for step in told.steps
    ]
    assert works.left_over() == []
    added = set(works.tree()) - set(works.before)
    assert added == {"out", *WRITES}

    assert works.workspace.rollback("last").status == "EXECUTED"
    assert works.tree() == works.before
    assert works.workspace.verify_ledger().holds


@pytest.mark.req("PX-21")
def test_files_that_are_there_are_replaced_keep_their_mode_and_come_back(works: Works) -> None:
    works.write("out/report.csv", "old\n", mode=0o600)
    works.before = works.tree()
    outcome = ran(works.workspace.apply(works.allowed(PLAN, "p1").canonical()))
    assert [change.operation for change in outcome.change_log.changes] == ["MODIFY", "CREATE"]
    content, mode, _ = works.tree()["out/report.csv"] or (b"", 0, 0)
    assert (content, mode) == (b"id,amount\n1,10\n2,20\n", 0o600)
    assert works.workspace.rollback("last").status == "EXECUTED"
    assert works.tree() == works.before


@pytest.mark.req("PX-21")
def test_a_second_run_that_leaves_the_same_changes_nothing(works: Works) -> None:
    works.workspace.apply(works.allowed(PLAN, "p1").canonical())
    preview = works.workspace.preview(PLAN).document
    assert (preview.files, preview.pipelines[0].changes) == ((), ())
    outcome = ran(works.workspace.apply(works.allowed(PLAN, "p1").canonical()))
    assert (outcome.status.status, outcome.change_log.changes) == ("SUCCESS", ())


@pytest.mark.req("PX-21")
def test_without_an_approval_by_name_nothing_runs(works: Works) -> None:
    with pytest.raises(RefusedError, match="cannot be undone, and the approval does not name it") as told:
        works.approve(PLAN)
    assert "--allow-irreversible 'p1'" in told.value.next_step
    assert works.tree() == works.before


@pytest.mark.req("PX-21", "PX-35")
def test_a_step_that_fails_leaves_nothing_and_tells_how_far_it_came(works: Works) -> None:
    plan = plan_of(pipeline("p1", "report", parameters={"mode": "fail"}))
    preview = works.workspace.preview(plan).document
    (problem,) = preview.problems
    assert problem.error_type == "PIPELINE_FAILED"
    assert "etl.report:run" in problem.message
    assert "etl/report.py, line 8" in problem.message
    assert [(step.name, step.state) for step in preview.pipelines[0].steps] == [
        ("etl.clean:run", "done"),
        ("etl.report:run", "failed"),
    ]
    assert works.tree() == works.before
    with pytest.raises(RefusedError, match="the plan would fail"):
        works.allowed(plan, "p1")


@pytest.mark.req("PX-21", "PX-35")
def test_one_that_would_fail_later_is_not_run_again(open_works: Callable[..., Works]) -> None:
    """What the approver saw is put in place, whatever the pipeline would do now."""
    works = with_code(
        open_works,
        "import time\ndef run(job):\n    open('own.txt', 'w').write(str(time.time()))\n"
        f"    if time.time() > {time.time() + 5}: raise RuntimeError('too late')\n",
        writes=["own.txt"],
    )
    plan = plan_of(create("a0", "other.txt"), pipeline("p1", "own"))
    (output,) = works.workspace.preview(plan).document.outputs
    envelope = works.allowed(plan, "p1").canonical()
    time.sleep(5)
    outcome = ran(works.workspace.apply(envelope))
    assert outcome.status.status == "SUCCESS"
    assert digest_bytes((works.root / "own.txt").read_bytes()) == output.output_digest
    assert works.left_over() == []


@pytest.mark.req("PX-21", "PX-34")
@pytest.mark.parametrize(
    "path, bound",
    [("etl/report.py", "etl"), ("etl/new.py", "etl"), ("notes/deep/b.txt", "notes"), ("data/in.csv", "data/in.csv")],
)
def test_code_or_data_that_was_changed_since_the_approval_is_not_run(works: Works, path: str, bound: str) -> None:
    envelope = works.allowed(PLAN, "p1").canonical()
    works.write(path, "changed = True\n")
    _, message = refused(works.workspace.apply(envelope))
    assert bound in message
    assert not (works.root / "out").exists()
    if path in FILES:
        works.write(path, FILES[path])
    else:
        (works.root / path).unlink()
    assert ran(works.workspace.apply(envelope)).status.status == "SUCCESS"


@pytest.mark.req("PX-21")
def test_foreign_byte_code_is_neither_bound_nor_run(works: Works) -> None:
    envelope = works.allowed(PLAN, "p1").canonical()
    works.write("etl/__pycache__/report.cpython-311.pyc", b"\0" * 100)
    assert ran(works.workspace.apply(envelope)).status.status == "SUCCESS"


@pytest.mark.req("PX-18", "PX-21")
def test_a_database_is_changed_by_code_closed_backed_up_and_rolled_back(open_works: Callable[..., Works]) -> None:
    code = f"import duckdb\ndef run(job):\n    with duckdb.connect({DATABASE!r}) as shop:\n"
    code += "        shop.execute('UPDATE orders SET amount = amount + 100')\n    return 3\n"
    works = with_code(open_works, code, writes=[DATABASE])
    plan = plan_of(
        sql("a1", "DELETE FROM orders WHERE id = 3", connection="shop"),
        pipeline("p1", "own"),
        nightly("a2", by=1),
    )
    with held_open(works.database):
        assert {one.error_type for one in works.workspace.preview(plan).document.problems} >= {"DATABASE_BUSY"}
    outcome = ran(works.workspace.apply(works.allowed(plan, "p1").canonical()))
    assert outcome.status.status == "SUCCESS"
    assert works.rows("SELECT id, amount FROM orders ORDER BY id") == [(1, 111), (2, 121), (4, 1)]
    assert works.workspace.rollback("last").status == "EXECUTED"
    assert works.tree() == works.before


@pytest.mark.req("PX-18", "PX-21")
def test_a_database_that_code_leaves_is_shown_by_size_and_not_by_lines(open_works: Callable[..., Works]) -> None:
    code = f"import duckdb\ndef run(job):\n    with duckdb.connect({DATABASE!r}) as shop:\n"
    code += "        shop.execute('UPDATE orders SET amount = amount + 100')\n    return 3\n"
    works = with_code(open_works, code, writes=[DATABASE], description="Raises all prices.")
    plan = plan_of(pipeline("p1", "own"))
    preview = works.workspace.preview(plan).document
    assert preview.pipelines[0].description == "Raises all prices."
    shown = [click.unstyle(line) for line in render_preview(preview)]
    assert shown[0] == "Plan plan-001: 1 change to 1 file"
    assert "  about     Raises all prices." in shown
    sizes = f"{preview.files[0].size_before:,} -> {preview.files[0].size_after:,} bytes"
    assert shown[shown.index(f"p1: change {DATABASE}") + 1] == f"A database, {sizes}"
    assert f"  p1: change {DATABASE}  {sizes}" in list(render_preview(preview, max_lines=0))
    outcome = ran(works.workspace.apply(works.allowed(plan, "p1").canonical()))
    after = [click.unstyle(line) for line in render_outcome(outcome, diffs=False)]
    assert after[0] == "SUCCESS  plan-001: 1 of 1 action, 1 file"
    assert [line.split()[:2] for line in after if "etl.own:run" in line] == [["etl.own:run", "done"]]


@pytest.mark.req("PX-18", "PX-21")
def test_a_database_that_code_leaves_open_is_not_taken(open_works: Callable[..., Works]) -> None:
    code = f"import duckdb\nkept = []\ndef run(job):\n    shop = duckdb.connect({DATABASE!r})\n    kept.append(shop)\n"
    code += "    shop.execute(\"SET checkpoint_threshold = '1GB'\")\n"
    code += "    shop.execute('UPDATE orders SET amount = 0')\n"
    works = with_code(open_works, code, writes=[DATABASE])
    preview = works.workspace.preview(plan_of(pipeline("p1", "own"))).document
    if preview.problems:
        assert "did not close this database" in preview.problems[0].message
    else:  # the end of the process closed it
        assert preview.pipelines[0].changes == (DATABASE,)
    assert works.tree() == works.before


@pytest.mark.req("PX-08", "PX-21")
def test_one_pipeline_reads_what_another_one_and_sql_have_left(open_works: Callable[..., Works]) -> None:
    works = with_code(
        open_works,
        "def run(job):\n    given = [open(f'out/{name}').read() for name in ('report.csv', 'rows.csv')]\n"
        "    open('last.txt', 'w').write(''.join(given))\n",
        reads=["out"],
        writes=["last.txt"],
    )
    works.write("out/other.txt", "was there\n")
    works.before = works.tree()
    plan = plan_of(
        pipeline("p1", "report"),
        sql("a1", "SELECT 7 AS seven", connection="memory", save_results_to="out/rows.csv"),
        pipeline("p2", "own", depends_on=["a1"]),
    )
    outcome = ran(works.workspace.apply(works.allowed(plan, "p1", "p2").canonical()))
    assert outcome.status.status == "SUCCESS"
    assert works.read("last.txt") == "id,amount\n1,10\n2,20\nseven\n7\n"
    assert works.workspace.rollback("last").status == "EXECUTED"
    assert works.tree() == works.before


@pytest.mark.req("PX-25")
def test_a_pipeline_of_code_is_stopped_when_its_time_is_over(open_works: Callable[..., Works]) -> None:
    works = with_code(open_works, "def run(job):\n    while True: pass\n", timeout_seconds=1)
    kind, message = problem_of(works)
    assert kind == "TIMED_OUT"
    assert "the pipeline took longer than 1 seconds" in message


@pytest.mark.req("PX-25")
def test_the_time_of_the_plan_bounds_it_too(open_works: Callable[..., Works]) -> None:
    works = with_code(open_works, "def run(job):\n    while True: pass\n")
    plan = plan_of(pipeline("p1", "own", timeout_seconds=60), timeout_seconds=1)
    (problem,) = works.workspace.preview(plan).document.problems
    assert problem.error_type == "TIMED_OUT"


@pytest.mark.req("PX-14", "PX-21")
def test_cancelled_in_the_middle_nothing_is_left(open_works: Callable[..., Works]) -> None:
    code = "import time\ndef run(job):\n    open('own.txt', 'w').write('x')\n    time.sleep(0.5)\n"
    works = with_code(open_works, code, writes=["own.txt"])
    begun: list[bool] = []

    def listen(update: StatusUpdate) -> None:
        begun.extend([True] if update.what.startswith("own: ") else [])

    hooks = PlanHooks(on_status=listen, is_cancelled=lambda: bool(begun))
    with pytest.raises(RemitError) as cancelled:
        works.workspace.plans.preview(plan_of(pipeline("p1", "own")), hooks)
    assert begun
    assert cancelled.value.reason is Reason.CANCELLED
    assert works.tree() == works.before
    assert works.left_over() == []
    assert "plan.previewed" not in works.kinds()


@pytest.mark.req("PX-21")
def test_a_listener_learns_which_function_is_running(works: Works) -> None:
    heard: list[str] = []
    works.workspace.preview(PLAN, on_status=lambda update: heard.append(update.what))
    assert "report: etl.clean:run (1 of 2)" in heard
    assert "report: etl.report:run (2 of 2)" in heard


@pytest.mark.req("PX-13", "PX-21")
def test_a_pipeline_never_leaves_only_some_of_its_files(works: Works) -> None:
    """The plan would keep what was done; but of these files one alone is nobody's wish."""
    works.write("out/summary.json", "{}")
    plan = plan_of(
        create("a0", "kept.txt"),
        pipeline("p1", "report"),
        stop_on_error=False,
        rollback_on_failure=False,
    )
    envelope = works.allowed(plan, "p1").canonical()
    before = works.tree()
    pending = [True]

    def meddle(update: StatusUpdate) -> None:
        if update.phase == "RUNNING" and pending:
            pending.clear()
            (works.root / "out/report.csv").write_text("somebody else's\n")

    outcome = ran(works.workspace.apply(envelope, on_status=meddle))
    assert outcome.status.status == "ROLLED_BACK"
    after = works.tree()
    assert after.pop("out/report.csv") is not None
    assert after == before


def test_a_new_file_that_writes_does_not_name_is_remarked(works: Works) -> None:
    document = works.workspace.preview(PLAN).document
    (remark,) = document.remarks
    assert (remark.path, "discarded" in remark.what) == ("clean.csv", True)
    assert not (works.root / "clean.csv").exists()


def test_the_changed_file_of_a_package_is_named(works: Works) -> None:
    plans = PlanService(works.workspace)
    made = plans.propose(ADMIN, PLAN)
    envelope = works.allowed(PLAN, "p1").canonical()
    (works.root / "etl/report.py").write_text("def run(job):\n    pass\n")
    how = "a file in this folder was changed since {}: etl/report.py"
    _, message = refused(works.workspace.apply(envelope))
    assert how.format("the plan was approved") in message
    (changed,) = plans.read_preview(ADMIN, made.proposal_id).changed_since
    assert (changed.path, changed.how) == ("etl", how.format("this preview was computed"))
    plans.close()


@pytest.mark.req("PX-21")
def test_expected_hashes_of_the_target_are_checked(works: Works) -> None:
    wrong = "sha256:" + "0" * 64
    plan = plan_of(pipeline("p1", "report", target="out/report.csv", expected_hash_after=wrong))
    with pytest.raises(RefusedError, match="the plan expects the content"):
        works.allowed(plan, "p1")
