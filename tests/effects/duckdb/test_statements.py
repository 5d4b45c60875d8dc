"""The analysis of a text before it runs: kinds, tables, parameters, and whether it only reads."""

import pytest

from remit.core.errors import Reason, RefusedError
from remit.effects.duckdb.denylist import why_forbidden
from remit.effects.duckdb.instance import ENGINE
from remit.effects.duckdb.statements import MAX_STATEMENTS, MAX_TEXT, DuckdbStatement, analyse


def only(text: str) -> DuckdbStatement:
    (statement,) = analyse(text)
    return statement


@pytest.mark.req("PX-18")
def test_a_text_is_split_into_statements_by_the_engine() -> None:
    found = analyse("-- first;\nSELECT ';' AS a; /* ; */ INSERT INTO t VALUES (1) -- end\n;;\nDROP TABLE \"a;b\";")
    assert [(one.number, one.kind, one.text) for one in found] == [
        (1, "SELECT", "SELECT ';' AS a"),
        (2, "INSERT", "INSERT INTO t VALUES (1)"),
        (3, "DROP", 'DROP TABLE "a;b"'),
    ]


@pytest.mark.req("PX-18")
def test_the_tables_that_a_statement_names(subtests: pytest.Subtests) -> None:
    for text, reads, writes in [
        ("SELECT * FROM t, s.u JOIN (SELECT * FROM v) ON true", ("t", "s.u", "v"), ()),
        ("SELECT (SELECT max(a) FROM u) FROM t WHERE a IN (FROM w)", ("u", "t", "w"), ()),
        ("WITH x AS (FROM t) SELECT * FROM x", ("t",), ()),
        ("WITH t AS (FROM t) SELECT * FROM t", ("t",), ()),
        ("WITH x AS (FROM y), y AS (FROM x) SELECT * FROM y", ("y",), ()),
        ("WITH x AS (FROM t) SELECT * FROM s.x", ("t", "s.x"), ()),
        ("WITH RECURSIVE r AS (SELECT a FROM t UNION ALL SELECT a FROM r) FROM r", ("t",), ()),
        ("SELECT a FROM t UNION SELECT a FROM u", ("t", "u"), ()),
        ("INSERT INTO t SELECT * FROM u", ("u",), ("t",)),
        ("WITH x AS (FROM u) INSERT INTO s.t FROM x RETURNING a", ("u",), ("s.t",)),
        ("UPDATE t SET a = 1 FROM u WHERE t.a = u.a", ("u",), ("t",)),
        ("DELETE FROM t USING u WHERE t.a IN (FROM w)", ("w", "u"), ("t",)),
        ("TRUNCATE t", (), ("t",)),
        ("WITH x AS (DELETE FROM t RETURNING a) SELECT * FROM x, u", ("u",), ("t",)),
        ("MERGE INTO s.t USING u ON true WHEN MATCHED THEN DELETE", None, ("s.t",)),
        ("CREATE TABLE n AS SELECT * FROM t", ("t",), ("n",)),
        ("CREATE TEMP TABLE IF NOT EXISTS n (a INTEGER)", (), ("n",)),
        ('CREATE VIEW "odd "" one" (a, b) AS SELECT * FROM t', ("t",), ('odd " one',)),
        ("DROP TABLE IF EXISTS s.b CASCADE", (), ("s.b",)),
        ("ALTER TABLE t RENAME TO u", (), ("t",)),
        ("EXPLAIN DELETE FROM t", (), ()),
    ]:
        with subtests.test(text):
            found = only(text)
            assert found.writes == writes
            assert (found.reads and set(found.reads)) == (reads and set(reads))


@pytest.mark.req("PX-20")
def test_statements_that_remove_something_are_known_by_their_keywords(subtests: pytest.Subtests) -> None:
    for text, destroys in [
        ("DELETE FROM t", True),
        ("TRUNCATE t", True),
        ("DROP VIEW v", True),
        ("ALTER TABLE t DROP COLUMN a", True),
        ("CREATE OR REPLACE TABLE t (a INTEGER)", True),
        ("WITH x AS (DELETE FROM t RETURNING a) SELECT * FROM x", True),
        ("MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE", True),
        ("ALTER TABLE t ADD COLUMN a INTEGER", False),
        ("UPDATE t SET a = replace(b, 'DROP', 'DELETE')", False),
        ('INSERT INTO "drop" SELECT 1 -- DELETE', False),
        ("SELECT a AS deleted FROM t", False),
        ("EXPLAIN DELETE FROM t", False),
    ]:
        with subtests.test(text):
            assert only(text).destroys is destroys


@pytest.mark.req("PX-18")
def test_only_a_statement_that_changes_nothing_is_a_read(subtests: pytest.Subtests) -> None:
    for text, is_read in [
        ("SELECT 1", True),
        ("FROM t", True),
        ("TABLE t", True),
        ("SHOW TABLES", True),
        ("DESCRIBE t", True),
        ("EXPLAIN SELECT 1", True),
        ("EXPLAIN ANALYZE SELECT 1", True),
        ("EXPLAIN (FORMAT json) SELECT 1", True),
        ("EXPLAIN (SELECT 1)", True),
        ("EXPLAIN INSERT INTO t VALUES (1)", False),
        ('SELECT nextval FROM t, "nextval"', True),
        ("SELECT nextval('s')", False),
        ("SELECT \"NextVal\" ('s')", False),
        ("SELECT setval('s', 1)", False),
        ("SELECT currval('s')", True),
        ("WITH x AS (INSERT INTO t VALUES (1) RETURNING a) SELECT * FROM x", False),
        ("INSERT INTO t VALUES (1)", False),
        ("CREATE TEMP TABLE x (a INTEGER)", False),
    ]:
        with subtests.test(text):
            assert only(text).is_read is is_read


