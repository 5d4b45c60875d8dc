"""Rows that are saved to files, and those that are only looked at."""

import json
from typing import Any

import duckdb
import pytest

from tests.plans.project import plan_of
from tests.plans.sql.shop import DATABASE, Shop, sql

ROWS = "SELECT id, state FROM orders ORDER BY id"
BOTH = "UPDATE orders SET amount = 0; SELECT * FROM orders"


def problem_of(shop: Shop, *actions: dict[str, Any], **more: Any) -> str:
    document = shop.workspace.preview(plan_of(*actions, **more)).document
    (problem,) = document.problems
    return problem.message


@pytest.mark.req("PX-18", "PX-20")
@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_rows_are_saved_as_the_suffix_says_and_the_rollback_removes_the_file(shop: Shop, form: str) -> None:
    before, name = shop.tree(), f"out/new/rows.{form}"
    outcome = shop.apply(plan_of(sql("a1", ROWS, save_results_to=name)))
    assert outcome.status.status == "SUCCESS"
    assert outcome.report.actions_completed[0].output == (
        f"1 statement: 3 rows read from orders; 3 rows saved to {name}"
    )
    file = shop.root / name
    assert file.stat().st_mode & 0o777 == 0o644
    with duckdb.connect(":memory:") as reader:
        saved = reader.execute(f"SELECT * FROM '{file}'").fetchall()
    assert saved == [(1, "open"), (2, "open"), (3, "done")]
    (told,) = outcome.report.sql
    assert (told.saved_to, told.result_rows, told.changes_database) == (name, 3, False)
    assert [(column.name, column.type) for column in told.columns] == [("id", "INTEGER"), ("state", "VARCHAR")]
    shop.workspace.rollback("last")
    assert shop.tree() == before


@pytest.mark.req("PX-18", "PX-20")
def test_results_that_are_there_are_replaced_and_come_back(shop: Shop) -> None:
    shop.write("rows.csv", "precious\n", mode=0o600)
    before = shop.tree()
    plan = plan_of(sql("a1", ROWS, save_results_to="rows.csv"))
    assert {item.path for item in shop.approve(plan).inputs} == {DATABASE, "rows.csv"}
    assert shop.apply(plan).status.status == "SUCCESS"
    assert shop.read("rows.csv").startswith("id,state\n")
    assert (shop.root / "rows.csv").stat().st_mode & 0o777 == 0o600
    shop.workspace.rollback("last")
    assert shop.tree() == before


@pytest.mark.req("PX-18")
def test_results_that_are_the_same_already_stay_as_they_are(shop: Shop) -> None:
    plan = plan_of(sql("a1", ROWS, save_results_to="rows.csv"))
    shop.apply(plan)
    inode = (shop.root / "rows.csv").stat().st_ino
    assert shop.apply(plan).status.status == "SUCCESS"
    assert (shop.root / "rows.csv").stat().st_ino == inode


@pytest.mark.req("PX-18")
def test_a_database_in_memory_is_forgotten_and_its_rows_are_saved(shop: Shop) -> None:
    before = shop.digest()
    text = "CREATE TABLE t AS SELECT * FROM range(4) r(a); DELETE FROM t WHERE a = 0; SELECT sum(a) AS total FROM t"
    outcome = shop.apply(plan_of(sql("a1", text, connection="memory", save_results_to="total.json")))
    assert outcome.status.status == "SUCCESS", outcome.errors
    assert json.loads(shop.read("total.json")) == [{"total": 6}]
    (told,) = outcome.report.sql
    assert (told.database, told.changes_database, [one.rows_changed for one in told.statements][:2]) == (
        None,
        False,
        [4, 1],
    )
    assert shop.digest() == before
    assert shop.left_over() == []


