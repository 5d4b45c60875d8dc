"""Which plans execute something in their preview, by their text and the configuration."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.plan import Plan
from remit.plans.policy.executes import executes_something
from tests.plans.project import create, plan_of, replace
from tests.plans.sql.shop import sql

pytestmark = pytest.mark.req("PV-02")
CONNECTIONS = {
    "file": {"type": "duckdb", "path": "data/shop.duckdb"},
    "memory": {"type": "duckdb"},
    "server": {"type": "postgresql", "url_variable": "SHOP_URL", "preview": "execute"},
}
PIPELINES = {
    "local": {"type": "sql", "connection": "file", "steps": ["a.sql"]},
    "remote": {"type": "sql", "connection": "server", "steps": ["a.sql"]},
    "code": {"type": "python", "steps": ["etl.clean:run"], "writes": ["out.csv"]},
    "models": {"type": "dbt", "project": "dbt", "connection": "file"},
}
CONFIG = SystemConfig.from_tree({"version": 1, "connections": CONNECTIONS, "pipelines": PIPELINES})


def run(pipeline: str) -> dict[str, Any]:
    operation = {"type": "pipeline_run", "pipeline": pipeline}
    return {"action_id": "p", "action_type": "PIPELINE_RUN", "operation": operation, "reversible": False}


def expect(connection: str) -> dict[str, Any]:
    return {"type": "sql_expect", "query": "SELECT 1", "connection": connection, "expected": [[1]]}


def set_preview(value: str) -> SystemConfig:
    """A configuration whose server has this setting."""
    connection = CONFIG.connections["server"].model_copy(update={"preview": value})
    return CONFIG.model_copy(update={"connections": {**CONFIG.connections, "server": connection}})


def parse(*actions: dict[str, Any], rules: Sequence[dict[str, Any]] = ()) -> Plan:
    return Plan.parse(json.dumps({**json.loads(plan_of(*actions)), "validation_rules": rules}).encode())


def test_edits_of_files_execute_nothing() -> None:
    rule = {"type": "file_exists", "path": "a.txt"}

    assert not executes_something(parse(create("a", "a.txt"), replace("b", "b.txt")), CONFIG)
    assert not executes_something(parse(create("a", "a.txt"), rules=[rule]), CONFIG)


def test_sql_pipelines_and_rules_with_queries_execute_something() -> None:
    for connection in ("file", "memory", "server", "unknown"):
        assert executes_something(parse(create("a", "a.txt"), sql("s", "SELECT 1", connection=connection)), CONFIG)
        rule = expect(connection)
        assert executes_something(parse(create("a", "a.txt"), rules=[rule]), CONFIG), connection
    for pipeline in (*PIPELINES, "unknown"):
        assert executes_something(parse(create("a", "a.txt"), run(pipeline)), CONFIG), pipeline


def test_a_server_whose_statements_are_not_executed_in_a_preview_executes_nothing() -> None:
    on_server = (
        parse(sql("s", "UPDATE t SET a = 1", connection="server")),
        parse(run("remote")),
        parse(create("a", "a.txt"), rules=[expect("server")]),
    )
    for value, expected in (("execute", True), ("explain", False), ("off", False)):
        for plan in on_server:
            assert executes_something(plan, set_preview(value)) is expected, (value, plan)
        assert executes_something(parse(run("code")), set_preview(value))
        assert executes_something(parse(sql("s", "SELECT 1", connection="file"), run("remote")), set_preview(value))
