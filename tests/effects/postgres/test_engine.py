"""Statements on a real server, from a real sandbox: seen, begun, committed, refused; and what is said of it."""

import json
import os
import time
from pathlib import Path

import psycopg
import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, UsageError
from remit.plans.engines.postgres import CommitFailedError, PostgresEngine
from remit.sandbox.host import CancelledError, SandboxHost
from tests.effects.postgres.postgres_sandbox import Shop, make_host
from tests.support.patience import SOON

CHANGE = "UPDATE customers SET city = 'Rome' WHERE id < 3; INSERT INTO orders VALUES (100, 1, 99)"


@pytest.mark.req("PX-29")
def test_a_preview_tells_what_would_happen_and_leaves_nothing(shop: Shop) -> None:
    before = shop.dump()
    seen = shop.preview(CHANGE, "SELECT name, city FROM customers ORDER BY id")
    assert shop.dump() == before
    first, second = seen.actions
    assert first.answer is not None
    assert second.answer is not None
    assert [(one.kind, one.rows_changed, one.writes) for one in first.answer.statements] == [
        ("UPDATE", 2, ("public.customers",)),
        ("INSERT", 1, ("public.orders",)),
    ]
    assert first.tables == (("public.customers", 0, 2, 0), ("public.orders", 1, 0, 0))
    assert second.answer.rows == (("Ada", "Rome"), ("Bob", "Rome"), ("Cleo", None))
    assert [(column.name, column.type) for column in second.answer.columns] == [("name", "text"), ("city", "text")]
    assert second.answer.statements[0].reads == ("public.customers",)
    assert not second.answer.changed
    assert seen.tables == first.tables
    assert seen.images is not None
    assert os.fstat(seen.images.descriptor).st_size == seen.images.state.size > 100


@pytest.mark.req("PX-29")
def test_what_was_begun_is_there_when_it_is_committed_and_not_before(shop: Shop) -> None:
    before = shop.dump()
    with shop.begin(CHANGE) as session:
        for query in ("UPDATE customers SET city = 'Oslo' WHERE id = 1", "SELECT * FROM customers"):
            with psycopg.connect(shop.url) as other:  # other sessions wait until it has ended
                other.execute("SET lock_timeout = '100ms'")
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    other.execute(query.encode())
        session.commit()
        session.close()
        with pytest.raises(UsageError):
            session.commit()
    assert shop.dump() != before
    assert shop.ask("SELECT city FROM customers WHERE id = 1") == [("Rome",)]


@pytest.mark.req("PX-29")
def test_what_was_begun_and_closed_never_happened(shop: Shop) -> None:
    before = shop.dump()
    session = shop.begin(CHANGE)
    session.close()
    session.close()
    assert shop.dump() == before
    assert shop.engine.fate(shop.server, session.result.transaction) == "aborted"


@pytest.mark.req("PX-29")
def test_the_same_rows_before_and_the_same_counts_are_bound_and_others_are_not(shop: Shop) -> None:
    bound = shop.preview(CHANGE).bound
    assert shop.preview(CHANGE).bound == bound
    shop.ask("UPDATE customers SET city = 'Berlin' WHERE id = 3")
    assert shop.preview(CHANGE).bound == bound  # a row that it does not touch
    shop.ask("UPDATE customers SET city = 'Berlin' WHERE id = 2")
    assert shop.preview(CHANGE).bound != bound


def test_after_a_failure_the_others_are_seen_if_that_is_asked_for(shop: Shop) -> None:
    texts = ("UPDATE customers SET city = 'x'", "SELECT * FROM missing", "COMMIT", "SELECT city FROM customers")
    first, second, third, last = shop.preview(*texts, stop_on_error=False).actions
    assert first.problem is None
    assert second.problem is not None
    assert second.problem["reason"] == "sql_failed"
    assert 'relation "missing" does not exist' in second.problem["what"]
    assert third.problem is not None
    assert third.problem["reason"] == "sql_refused"
    assert last.answer is not None
    assert last.answer.rows == (("x",),) * 3
    with pytest.raises(EnvironmentFailureError, match="missing"):
        shop.preview(*texts)


