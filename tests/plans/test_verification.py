"""After the run: every file is looked at again, and the plan's rules are checked; what does not hold is taken back."""

import os
from typing import Any

import pytest

from tests.plans.project import Project, action, at_phase, create, delete, digest_of, plan_of, ran, replace

SCHEMA = {"type": "object", "required": ["name"]}
HOLDS: dict[str, dict[str, Any]] = {
    "file_exists": {"type": "file_exists", "path": "made.json"},
    "file_absent": {"type": "file_absent", "path": "gone.txt"},
    "hash": {"type": "hash", "path": "a.txt", "digest": digest_of("one\nTWO\nthree\n")},
    "json_schema": {"type": "json_schema", "path": "made.json", "schema": SCHEMA},
    "json_schema file": {"type": "json_schema", "path": "made.json", "schema_file": "schemas/s.json"},
    "json_path": {"type": "json_path", "path": "made.json", "expression": "$.name", "expected": "x"},
}
FAILS: dict[str, dict[str, Any]] = {
    "file_exists": {"type": "file_exists", "path": "gone.txt"},
    "file_absent": {"type": "file_absent", "path": "./made.json"},
    "hash": {"type": "hash", "path": "a.txt", "digest": digest_of("one\ntwo\nthree\n")},
    "json_schema": {"type": "json_schema", "path": "made.json", "schema": {"required": ["other"]}},
    "json_schema file": {"type": "json_schema", "path": "schemas/s.json", "schema_file": "schemas/s.json"},
    "json_schema missing": {"type": "json_schema", "path": "made.json", "schema_file": "schemas/none.json"},
    "json_path": {"type": "json_path", "path": "made.json", "expression": "$.name", "expected": "y"},
    "json_path none": {"type": "json_path", "path": "made.json", "expression": "$.none", "expected": "y"},
}


def plan(rule: dict[str, Any]) -> bytes:
    return plan_of(
        replace("a", "a.txt"), create("b", "made.json", '{"name": "x"}\n'), delete("c", "gone.txt"), rules=[rule]
    )


def seed(project: Project) -> None:
    project.write("a.txt")
    project.write("gone.txt")
    project.write("schemas/s.json", '{"type": "object", "required": ["name"]}\n')


@pytest.mark.req("PX-11")
@pytest.mark.parametrize("name", HOLDS)
def test_a_rule_that_holds_lets_the_plan_succeed(project: Project, name: str) -> None:
    seed(project)
    outcome = project.apply(plan(HOLDS[name]))
    assert outcome.status.status == "SUCCESS", outcome.errors


@pytest.mark.req("PX-11", "PX-15")
@pytest.mark.parametrize("name", FAILS)
def test_a_rule_that_does_not_hold_undoes_everything(project: Project, name: str) -> None:
    seed(project)
    before = project.tree()
    outcome = project.apply(plan(FAILS[name]))
    assert outcome.status.status == "ROLLED_BACK"
    assert [(error.error_code, error.recovery_action) for error in outcome.errors] == [(1201, "ROLLED_BACK")]
    assert outcome.report.actions_summary.completed == 3
    assert project.tree() == before
    assert not list(project.root.rglob(".remit-*"))


@pytest.mark.req("PX-11")
def test_a_failed_rule_undoes_the_plan_even_where_the_flags_would_keep_it(project: Project) -> None:
    seed(project)
    before = project.tree()
    raw = plan_of(replace("a", "a.txt"), rules=[FAILS["file_exists"] | {"path": "none"}], rollback_on_failure=False)
    assert project.apply(raw).status.status == "ROLLED_BACK"
    assert project.tree() == before


@pytest.mark.req("PX-11")
@pytest.mark.parametrize("field, code", [("expected_hash_before", 2003), ("expected_hash_after", 2003)])
def test_an_expected_hash_that_is_not_met_is_found_before_anything_is_touched(
    project: Project, field: str, code: int
) -> None:
    project.write("a.txt")
    raw = plan_of(replace("a", "a.txt", **{field: digest_of("other")}))
    document = project.workspace.preview(raw).document
    assert document.status == "WOULD_FAIL"
    assert [problem.error_code for problem in document.problems] == [code]


@pytest.mark.req("PX-11")
def test_expected_hashes_that_are_met_let_the_plan_succeed(project: Project) -> None:
    project.write("a.txt")
    edit = replace(
        "a",
        "a.txt",
        expected_hash_before=digest_of("one\ntwo\nthree\n"),
        expected_hash_after=digest_of("one\nTWO\nthree\n"),
    )
    whole = action(
        "b",
        "FILE_MODIFY",
        "a.txt",
        {"type": "replace_content", "content": "all new\n", "mode": "0755"},
        expected_hash_before=digest_of("one\nTWO\nthree\n"),
    )
    envelope = project.approve(plan_of(edit, whole), executable=["a.txt"])
    assert ran(project.workspace.apply(envelope.canonical())).status.status == "SUCCESS"
    assert project.read("a.txt") == "all new\n"


@pytest.mark.req("PX-11")
def test_a_file_that_was_removed_behind_its_back_is_noticed(project: Project) -> None:
    project.write("a.txt")
    envelope = project.approve(plan_of(replace("a", "a.txt"), create("b", "b.txt"))).canonical()
    before = project.tree()
    spoil = at_phase("VERIFYING", (project.root / "b.txt").unlink)
    outcome = ran(project.workspace.apply(envelope, on_status=spoil))
    assert outcome.status.status == "ROLLED_BACK"
    assert [error.error_code for error in outcome.errors] == [2003]
    assert project.tree() == before


@pytest.mark.req("PX-11")
def test_bytes_that_another_process_wrote_to_the_old_file_meanwhile_are_kept(project: Project) -> None:
    """He had it open before it was replaced: his bytes would go with the old file."""
    file = project.write("a.txt")
    envelope = project.approve(plan_of(replace("a", "a.txt"))).canonical()
    with file.open("ab") as theirs:

        def write() -> None:
            theirs.write(b"theirs\n")
            theirs.flush()

        outcome = ran(project.workspace.apply(envelope, on_status=at_phase("VERIFYING", write)))
    assert outcome.status.status == "ROLLED_BACK"
    assert project.read("a.txt") == "one\ntwo\nthree\ntheirs\n"


@pytest.mark.req("PX-28")
def test_an_equal_file_that_another_process_made_is_not_taken_for_the_plans_own(project: Project) -> None:
    """The plan never came to its file; that it looks like the plan's own work does not make it so."""
    project.write("a.txt")
    project.write("b.txt")
    envelope = project.approve(plan_of(replace("a1", "a.txt"), replace("a2", "b.txt"))).canonical()

    def make_the_same() -> None:
        project.write("b.new", "one\nTWO\nthree\n")
        os.replace(project.root / "b.new", project.root / "b.txt")

    outcome = ran(project.workspace.apply(envelope, on_status=at_phase("RUNNING", make_the_same)))
    assert outcome.status.status in {"FAILED", "ROLLED_BACK"}
    assert project.read("a.txt") == "one\ntwo\nthree\n"
    assert project.read("b.txt") == "one\nTWO\nthree\n"
    assert project.workspace.recover() == []
