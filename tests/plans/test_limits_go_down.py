"""Limits go down only: a request may ask for less than the config allows, and never gets more."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from remit.authority.capability_token import TokenRequest
from remit.authority.envelope import issue_envelope
from remit.contracts.browser.browser import TokenConstraints
from remit.contracts.plans.plan import Plan
from remit.contracts.registry import load_schema
from remit.core.errors import Reason, RefusedError
from remit.crypto.keyring import load_signer
from remit.plans.policy.required_approvals import NO_APPROVALS
from remit.plans.runtime.steps import times_of
from tests.cli.conftest import Remit, remit
from tests.plans.project import Project, action, create, plan_of, refused

__all__ = ["remit"]

CONFIG: Final[dict[str, Any]] = {
    "timeouts": {"file_operation": 7, "schema_update": 6, "sql": 5, "pipeline": 9, "task": 8},
    "connections": {"memory": {"type": "duckdb"}, "file": {"type": "duckdb", "path": "d.duckdb"}},
    "pipelines": {
        "slow": {"type": "sql", "connection": "file", "steps": ["q.sql"]},
        "own": {"type": "sql", "connection": "file", "steps": ["q.sql"], "timeout_seconds": 3},
    },
}
KINDS: Final[dict[str, tuple[str, str, dict[str, Any], int, str]]] = {
    "create": ("FILE_CREATE", "b.txt", {"type": "write", "content": "x"}, 7, "timeouts.file_operation"),
    "modify": (
        "FILE_MODIFY",
        "a.txt",
        {"type": "text_replace", "pattern": "two", "replacement": "2"},
        7,
        "timeouts.file_operation",
    ),
    "delete": ("FILE_DELETE", "a.txt", {"type": "delete"}, 7, "timeouts.file_operation"),
    "rename": ("FILE_RENAME", "a.txt", {"type": "rename", "new_path": "c.txt"}, 7, "timeouts.file_operation"),
    "schema": (
        "SCHEMA_UPDATE",
        "s.json",
        {"type": "json_update_value", "path": "$.type", "value": "array"},
        6,
        "timeouts.schema_update",
    ),
    "sql": (
        "SQL_EXECUTE",
        "",
        {"type": "sql_execute", "connection": "memory", "query": "SELECT 1", "save_results_to": "rows.csv"},
        5,
        "timeouts.sql",
    ),
    "pipeline": (
        "PIPELINE_RUN",
        "",
        {"type": "pipeline_run", "pipeline": "slow", "parameters": {}},
        9,
        "timeouts.pipeline",
    ),
    "own pipeline": (
        "PIPELINE_RUN",
        "",
        {"type": "pipeline_run", "pipeline": "own", "parameters": {}},
        3,
        "pipelines.own.timeout_seconds",
    ),
}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path, **CONFIG)
    made.write("a.txt")
    made.write("s.json", '{"type": "object"}\n')
    made.write("q.sql", "SELECT 1;\n")
    yield made
    made.close()


def one(kind: str, seconds: int | None = None) -> dict[str, Any]:
    action_type, target, operation, _, _ = KINDS[kind]
    made = action("a", action_type, target, operation, **({} if seconds is None else {"timeout_seconds": seconds}))
    return {name: value for name, value in made.items() if name != "target" or value} | {"reversible": True}


@pytest.mark.req("PV-06")
@pytest.mark.parametrize("kind", KINDS)
def test_an_action_gets_at_most_the_time_that_the_config_allows(project: Project, kind: str) -> None:
    _, _, _, most, setting = KINDS[kind]
    for asked, effective in ((None, most), (most, most), (most - 1, most - 1)):
        plan = Plan.parse(plan_of(one(kind, asked)))
        assert set(times_of(plan, project.workspace.config).paces) <= {float(effective)}
        project.workspace.preview(plan.canonical())
    with pytest.raises(RefusedError) as caught:
        project.workspace.preview(plan_of(one(kind, most + 1)))
    assert caught.value.reason is Reason.LIMIT_EXCEEDED
    assert f"asks for {most + 1} seconds, and {setting} in remit.yaml allows {most}" in caught.value.what
    above = Plan.parse(plan_of(one(kind, most + 1)))
    assert set(times_of(above, project.workspace.config).paces) <= {float(most)}


@pytest.mark.req("PV-06")
def test_a_plan_gets_at_most_the_time_that_the_config_allows_also_under_a_signature(project: Project) -> None:
    assert times_of(Plan.parse(plan_of(create("a", "b.txt"))), project.workspace.config).seconds == 8
    project.workspace.preview(plan_of(create("a", "b.txt"), timeout_seconds=8))
    above = plan_of(create("a", "b.txt"), timeout_seconds=9)
    with pytest.raises(RefusedError, match=r"asks for 9 seconds, and timeouts.task in remit.yaml allows 8"):
        project.workspace.preview(above)
    workspace = project.workspace
    signer = load_signer(workspace.state.keys, "protocol")
    envelope = issue_envelope(signer, Plan.parse(above), workspace.config.digest(), (), NO_APPROVALS, project.clock())
    assert "timeouts.task" in refused(workspace.apply(envelope.canonical()))[1]
    assert not (project.root / "b.txt").exists()


@pytest.mark.req("PV-06")
def test_the_command_line_refuses_it_and_names_the_setting(remit: Remit, tmp_path: Path) -> None:
    assert remit("init").code == 0
    folder = tmp_path / "project"
    (folder / "remit.yaml").write_text(json.dumps({"version": 1, "timeouts": {"file_operation": 7}}))
    (folder / "plan.json").write_bytes(plan_of(create("a", "b.txt") | {"timeout_seconds": 60}))
    ran = remit("preview", "plan.json")
    assert ran.code == 2
    assert "timeouts.file_operation" in " ".join((ran.out + ran.err).split())


@pytest.mark.req("PV-06")
def test_a_life_above_its_maximum_is_refused(project: Project) -> None:
    """The lives of authority have a fixed maximum; no setting and no request lifts it."""
    workspace = project.workspace
    with pytest.raises(RefusedError):
        workspace.approve(plan_of(create("a", "b.txt")), life=timedelta(days=7, seconds=1))
    with pytest.raises(RefusedError):
        workspace.tokens.issue(
            TokenRequest("bot", ("plan.propose",), TokenConstraints(), timedelta(days=31, seconds=1))
        )
    manifest = {"task_id": "t", "capability_id": "NO_EFFECT", "inputs": {}, "constraints": {"reversible": True}}
    with pytest.raises(RefusedError):
        workspace.tasks.issue_lease(json.dumps(manifest).encode(), timedelta(hours=1, seconds=1))


LOOK_LIKE_LIMITS: Final = ("seconds", "max_", "limit", "timeout", "bytes")
REQUESTS: Final = {"plan": {"timeout_seconds"}, "task-manifest": set(), "browser-action": set()}


@pytest.mark.req("PV-06")
@pytest.mark.parametrize("name", REQUESTS)
def test_no_request_names_a_limit_that_is_not_walked_here(name: str) -> None:
    def fields(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            yield from node.get("properties", {})
            for value in node.values():
                yield from fields(value)
        elif isinstance(node, list):
            for item in node:
                yield from fields(item)

    found = {each for each in fields(load_schema(name)) if any(word in each for word in LOOK_LIKE_LIMITS)}
    assert found == REQUESTS[name]