@pytest.mark.req("PX-29")
@pytest.mark.parametrize(
    "text, reason, words",
    [
        ("INSERT INTO customers VALUES (1, 'topsecret', NULL)", Reason.SQL_FAILED, "customers_pkey"),
        ("SELECT 'topsecret'::text::integer", Reason.SQL_FAILED, "22P02"),
        ("SELECT 1/0", Reason.SQL_FAILED, "22012"),
        ("SELECT 'topsecret' FROM 'topsecret'", Reason.SQL_FAILED, "syntax error"),
        ("SELECT name::integer FROM customers", Reason.SQL_FAILED, "22P02"),
        ("SELECT nothing FROM customers", Reason.SQL_FAILED, 'column "nothing" does not exist'),
        ("SELECT 1; SELECT * FROM pg_authid", Reason.SQL_FAILED, "does not have the right to do this"),
    ],
)
def test_a_failure_is_reported_without_any_value(shop: Shop, text: str, reason: Reason, words: str) -> None:
    before = shop.dump()
    with pytest.raises(EnvironmentFailureError) as failed:
        shop.preview(text)
    assert failed.value.reason is reason
    assert words in str(failed.value)
    assert "topsecret" not in str(failed.value)
    assert "Ada" not in str(failed.value)
    assert shop.dump() == before


@pytest.mark.req("PX-19")
def test_words_that_a_function_made_of_rows_are_not_passed_on(shop: Shop) -> None:
    shop.ask(
        "CREATE FUNCTION telling() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION USING MESSAGE = (SELECT string_agg(name, ',') FROM customers), ERRCODE = '42P01'; END $$"
    )
    shop.allow("public.telling")
    with pytest.raises(EnvironmentFailureError) as failed:
        shop.tried("SELECT telling()")
    assert "Ada" not in str(failed.value)


@pytest.mark.req("PX-19")
def test_a_transaction_that_a_procedure_would_end_is_not_ended(shop: Shop) -> None:
    shop.ask("CREATE PROCEDURE ending() LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$")
    shop.ask(
        "CREATE FUNCTION ending_too() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN CALL ending(); RETURN 1; END $$"
    )
    shop.allow("public.ending_too")
    before = shop.dump()
    with pytest.raises(EnvironmentFailureError):
        shop.tried("UPDATE customers SET city = 'x'; SELECT ending_too()")
    with pytest.raises(RefusedError):
        shop.tried("UPDATE customers SET city = 'x'; CALL ending()")
    assert shop.dump() == before


@pytest.mark.req("PX-19")
def test_parameters_are_values_and_nothing_else(shop: Shop) -> None:
    evil = "Ada'; DROP TABLE customers; --"
    text = shop.text(
        "SELECT count(*), $n::integer + 1, $d::date FROM customers WHERE name = $who OR id = $id",
        1,
        parameters={"who": evil, "n": 41, "d": "2026-01-02", "id": 2},
    )
    answer = shop.preview(text).actions[0].answer
    assert answer is not None
    assert answer.rows == (("1", "42", "2026-01-02"),)
    done = shop.apply(shop.text("INSERT INTO log VALUES ($line)", 1, parameters={"line": evil}))
    assert done.tables == (("public.log", 1, 0, 0),)
    assert shop.ask("SELECT line FROM log") == [(evil,)]


@pytest.mark.req("PX-19")
def test_a_connection_that_only_reads_changes_nothing_whatever_hides_it(shop: Shop) -> None:
    shop.ask("CREATE FUNCTION hidden() RETURNS void LANGUAGE sql AS $$ UPDATE customers SET city = 'x' $$")
    shop.allow("public.hidden")
    before = shop.dump()
    with pytest.raises(RefusedError, match="may only read"):
        shop.tried("DELETE FROM customers", reads_only=True)
    with pytest.raises(RefusedError, match="transaction is read-only"):
        shop.tried("SELECT hidden()", reads_only=True)
    assert shop.tried("SELECT * FROM customers", reads_only=True).actions[0].tables == ()
    shop.apply("SELECT * FROM customers", reads_only=True)
    assert shop.dump() == before


@pytest.mark.req("PX-19")
@pytest.mark.parametrize("grant", ["SUPERUSER", "pg_read_server_files", "pg_execute_server_program"])
def test_a_role_that_could_reach_the_servers_files_is_refused(shop: Shop, grant: str) -> None:
    shop.ask(
        f"ALTER ROLE {shop.role} SUPERUSER" if grant == "SUPERUSER" else f"GRANT {grant} TO {shop.role}", url=shop.admin
    )
    with pytest.raises(RefusedError, match="could reach files and programs") as refused:
        shop.preview("SELECT 1")
    assert "Create a role" in refused.value.next_step


