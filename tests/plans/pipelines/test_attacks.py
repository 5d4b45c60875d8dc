"""Code that does more than it is to, or leaves what it should not: nothing of it reaches the project unseen."""

from collections.abc import Callable

import pytest

from remit.core.errors import Reason, RefusedError
from tests.plans.pipelines.pipeline_project import Works, pipeline, problem_of, with_code
from tests.plans.project import plan_of, ran

PLAN = plan_of(pipeline("p1", "report", parameters={"greeting": "hello"}))
WRITES = ("out/report.csv", "out/summary.json")


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
        ("pass", "did not write this file"),
        ("os.makedirs('out/own.txt')", "a directory"),
        ("os.rmdir('out'); open('out', 'w').close()", "cannot be used"),
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
    with pytest.raises(RefusedError) as told:
        works.workspace.preview(PLAN)
    assert (told.value.reason, told.value.where) == (Reason.PATH_REFUSED, where)


@pytest.mark.req("PX-34")
@pytest.mark.parametrize("where", ["out/report.csv", "data/in.csv"])
def test_a_link_in_the_place_of_a_file_is_refused(works: Works, where: str) -> None:
    (works.root / "out").mkdir()
    (works.root / where).unlink(missing_ok=True)
    (works.root / where).symlink_to("/etc/passwd")
    with pytest.raises(RefusedError) as told:
        works.workspace.preview(PLAN)
    assert told.value.reason is Reason.PATH_REFUSED


@pytest.mark.req("PX-34")
def test_protected_files_in_a_folder_are_left_out_and_reported(works: Works) -> None:
    works.write("notes/.env", "KEY=1\n")
    works.write("notes/remit.yaml", "x: 1\n")
    for number in range(5):
        works.write(f"notes/.git/objects/{number}", "x\n")
    works.write("etl/report.py", "import os\ndef run(job):\n    print(sorted(os.listdir('notes')))\n    1 / 0\n")
    preview = works.workspace.preview(PLAN).document
    assert "['a.txt', 'deep']" in preview.pipelines[0].log
    remarks = {remark.path: remark.what for remark in preview.remarks}
    assert remarks.keys() == {"notes/.env", "notes/remit.yaml", "notes/.git"}
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
    with pytest.raises(RefusedError, match="this file is protected"):
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
    with pytest.raises(RefusedError) as told:
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
    assert sorted(path.name for path in works.told_of("quokka-row")) == ["out.csv", "own.py"]
    assert works.told_of("axolotl-given") == []


@pytest.mark.req("PX-22")
def test_a_pipeline_gets_a_limited_number_of_files(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remit.plans.preparation.pipeline_scratch.MAX_FILES", 4)
    preview = works.workspace.preview(PLAN).document
    assert "at most 4 files" in preview.problems[0].message


def test_a_folder_that_code_made_inaccessible_is_still_removed(open_works: Callable[..., Works]) -> None:
    works = with_code(
        open_works,
        "import os\ndef run(job):\n    open('own.txt', 'w').close()\n    os.umask(0o777)\n    os.mkdir('shut')\n",
        writes=["own.txt"],
    )
    preview = works.workspace.preview(plan_of(pipeline("p1", "own"))).document
    assert preview.problems == ()
    assert works.left_over() == []
