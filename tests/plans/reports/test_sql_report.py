"""What a report and a preview tell of SQL: counts and columns, bounded; no row in a report."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from remit.contracts.plans.report import ExecutionReport
from remit.contracts.plans.sql_report import MAX_COLUMNS_TOLD, SqlPreviewed
from remit.contracts.schemas import load_schema
from remit.effects.plans.steps import Result
from remit.plans.preparation.sql_preview import MAX_SHOWN_CHARACTERS, causes_of_sql, previewed_sql
from remit.plans.preview.document import RISKS
from remit.plans.reports.execution_report import build_report
from remit.plans.reports.truncate import MESSAGE_BYTES, truncate_sql
from tests.plans.reports.test_reports import ACTIONS, ENDED, STARTED, run_of
from tests.plans.storage.project import Project


def told(**changed: Any) -> SqlPreviewed:
    tree: dict[str, Any] = {
        "action_id": "a1",
        "connection": "shop",
        "database": "shop.duckdb",
        "changes_database": True,
        "statements": [
            {"number": 1, "kind": "UPDATE", "words": "updates t", "reads": ["t"], "writes": ["t"], "rows_changed": 3}
        ],
        "result_rows": 400,
        "columns": [{"name": "id", "type": "INTEGER"}, {"name": "password", "type": "VARCHAR"}],
        "rows": [["1", "opensesame"], ["mail me: somebody@example.com", None]],
    }
    return SqlPreviewed.from_tree(tree | changed)


def statement(kind: str, **more: Any) -> dict[str, Any]:
    return {"number": 1, "kind": kind, "words": "does it", "reads": [], "writes": ["t"], **more}


@pytest.mark.req("PX-18")
def test_a_report_has_statements_counts_and_columns_and_no_row(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    for name in "abc":
        project.write(name, b"before")
    done = project.run_plan(ACTIONS)
    report = build_report(run_of(project, done, sql={0: told()}))
    (shown,) = report.tree()["sql"]
    assert (shown["statements"][0]["rows_changed"], shown["result_rows"]) == (3, 400)
    assert [column["name"] for column in shown["columns"]] == ["id", "password"]
    assert "rows" not in shown
    assert "opensesame" not in report.canonical().decode()
    assert ExecutionReport.parse(report.canonical()) == report
    jsonschema_rs.validator_for(load_schema("execution-report")).validate(json.loads(report.canonical()))


@pytest.mark.req("PX-18")
def test_only_actions_that_were_completed_are_in_it(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    for name in "abc":
        project.write(name, b"before")
    run = run_of(project, project.run_plan(ACTIONS), sql={0: told(), 1: told(action_id="a2")})
    skipped = [Result(0, "done", STARTED, ENDED), *(Result(n, "skipped", STARTED, ENDED) for n in range(1, 5))]
    report = build_report(run._replace(results=tuple(skipped), status="PARTIAL"))
    assert [one.action_id for one in report.sql] == ["a1"]


def test_a_report_without_sql_has_the_digest_that_it_had_before_there_was_any(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    for name in "abc":
        project.write(name, b"before")
    report = build_report(run_of(project, project.run_plan(ACTIONS)))
    assert "sql" not in report.tree()
    assert ExecutionReport.from_tree({**report.tree(), "sql": []}).digest() == report.digest()


def test_a_long_report_counts_statements_instead_of_naming_them() -> None:
    long = told(statements=[statement("INSERT", rows_changed=1) | {"words": "w" * 5_000}] * 90, left_out=10)
    shown = truncate_sql({0: long, 1: told(), 2: long}, [0, 1, 2])
    assert [(len(one.statements), one.left_out) for one in shown] == [(0, 100), (1, 0), (0, 100)]
    assert sum(len(one.canonical()) for one in shown) <= MESSAGE_BYTES


def test_what_would_not_fit_even_so_is_left_out() -> None:
    assert truncate_sql({0: told()}, [0], message_limit=10) == ()


def test_rows_past_a_limit_are_left_out_and_the_rest_is_reported() -> None:
    row = ["x" * 10_000] * MAX_COLUMNS_TOLD
    columns = [{"name": "c", "type": "VARCHAR"}] * MAX_COLUMNS_TOLD
    assert len(row) * len(row[0]) <= MAX_SHOWN_CHARACTERS
    large = {number: told(action_id=f"a{number + 1}", columns=columns, rows=[row]) for number in range(2)}
    first, second = previewed_sql(large)
    assert (len(first.rows), len(second.rows), second.result_rows) == (1, 0, 400)


@pytest.mark.req("PX-20")
def test_what_destroys_is_of_high_risk_and_other_changes_of_medium(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        ({}, "MEDIUM"),
        ({"statements": [statement("DROP")]}, "HIGH"),
        ({"statements": [statement("DELETE", rows_changed=0)]}, "HIGH"),
        ({"statements": [statement("ALTER", destroys=True)]}, "HIGH"),
        ({"statements": [statement("ALTER")]}, "MEDIUM"),
        ({"left_out": 1}, "HIGH"),
        ({"changes_database": False, "statements": [statement("SELECT", rows_read=1)]}, "LOW"),
        ({"changes_database": False, "database": None, "statements": [statement("DROP")]}, "LOW"),
    ]
    for changed, risk in cases:
        with subtests.test(changed=changed, risk=risk):
            levels = ["LOW", *(level for level, _ in causes_of_sql([told(**changed)]))]
            assert max(levels, key=RISKS.index) == risk