@pytest.mark.req("PX-19")
def test_functions_of_others_are_not_taken_for_the_servers_own(shop: Shop) -> None:
    """A role may look names up in its own schema first. What Remit asks itself is asked of the catalog."""
    shop.ask(
        "CREATE FUNCTION public.pg_stat_get_xact_tuples_updated(oid) RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint';"
        "CREATE FUNCTION public.pg_has_role(name, oid, text) RETURNS boolean LANGUAGE sql AS 'SELECT false';"
        "CREATE FUNCTION public.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT $1'"
    )
    shop.ask(f"ALTER ROLE {shop.role} SET search_path = public, pg_catalog", url=shop.admin)
    done = shop.apply("UPDATE customers SET city = 'x'")
    assert done.tables == (("public.customers", 0, 3, 0),)
    assert done.images is not None


@pytest.mark.req("PX-20")
def test_images_that_a_statement_forges_are_not_kept(shop: Shop) -> None:
    """It can find the table that rows are kept in, and write to it; then they are not believed."""
    shop.ask(
        "CREATE FUNCTION forging() RETURNS integer LANGUAGE plpgsql AS $$ DECLARE t text; BEGIN "
        "SELECT oid::regclass::text INTO t FROM pg_class WHERE relname LIKE 'remit_rows%'; "
        "IF t IS NOT NULL THEN EXECUTE format('INSERT INTO %s (tab, gone, key, cells) VALUES "
        "(0, true, ''{1}'', ''{1,Forged,Nowhere}'')', t); END IF; RETURN 1; END $$"
    )
    shop.allow("public.forging")
    seen = shop.tried("UPDATE customers SET city = 'x' WHERE id = 3; SELECT forging()")
    assert "could not be captured" in seen.actions[0].irreversible
    assert seen.images is None


def test_a_lock_that_is_not_gotten_is_a_busy_database(shop: Shop) -> None:
    with shop.connected() as other:
        other.execute("LOCK TABLE customers IN ACCESS EXCLUSIVE MODE")
        began = time.monotonic()
        with pytest.raises(EnvironmentFailureError) as failed:
            shop.preview("UPDATE customers SET city = 'x'")
        assert failed.value.reason is Reason.DATABASE_BUSY
        assert 4 < time.monotonic() - began < SOON


@pytest.mark.req("PX-29")
def test_rows_that_others_change_at_the_same_time_are_a_busy_database(shop: Shop) -> None:
    """Nobody can write to a table that a session has changed; a reader that stays keeps it from being begun."""
    with shop.connected() as other:
        other.execute("SELECT * FROM customers")
        with pytest.raises(EnvironmentFailureError) as failed:
            shop.begin("UPDATE customers SET city = 'x'")
        assert failed.value.reason is Reason.DATABASE_BUSY
    assert shop.ask("SELECT count(*) FROM customers WHERE city = 'x'") == [(0,)]


def test_what_takes_too_long_is_stopped(shop: Shop) -> None:
    began = time.monotonic()
    with pytest.raises(EnvironmentFailureError, match="longer than 1 seconds") as failed:
        shop.preview("SELECT count(*) FROM generate_series(1, 100000000000) n", seconds=1.0)
    assert failed.value.reason is Reason.TIMED_OUT
    assert time.monotonic() - began < SOON


def test_what_was_cancelled_is_stopped(shop: Shop) -> None:
    until = time.monotonic() + 1
    engine = PostgresEngine(lambda: shop.host, "task-1", lambda: time.monotonic() > until)
    with pytest.raises(CancelledError):
        engine.begin(
            shop.server,
            [shop.text("SELECT count(*) FROM generate_series(1, 100000000000) n")],
            reads_only=False,
            seconds=30,
            folder=shop.folder,
        )


@pytest.mark.req("PX-29")
def test_a_check_that_comes_with_the_commit_comes_before_it(shop: Shop) -> None:
    shop.ask("CREATE TABLE late (id integer PRIMARY KEY, c integer REFERENCES customers DEFERRABLE INITIALLY DEFERRED)")
    with pytest.raises(EnvironmentFailureError, match="constraints must hold"):
        shop.begin("INSERT INTO late VALUES (1, 77)")
    shop.apply("INSERT INTO late VALUES (1, 77); INSERT INTO customers VALUES (77, 'late', NULL)")
    assert shop.ask("SELECT c FROM late") == [(77,)]