@pytest.mark.req("PX-18")
@pytest.mark.parametrize(
    "text, names",
    [
        ("SELECT $a, $b, $a", ("a", "b")),
        ("SELECT ?, ?", ("1", "2")),
        ("SELECT $2, $1", ("1", "2")),
        ("SELECT '$a', \"$b\" -- $c", ()),
        ("UPDATE t SET a = $a", ("a",)),
        ("EXPLAIN SELECT $a", ("a",)),
    ],
)
def test_the_parameters_of_a_statement(text: str, names: tuple[str, ...]) -> None:
    assert only(text).parameters == names


def test_a_name_is_not_taken_for_what_it_looks_like(subtests: pytest.Subtests) -> None:
    for text in [
        "INSERT INTO query (a) VALUES (1)",
        "CREATE TABLE IF NOT EXISTS query (a INTEGER)",
        "SELECT read_text, getenv FROM t",
        "SELECT 'read_text(''x'')' -- getenv('PATH')",
        "SELECT * FROM t WHERE b IS NOT DISTINCT FROM 'x'",
        "SELECT extract(year FROM '2020-01-01'::DATE), trim(BOTH 'x' FROM 'xax'), substring('abc' FROM 2)",
        "CREATE TABLE c (copy INTEGER, query VARCHAR)",
        "SELECT current_query(), regexp_matches('a', 'a')",
        "SELECT * FROM pragma_table_info('t')",
        "SELECT * FROM (PIVOT t ON a IN (1, 2) USING count(*))",
        "SELECT 1 AS größe",
    ]:
        with subtests.test(text):
            assert len(analyse(text)) == 1


def test_every_function_of_the_engine_that_reads_files_or_sets_something_is_known() -> None:
    """If a new version of the engine has more such functions, this test fails until they are reviewed."""
    rows = ENGINE.cursor().execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN ('table', 'table_macro')"
    )
    allowed = {name for (name,) in rows.fetchall() if not why_forbidden(name)}
    about_the_database = {name for name in allowed if name.startswith(("duckdb_", "pragma_"))}
    assert allowed - about_the_database == {
        *("generate_series", "range", "repeat", "repeat_row", "unnest", "summary", "json_each", "json_tree"),
        *("histogram", "histogram_values", "icu_calendar_names", "pg_timezone_names"),
        *("test_all_types", "test_vector_types"),
    }
    assert not {name for name in about_the_database if "setting" in name or "secret" in name or "path" in name} - {
        "duckdb_secret_types",
        "duckdb_secret_type_parameters",
    }


@pytest.mark.req("PX-18")
@pytest.mark.parametrize("text", ["", "  ;; ", "-- nothing", "/* nothing */"])
def test_a_text_without_a_statement_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match="no statement") as refused:
        analyse(text)
    assert refused.value.reason is Reason.SQL_REFUSED


def test_there_is_a_limit_to_statements_and_to_their_text() -> None:
    assert len(analyse("SELECT 1;" * MAX_STATEMENTS)) == MAX_STATEMENTS
    with pytest.raises(RefusedError, match="501 statements"):
        analyse("SELECT 1;" * (MAX_STATEMENTS + 1))
    with pytest.raises(RefusedError, match="characters"):
        analyse("SELECT 1 -- " + "x" * MAX_TEXT)


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(RefusedError, match="half of a character"):
        analyse("SELECT '\ud800'")


def test_a_long_list_of_values_is_not_parsed_but_its_table_is_known() -> None:
    found = only("INSERT INTO t VALUES " + ",".join(f"({number})" for number in range(10_000)) + " RETURNING a")
    assert (found.writes, found.reads, found.returns_rows) == (("t",), None, True)


def test_a_statement_whose_tree_is_too_deep_is_not_a_read() -> None:
    found = only("SELECT " + "+".join("1" * 900))
    assert (found.is_read, found.reads) == (False, None)


@pytest.mark.parametrize(
    "text, words",
    [
        ("SELECT 1", "reads no table"),
        ("SELECT * FROM t, u", "reads t, u"),
        ("INSERT INTO t FROM u", "inserts into t; reads u"),
        (
            "MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE",
            "merges into t; reads tables that are not known before it runs",
        ),
        ("WITH x AS (DELETE FROM t RETURNING a) FROM x", "changes t"),
        ("EXPLAIN UPDATE t SET a = 1", "explains a statement that updates t"),
    ],
)
def test_the_description_of_a_statement(text: str, words: str) -> None:
    assert only(text).words == words


@pytest.mark.req("PX-18")
@pytest.mark.parametrize(
    "text, is_one",
    [
        ("INSERT INTO t VALUES (1, 'x') ON CONFLICT DO UPDATE SET b = 'y'", True),
        ("INSERT OR REPLACE INTO t VALUES (1, 'x')", True),
        ("INSERT INTO t VALUES (1, 'x') ON CONFLICT DO NOTHING", False),
        ("INSERT INTO t VALUES (1, 'do update')", False),
    ],
)
def test_a_statement_that_inserts_or_updates_is_described_as_such(text: str, is_one: bool) -> None:  # noqa: FBT001
    (one,) = analyse(text)
    assert (one.kind, one.upserts) == ("INSERT", is_one)
    assert one.words.startswith("inserts into or updates t" if is_one else "inserts into t")


@pytest.mark.req("PX-18")
def test_the_message_names_the_line_with_the_syntax_error() -> None:
    with pytest.raises(RefusedError, match="line 3: Parser Error: syntax error at or near"):
        analyse("SELECT 1;\n\nSELECT * FORM t;")
