"""SQL that changes a database, from preview to rollback: on real files, through the workspace."""

import os

import pytest

from remit.core.errors import RefusedError
from tests.plans.project import plan_of, ran, refused, replace
from tests.plans.sql.shop import DATABASE, Shop, make_database, sql

UPDATE = "UPDATE orders SET state = 'done' WHERE state = 'open'"


@pytest.mark.req("PX-18", "PX-20")
def test_a_database_is_changed_and_rolled_back_byte_for_byte(shop: Shop) -> None:
    before, plan = shop.tree(), plan_of(sql("a1", UPDATE))
    document = shop.workspace.preview(plan).document
    assert document.status == "READY", document.problems
    assert shop.tree() == before
    (told,) = document.sql
    assert [(one.kind, one.rows_changed, one.writes) for one in told.statements] == [("UPDATE", 2, ("orders",))]
    assert (told.database, told.changes_database) == (DATABASE, True)
    outcome = shop.apply(plan)
    assert outcome.status.status == "SUCCESS"
    assert shop.rows("SELECT DISTINCT state FROM orders") == [("done",)]
    assert outcome.report.actions_completed[0].output == "1 statement: 2 rows updated in orders"
    shop.workspace.rollback("last")
    assert shop.tree() == before
    assert shop.left_over() == []


@pytest.mark.req("PX-18", "PX-20")
def test_a_missing_database_is_made_and_removed_by_the_rollback(shop: Shop) -> None:
    before = shop.tree()
    outcome = shop.apply(plan_of(sql("a1", "CREATE TABLE t AS SELECT 7 AS a", connection="new")))
    assert outcome.status.status == "SUCCESS"
    assert outcome.report.actions_completed[0].output == "1 statement: t created with 1 row"
    made = shop.root / "made/new.duckdb"
    assert made.stat().st_mode & 0o777 == 0o644
    assert shop.rows("SELECT a FROM t", "made/new.duckdb") == [(7,)]
    shop.workspace.rollback("last")
    assert shop.tree() == before


def test_a_statement_that_misses_its_table_where_there_was_no_database_says_so(shop: Shop) -> None:
    """Most likely the path in remit.yaml is wrong."""
    preview = shop.workspace.preview(plan_of(sql("a1", "DELETE FROM orders", connection="new")))
    (problem,) = preview.document.problems
    assert "the database does not exist yet, so it started empty" in problem.message
    known = shop.workspace.preview(plan_of(sql("a1", "DELETE FROM nowhere"))).document.problems
    assert "empty" not in known[0].message


@pytest.mark.req("PX-18", "PX-20")
def test_each_action_starts_from_what_the_one_before_left(shop: Shop) -> None:
    before = shop.tree()
    plan = plan_of(
        sql("a3", "SELECT * FROM more", save_results_to="out/more.csv", depends_on=["a2"]),
        sql("a1", "CREATE TABLE more (a INTEGER); INSERT INTO more VALUES (1)"),
        sql("a2", "INSERT INTO more VALUES (2)", depends_on=["a1"]),
        sql("a4", "DELETE FROM more WHERE a = 1", depends_on=["a3"]),
        replace("b", "notes.txt"),
    )
    shop.write("notes.txt")
    before = shop.tree()
    outcome = shop.apply(plan)
    assert outcome.status.status == "SUCCESS", outcome.errors
    assert shop.rows("SELECT a FROM more") == [(2,)]
    assert shop.read("out/more.csv") == "a\n1\n2\n"
    assert shop.read("notes.txt") == "one\nTWO\nthree\n"
    shop.workspace.rollback("last")
    assert shop.tree() == before


@pytest.mark.req("PX-18")
def test_an_action_that_changes_nothing_leaves_the_file_alone(shop: Shop) -> None:
    before, inode = shop.tree(), shop.database.stat().st_ino
    outcome = shop.apply(plan_of(sql("a1", "SELECT count(*) AS n FROM orders")))
    assert outcome.status.status == "SUCCESS"
    assert outcome.report.actions_completed[0].output == "1 statement: 1 row read from orders"
    assert (shop.tree(), shop.database.stat().st_ino) == (before, inode)


@pytest.mark.req("PX-18")
def test_parameters_are_bound_by_name_and_by_place(shop: Shop) -> None:
    inserted = "INSERT INTO orders VALUES ($id, $state, 1)"
    outcome = shop.apply(
        plan_of(
            sql("a1", inserted, parameters={"id": 8, "state": "'); DROP TABLE orders; --"}),
            sql("a2", "UPDATE orders SET amount = ? WHERE id = ?", parameters={"1": 99, "2": 8}),
        )
    )
    assert outcome.status.status == "SUCCESS", outcome.errors
    assert shop.rows("SELECT * FROM orders WHERE id = 8") == [(8, "'); DROP TABLE orders; --", 99)]


@pytest.mark.req("PX-18", "PX-34")
def test_the_text_of_a_file_is_bound_by_the_approval(shop: Shop) -> None:
    text = shop.write("queries/close.sql", UPDATE)
    plan = plan_of(sql("a1", query_file="queries/close.sql"))
    envelope = shop.approve(plan)
    assert {item.path: item.mode is None for item in envelope.inputs} == {DATABASE: False, "queries/close.sql": True}
    before = shop.tree()
    text.write_text("DELETE FROM orders")
    code, words = refused(shop.workspace.apply(envelope.canonical()))
    assert "changed since the plan was approved" in words
    assert code
    text.write_text(UPDATE)
    os.utime(text, ns=(before["queries/close.sql"] or (b"", 0, 0))[2:] * 2)
    assert shop.tree() == before
    assert ran(shop.workspace.apply(envelope.canonical())).status.status == "SUCCESS"
    assert shop.rows("SELECT DISTINCT state FROM orders") == [("done",)]