@pytest.mark.req("PX-18")
def test_a_sum_is_in_the_parquet_file_as_the_preview_shows_it(shop: Shop) -> None:
    exact = 2**53 + 1  # a DOUBLE cannot hold it
    plan = plan_of(sql("a1", f"SELECT sum({exact}) AS s", connection="memory", save_results_to="sum.parquet"))
    (told,) = shop.workspace.preview(plan).document.sql
    assert (told.rows, [column.type for column in told.columns]) == (((str(exact),),), ["DECIMAL(38,0)"])
    assert shop.apply(plan).status.status == "SUCCESS"
    with duckdb.connect(":memory:") as reader:
        found = reader.execute(f"SELECT s, typeof(s) FROM '{shop.root / 'sum.parquet'}'").fetchall()
    assert found == [(exact, "DECIMAL(38,0)")]
    large = sql("a1", f"SELECT {10**38}::HUGEINT AS s", connection="memory", save_results_to="sum.parquet")
    assert "more than 38 digits, which Parquet cannot hold exactly" in problem_of(shop, large)


@pytest.mark.req("PX-18")
def test_rows_are_shown_in_a_preview_and_masked(shop: Shop) -> None:
    document = shop.workspace.preview(plan_of(sql("a1", "SELECT * FROM people"))).document
    (told,) = document.sql
    assert told.rows[0][0] == "ann"
    assert "hunter2" not in document.canonical().decode()
    many = "SELECT range AS n FROM range(1000)"
    (told,) = shop.workspace.preview(plan_of(sql("a1", many))).document.sql
    assert (told.result_rows, len(told.rows)) == (1000, 20)


@pytest.mark.req("PX-18")
def test_rows_that_were_expected_and_are_not_there_are_a_failure(shop: Shop) -> None:
    nothing = "SELECT * FROM orders WHERE id = 99"
    assert shop.workspace.preview(plan_of(sql("a1", nothing))).document.status == "READY"
    assert "rows were expected" in problem_of(shop, sql("a1", nothing, expect_results=True))
    assert shop.workspace.preview(plan_of(sql("a1", ROWS, expect_results=True))).document.status == "READY"


@pytest.mark.req("PX-18")
def test_to_change_a_database_and_to_save_rows_are_two_actions(shop: Shop) -> None:
    message = problem_of(shop, sql("a1", BOTH, save_results_to="x.csv"))
    assert "statement 1 (UPDATE)" in message
    assert "Split it into two actions" in message
    assert "it has no SELECT" in problem_of(
        shop, sql("a1", "CREATE TABLE t (a INTEGER)", connection="memory", save_results_to="x.csv")
    )


@pytest.mark.req("PX-18")
def test_a_connection_that_is_for_reading_only_reads(shop: Shop) -> None:
    message = problem_of(shop, sql("a1", "DELETE FROM orders", connection="reading"))
    assert "the connection reading has `read_only: true` in remit.yaml" in message
    assert "statement 1 (DELETE)" in message
    plan = plan_of(
        sql("a1", ROWS, connection="reading"), sql("a2", ROWS, connection="reading", save_results_to="x.csv")
    )
    assert shop.apply(plan).status.status == "SUCCESS"


@pytest.mark.req("PX-18")
def test_a_database_that_is_not_there_cannot_be_read(shop: Shop) -> None:
    assert "there is no such database" in problem_of(shop, sql("a1", "SELECT 1", connection="new"))
    saved = sql("a1", "SELECT 1", connection="new", save_results_to="x.csv")
    assert "there is no such database" in problem_of(shop, saved)
    shop.database.unlink()
    assert "there is no such database" in problem_of(shop, sql("a1", ROWS, connection="reading"))


@pytest.mark.req("PX-18")
def test_a_text_that_is_not_there_fails_its_action(shop: Shop) -> None:
    assert "queries/none.sql" in problem_of(shop, sql("a1", query_file="queries/none.sql"))
    shop.write("latin.sql", "SELECT 'é'".encode("latin-1"))
    assert "it is not valid UTF-8" in problem_of(shop, sql("a1", query_file="latin.sql"))


@pytest.mark.req("PX-18")
def test_a_file_that_is_no_database_is_not_taken_for_one(shop: Shop) -> None:
    shop.write(DATABASE, "plain text, and longer than a header\n" * 1000)
    before = shop.tree()
    assert "not a DuckDB database" in problem_of(shop, sql("a1", ROWS))
    assert shop.tree() == before
