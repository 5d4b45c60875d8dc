"""`remit preview`, `run` and `apply` on plans with SQL: the real command, the real engine, in the real sandbox."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from remit.contracts.schemas import load_schema
from tests.cli.conftest import Remit, approve

VALUE = "zq81-parameter"  # that is bound: shown to whoever decides, and nowhere else
ROW = "bread-of-a-row"
CONNECTIONS = "connections:\n  shop: {type: duckdb, path: shop.duckdb}\n"
MIGRATION = (
    "ALTER TABLE orders ADD COLUMN note VARCHAR; UPDATE orders SET note = $note; DELETE FROM orders WHERE id > 2;"
)


def sql(action_id: str, query: str, **operation: Any) -> dict[str, Any]:
    asked = {"type": "sql_execute", "query": query, "connection": "shop", **operation}
    return {"action_id": action_id, "action_type": "SQL_EXECUTE", "operation": asked}


@pytest.fixture
def project(remit: Remit, tmp_path: Path) -> Path:
    """With a database, and a plan that migrates it, saves rows of it, and edits a file."""
    root = tmp_path / "project"
    assert remit("init").code == 0
    with (root / "remit.yaml").open("a") as config:
        config.write(CONNECTIONS)
    (root / "a.txt").write_text("one\n")
    made = sql("a1", f"CREATE TABLE orders AS SELECT i AS id, '{ROW}' AS item FROM range(1, 31) t(i)")
    write_plan(root, "first", made)
    assert remit("run", "first.json", "--yes").code == 0
    edit = {
        "action_id": "edit",
        "action_type": "FILE_MODIFY",
        "target": "a.txt",
        "operation": {"type": "text_replace", "pattern": "one", "replacement": "two"},
    }
    saved = sql("save", "SELECT id, item FROM orders ORDER BY id", save_results_to="rows.csv")
    read = sql("look", "SELECT id, item FROM orders ORDER BY id")
    write_plan(root, "plan", edit, read, sql("migrate", MIGRATION, parameters={"note": VALUE}), saved)
    return root


def write_plan(root: Path, name: str, *actions: dict[str, Any]) -> None:
    (root / f"{name}.json").write_text(json.dumps({"plan_id": name, "action_plan": actions}))


@pytest.mark.req("PX-18", "PX-20")
@pytest.mark.parametrize("width", [80, 120])
def test_a_preview_shows_statements_rows_results_risk_and_undo(remit: Remit, project: Path, width: int) -> None:
    before = (project / "shop.duckdb").read_bytes()
    shown = remit("preview", "plan.json", COLUMNS=str(width))
    assert shown.code == 0, shown
    assert (project / "shop.duckdb").read_bytes() == before
    for line in (
        "Plan plan: 3 changes to 3 files, +1 -1 lines, 58 rows by SQL",
        "migrate: change shop.duckdb",
        "  by        SQL in the plan, on connection shop: shop.duckdb",
        "    #  statement  writes  reads   rows, on a copy",
        "    1  ALTER      orders",
        "    2  UPDATE     orders  orders  30 changed",
        "    3  DELETE     orders  orders  28 removed",
        "  removes   statement 3 (DELETE) removes rows, columns or whole tables",
        "  saved     rows.csv: CSV, 2 rows, 2 columns: id BIGINT, item VARCHAR",
        f"    20  {ROW}",
        "  risk      HIGH: SQL destroys data",
    ):
        assert line in shown.out.splitlines(), line
    assert "  undo      yes: the whole database file is backed up as it is now (" in shown.out
    assert "(the first 20 above)" in " ".join(shown.out.split())
    assert f'$note = "{VALUE}"' in shown.out
    assert all(len(line) <= width for line in shown.out.splitlines() if "sha256:" not in line)  # that is for copying


@pytest.mark.req("PX-18")
def test_json_documents_contain_the_sql_too_and_reports_contain_no_row(remit: Remit, project: Path) -> None:
    preview = remit("preview", "plan.json", "--json").document
    jsonschema_rs.validator_for(load_schema("plan-preview")).validate(preview)
    told = {one["action_id"]: one for one in preview["sql"]}
    assert [one["rows_changed"] for one in told["migrate"]["statements"]] == [None, 30, 28]
    assert [one["destroys"] for one in told["migrate"]["statements"]] == [False, False, True]
    assert (told["look"]["result_rows"], len(told["look"]["rows"]), told["look"]["rows"][0]) == (30, 20, ["1", ROW])
    assert (told["save"]["saved_to"], told["save"]["changes_database"]) == ("rows.csv", False)
    assert approve(remit, "plan.json", "-o", "envelope.json").code == 0
    report = remit("apply", "envelope.json", "--json").document["report"]
    jsonschema_rs.validator_for(load_schema("execution-report")).validate(report)
    assert [one["action_id"] for one in report["sql"]] == ["look", "migrate", "save"]
    assert report["sql"][0]["columns"] == [{"name": "id", "type": "BIGINT"}, {"name": "item", "type": "VARCHAR"}]
    papers = max((project / "agent_outputs" / "reports").iterdir())
    assert json.loads((papers / "execution_report.json").read_text()) == report
    for paper in papers.glob("*.json"):
        assert ROW not in paper.read_text()
        assert VALUE not in paper.read_text()


@pytest.mark.req("PX-18", "PX-20")
def test_apply_tells_what_was_done_and_a_rollback_restores_every_byte(remit: Remit, project: Path) -> None:
    before = (project / "shop.duckdb").read_bytes()
    assert approve(remit, "plan.json", "-o", "envelope.json").code == 0
    done = remit("apply", "envelope.json")
    assert done.code == 0, done
    assert "  ran       migrate: SQL on connection shop: 3 statements, 58 rows changed\n" in done.out
    assert "    2  UPDATE     orders  orders  30 changed\n" in done.out
    assert ROW not in done.out
    assert VALUE not in done.out
    assert (project / "rows.csv").read_text() == f"id,item\n1,{ROW}\n2,{ROW}\n"
    assert remit("rollback", "last").code == 0
    assert (project / "shop.duckdb").read_bytes() == before
    assert not (project / "rows.csv").exists()


def test_an_action_that_only_reads_is_not_called_one_that_changes_nothing(remit: Remit, project: Path) -> None:
    write_plan(project, "reading", sql("look", "SELECT count(*) AS n FROM orders"))
    shown = remit("preview", "reading.json")
    assert (shown.code, shown.out.splitlines()[0]) == (0, "Plan reading: nothing to change")
    assert "look: read shop.duckdb" in shown.out
    assert "changes nothing" not in shown.out
    assert "  risk      LOW" in shown.out


@pytest.mark.parametrize("no_color", ["", "1"])
def test_colours_are_for_a_terminal_that_wants_them(project: Path, tmp_path: Path, no_color: str) -> None:
    environ = {**os.environ, "REMIT_STATE": str(tmp_path / "state"), "COLUMNS": "80", "NO_COLOR": no_color}
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "remit", "preview", "plan.json"]
    with subprocess.Popen(command, cwd=project, env=environ, stdout=follower) as shown:
        os.close(follower)
        read = b"".join(iter(lambda: _read(leader), b""))
    os.close(leader)
    assert shown.returncode == 0
    assert (b"\x1b[31m    3  DELETE" in read) is not bool(no_color)
    assert (b"\x1b" in read) is not bool(no_color)


@pytest.mark.req("PX-11")
def test_a_plan_whose_rule_would_not_hold_cannot_be_approved_at_all(remit: Remit, project: Path) -> None:
    """By default the plan stops at errors. A rule that does not hold undoes the plan with any instructions."""
    rule = {"type": "sql_expect", "connection": "shop", "query": "SELECT count(*) FROM orders", "expected": [[99]]}
    delete = sql("a1", "DELETE FROM orders WHERE id > 2")
    for instructions in ({}, {"stop_on_error": False}):
        plan = {"plan_id": "plan-1", "action_plan": [delete], "validation_rules": [rule]}
        (project / "rule.json").write_text(json.dumps(plan | {"execution_instructions": instructions}))
        shown = remit("preview", "rule.json")
        digest = remit("preview", "rule.json", "--json").document["digest"]
        assert "What the actions would do:" in shown.out
        assert "other actions" not in shown.out
        for command in (("approve", "rule.json", "--digest", digest, "--full"), ("run", "rule.json", "--yes")):
            plain, insisting = remit(*command), remit(*command, "--even-if-it-fails")
            assert (plain.code, insisting.code) == (2, 2), insisting
            consequence = "refused: a rule would not hold, so everything would be undone and nothing would stay changed"
            assert consequence in plain.err
            assert "--even-if-it-fails" not in plain.err
            assert "Correct the plan or the rule" in insisting.err
        proposed = remit("propose", "rule.json")
        assert (proposed.code, "rule 1 of 1" in proposed.err) == (2, True), proposed
    issued = remit("ledger", "show", "--limit", "500", COLUMNS="240").out.count("envelope.issued")
    assert issued == 1, "that of the first plan of this project"


@pytest.mark.req("PX-18")
def test_the_next_step_for_a_database_in_use_is_to_close_the_program(remit: Remit, project: Path) -> None:
    write_plan(project, "busy", sql("b", "DELETE FROM orders"))
    holder = "import duckdb, sys; d = duckdb.connect('shop.duckdb'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", holder], cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        for more in ((), ("--even-if-it-fails",)):
            refused = remit("run", "busy.json", "--yes", *more)
            again = " ".join(("remit run busy.json --yes", *more))
            assert (refused.code, "2011 DATABASE_BUSY" in refused.err) == (2, True), refused
            assert "Close the program that has it open. If there is none, open it with DuckDB once" in refused.err
            assert f"Then run the command again: {again}\n" in refused.err
            assert "Correct the plan" not in refused.err
        other.communicate()
    assert remit("run", "busy.json", "--yes").code == 0


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65_536)
    except OSError:  # the other side was closed
        return b""
