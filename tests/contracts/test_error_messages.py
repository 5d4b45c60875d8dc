"""What is wrong with a document is said in our words: the field, what is allowed there, and what to do."""

import json
from typing import Any

import pytest

from remit.contracts.plans.envelope import Envelope
from remit.contracts.plans.plan import Plan
from remit.contracts.tasks.task import TaskManifest
from remit.core.errors import RefusedError

ACTION: dict[str, Any] = {
    "action_id": "a1",
    "action_type": "FILE_CREATE",
    "target": "x",
    "operation": {"type": "write", "content": "new"},
}


def refused(document: Any, contract: Any = Plan, source: str = "plan.json") -> RefusedError:
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    with pytest.raises(RefusedError) as caught:
        contract.parse(raw, source=source)
    return caught.value


def plan(**changes: Any) -> dict[str, Any]:
    return {"plan_id": "p", "action_plan": [ACTION | changes]}


def test_a_wrong_field_is_named_with_what_is_allowed(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        ({"action_type": "FILE_CREAT"}, "action_type", "most likely 'FILE_CREATE'"),
        ({"operation": {"type": "writ", "content": "x"}}, "operation.type", "this must be 'write'"),
        ({"operation": {"type": "write", "content": "x", "mode": "777"}}, "operation.mode", "'0644' or '0755'"),
        ({"target": ""}, "target", "this must not be empty"),
        ({"target": "x" * 5_000}, "target", "at most 4096 characters"),
        ({"timeout_seconds": 0}, "timeout_seconds", "this must be 1 or more"),
        ({"expected_hash_before": "abc"}, "expected_hash_before", "`sha256:` and 64 hex digits"),
        ({"risk_level": "low"}, "risk_level", "'LOW', 'MEDIUM', 'HIGH' or 'CRITICAL'"),
        ({"reversible": "yes"}, "reversible", "this must be true or false"),
    ]
    for changes, field, allowed in cases:
        with subtests.test(field):
            problem = refused(plan(**changes))
            assert problem.where == f"plan.json, $.action_plan[0].{field}"
            assert allowed in problem.what
            assert "should" not in problem.what
            assert "Input" not in problem.what
            assert problem.next_step == "Compare it with: remit schema plan"


def test_an_operation_of_another_action_names_this_action(subtests: pytest.Subtests) -> None:
    kinds = {"delete": "FILE_DELETE", "rename": "FILE_RENAME", "write": "FILE_CREATE", "sql_execute": "SQL_EXECUTE"}
    for operation, kind in kinds.items():
        with subtests.test(operation):
            problem = refused(plan(action_type="FILE_MODIFY", operation={"type": operation}))
            assert f"{operation!r} is the operation of the action {kind}" in problem.what
            assert "most likely" not in problem.what
    close = refused(plan(action_type="FILE_MODIFY", operation={"type": "line_delet"}))
    assert "most likely 'line_delete'" in close.what


def test_a_missing_kind_of_action_is_a_missing_field() -> None:
    problem = refused({"plan_id": "p", "action_plan": [{"action_id": "a1"}]})
    assert (problem.what, problem.where) == ("a required field is missing", "plan.json, $.action_plan[0].action_type")


@pytest.mark.req("PX-21")
def test_the_message_for_a_missing_reversible_says_what_to_write() -> None:
    action = {"action_id": "a1", "action_type": "PIPELINE_RUN", "operation": {"type": "pipeline_run", "pipeline": "p"}}
    problem = refused({"plan_id": "p", "action_plan": [action]})
    assert problem.where == "plan.json, $.action_plan[0].reversible"
    assert "false for a python or dbt pipeline" in problem.what
    assert 'Add `"reversible": false`' in problem.next_step
    both = refused({"plan_id": "p", "action_plan": [action], "more": 1})
    assert "remit schema plan" in both.next_step, "there is more to correct"


def test_a_guess_repeats_nothing_of_the_input() -> None:
    assert "s3cret" not in refused(plan(action_type="s3cret-FILE_CREATE")).what


def test_broken_json_says_where_and_what_to_do(subtests: pytest.Subtests) -> None:
    for text, told in [
        (b"", "the document is empty"),
        (b'{"plan_id": }', "a value is expected here"),
        (b'{"a": 1 "b": 2}', "a comma or a closing bracket is expected here"),
        (b'{"a" 1}', "a colon is expected after the key"),
        (b"{'a': 1}", "a key in double quotes is expected here"),
        (b"{} {}", "after the end of the document"),
        (b'{"a": "x\ny"}', "a line break or another control character"),
        (b'{"a": "\\q"}', "a backslash is followed by"),
        (b'{"a": "b}', "no closing quote"),
    ]:
        with subtests.test(told):
            problem = refused(text)
            assert told in problem.what
            assert "Expecting" not in problem.what
            assert problem.where.startswith("plan.json, ")
            assert "double quotes" in problem.next_step


def test_a_plan_in_place_of_an_envelope_is_named_in_the_message() -> None:
    problem = refused(plan(), Envelope)
    assert problem.what == "this is a plan, but an envelope is needed here"
    assert problem.next_step.endswith("remit approve plan.json -o envelope.json")
    envelope = {"envelope_id": "e", "plan": plan(), "signature": "s"}
    problem = refused(envelope, Plan, "-")
    assert problem.what == "this is an envelope, but a plan is needed here"
    assert problem.next_step.endswith("remit apply FILE")
    assert "a task manifest is needed" in refused(plan(), TaskManifest).what


def test_a_plan_with_a_field_too_many_is_still_a_plan() -> None:
    problem = refused(plan() | {"envelope_id": "e", "plan": 1, "signature": "s"})
    assert "not known here" in problem.what
