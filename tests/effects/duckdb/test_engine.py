"""Statements on a copy, in the real sandbox: their effects, their report, and the file afterwards."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, UsageError
from remit.sandbox.memfd import sealed
from tests.effects.duckdb.duckdb_sandbox import Shop, make_database


@pytest.mark.req("PX-18")
def test_rows_are_inserted_updated_deleted_and_merged_and_counted(shop: Shop) -> None:
    output = shop.run(
        "INSERT INTO t VALUES (3, 'three'), (4, 'four');"
        "UPDATE t SET b = upper(b) WHERE a > 2;"
        "DELETE FROM t WHERE a = 1;"
        "MERGE INTO t USING victim v ON t.a = v.a + 1 WHEN MATCHED THEN UPDATE SET b = 'merged';"
    )
    assert [(one["kind"], one["rows_changed"]) for one in output["statements"]] == [
        ("INSERT", 2),
        ("UPDATE", 2),
        ("DELETE", 1),
        ("MERGE_INTO", 1),
    ]
    assert output["changed"] is True
    assert shop.ask("SELECT * FROM t ORDER BY a") == [(2, "merged"), (3, "THREE"), (4, "FOUR")]


@pytest.mark.req("PX-18")
def test_tables_views_and_the_rest_are_made_altered_and_dropped(shop: Shop) -> None:
    output = shop.run(
        "CREATE TABLE n AS SELECT a * 2 AS d FROM t; CREATE VIEW w AS SELECT d FROM n; CREATE SCHEMA s;"
        "CREATE TABLE s.x (a INTEGER PRIMARY KEY); CREATE INDEX i ON n (d); CREATE SEQUENCE q;"
        "CREATE TYPE m AS ENUM ('a');"
        "CREATE OR REPLACE MACRO plus(a) AS a + 1; ALTER TABLE t ADD COLUMN c INTEGER; COMMENT ON TABLE t IS 'x';"
        "DROP TABLE victim; DROP VIEW IF EXISTS nothing; TRUNCATE secret"
    )
    words = [one["words"] for one in output["statements"]]
    assert words[:5] == ["creates n; reads t", "creates w; reads n", "creates s", "creates s.x", "creates i"]
    assert words[8:] == ["alters t", "alters t", "drops victim", "drops nothing", "deletes from secret"]
    assert shop.ask("SELECT d FROM w ORDER BY d") == [(2,), (4,)]
    assert shop.ask("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'victim'") == [(0,)]


@pytest.mark.req("PX-18")
def test_the_file_is_whole_and_closed(shop: Shop) -> None:
    before = shop.digest
    assert shop.run("INSERT INTO victim VALUES (2)")["changed"] is True
    assert shop.digest != before
    assert [path.name for path in shop.work.iterdir()] == ["shop.duckdb"], "no log is left beside it"


@pytest.mark.req("PX-18")
def test_a_missing_database_is_created(shop: Shop) -> None:
    shop.database.unlink()
    assert shop.run("CREATE TABLE first AS SELECT 1 AS a")["changed"] is True
    assert shop.ask("FROM first") == [(1,)]


def test_an_explained_statement_changes_no_row(shop: Shop) -> None:
    (told,) = shop.run("EXPLAIN DELETE FROM t")["statements"]
    assert (told["rows_read"], told.get("rows_changed"), told["destroys"]) == (3, None, False)
    assert shop.ask("SELECT count(*) FROM t") == [(2,)]


def test_but_reading_does_not_create_a_database(shop: Shop) -> None:
    shop.database.unlink()
    output = shop.run("SELECT 42")
    assert (output["rows"], output["changed"]) == ([["42"]], False)
    assert not shop.database.exists()


@pytest.mark.req("PX-18")
def test_a_text_that_only_reads_changes_nothing_and_says_so(shop: Shop) -> None:
    before = shop.digest
    output = shop.run("SELECT a FROM t; SELECT b FROM t ORDER BY a DESC")
    assert (output["changed"], shop.digest) == (False, before)
    assert (output["rows"], output["result_rows"]) == ([["two"], ["one"]], 2)
    assert output["schema"] == [{"name": "b", "type": "VARCHAR"}]
    assert [one["rows_read"] for one in output["statements"]] == [2, 2]


@pytest.mark.req("PX-18")
def test_a_failing_third_statement_undoes_the_first_two(shop: Shop) -> None:
    before = shop.digest
    with pytest.raises(EnvironmentFailureError, match=r"statement 3 \(INSERT\)") as failed:
        shop.run("INSERT INTO t VALUES (7, 'x'); DROP TABLE victim; INSERT INTO nothing VALUES (1)")
    assert failed.value.reason is Reason.SQL_FAILED
    assert shop.ask("SELECT count(*) FROM t") == [(2,)]
    assert shop.ask("SELECT count(*) FROM victim") == [(1,)]
    assert shop.digest == before, "and the copy, which nobody uses, is still the copy"


@pytest.mark.req("PX-18")
def test_rows_that_a_change_returns_are_counted_whatever_their_type(shop: Shop) -> None:
    output = shop.run("CREATE TABLE w (a TIMESTAMPTZ); INSERT INTO w VALUES (now()), (now()) RETURNING a")
    assert output["statements"][1]["rows_changed"] == 2
    assert output["statements"][1]["columns"] == [{"name": "a", "type": "TIMESTAMP WITH TIME ZONE"}]
    within = shop.run("WITH x AS (DELETE FROM w RETURNING a) SELECT count(*) FROM x")
    assert (within["changed"], within["statements"][0]["rows_changed"]) == (True, None)
    assert shop.ask("SELECT count(*) FROM w") == [(0,)]


@pytest.mark.req("PX-18")
def test_a_statement_sees_what_the_one_before_it_made(shop: Shop) -> None:
    output = shop.run("CREATE TEMP TABLE x AS FROM secret; CREATE VIEW w AS FROM t; SELECT 1 FROM x, w LIMIT 1")
    assert output["statements"][2]["reads"] == ["temp.x", "t"]
    assert shop.ask("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'x'") == [(0,)]


# --- parameters ------------------------------------------------------------------------------------------------------


@pytest.mark.req("PX-18")
def test_named_parameters_are_bound_and_never_become_sql(shop: Shop) -> None:
    nasty = "x'); DROP TABLE t; --"
    shop.run("INSERT INTO t VALUES ($number, $text)", parameters={"number": 9, "text": nasty})
    assert shop.ask("SELECT b FROM t WHERE a = 9") == [(nasty,)]
    assert shop.run("SELECT count(*) FROM t WHERE b = $text", parameters={"text": nasty})["rows"] == [["1"]]


@pytest.mark.req("PX-18")
@pytest.mark.parametrize("text", ["SELECT ? + ?", "SELECT $1 + $2"])
def test_parameters_by_place_have_numbers_for_names(shop: Shop, text: str) -> None:
    assert shop.run(text, parameters={"1": 40, "2": 2})["rows"] == [["42"]]


@pytest.mark.req("PX-18")
def test_each_statement_takes_the_parameters_that_it_uses(shop: Shop) -> None:
    output = shop.run("SELECT $a; INSERT INTO t VALUES ($b, $a); SELECT 1", parameters={"a": "x", "b": 5})
    assert len(output["statements"]) == 3
    assert shop.ask("SELECT b FROM t WHERE a = 5") == [("x",)]


@pytest.mark.req("PX-18")
@pytest.mark.parametrize("value, shown", [(None, None), (True, "true"), (1.5, "1.5"), (2**70, str(2**70)), ("ü", "ü")])
def test_a_value_of_any_plain_kind_arrives(shop: Shop, value: Any, shown: str | None) -> None:
    assert shop.run("SELECT $v AS v", parameters={"v": value})["rows"] == [[shown]]


@pytest.mark.req("PX-18")
@pytest.mark.parametrize(
    "parameters, words",
    [
        ({}, "'a' is used and has no value"),
        ({"a": 1, "b": 2}, "'b' has a value and is not used"),
        ({"a": [1]}, "'a' is a list or an object"),
    ],
)
def test_a_missing_or_an_unused_parameter_is_refused(shop: Shop, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(RefusedError, match=words) as refused:
        shop.run("SELECT $a", parameters=parameters)
    assert refused.value.reason is Reason.SQL_REFUSED
    assert ("a string, a number, true, false or null" in refused.value.next_step) is ("list" in words)


def test_the_refusal_of_a_statement_that_uses_a_file_says_how_to_load_it(shop: Shop) -> None:
    for text in ("INSERT INTO t SELECT * FROM read_csv('x.csv')", "INSERT INTO t SELECT * FROM 'x.csv'"):
        with pytest.raises(RefusedError) as refused:
            shop.run(text)
        assert "pipeline" in refused.value.next_step


# --- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("PX-18")
@pytest.mark.parametrize("form, reader", [("parquet", "read_parquet"), ("csv", "read_csv"), ("json", "read_json")])
def test_the_rows_of_the_last_select_are_saved(shop: Shop, form: str, reader: str) -> None:
    text = "INSERT INTO t VALUES (3, 'a, \"b\"'); SELECT 99; SELECT a, b FROM t ORDER BY a"
    output = shop.run(text, results={"format": form})
    saved = shop.work / "results.out"
    read = duckdb.connect().execute(f"SELECT a, b FROM {reader}('{saved}')").fetchall()
    assert read == [(1, "one"), (2, "two"), (3, 'a, "b"')]
    assert output["result_rows"] == 3


@pytest.mark.req("PX-18")
def test_random_rows_are_saved_as_they_are_shown(shop: Shop) -> None:
    output = shop.run("SELECT uuid() AS id FROM range(5)", results={"format": "csv"})
    saved = (shop.work / "results.out").read_text().splitlines()
    assert saved == ["id", *(row[0] for row in output["rows"])]


@pytest.mark.req("PX-18")
@pytest.mark.parametrize("text", ["DELETE FROM t", "EXPLAIN SELECT 1", "SELECT 1; EXPLAIN SELECT 1"])
def test_there_must_be_rows_to_save(shop: Shop, text: str) -> None:
    with pytest.raises(RefusedError, match="it has no SELECT"):
        shop.run(text, results={"format": "parquet"})


@pytest.mark.req("PX-18")
@pytest.mark.parametrize(
    "text", ["SELECT * FROM t WHERE false", "DELETE FROM t", "INSERT INTO t (a) VALUES (1) RETURNING a"]
)
def test_the_action_fails_if_expected_rows_are_missing(shop: Shop, text: str) -> None:
    before = shop.digest
    with pytest.raises(EnvironmentFailureError, match="rows were expected") as failed:
        shop.run(text, expect_results=True)
    assert failed.value.reason is Reason.SQL_FAILED
    assert shop.digest == before


def test_the_action_succeeds_with_expected_rows(shop: Shop) -> None:
    assert shop.run("SELECT * FROM t", expect_results=True)["result_rows"] == 2


def test_only_some_of_many_rows_and_parts_of_long_values_are_shown(shop: Shop) -> None:
    output = shop.run("SELECT repeat('x', 10000) a FROM range(1000)", preview_rows=3)
    assert [[len(cell) for cell in row] for row in output["rows"]] == [[259], [259], [259]]
    assert output["result_rows"] == 1_000
    wide = ", ".join(f"repeat('x', 300) c{number}" for number in range(900))
    assert len(shop.run(f"SELECT {wide} FROM range(100)", preview_rows=100)["rows"]) == 0, "not one row fits"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT NULL, [1, NULL], {'k': 1}, DATE '2020-01-31', 'a'::BLOB",
        "SHOW TABLES",
        "DESCRIBE t",
        "SUMMARIZE t",
        "FROM t",
        "VALUES (1)",
    ],
)
def test_every_type_of_value_and_every_way_to_read_can_be_shown(shop: Shop, text: str) -> None:
    output = shop.run(text)
    assert output["result_rows"] >= 1
    assert not output["changed"]


# --- reading the real file --------------------------------------------------------------------------------------------


@pytest.mark.req("PX-18")
def test_reading_needs_no_right_to_write(shop: Shop) -> None:
    before = shop.digest
    assert shop.run("SELECT count(*) FROM t", mode="read")["rows"] == [["2"]]
    assert shop.digest == before
    assert [path.name for path in shop.work.iterdir()] == ["shop.duckdb"]


@pytest.mark.req("PX-19")
@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_macro_that_hides_a_change_cannot_change_anything(shop: Shop, mode: str) -> None:
    before = shop.digest
    with pytest.raises(RemitError, match="a macro or a view that it uses would change the database"):
        shop.run("SELECT hidden_nextval()", mode=mode)
    assert shop.digest == before


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_database_that_another_process_has_open_is_busy(shop: Shop, mode: str) -> None:
    program = (
        f"import duckdb, sys; c = duckdb.connect({str(shop.database)!r}); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(EnvironmentFailureError) as failed:
            shop.run("SELECT 1" if mode == "read" else "DELETE FROM t", mode=mode)
        other.communicate()
    assert failed.value.reason is Reason.DATABASE_BUSY
    assert str(shop.database) not in str(failed.value)


# --- files -----------------------------------------------------------------------------------------------------------

LEFT_OPEN: Final = """
import duckdb, os, sys
c = duckdb.connect(sys.argv[1])
c.execute("PRAGMA disable_checkpoint_on_shutdown; SET checkpoint_threshold = '1GB'")
c.execute("INSERT INTO victim VALUES (1000)")
os._exit(0)
"""


@pytest.mark.req("PX-18")
@pytest.mark.parametrize(
    "text", ["SELECT max(a) FROM victim", "INSERT INTO t SELECT a, 'w' FROM victim; SELECT max(a) FROM t"]
)
def test_rows_that_are_still_in_the_write_ahead_log_are_used(shop: Shop, text: str) -> None:
    subprocess.run([sys.executable, "-c", LEFT_OPEN, str(shop.database)], check=True)
    assert (shop.work / "shop.duckdb.wal").exists(), "the control"
    assert shop.run(text)["rows"] == [["1000"]]
    with_log = shutil.copytree(shop.work, shop.work.parent / "seen")
    assert duckdb.connect(str(with_log / "shop.duckdb")).execute("SELECT max(a) FROM victim").fetchall() == [(1000,)]


@pytest.mark.parametrize("content", [b"not a database " * 1_000, b"SQLite format 3\0" + b"\0" * 4096, b"x"])
def test_the_message_names_a_file_that_is_not_a_database(shop: Shop, content: bytes) -> None:
    shop.database.write_bytes(content)
    with pytest.raises(EnvironmentFailureError) as failed:
        shop.run("DELETE FROM t")
    assert failed.value.reason is Reason.SQL_FAILED
    assert str(shop.work) not in str(failed.value)


@pytest.mark.parametrize(
    "alias", ["memory", "temp", "system", "main", "information_schema", "PG_catalog", "we ird\"'", "select"]
)
def test_a_database_of_any_name_can_be_used_by_that_name(shop: Shop, alias: str) -> None:
    assert shop.run("SELECT count(*) FROM t", alias=alias)["rows"] == [["2"]]
    assert shop.run("INSERT INTO main.t VALUES (3, 'c'); SELECT count(*) FROM t", alias=alias)["rows"] == [["3"]]


def test_the_folder_of_a_database_can_have_any_name(tmp_path: Path, shop: Shop) -> None:
    odd = Shop(tmp_path / 'it\'s an; "odd" one', shop.host)
    assert odd.run("INSERT INTO victim VALUES (2); SELECT count(*) FROM victim", results={"format": "csv"})["rows"] == [
        ["2"]
    ]


@pytest.mark.req("PX-19")
def test_a_link_to_a_database_is_not_followed(shop: Shop) -> None:
    make_database(shop.outside / "real.duckdb", "CREATE TABLE t (a INTEGER)")
    shop.database.unlink()
    shop.database.symlink_to(shop.outside / "real.duckdb")
    before = (shop.outside / "real.duckdb").read_bytes()
    with pytest.raises(EnvironmentFailureError):
        shop.run("DELETE FROM t")
    assert (shop.outside / "real.duckdb").read_bytes() == before


@pytest.mark.req("PX-18")
def test_a_long_text_comes_as_a_descriptor(shop: Shop) -> None:
    text = "-- " + "x" * 100_000 + "\nSELECT 7"
    with sealed("query", text.encode()) as descriptor:
        assert shop.run(None, given={"query": descriptor})["rows"] == [["7"]]
    with sealed("query", b"SELECT '\xff'") as descriptor, pytest.raises(RefusedError, match="UTF-8"):
        shop.run(None, given={"query": descriptor})


@pytest.mark.parametrize("inputs", [{"mode": "maybe"}, {"results": {"format": "xlsx"}}])
def test_an_invalid_order_is_a_usage_error(shop: Shop, inputs: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        shop.run("SELECT 1", **inputs)


def test_random_values_differ_from_one_process_to_the_next(shop: Shop) -> None:
    seen = {shop.run("SELECT uuid(), random()")["rows"][0][0] for _ in range(4)}
    assert len(seen) == 4


# --- errors ----------------------------------------------------------------------------------------------------------

SECRETS: Final = {
    "cast": "SELECT CAST(pw AS DATE) FROM secret",
    "a message of one's own": "SELECT error(pw) FROM secret",
    "a message that looks like another": "SELECT error('Constraint Error: CHECK constraint failed' || pw) FROM secret",
    "a zone": "SELECT timezone(pw, now()) FROM secret",
    "a sequence": "SELECT nextval(pw) FROM secret",
    "a part of a date": "SELECT date_trunc(pw, now()) FROM secret",
    "a format": "SELECT format(pw || '{:z}', 1) FROM secret",
    "a zone, in a new type": "ALTER TABLE secret ALTER pw TYPE TIMESTAMP USING timezone(pw, now())",
    "an analysis": "EXPLAIN ANALYZE SELECT timezone(pw, now()) FROM secret",
    "a unique key": "CREATE TABLE u (a VARCHAR UNIQUE); INSERT INTO u SELECT pw FROM secret, range(2)",
    "a check": "CREATE TABLE u (a VARCHAR CHECK (a = 'x')); INSERT INTO u SELECT pw FROM secret",
    "a time": "SELECT strptime(pw, '%Y') FROM secret",
    "json": "SELECT json_extract(pw, '$.a') FROM secret",
    "an overflow": "SELECT CAST(ascii(pw) * 1000000 AS TINYINT) FROM secret",
    "an enumeration": "SELECT pw::ENUM('a') FROM secret",
    "a pattern": "SELECT regexp_matches('a', '(' || pw) FROM secret",
}


@pytest.mark.req("PX-19")
@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS.keys())
def test_an_error_names_the_statement_and_no_value_of_a_row(shop: Shop, text: str) -> None:
    with pytest.raises(RemitError, match=r"statement \d") as failed:
        shop.run(text)
    told = str(failed.value.as_json())
    assert failed.value.reason is Reason.SQL_FAILED
    assert "hunter2" not in told
    assert "104000000" not in told
    assert os.fspath(shop.work) not in told


def test_an_error_about_the_text_says_what_is_wrong(shop: Shop) -> None:
    with pytest.raises(EnvironmentFailureError, match="Table with name nothing does not exist"):
        shop.run("SELECT 1; SELECT * FROM nothing")
    with pytest.raises(EnvironmentFailureError, match='Referenced column "c" not found'):
        shop.run("SELECT c FROM t")
    with pytest.raises(RefusedError, match='syntax error at or near "SELEKT"'):
        shop.run("SELEKT 1")
    with pytest.raises(EnvironmentFailureError, match="PRIMARY KEY or UNIQUE constraint violation"):
        shop.run("CREATE TABLE p (a INTEGER PRIMARY KEY); INSERT INTO p VALUES (1), (1)")