@pytest.mark.req("PX-18")
def test_a_database_that_changed_since_the_approval_is_not_touched(shop: Shop) -> None:
    envelope = shop.approve(plan_of(sql("a1", UPDATE), sql("a2", "SELECT 1 AS a", save_results_to="x.csv")))
    make_database(shop.database, "INSERT INTO orders VALUES (4, 'open', 1)")
    before = shop.tree()
    assert "changed since" in refused(shop.workspace.apply(envelope.canonical()))[1]
    assert shop.tree() == before


@pytest.mark.req("PX-18")
def test_a_database_that_is_only_read_is_bound_as_well(shop: Shop) -> None:
    envelope = shop.approve(plan_of(sql("a1", "SELECT * FROM orders", save_results_to="x.csv")))
    make_database(shop.database, "INSERT INTO orders VALUES (4, 'open', 1)")
    assert "changed since" in refused(shop.workspace.apply(envelope.canonical()))[1]
    assert not (shop.root / "x.csv").exists()


@pytest.mark.req("PX-18", "PX-20")
def test_a_failing_statement_dooms_a_plan_that_stops_at_errors(shop: Shop) -> None:
    shop.write("notes.txt")
    before = shop.tree()
    plan = plan_of(replace("a1", "notes.txt"), sql("a2", f"{UPDATE}; INSERT INTO orders VALUES (1, 'twice', 0)"))
    document = shop.workspace.preview(plan).document
    assert (document.status, document.doomed) == ("WOULD_FAIL", True)
    (problem,) = document.problems
    assert "statement 2 (INSERT): a row violates a constraint of its table" in problem.message
    assert problem.details.action_id == "a2"
    with pytest.raises(RefusedError):
        shop.approve(plan)
    assert shop.tree() == before


@pytest.mark.req("PX-18", "PX-20")
def test_a_failing_statement_with_files_before_it_undoes_all_of_it(shop: Shop) -> None:
    shop.write("notes.txt")
    before = shop.tree()
    broken = sql("a3", "INSERT INTO orders VALUES (1, 'twice', 0)", connection="duckdb", depends_on=["a2"])
    plan = plan_of(replace("a1", "notes.txt"), sql("a2", UPDATE), broken, stop_on_error=False)
    outcome = shop.apply(plan, even_if_it_fails=True)
    assert outcome.status.status == "ROLLED_BACK"
    assert [failed.action_id for failed in outcome.report.actions_failed] == ["a3"]
    assert shop.tree() == before


@pytest.mark.req("PX-18")
def test_what_does_not_depend_on_a_failing_statement_may_stay(shop: Shop) -> None:
    shop.write("notes.txt")
    plan = plan_of(
        replace("a1", "notes.txt"),
        sql("a2", "DELETE FROM nobody"),
        sql("a3", UPDATE),
        sql("a4", "CREATE TABLE t (a INTEGER)", connection="new"),
        stop_on_error=False,
        rollback_on_failure=False,
    )
    before = shop.digest()
    outcome = shop.apply(plan, even_if_it_fails=True)
    assert outcome.status.status == "PARTIAL"
    assert [done.action_id for done in outcome.report.actions_completed] == ["a1", "a4"]
    assert [failed.action_id for failed in outcome.report.actions_failed] == ["a2"]
    assert [skipped.action_id for skipped in outcome.report.actions_skipped] == ["a3"]
    assert shop.digest() == before
    assert shop.read("notes.txt") == "one\nTWO\nthree\n"


@pytest.mark.req("PX-18")
def test_what_a_plan_expects_of_a_database_is_compared(shop: Shop) -> None:
    good = plan_of(sql("a1", UPDATE, expected_hash_before=shop.digest()))
    assert shop.workspace.preview(good).document.status == "READY"
    for field in ("expected_hash_before", "expected_hash_after"):
        plan = plan_of(sql("a1", UPDATE, **{field: "sha256:" + "0" * 64}))
        document = shop.workspace.preview(plan).document
        assert "the plan expects the content" in document.problems[0].message
        assert {item.path: item.input_digest for item in document.inputs} == {DATABASE: shop.digest()}


@pytest.mark.req("PX-20")
def test_the_mode_of_a_database_stays_and_a_failed_rule_undoes_everything(shop: Shop) -> None:
    shop.database.chmod(0o640)
    before = shop.tree()
    missing = [{"type": "file_exists", "path": "nowhere.txt"}]
    outcome = shop.apply(plan_of(sql("a1", UPDATE), rules=missing))
    assert outcome.status.status == "ROLLED_BACK"
    assert shop.tree() == before
    assert shop.apply(plan_of(sql("a1", UPDATE), plan_id="again")).status.status == "SUCCESS"
    assert shop.database.stat().st_mode & 0o777 == 0o640


@pytest.mark.req("PX-18")
def test_actions_may_run_at_the_same_time_on_different_files(shop: Shop) -> None:
    for number in range(6):
        shop.write(f"{number}.txt")
    plan = plan_of(
        sql("a1", UPDATE),
        sql("a2", "SELECT * FROM orders WHERE state = 'open'", save_results_to="open.json"),
        sql("a3", "CREATE TABLE t (a INTEGER)", connection="new"),
        *(replace(f"b{number}", f"{number}.txt") for number in range(6)),
        execution_order="parallel",
    )
    before = shop.tree()
    outcome = shop.apply(plan)
    assert outcome.status.status == "SUCCESS", outcome.errors
    assert shop.read("open.json").split() == ["[", "]"]
    shop.workspace.rollback("last")
    assert shop.tree() == before
