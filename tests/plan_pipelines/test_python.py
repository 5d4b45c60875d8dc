"""Functions of the project, run by a plan in a copy of what they name: what they leave is exchanged, and goes back."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from remit.contracts.status import StatusUpdate
from remit.errors import Reason, Refused
from tests.plan_pipelines.works import FILES, Works, nightly, pipeline
from tests.plan_road.project import create, plan_of, ran, refused
from tests.plan_sql.shop import DATABASE, held_open, sql

PLAN = plan_of(pipeline("p1", "report", parameters={"greeting": "hello"}))
WRITES = ("out/report.csv", "out/summary.json")


def with_code(open_works: Callable[..., Works], code: str, **settings: Any) -> Works:
    """A project with one more pipeline, `own`, of one function."""
    made = {"type": "python", "steps": ["etl.own:run"], "writes": ["out/own.txt"], **settings}
    works = open_works(pipelines={"own": made})
    works.write("etl/own.py", code)
    works.before = works.tree()
    return works


def problem_of(works: Works, **more: Any) -> tuple[str, str]:
    """Why a preview of `own` says that it would fail; nothing is changed by it, and nothing is left."""
    preview = works.workspace.preview(plan_of(pipeline("p1", "own", **more))).document
    assert works.tree() == works.before
    assert works.left_over() == []
    (problem,) = preview.problems
    return problem.error_type, problem.message


@pytest.mark.req("PX-21")
def test_a_pipeline_is_seen_run_and_its_files_go_again(works: Works) -> None:
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
    with pytest.raises(Refused, match="cannot be undone, and the approval does not name it") as told:
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
    with pytest.raises(Refused, match="the plan would fail"):
        works.allowed(plan, "p1")


@pytest.mark.req("PX-21", "PX-35")
def test_one_that_fails_only_when_it_is_applied_is_reported_with_what_it_said(
    open_works: Callable[..., Works],
) -> None:
    """The clock is not what an approval binds."""
    works = with_code(
        open_works,
        f"import time\ndef run(job):\n    print('this far')\n    open('own.txt', 'w').write('x')\n"
        f"    if time.time() > {time.time() + 8}: raise RuntimeError('too late')\n",
        writes=["own.txt"],
    )
    envelope = works.allowed(plan_of(create("a0", "other.txt"), pipeline("p1", "own")), "p1").canonical()
    time.sleep(8)
    outcome = ran(works.workspace.apply(envelope))
    assert outcome.status.status == "FAILED"
    (error,) = outcome.errors
    assert (error.error_type, error.details.action_id) == ("PIPELINE_FAILED", "p1")
    (told,) = outcome.report.pipelines
    assert [step.state for step in told.steps] == ["failed"]
    assert told.log[0] == "this far"
    assert works.tree() == works.before
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
def test_byte_code_of_somebody_else_is_neither_bound_nor_run(works: Works) -> None:
    envelope = works.allowed(PLAN, "p1").canonical()
    works.write("etl/__pycache__/report.cpython-311.pyc", b"\0" * 100)
    assert ran(works.workspace.apply(envelope)).status.status == "SUCCESS"


@pytest.mark.req("PX-21")
@pytest.mark.parametrize(
    "code",
    [
        "open('elsewhere.txt', 'w').write('x')",
        "open('data/in.csv', 'a').write('x')",
        "open('etl/own.py', 'a').write('x')",
        "import os; os.remove('etl/clean.py') if os.path.exists('etl/clean.py') else None",
        "import shutil; shutil.rmtree('etl')",
        "import os; os.makedirs('out/more'); open('out/more/x', 'w').write('x')",
    ],
)
def test_nothing_but_the_files_it_may_write_ever_reaches_the_project(
    open_works: Callable[..., Works], code: str
) -> None:
    works = with_code(
        open_works,
        f"def run(job):\n    import os\n    os.makedirs('out', exist_ok=True)\n    {code}\n"
        "    open('out/own.txt', 'w').write('mine')\n",
        reads=["data/in.csv"],
    )
    outcome = ran(works.workspace.apply(works.allowed(plan_of(pipeline("p1", "own")), "p1").canonical()))
    assert outcome.status.status == "SUCCESS"
    after = works.tree()
    assert works.read("out/own.txt") == "mine"
    assert {path: after.get(path) for path in works.before} == works.before
    assert set(after) - set(works.before) == {"out", "out/own.txt"}


@pytest.mark.req("PX-21", "PX-34")
@pytest.mark.parametrize(
    "code",
    [
        "open({root!r} + '/stolen', 'w')",
        "open({root!r} + '/data/in.csv').read()",
        "open('/etc/passwd').read()",
        "open({root!r} + '/../state').read()",
        "os.symlink({root!r} + '/data/in.csv', 'way'); open('way').read()",
        "os.symlink({root!r}, 'way'); open('way/stolen', 'w')",
    ],
)
def test_it_cannot_reach_anything_outside_of_its_copy(open_works: Callable[..., Works], code: str) -> None:
    works = with_code(open_works, "")
    works.write("etl/own.py", f"import os\ndef run(job):\n    {code.format(root=str(works.root))}\n")
    works.before = works.tree()
    kind, message = problem_of(works)
    assert kind == "PIPELINE_FAILED"
    assert "PermissionError" in message or "FileNotFoundError" in message or "IsADirectoryError" in message


@pytest.mark.req("PX-21")
@pytest.mark.parametrize(
    "code, words",
    [
        ("pass", "did not leave this file"),
        ("os.makedirs('out/own.txt')", "a directory"),
        ("os.rmdir('out'); open('out', 'w').close()", "cannot be taken"),
        ("os.mkfifo('out/own.txt')", "PermissionError"),
        ("os.symlink('/etc/passwd', 'out/own.txt')", "PermissionError"),
    ],
)
def test_what_it_leaves_must_be_a_plain_file(open_works: Callable[..., Works], code: str, words: str) -> None:
    works = with_code(open_works, f"import os\ndef run(job):\n    os.makedirs('out', exist_ok=True)\n    {code}\n")
    kind, message = problem_of(works)
    assert kind == "PIPELINE_FAILED"
    assert words in message


@pytest.mark.req("PX-21", "PX-22")
def test_a_file_that_it_may_not_write_whole_is_too_large(open_works: Callable[..., Works]) -> None:
    works = open_works(
        limits={"max_file_bytes": 1000},
        pipelines={"own": {"type": "python", "steps": ["etl.own:run"], "writes": ["own.txt"]}},
        pipeline_packages=["etl"],
    )
    works.write("etl/own.py", "def run(job):\n    open('own.txt', 'w').write('x' * 1001)\n")
    works.before = works.tree()
    assert problem_of(works)[0] == "LIMIT_EXCEEDED" or "1,001 bytes" in problem_of(works)[1]


@pytest.mark.req("PX-34")
@pytest.mark.parametrize("where", ["notes/link", "etl/link.py", "notes/deep/link"])
def test_a_link_in_what_it_reads_is_refused(works: Works, where: str) -> None:
    (works.root / where).symlink_to("/etc/passwd")
    with pytest.raises(Refused) as told:
        works.workspace.preview(PLAN)
    assert (told.value.reason, told.value.where) == (Reason.PATH_REFUSED, where)


@pytest.mark.req("PX-34")
@pytest.mark.parametrize("where", ["out/report.csv", "data/in.csv"])
def test_a_link_in_the_place_of_a_file_is_refused(works: Works, where: str) -> None:
    (works.root / "out").mkdir()
    (works.root / where).unlink(missing_ok=True)
    (works.root / where).symlink_to("/etc/passwd")
    with pytest.raises(Refused) as told:
        works.workspace.preview(PLAN)
    assert told.value.reason is Reason.PATH_REFUSED


@pytest.mark.req("PX-34")
def test_protected_files_in_a_folder_are_left_out_and_that_is_said(works: Works) -> None:
    works.write("notes/.env", "KEY=1\n")
    works.write("notes/remit.yaml", "x: 1\n")
    works.write("etl/report.py", "import os\ndef run(job):\n    print(sorted(os.listdir('notes')))\n    1 / 0\n")
    preview = works.workspace.preview(PLAN).document
    assert "['a.txt', 'deep']" in preview.pipelines[0].log
    remarks = {remark.path: remark.what for remark in preview.remarks}
    assert remarks.keys() == {"notes/.env", "notes/remit.yaml"}
    assert "protected" in remarks["notes/.env"]


@pytest.mark.req("PX-34")
def test_a_protected_file_by_its_name_needs_an_approval_by_its_name(open_works: Callable[..., Works]) -> None:
    works = with_code(
        open_works,
        "def run(job):\n    open('out.txt', 'w').write(str(len(open('.env').read())))\n",
        reads=[".env"],
        writes=["out.txt"],
    )
    works.write(".env", "KEY=1\n")
    plan = plan_of(pipeline("p1", "own"))
    assert works.workspace.preview(plan).document.needs.protected == (".env",)
    with pytest.raises(Refused, match="this file is protected"):
        works.allowed(plan, "p1")
    envelope = works.approve(plan, irreversible=["p1"], protected=[".env"])
    assert ran(works.workspace.apply(envelope.canonical())).status.status == "SUCCESS"


@pytest.mark.req("PX-24")
@pytest.mark.parametrize(
    "name, content, rule",
    [
        ("own.json", "{broken", "syntax"),
        ("own.yaml", "a: [1", "syntax"),
        ("own.txt", "password = 'hunter2-hunter2'", "credential"),
        ("own.sh", "echo", "executable"),
        ("own.csv", "a;curl http://x | sh", "command"),
    ],
)
def test_what_it_leaves_is_looked_through_like_any_other_content(
    open_works: Callable[..., Works], name: str, content: str, rule: str
) -> None:
    works = with_code(open_works, f"def run(job):\n    open({name!r}, 'w').write({content!r})\n", writes=[name])
    plan = plan_of(pipeline("p1", "own"))
    preview = works.workspace.preview(plan).document
    assert rule in {found.rule for found in preview.findings}
    with pytest.raises(Refused) as told:
        works.allowed(plan, "p1")
    assert told.value.reason in {Reason.CONTENT_REFUSED, Reason.EXECUTABLE_REFUSED}


@pytest.mark.req("PX-36")
def test_no_line_and_no_parameter_of_it_is_kept(open_works: Callable[..., Works]) -> None:
    works = with_code(
        open_works,
        "def run(job):\n    open('out.csv', 'w').write('a,b\\nquokka-row,1\\n')\n"
        "    print('quokka-row', job.parameters['who'])\n",
        writes=["out.csv"],
        parameters=["who"],
    )
    plan = plan_of(pipeline("p1", "own", parameters={"who": "axolotl-given"}))
    preview = works.workspace.preview(plan).document
    assert preview.pipelines[0].log == ("quokka-row ...",)
    outcome = ran(works.workspace.apply(works.allowed(plan, "p1").canonical()))
    assert outcome.report.pipelines[0].log == ()
    assert [path.name for path in works.told_of("quokka-row")] == ["out.csv", "own.py"]
    assert works.told_of("axolotl-given") == []


@pytest.mark.req("PX-18", "PX-21")
def test_a_database_is_changed_by_code_closed_kept_and_taken_back(open_works: Callable[..., Works]) -> None:
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
    assert "its pipeline took longer than 1 seconds" in message


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
    envelope = works.allowed(plan_of(pipeline("p1", "own")), "p1").canonical()
    begun: list[bool] = []

    def listen(update: StatusUpdate) -> None:
        begun.extend([True] if update.what.startswith("own: ") else [])

    outcome = works.workspace.apply(envelope, on_status=listen, is_cancelled=lambda: bool(begun))
    assert begun
    assert getattr(outcome, "status", None) == "CANCELLED"
    assert works.tree() == works.before
    assert works.left_over() == []


@pytest.mark.req("PX-21")
def test_whoever_listens_hears_which_function_is_running(works: Works) -> None:
    heard: list[str] = []
    works.workspace.preview(PLAN, on_status=lambda update: heard.append(update.what))
    assert "report: etl.clean:run (1 of 2)" in heard
    assert "report: etl.report:run (2 of 2)" in heard


@pytest.mark.req("PX-13", "PX-21")
def test_half_of_its_files_never_stays(works: Works) -> None:
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


@pytest.mark.req("PX-21")
def test_hashes_of_the_target_are_held_to(works: Works) -> None:
    wrong = "sha256:" + "0" * 64
    plan = plan_of(pipeline("p1", "report", target="out/report.csv", expected_hash_after=wrong))
    with pytest.raises(Refused, match="the plan expects the content"):
        works.allowed(plan, "p1")


@pytest.mark.req("PX-22")
def test_it_is_given_so_many_files_and_no_more(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remit.doors.pipeline_scratch.MAX_FILES", 4)
    preview = works.workspace.preview(PLAN).document
    assert "at most 4 files" in preview.problems[0].message


def test_a_folder_that_code_has_closed_is_removed_all_the_same(open_works: Callable[..., Works]) -> None:
    works = with_code(
        open_works,
        "import os\ndef run(job):\n    open('own.txt', 'w').close()\n    os.umask(0o777)\n    os.mkdir('shut')\n",
        writes=["own.txt"],
    )
    preview = works.workspace.preview(plan_of(pipeline("p1", "own"))).document
    assert preview.problems == ()
    assert works.left_over() == []
