"""What a person sees before saying yes: the statements, what is in saved rows, and whether the rules would hold."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remit.cli.plans.render import render_preview
from remit.contracts.plans.sql_report import MAX_SQL_SHOWN, MAX_STATEMENTS_TOLD, ToldStatement
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.plans.engines.duckdb import DuckdbAnswer, limit_statements
from remit.plans.preparation.pipeline_queries import merge_answers
from tests.plans.project import create, plan_of, ran, replace
from tests.plans.sql.shop import CONNECTIONS, DATABASE, Shop, make_database, rows, sql
from tests.plans.sql.test_changes import UPDATE
from tests.plans.sql.test_expect import OTHER, expect
from tests.plans.sql.test_secrets import everything_kept

KEY = "AKIAIOSFODNN7EXAMPLQ"
PEOPLE = "SELECT name, password FROM people"

pytestmark = pytest.mark.req("PX-18")


# --- the statements --------------------------------------------------------------------------------------------------


def test_the_statements_are_shown_masked_and_whole_and_kept_nowhere(
    shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    text = f"""UPDATE orders\n   SET state = 'quokka'; -- hush
        INSERT INTO people VALUES ('x', '{KEY}'); DELETE FROM orders WHERE state = '{"y" * 5000}'"""
    (told,) = shop.workspace.preview(plan_of(sql("a1", text))).document.sql
    assert told.texts[0] == "UPDATE orders\n   SET state = 'quokka'"
    assert told.texts[1].startswith("INSERT INTO people VALUES ('x', '")
    assert KEY not in told.texts[1]
    assert (len(told.texts), told.texts[2]) == (3, f"DELETE FROM orders WHERE state = '{'y' * 5000}'")
    shop.write("m.sql", text)
    outcome = shop.apply(plan_of(sql("a1", query_file="m.sql")))
    assert outcome.status.status == "SUCCESS"
    (shop.root / "m.sql").unlink()
    kept = everything_kept(shop, tmp_path, caplog.text + outcome.canonical().decode())
    assert "quokka" not in kept
    assert "texts" not in json.dumps(outcome.report.tree())


def test_a_secret_that_the_cut_would_halve_is_still_masked(shop: Shop) -> None:
    text = f"SELECT '{'x' * (MAX_SQL_SHOWN - 18)}' AS a, '{KEY}' AS b"
    assert text.index(KEY) < MAX_SQL_SHOWN < text.index(KEY) + len(KEY)
    (told,) = shop.workspace.preview(plan_of(sql("a1", text))).document.sql
    assert "xxx" in told.texts[0]
    assert "AKIA" not in told.texts[0]


PADDING = "/* " + "so that nobody looks " * 3_200 + "*/"


def _refusal(shop: Shop, plan: bytes) -> RefusedError:
    with pytest.raises(RefusedError) as refused:
        shop.approve(plan)
    return refused.value


@pytest.mark.parametrize(
    "text, where, texts",
    [
        ("UPDATE orders PADDING SET state = 'paid to mallory' WHERE true", "statement 1", 1),
        ("SELECT 1 AS a; SELECT PADDING 2 AS b; DELETE FROM orders; DROP TABLE people", "statements", 2),
        ("UPDATE orders SET state = /* token=SECRET */ 'paid' WHERE true", "statement 1", 1),
    ],
)
def test_what_is_not_shown_whole_needs_an_approval_by_name(shop: Shop, text: str, where: str, texts: int) -> None:
    plan = plan_of(sql("a1", text.replace("PADDING", PADDING).replace("SECRET", "x" * 90_000)))
    document = shop.workspace.preview(plan).document
    assert len(document.sql[0].texts) == texts
    assert (document.status, document.needs.content) == ("NEEDS_APPROVAL", (DATABASE,))
    assert ("not_shown", f"action a1, {where}") in {(found.rule, found.where) for found in document.findings}
    refused = _refusal(shop, plan)
    assert (refused.reason, "not shown here" in refused.what) == (Reason.CONTENT_REFUSED, True)
    assert shop.approve(plan, content=[DATABASE]).approvals.content == (DATABASE,)


def test_every_statement_is_in_the_list_and_those_that_change_something_come_before_all(shop: Shop) -> None:
    (told,) = shop.workspace.preview(plan_of(sql("a1", "SELECT 1 AS a;" * 400 + "DELETE FROM orders"))).document.sql
    assert (len(told.texts), told.statements[400].kind, told.left_out, told.unseen) == (401, "DELETE", 0, ())

    def one(number: int, rows_read: int | None = None) -> ToldStatement:
        return ToldStatement(number=number, kind="DELETE", words="", rows_read=rows_read)

    reading = [one(number, rows_read=1) for number in range(1, 700)]
    kept = limit_statements([*reading, one(700), one(701)])
    assert (len(kept), [each.number for each in kept[-3:]]) == (MAX_STATEMENTS_TOLD, [498, 700, 701])
    with pytest.raises(EnvironmentFailureError, match="more than 500 statements of the SQL change data"):
        limit_statements([one(number) for number in range(1, 502)])


def test_a_text_that_is_not_shown_is_not_replaced_by_the_next_one() -> None:
    def answer(texts: tuple[str, ...], *numbers: int) -> DuckdbAnswer:
        told = tuple(ToldStatement(number=number, kind="DELETE", words="") for number in numbers)
        return DuckdbAnswer(True, told, 0, (), (), 0, texts)

    assert merge_answers([answer(("A",), 1, 2), answer(("B",), 1)]).texts == ("A",)
    assert merge_answers([answer(("A", "B"), 1, 2), answer(("C",), 1)]).texts == ("A", "B", "C")


# --- what is bound to them -------------------------------------------------------------------------------------------

BOUND = "UPDATE orders SET state = $state WHERE id = 1 OR $also OR state = $password"
VALUES = {"state": "paid to mallory", "also": True, "password": "hunter2"}


def test_values_are_shown_below_the_statement_masked_by_name_and_kept_nowhere(
    shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    plan = plan_of(sql("a1", BOUND, parameters=VALUES))
    document = shop.workspace.preview(plan).document
    shown = {one.name: one.value for one in document.sql[0].parameters}
    assert shown == {"state": '"paid to mallory"', "also": "true", "password": '"********"'}
    assert document.status == "READY"
    lines = "\n".join(render_preview(document))
    assert '    $state = "paid to mallory"\n    $also = true\n    $password = "********"\n' in lines
    outcome = shop.apply(plan)
    assert outcome.status.status == "SUCCESS"
    kept = everything_kept(shop, tmp_path, caplog.text + outcome.canonical().decode())
    assert "mallory" not in kept.replace(rows(shop.root / DATABASE, "SELECT state FROM orders")[0][0], "")
    assert "parameters" not in json.dumps(outcome.report.tree())


def test_an_approval_is_for_the_values_that_were_shown(shop: Shop) -> None:
    digests = {
        shop.workspace.preview(plan_of(sql("a1", BOUND, parameters=VALUES | {"state": state}))).document.preview_digest
        for state in ("paid", "open")
    }
    assert len(digests) == 2


def test_a_value_that_does_not_fit_needs_an_approval_by_name(shop: Shop) -> None:
    plan = plan_of(sql("a1", BOUND, parameters=VALUES | {"state": "x" * 9_000}))
    (found,) = shop.workspace.preview(plan).document.findings
    assert (found.rule, found.where) == ("not_shown", "action a1, parameter state")
    assert _refusal(shop, plan).reason is Reason.CONTENT_REFUSED


def test_what_inserts_or_updates_is_not_called_inserted(shop: Shop) -> None:
    text = "INSERT INTO orders VALUES (1, 'x', 1), (9, 'y', 2) ON CONFLICT DO UPDATE SET state = excluded.state"
    outcome = shop.apply(plan_of(sql("a1", text)))
    assert outcome.report.actions_completed[0].output == "1 statement: 2 rows inserted or updated in orders"
    assert outcome.report.sql[0].statements[0].kind == "UPSERT"


def test_what_asks_for_the_time_is_remarked(shop: Shop) -> None:
    document = shop.workspace.preview(plan_of(sql("a1", "UPDATE orders SET state = now()::VARCHAR"))).document
    assert [(remark.path, "uses now()" in remark.what) for remark in document.remarks] == [(DATABASE, True)]
    assert shop.workspace.preview(plan_of(sql("a1", UPDATE))).document.remarks == ()


@pytest.mark.req("PX-18")
def test_values_that_became_names_of_columns_are_not_revealed(
    shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_database(shop.database, "CREATE TYPE words AS ENUM (SELECT password FROM people)")
    outcome = shop.apply(plan_of(sql("a1", "PIVOT people ON password IN words USING count(*)")))
    assert outcome.status.status == "SUCCESS", outcome.errors
    assert [column.name for column in outcome.report.sql[0].columns] == ["column 1", "column 2"]
    assert "hunter2" not in everything_kept(shop, tmp_path, caplog.text + outcome.canonical().decode())


@pytest.mark.req("PX-18")
def test_names_of_columns_that_the_plan_itself_gives_are_shown(shop: Shop) -> None:
    text = "PIVOT orders ON state IN ('open', 'done') USING count(*) GROUP BY amount"
    (told,) = shop.workspace.preview(plan_of(sql("a1", text))).document.sql
    assert [column.name for column in told.columns] == ["amount", "open", "done"]


@pytest.mark.req("PX-18")
def test_a_text_that_cannot_be_parsed_names_the_word_also_if_it_has_parameters(shop: Shop) -> None:
    text = "UPDATE orders\nSET at = $wanted"
    document = shop.workspace.preview(plan_of(sql("a1", text, parameters={"wanted": "zq81"}))).document
    (problem,) = document.problems
    assert 'line 2: Parser Error: syntax error at or near "at"' in problem.message
    quoted = "SELECT 1 'quokka' = $wanted"
    (problem,) = shop.workspace.preview(plan_of(sql("a1", quoted, parameters={"wanted": "zq81"}))).document.problems
    assert "quokka" not in problem.message
    assert "syntax error at or near ..." in problem.message


@pytest.mark.parametrize("name", ["main", "temp", "system", "memory", "information_schema", "pg_catalog"])
def test_a_database_may_be_called_like_something_of_the_engines(open_shop: Callable[..., Shop], name: str) -> None:
    path = f"data/{name}.duckdb"
    shop = open_shop(connections={**CONNECTIONS, "odd": {"type": "duckdb", "path": path}})
    made = sql("a1", "CREATE TABLE t AS SELECT 7 AS a; INSERT INTO main.t VALUES (8)", connection="odd")
    rule = expect("SELECT sum(a) FROM t", [15], connection="odd")
    outcome = shop.apply(plan_of(made, rules=[rule]))
    assert outcome.status.status == "SUCCESS", outcome.errors
    assert rows(shop.root / path, "SELECT count(*) FROM t") == [(2,)]


# --- rows that are saved ---------------------------------------------------------------------------------------------


@pytest.mark.req("PX-24")
@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_credentials_in_saved_rows_need_an_approval_by_name(shop: Shop, form: str) -> None:
    name = f"out/people.{form}"
    make_database(shop.database, "UPDATE people SET password = 'xyzzy-hunter2-9931'")
    plan = plan_of(sql("a1", PEOPLE, save_results_to=name))
    document = shop.workspace.preview(plan).document
    assert (document.status, document.risk, document.needs.content) == ("NEEDS_APPROVAL", "HIGH", (name,))
    assert [(one.path, one.rule, one.where) for one in document.findings] == [(name, "credential", "row 1, column 2")]
    assert "hunter2" not in document.canonical().decode()
    with pytest.raises(RefusedError) as problem:
        shop.approve(plan)
    assert problem.value.reason is Reason.CONTENT_REFUSED
    allowed = shop.approve(plan, content=[name]).canonical()
    assert ran(shop.workspace.apply(allowed)).status.status == "SUCCESS"
    assert shop.workspace.preview(plan).document.findings == (), "it is there already, and stays as it is"


@pytest.mark.req("PX-24")
def test_a_file_that_is_replaced_is_marked_and_raises_the_risk(shop: Shop) -> None:
    plan = plan_of(sql("a1", "SELECT id FROM orders ORDER BY id", save_results_to="rows.csv"))
    document = shop.workspace.preview(plan).document
    assert (document.sql[0].replaces, document.risk) == (False, "LOW")
    shop.write("rows.csv", "precious\n")
    document = shop.workspace.preview(plan).document
    assert (document.sql[0].replaces, document.risk) == (True, "MEDIUM")
    shop.write("rows.csv", "precious\n", mode=0o755)
    document = shop.workspace.preview(plan).document
    assert (document.needs.executable, document.risk) == (("rows.csv",), "HIGH")


@pytest.mark.req("PX-24")
def test_formulas_in_a_csv_are_remarked(shop: Shop) -> None:
    document = shop.workspace.preview(
        plan_of(sql("a1", "SELECT '=1+1' AS v", connection="memory", save_results_to="x.csv"))
    ).document
    assert [(remark.path, "formula" in remark.what) for remark in document.remarks] == [("x.csv", True)]


# --- rules -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("PX-11")
@pytest.mark.parametrize(
    "rule, code, words",
    [
        (expect("SELEC 1", [1]), 1110, "could not be checked: the engine cannot read it: line 1: Parser Error"),
        (expect("SELECT a FROM nowhere", [1]), 1111, "Table with name nowhere does not exist"),
        (expect("SELECT $x", [1]), 1110, "the parameter 'x' is used and has no value"),
        (expect("SELECT 1", [1], parameters={"x": 1}), 1110, "the parameter 'x' has a value and is not used"),
        (expect("SELECT count(*) FROM orders WHERE state = 'open'", [2]), 1201, "row 1, column 1 is not as expected"),
        (expect("SELECT 1", [1], connection="new"), 1201, "the database does not exist"),
    ],
)
def test_a_rule_that_would_not_hold_is_known_before(shop: Shop, rule: dict[str, Any], code: int, words: str) -> None:
    """On the database as the plan would leave it: nobody is asked to approve what would be taken back."""
    before = shop.tree()
    plan = plan_of(create("a1", "x.txt"), sql("a2", UPDATE), rules=[expect("SELECT 1", [1]), rule])
    document = shop.workspace.preview(plan).document
    (problem,) = document.problems
    assert (document.status, document.would_end, document.doomed) == ("WOULD_FAIL", "ROLLED_BACK", False)
    assert (
        document.consequence == "A rule would not hold, so everything would be undone and nothing would stay changed."
    )
    assert problem.error_code == code
    assert "rule 2 of 2 (sql_expect)" in problem.message
    assert words in problem.message
    with pytest.raises(RefusedError, match="the plan would fail: rule 2 of 2"):
        shop.approve(plan)
    assert shop.tree() == before
    assert shop.left_over() == []


@pytest.mark.req("PX-11")
def test_a_rule_about_what_the_plan_makes_holds_in_the_preview(shop: Shop) -> None:
    plan = plan_of(
        sql("a1", "CREATE TABLE t AS SELECT 7 AS a", connection="new"),
        sql("a2", "INSERT INTO t VALUES (8)", connection="new", depends_on=["a1"]),
        rules=[
            expect("SELECT a FROM t ORDER BY a", [7], [8], connection="new"),
            expect("SELECT count(*) FROM orders", [3]),
        ],
    )
    assert shop.workspace.preview(plan).document.problems == ()
    assert shop.apply(plan).status.status == "SUCCESS"


@pytest.mark.req("PX-11")
def test_rules_are_not_tried_of_a_plan_that_fails_anyway(shop: Shop) -> None:
    plan = plan_of(sql("a1", "SELECT * FROM nowhere"), rules=[expect("SELEC 1", [1])])
    (problem,) = shop.workspace.preview(plan).document.problems
    assert "statement 1 (SELECT)" in problem.message


@pytest.mark.req("PX-11")
def test_a_rule_about_a_file_that_another_action_changes_waits_for_it(open_shop: Callable[..., Shop]) -> None:
    """Its bytes are not there yet, so nobody can look; it is checked when the plan has run."""
    shop = open_shop(connections={**CONNECTIONS, **OTHER})
    make_database(shop.root / "first.duckdb", "CREATE TABLE t AS SELECT 7 AS a")
    moved = {
        "action_id": "a1",
        "action_type": "FILE_RENAME",
        "target": "first.duckdb",
        "operation": {"type": "rename", "new_path": "other.duckdb"},
    }
    assert shop.workspace.preview(plan_of(moved)).document.problems == ()
    plan = plan_of(moved, rules=[expect("SELECT a FROM t", [7], connection="other")])
    assert shop.workspace.preview(plan).document.problems == ()
    assert shop.apply(plan).status.status == "SUCCESS"


@pytest.mark.req("PX-11")
def test_a_catalog_is_the_same_in_a_rule_as_in_the_database(shop: Shop) -> None:
    shop.write("notes.txt")
    rule = expect(
        "SELECT table_name FROM information_schema.tables WHERE table_name <> $not ORDER BY 1",
        ["orders"],
        parameters={"not": "people"},
    )
    plan = plan_of(replace("a1", "notes.txt"), rules=[rule, expect("SHOW TABLES", ["orders"], ["people"])])
    assert shop.apply(plan).status.status == "SUCCESS"


def test_a_refusal_says_nothing_of_the_state_folder(shop: Shop) -> None:
    for text in ("SELECT path FROM duckdb_databases()", "FROM pragma_database_list", "SHOW allowed_paths"):
        document = shop.workspace.preview(plan_of(sql("a1", text))).document
        assert document.problems[0].error_code == 1110
        assert str(shop.work) not in document.canonical().decode()
