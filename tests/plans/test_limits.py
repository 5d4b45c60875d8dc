"""How much a plan may do, and how long it may take."""

from pathlib import Path
from typing import Any

import pytest

from remit.core.errors import Reason, RefusedError
from tests.plans.project import Project, action, create, plan_of, ran, refused, replace

SLOW = "(x+x+)+y"


@pytest.mark.req("PX-26")
def test_a_hundred_files_and_not_one_more(project: Project) -> None:
    plan = plan_of(*(create(f"a{n}", f"dir/{n}.txt") for n in range(100)))
    assert project.apply(plan).status.status == "SUCCESS"
    with pytest.raises(RefusedError, match="101 files, and 100 are allowed") as caught:
        project.workspace.preview(plan_of(*(create(f"a{n}", f"other/{n}.txt") for n in range(101))))
    assert caught.value.reason is Reason.LIMIT_EXCEEDED


@pytest.mark.req("PX-26")
@pytest.mark.parametrize("limit", ["max_file_bytes", "max_backup_bytes"])
def test_large_files_are_refused(tmp_path: Path, limit: str) -> None:
    project = Project(tmp_path, limits={limit: 1_000})
    project.write("a.txt", "two\n" + "x" * 1_000)
    plan = plan_of(replace("a", "a.txt"))
    if limit == "max_file_bytes":
        assert [problem.error_code for problem in project.workspace.preview(plan).document.problems] == [1008]
    else:
        before = project.tree()
        assert refused(project.workspace.apply(project.approve(plan).canonical()))[0] == 1008
        assert project.tree() == before
    project.close()


@pytest.mark.req("PX-26")
def test_a_result_that_would_grow_past_the_limit_is_a_problem(tmp_path: Path) -> None:
    project = Project(tmp_path, limits={"max_file_bytes": 1_000})
    project.write("a.txt", "a" * 500)
    document = project.workspace.preview(plan_of(replace("a", "a.txt", "a", "aaa"))).document
    assert [problem.error_code for problem in document.problems] == [1008]
    project.close()


@pytest.mark.req("PX-26")
@pytest.mark.parametrize("lanes", [1, 2])
def test_a_plan_succeeds_with_fewer_parallel_actions_where_configured(tmp_path: Path, lanes: int) -> None:
    project = Project(tmp_path, limits={"max_concurrent_operations": lanes})
    plan = plan_of(*(create(f"a{n}", f"d{n}/f.txt") for n in range(6)), execution_order="parallel")
    assert project.apply(plan).status.status == "SUCCESS"
    project.close()


@pytest.mark.req("PX-25")
@pytest.mark.parametrize(
    "kind, most", [("FILE_CREATE", 120), ("FILE_MODIFY", 120), ("SCHEMA_UPDATE", 60)], ids=["file", "edit", "schema"]
)
def test_no_plan_can_ask_for_more_time_than_there_is(project: Project, kind: str, most: int) -> None:
    operations: dict[str, dict[str, Any]] = {
        "FILE_CREATE": {"type": "write", "content": "x"},
        "FILE_MODIFY": {"type": "text_replace", "pattern": "a", "replacement": "b"},
        "SCHEMA_UPDATE": {"type": "json_update_value", "path": "$", "value": {}},
    }
    with pytest.raises(RefusedError, match="timeout_seconds"):
        project.workspace.preview(plan_of(action("a", kind, "a.json", operations[kind], timeout_seconds=most + 1)))
    with pytest.raises(RefusedError, match="timeout_seconds"):
        project.workspace.preview(plan_of(create("a", "a.txt"), timeout_seconds=3_601))


@pytest.mark.req("PX-25")
def test_a_plan_whose_time_is_over_is_undone(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the host is moved on between two waves."""
    project.write("a.txt", "0\n")
    plan = plan_of(*(replace(f"a{n}", "a.txt", f"{n}", f"{n + 1}") for n in range(3)), timeout_seconds=60)
    envelope = project.approve(plan).canonical()
    before = project.tree()
    moved = [0.0]
    real = __import__("time").monotonic
    monkeypatch.setattr("remit.plans.runtime.progress.time.monotonic", lambda: real() + moved[0])

    def on_progress(_done: int, _total: int) -> None:
        moved[0] = 61.0

    outcome = ran(project.workspace.apply(envelope, on_progress=on_progress))
    assert outcome.status.status == "ROLLED_BACK"
    assert [error.error_code for error in outcome.errors] == [5001]
    assert project.tree() == before


@pytest.mark.req("PX-25", "PX-22")
def test_a_step_that_takes_too_long_is_killed_and_named(project: Project) -> None:
    """Ten thousand nested wildcards in a JSONPath, on a document that has many answers: found at the preview."""
    document = "[" * 60 + "]" * 60
    project.write("a.json", document)
    bomb = {"type": "json_update_value", "path": "$" + "..*" * 12, "value": 1}
    plan = plan_of(action("slow", "FILE_MODIFY", "a.json", bomb, timeout_seconds=1))
    with pytest.raises(RefusedError) as caught:
        project.approve(plan)
    assert caught.value.reason in {Reason.TIMED_OUT, Reason.RESOURCE_EXHAUSTED, Reason.EDIT_AMBIGUOUS}
    assert project.read("a.json") == document
