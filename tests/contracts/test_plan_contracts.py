"""The plan door: one meaning has one form, ceilings cannot be lifted, what is unclear is refused."""

from copy import deepcopy
from typing import Any

import jsonschema_rs
import pytest
from pydantic import BaseModel

from remit.contracts.config import config as config_module
from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.envelope import Envelope
from remit.contracts.plans.plan import Plan
from remit.contracts.schemas import load_schema
from remit.core.errors import RefusedError
from remit.parsing.yaml import parse_yaml
from tests.contracts.examples import BY_LABEL
from tests.contracts.plan_examples import FULL_CONFIG, FULL_PLAN, WORKED_EXAMPLE


def _plan_with(operation: Any, **changes: Any) -> dict[str, Any]:
    return {"plan_id": "p", "action_plan": [{**WORKED_EXAMPLE["action_plan"][0], "operation": operation, **changes}]}


def _with_details(plan: dict[str, Any]) -> dict[str, Any]:
    nested = deepcopy(plan)
    for action in nested["action_plan"]:
        operation = action["operation"]
        action["operation"] = {"type": operation.pop("type"), "details": operation}
    return nested


def test_worked_example_parses_as_written_with_careful_defaults() -> None:
    plan = Plan.from_tree(WORKED_EXAMPLE)
    instructions = plan.execution_instructions
    assert plan.action_plan[0].reversible is True
    assert plan.action_plan[0].depends_on == ()
    assert instructions.execution_order == "sequential"
    assert instructions.stop_on_error
    assert instructions.rollback_on_failure
    assert instructions.preserve_permissions
    assert instructions.verify_hashes


def test_parameters_under_details_mean_the_same_and_have_the_same_digest() -> None:
    nested = _with_details(FULL_PLAN)
    assert Plan.from_tree(nested) == Plan.from_tree(FULL_PLAN)
    assert Plan.from_tree(nested).digest() == Plan.from_tree(FULL_PLAN).digest()


def test_shipped_schema_accepts_parameters_under_details() -> None:
    jsonschema_rs.Draft202012Validator(load_schema("plan")).validate(_with_details(FULL_PLAN))


def test_unclear_or_foreign_operation_is_refused(subtests: pytest.Subtests) -> None:
    for operation in [
        {"type": "delete", "details": {}, "path": "x"},
        {"type": "json_remove_property", "key": "k", "details": {"path": "$"}},
        {"type": "json_remove_property", "details": {"path": "$", "key": "k", "type": "json_add_property"}},
        {"type": "json_remove_property", "details": {"details": {"path": "$", "key": "k"}}},
        {"type": "json_remove_property", "details": [["path", "$"], ["key", "k"]]},
        {"type": "json_remove_property", "details": {"path": "$", "key": "k", "surprise": 1}},
        {"details": {"type": "json_remove_property", "path": "$", "key": "k"}},
        {"type": "shell", "command": "true"},
        {"type": "write", "content": "x"},
        {"type": "line_delete", "start_line": 2, "end_line": 1},
        {"type": "line_insert", "line_number": 0, "content": ""},
        {"type": "replace_content"},
        {"type": "replace_content", "content": "a", "content_base64": "YQ=="},
        {"type": "replace_content", "content_base64": "YQ"},
        {"type": "replace_content", "content_base64": "Y Q=="},
        {"type": "replace_content", "content": "a", "mode": "4755"},
        {"type": "json_update_value", "path": "$.a", "value": 2**53},
    ]:
        with subtests.test(operation=operation):
            with pytest.raises(RefusedError) as refusal:
                Plan.from_tree(_plan_with(operation))
            assert "$.action_plan[0].operation" in refusal.value.where


def test_refusal_points_into_the_document_and_not_into_the_models() -> None:
    with pytest.raises(RefusedError) as refusal:
        Plan.from_tree(_plan_with({"type": "json_remove_property", "path": "$", "key": 5}))
    assert refusal.value.where == "Plan, $.action_plan[0].operation.key"


@pytest.mark.parametrize("query", [{}, {"query": "SELECT 1", "query_file": "q.sql"}])
def test_sql_needs_exactly_one_query(query: dict[str, str]) -> None:
    with pytest.raises(RefusedError):
        Plan.from_tree(_plan_with({"type": "sql_execute", **query}, action_type="SQL_EXECUTE"))


@pytest.mark.parametrize("claim", [{}, {"reversible": None}, {"reversible": 0}])
def test_pipeline_must_say_whether_it_can_be_undone(claim: dict[str, Any]) -> None:
    operation = {"type": "pipeline_run", "pipeline": "nightly"}
    with pytest.raises(RefusedError):
        Plan.from_tree(_plan_with(operation, action_type="PIPELINE_RUN", **claim))
    Plan.from_tree(_plan_with(operation, action_type="PIPELINE_RUN", reversible=False))


def test_two_actions_with_one_id_are_refused() -> None:
    action = WORKED_EXAMPLE["action_plan"][0]
    with pytest.raises(RefusedError, match="a001"):
        Plan.from_tree({"plan_id": "p", "action_plan": [action, action]})