def test_a_commit_that_the_server_did_not_do_is_reported_as_such(shop: Shop) -> None:
    with shop.begin(CHANGE) as session:
        shop.ask(f"SELECT pg_terminate_backend({session.result.transaction.backend})", url=shop.admin)
        with pytest.raises(CommitFailedError, match="not committed"):
            session.commit()
    assert shop.ask("SELECT count(*) FROM orders WHERE total = 99") == [(0,)]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_rows_are_saved(shop: Shop, form: str) -> None:
    folder = shop.folder.folder("results")
    text = shop.text(
        "SELECT 1; SELECT id, name, city, id = 1 AS first, '{\"a\": [1]}'::jsonb AS j, 1.50 AS n, "
        "'NaN'::float8 AS f, '' AS e "
        "FROM customers ORDER BY id LIMIT $most",
        1,
        parameters={"most": 2},
        results=folder / f"rows.{form}",
        form=form,
    )
    shop.ask("UPDATE customers SET city = 'a,\"b\"' WHERE id = 1; UPDATE customers SET city = NULL WHERE id = 2")
    shop.preview(text)
    said = (folder / f"rows.{form}").read_text()
    if form == "csv":
        assert said == (
            "id,name,city,first,j,n,f,e\n"
            '1,Ada,"a,""b""",t,"{""a"": [1]}",1.50,NaN,""\n'
            '2,Bob,,f,"{""a"": [1]}",1.50,NaN,""\n'
        )
    else:
        assert json.loads(said)[0] == {
            "id": 1,
            "name": "Ada",
            "city": 'a,"b"',
            "first": True,
            "j": {"a": [1]},
            "n": 1.5,
            "f": "NaN",
            "e": "",
        }
        assert json.loads(said)[1]["city"] is None


def test_no_rows_are_a_file_without_rows(shop: Shop) -> None:
    path = shop.folder.folder("results") / "rows.json"
    shop.preview(shop.text("SELECT 1 AS a WHERE false", 1, results=path, form="json"))
    assert json.loads(path.read_text()) == []


def test_parquet_is_not_offered(shop: Shop) -> None:
    path = shop.folder.folder("results") / "rows.parquet"
    with pytest.raises(RefusedError) as refused:
        shop.preview(shop.text("SELECT 1", 1, results=path, form="parquet"))
    assert refused.value.reason is Reason.CAPABILITY_UNSUPPORTED
    assert ".csv" in refused.value.next_step


def test_rows_that_are_expected_must_come(shop: Shop) -> None:
    with pytest.raises(EnvironmentFailureError, match="rows were expected"):
        shop.preview(shop.text("SELECT 1 WHERE false", 1, expect_results=True))
    path = shop.folder.folder("results") / "rows.csv"
    with pytest.raises(RefusedError, match="no SELECT that returns rows"):
        shop.preview(shop.text("DELETE FROM log", 1, results=path, form="csv"))


def test_several_files_of_one_action_are_one_action_and_told_by_name(shop: Shop) -> None:
    one = shop.text("UPDATE customers SET city = 'x' WHERE id = 1", 4, name="a.sql")
    two = shop.text("UPDATE customers SET city = 'y' WHERE id = 2", 4, name="b.sql")
    (action,) = shop.preview(one, two).actions
    assert action.answer is not None
    assert [statement.number for statement in action.answer.statements] == [1, 2]
    assert action.tables == (("public.customers", 0, 2, 0),)
    with pytest.raises(EnvironmentFailureError) as failed:
        shop.preview(one, shop.text("SELECT nowhere", 4, name="b.sql"))
    assert failed.value.where == "b.sql"


def test_a_large_result_does_not_grow_the_process(shop: Shop) -> None:
    answer = shop.preview("SELECT repeat('x', 1000) FROM generate_series(1, 300000)").actions[0].answer
    assert answer is not None
    assert answer.result_rows == 300_000
    assert len(answer.rows) == 20


def test_everything_works_without_walls_if_they_are_switched_off(shop: Shop, tmp_path: Path) -> None:
    with make_host(tmp_path / "unconfined", confined=False) as host:
        shop.engine = PostgresEngine(lambda: host, "task-1", lambda: False)
        done = shop.apply(CHANGE)
        assert done.images is not None
        shop.undo(done.images.descriptor)


def test_many_sessions_can_be_open_at_a_time(shop: Shop, host: SandboxHost) -> None:
    with shop.begin("UPDATE customers SET city = 'a'"), shop.begin("INSERT INTO log VALUES ('b')") as second:
        second.commit()
    assert shop.ask("SELECT line FROM log") == [("b",)]
    assert shop.ask("SELECT count(*) FROM customers WHERE city = 'a'") == [(0,)]
