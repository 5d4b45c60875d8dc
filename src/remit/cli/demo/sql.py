"""The part of `remit demo` on SQL in plans: a database that is changed and rolled back together with files.

DuckDB is an extra and only loaded in the sandboxed process. If it is not installed, the demo says so.
"""

from importlib.util import find_spec
from typing import Any, Final

from remit.cli.demo.stage import Announce, expect, plan_of, replace_text, require, status_of, tree_of, update_json
from remit.contracts.plans.outcome import PlanOutcome, PlanRefusal
from remit.workspace.workspace import Workspace

CONNECTION: Final = "shop"
DATABASE: Final = "shop.duckdb"
CONFIG: Final = f"connections:\n  {CONNECTION}: {{type: duckdb, path: {DATABASE}}}\n"
FOUND: Final = """
CREATE TABLE orders (id INTEGER, item VARCHAR, cents INTEGER);
INSERT INTO orders VALUES (1, 'bread', 350), (2, 'milk', 120), (3, 'salt', 90);
"""
MIGRATION: Final = "ALTER TABLE orders ADD COLUMN status VARCHAR; UPDATE orders SET status = $status WHERE cents > 100"
LOOK: Final = "SELECT id, item, status FROM orders ORDER BY id"
MIGRATED: Final = (("1", "bread", "open"), ("2", "milk", "open"), ("3", "salt", None))


def show_sql(workspace: Workspace, announce: Announce) -> None:
    """Show SQL in plans. Runs after `show_plans`, whose files it edits. The configuration must contain `CONFIG`."""
    if find_spec("duckdb") is None:
        announce("SQL in a plan", "left out: DuckDB is not installed here; pip install 'remit[sql]'")
        return
    _found(workspace, announce)
    _preview(workspace, announce)
    _failing(workspace, announce)
    _apply_and_undo(workspace, announce)


def _found(workspace: Workspace, announce: Announce) -> None:
    _done(workspace, plan_of("demo-sql-1", _sql(FOUND)))
    size = (workspace.root / DATABASE).stat().st_size
    announce(
        "A plan makes a database", f"{DATABASE}, {size:,} bytes: made in a sandboxed process, and moved into place"
    )


def _preview(workspace: Workspace, announce: Announce) -> None:
    before = tree_of(workspace.root)
    document = workspace.preview(_good_plan()).document
    (report,) = document.sql
    require([one.rows_changed for one in report.statements][-1] == 2, "the preview has a wrong number of rows")
    require(tree_of(workspace.root) == before, "the preview changed something")
    announce(
        "A plan of two edits and a migration is previewed",
        f"2 statements, 2 rows changed in orders, counted on a copy; risk {document.risk}; nothing was changed",
    )


def _failing(workspace: Workspace, announce: Announce) -> None:
    """Apply a plan that continues after errors, so that it really starts. Then all of it is undone."""
    before, database = tree_of(workspace.root), (workspace.root / DATABASE).read_bytes()
    last = _sql("INSERT INTO nowhere VALUES (1)")
    instructions = {"stop_on_error": False, "rollback_on_failure": True}
    plan = plan_of("demo-sql-2", *_edits(), last, execution_instructions=instructions)
    outcome = workspace.apply(workspace.approve(plan, even_if_it_fails=True).canonical())
    expect(outcome, 1111)
    require(
        status_of(outcome) == "ROLLED_BACK" and _completed(outcome) == 3, "the plan was not started and rolled back"
    )
    require((workspace.root / DATABASE).read_bytes() == database, "the database is different")
    require(tree_of(workspace.root) == before, "the rollback left something behind")
    announce(
        "The same plan, with a last statement that fails",
        "rolled back: 1111, three actions undone; files and database are as before, byte for byte",
    )


def _apply_and_undo(workspace: Workspace, announce: Announce) -> None:
    before = tree_of(workspace.root)
    _done(workspace, _good_plan())
    (report,) = workspace.preview(plan_of("demo-sql-4", _sql(LOOK))).document.sql
    require(report.rows == MIGRATED, "the table is not as the plan says")
    shown = ", ".join(f"{item} {status or 'NULL'}" for _, item, status in MIGRATED)
    announce("The good plan", f"applied: two files and one table together; a SELECT on it gives {shown}")
    require(workspace.rollback("last").status == "EXECUTED", "the plan was not rolled back")
    require(tree_of(workspace.root) == before, "something is not as before")
    announce("The good plan is rolled back", "both files and the database are as before the plan, byte for byte")


def _completed(outcome: PlanOutcome | PlanRefusal) -> int:
    return outcome.report.actions_summary.completed if isinstance(outcome, PlanOutcome) else 0


def _good_plan() -> bytes:
    return plan_of("demo-sql-3", *_edits())


def _edits() -> tuple[dict[str, Any], ...]:
    return (
        update_json("settings.json", "$.verbose", True),
        replace_text("notes.txt", "first", "second"),
        _sql(MIGRATION, status="open"),
    )


def _sql(query: str, **parameters: Any) -> dict[str, Any]:
    operation = {"type": "sql_execute", "query": query, "parameters": parameters, "connection": CONNECTION}
    return {"action_type": "SQL_EXECUTE", "operation": operation}


def _done(workspace: Workspace, plan: bytes) -> None:
    outcome = workspace.apply(workspace.approve(plan).canonical())
    require(status_of(outcome) == "SUCCESS", "a plan that runs SQL did not succeed")