def test_plan_without_actions_is_refused() -> None:
    with pytest.raises(RefusedError):
        Plan.from_tree({"plan_id": "p", "action_plan": []})


def test_plan_with_more_than_a_thousand_actions_is_refused() -> None:
    action = WORKED_EXAMPLE["action_plan"][0]
    actions = [{**action, "action_id": str(n)} for n in range(1001)]
    Plan.from_tree({"plan_id": "p", "action_plan": actions[:1000]})
    with pytest.raises(RefusedError):
        Plan.from_tree({"plan_id": "p", "action_plan": actions})


@pytest.mark.parametrize(
    "kind, ceiling",
    [("create", 120), ("edit-0", 120), ("delete", 120), ("rename", 120), ("schema", 60), ("sql", 300), ("pipe", 3600)],
)
def test_action_cannot_ask_for_more_time_than_its_ceiling(kind: str, ceiling: int) -> None:
    action = next(action for action in FULL_PLAN["action_plan"] if action["action_id"] == kind)
    Plan.from_tree({"plan_id": "p", "action_plan": [{**action, "timeout_seconds": ceiling}]})
    with pytest.raises(RefusedError):
        Plan.from_tree({"plan_id": "p", "action_plan": [{**action, "timeout_seconds": ceiling + 1}]})


def test_plan_cannot_ask_for_more_than_an_hour() -> None:
    with pytest.raises(RefusedError):
        Plan.from_tree({**WORKED_EXAMPLE, "execution_instructions": {"timeout_seconds": 3601}})


@pytest.mark.parametrize("status", ["PENDING", "approved", "REJECTED", True])
def test_envelope_that_is_not_approved_is_refused(status: Any) -> None:
    with pytest.raises(RefusedError):
        Envelope.from_tree({**BY_LABEL["envelope"].document, "status": status})


def test_least_configuration_has_the_promised_defaults_and_grants_nothing() -> None:
    config = SystemConfig.from_tree({"version": 1})
    assert config.sandbox == "required"
    assert config.limits.model_dump() == {
        "max_files": 100,
        "max_file_bytes": 50 << 20,
        "max_backup_bytes": 500 << 20,
        "max_concurrent_operations": 4,
        "max_memory_bytes": 512 << 20,
        "max_io_bytes": 1 << 30,
    }
    assert config.timeouts.model_dump() == {
        "file_operation": 30,
        "schema_update": 30,
        "sql": 60,
        "pipeline": 300,
        "task": 300,
    }
    assert ".git/**" in config.protected.critical
    assert "pyproject.toml" in config.protected.important
    assert "agent/agent_rules.md" in config.protected.agent_system
    assert (config.base_directories, config.connections, config.pipelines, config.tenants) == ((), {}, {}, {})


@pytest.mark.parametrize("section", ["limits", "timeouts"])
def test_no_setting_goes_past_its_maximum(section: str) -> None:
    model = SystemConfig.model_fields[section].annotation
    assert isinstance(model, type)
    assert issubclass(model, BaseModel)
    for name, rule in model.model_json_schema()["properties"].items():
        SystemConfig.from_tree({"version": 1, section: {name: rule["maximum"]}})
        for wrong in (rule["maximum"] + 1, 0, -1):
            with pytest.raises(RefusedError):
                SystemConfig.from_tree({"version": 1, section: {name: wrong}})


def test_configuration_can_add_protected_files_but_not_remove_the_built_in_ones() -> None:
    protected = SystemConfig.from_tree(
        {"version": 1, "protected": {"critical": ["vault/**"], "important": []}}
    ).protected
    assert {".git/**", ".env", "vault/**"} <= set(protected.critical)
    assert "setup.py" in protected.important


@pytest.mark.parametrize("version", [0, 2, True, 1.0, "1"])
def test_configuration_of_another_version_is_refused(version: Any) -> None:
    with pytest.raises(RefusedError):
        SystemConfig.from_tree({"version": version})


def test_configuration_reads_from_yaml() -> None:
    raw = b"version: 1\nroot: .\nbase_directories:\n  - /srv/inbox\ntimeouts: {sql: 10}\nsandbox: unsafe-none\n"
    config = SystemConfig.from_tree(parse_yaml(raw, SystemConfig.bounds, source="remit.yaml"))
    assert (config.timeouts.sql, config.sandbox, config.base_directories) == (10, "unsafe-none", ("/srv/inbox",))


def test_every_setting_says_what_it_is_for() -> None:
    models = [item for item in vars(config_module).values() if isinstance(item, type) and issubclass(item, BaseModel)]
    silent = [f"{m.__name__}.{name}" for m in models for name, field in m.model_fields.items() if not field.description]
    own = [name for name in silent if not name.startswith("Contract.")]
    assert own == []
    assert "SqlPipeline" in {model.__name__ for model in models}


def test_full_configuration_keeps_every_setting_it_was_given() -> None:
    assert SystemConfig.from_tree(FULL_CONFIG).tree() == FULL_CONFIG
