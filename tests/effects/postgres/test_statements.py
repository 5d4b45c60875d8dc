"""Which statements run at all, by their first words; and how a text is taken apart, whatever quotes hide."""

import pytest

from remit.core.errors import Reason, RefusedError
from remit.effects.postgres.lexer import split, tokens_of
from remit.effects.postgres.statements import analyse, bind, values_of

REFUSED = {
    **dict.fromkeys(
        [
            *("BEGIN", "START TRANSACTION", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT a", "RELEASE a"),
            *("ROLLBACK TO a", "PREPARE TRANSACTION 'x'", "COMMIT PREPARED 'x'", "SET TRANSACTION READ WRITE"),
            *("SET search_path = x", "SET LOCAL x = 1", "RESET ALL", "SHOW all", "DISCARD ALL", "SET ROLE postgres"),
            *("COPY t TO '/tmp/x'", "COPY t FROM PROGRAM 'id'", "COPY (SELECT 1) TO STDOUT"),
            *("DO $$ BEGIN COMMIT; END $$", "CALL p()", "PREPARE p AS SELECT 1", "EXECUTE p", "DEALLOCATE p"),
            *("DECLARE c CURSOR FOR SELECT 1", "FETCH c", "MOVE c", "CLOSE c"),
            *("LISTEN a", "NOTIFY a", "UNLISTEN a", "LOCK TABLE t", "LOAD 'x'"),
            *("VACUUM", "ANALYZE", "CLUSTER t", "REINDEX TABLE t", "CHECKPOINT", "REFRESH MATERIALIZED VIEW v"),
            *("GRANT ALL ON t TO x", "REVOKE ALL ON t FROM x", "REASSIGN OWNED BY a TO b", "SECURITY LABEL ON t IS ''"),
            "IMPORT FOREIGN SCHEMA a FROM SERVER b INTO c",
        ],
        "statements of this kind are not allowed",
    ),
    **dict.fromkeys(
        [
            *("CREATE ROLE x", "CREATE USER x", "CREATE DATABASE x", "CREATE TABLESPACE x LOCATION '/x'"),
            *(
                "CREATE EXTENSION x",
                "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
                "CREATE PROCEDURE p()",
            ),
            *(
                "CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
                "CREATE TRIGGER t",
                "CREATE RULE r",
            ),
            *(
                "CREATE POLICY p ON t",
                "CREATE SERVER s",
                "CREATE PUBLICATION p",
                "CREATE SUBSCRIPTION p",
                "CREATE CAST (a AS b)",
            ),
            *(
                "CREATE FOREIGN TABLE t ()",
                "CREATE EVENT TRIGGER e",
                "CREATE LANGUAGE l",
                "CREATE OPERATOR +",
                "CREATE AGGREGATE a",
            ),
            *("CREATE STATISTICS s", "CREATE COLLATION c", "CREATE DOMAIN d AS int", "CREATE CONSTRAINT TRIGGER t"),
            *(
                "ALTER ROLE x SUPERUSER",
                "ALTER SYSTEM SET x = 1",
                "ALTER DATABASE x SET y = 1",
                "ALTER FUNCTION f() OWNER TO x",
            ),
            *("ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO x", "DROP OWNED BY x", "DROP FUNCTION f", "DROP ROLE x"),
            *("COMMENT ON ROLE x IS ''", "COMMENT ON DATABASE x IS ''", 'CREATE "table" x', "DROP"),
        ],
        "",
    ),
    "CREATE INDEX CONCURRENTLY i ON t (a)": "CONCURRENTLY",
    "DROP INDEX CONCURRENTLY i": "CONCURRENTLY",
    "CREATE SCHEMA s CREATE TABLE t (a int)": "more than a schema",
    "CREATE SCHEMA s GRANT ALL ON t TO x": "more than a schema",
    "CREATE TABLE t AS EXECUTE p": "not in the text",
    "EXPLAIN ANALYZE DELETE FROM t": "ANALYZE",
    "EXPLAIN (ANALYZE) SELECT 1": "ANALYZE",
    "EXPLAIN (COSTS off, analyse true) SELECT 1": "ANALYZE",
    'EXPLAIN ("analyze") SELECT 1': "ANALYZE",
    "EXPLAIN COPY t TO '/x'": "COPY",
    "EXPLAIN": "no statement",
    "(COMMIT)": "",
    "SELECT set_config('role', 'postgres', false)": "set_config changes",
    'SELECT "set_config" (1)': "set_config changes",
    "SELECT pg_catalog . set_config('a', 'b', true)": "set_config changes",
    "SELECT set_config/* */('a', 'b', true)": "set_config changes",
    "SELECT pg_terminate_backend(1)": "other sessions",
    "SELECT dblink_exec('', '')": "outside",
    "SELECT lo_import('/etc/passwd')": "large objects",
    "SELECT pg_read_file('/etc/passwd')": "outside",
    "SELECT query_to_xml('DELETE FROM t', true, true, '')": "runs a text",
    "SELECT pg_advisory_lock(1)": "other sessions",
    'SELECT U&"\\0073et_config"(1)': "U&",
    "SELECT 'open": "not closed",
    "SELECT $a$ open": "not closed",
    "SELECT /* /* nested */": "not closed",
    "": "no statement",
    " ; ;; -- nothing": "no statement",
    "SELECT 1\0": "NUL",
}


@pytest.mark.req("PX-19")
def test_what_is_not_for_a_plan_is_refused_by_its_kind(subtests: pytest.Subtests) -> None:
    for text, words in REFUSED.items():
        with subtests.test(text):
            with pytest.raises(RefusedError) as refused:
                analyse(text)
            assert refused.value.reason is Reason.SQL_REFUSED
            assert words in str(refused.value)
            assert refused.value.next_step


@pytest.mark.req("PX-19")
@pytest.mark.parametrize("hidden", ["COMMIT", "DROP ROLE x", "SET ROLE y"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1; {}",
        "SELECT 'a''b'; {}",
        "SELECT E'\\''; {} --'",
        "SELECT '\\'; {} --'",
        "SELECT $$ ; $$; {}",
        "SELECT $a$ $b$ $a$; {} ; SELECT $b$ $b$",
        "/* ; /* */ */ {}",
        "-- ' \n {}",
        'SELECT 1 AS "a;"";"; {}',
        "SELECT E'a'\n'\\''; {}",
        "SELECT U&'\\0027'; {}",
        "SELECT a$b$ FROM t; {}; SELECT $b$1$b$",
        "SELECT B'1', X'f', N'n'; {}",
    ],
)
def test_a_second_statement_is_found_behind_quotes_and_comments(text: str, hidden: str) -> None:
    with pytest.raises(RefusedError, match=hidden.split(maxsplit=1)[0]):
        analyse(text.format(hidden))


@pytest.mark.req("PX-19")
def test_what_stands_in_quotes_and_comments_is_no_statement(subtests: pytest.Subtests) -> None:
    for text in [
        "SELECT '; COMMIT'",
        "SELECT E'\\'; COMMIT; --'",
        "SELECT $$; COMMIT $$",
        "SELECT $a$; $$ COMMIT; $b$ $a$",
        "SELECT 1 -- ; COMMIT",
        "SELECT /* ; COMMIT /* ; */ ; */ 1",
        'SELECT 1 AS "; COMMIT"',
        "SELECT E'a'\n  '\\'; COMMIT; --'",
        "SELECT U&'\\0061; COMMIT'",
    ]:
        with subtests.test(text):
            assert len(analyse(text)) == 1


def test_statements_are_of_these_kinds(subtests: pytest.Subtests) -> None:
    for text, kind, is_read, structure, destroys in [
        ("SELECT 1", "SELECT", True, False, False),
        ("((SELECT 1)) UNION SELECT 2", "SELECT", True, False, False),
        ("VALUES (1)", "SELECT", True, False, False),
        ("TABLE t", "SELECT", True, False, False),
        ("SELECT * FROM t FOR UPDATE", "SELECT", True, False, False),
        ("SELECT nextval('s')", "SELECT", False, False, False),
        ("SELECT 1 INTO made", "CREATE", False, True, False),
        ("WITH a AS (SELECT 1) SELECT * FROM a", "SELECT", True, False, False),
        ("WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a", "SELECT", False, False, True),
        ("WITH a AS MATERIALIZED (SELECT 1) DELETE FROM t", "DELETE", False, False, True),
        ("INSERT INTO t SELECT 1", "INSERT", False, False, False),
        ("MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE", "MERGE_INTO", False, False, True),
        ("TRUNCATE t", "DELETE", False, True, True),
        ("CREATE TEMP TABLE t (a int)", "CREATE", False, True, False),
        ("CREATE UNIQUE INDEX i ON t (a)", "CREATE", False, True, False),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", "CREATE", False, True, False),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", "CREATE", False, True, False),
        ("ALTER TABLE t DROP COLUMN a", "ALTER", False, True, True),
        ("DROP SCHEMA s", "DROP", False, True, True),
        ("COMMENT ON COLUMN t.a IS 'x'", "ALTER", False, True, False),
        ("EXPLAIN (COSTS off) DELETE FROM t", "EXPLAIN", True, False, False),
        ("EXPLAIN VERBOSE SELECT 1", "EXPLAIN", True, False, False),
    ]:
        with subtests.test(text):
            (one,) = analyse(text)
            assert (one.kind, one.is_read, one.changes_structure, one.destroys) == (kind, is_read, structure, destroys)


@pytest.mark.parametrize(
    "text, named, empties",
    [
        ('TRUNCATE TABLE ONLY a, s."B c" RESTART IDENTITY', ("a", "s.B c"), (("a",), ("s", "B c"))),
        ("TRUNCATE a CASCADE", ("a",), ()),
        ("DROP TABLE IF EXISTS a, s.b CASCADE", ("a", "s.b"), ()),
        ("CREATE INDEX ON customers (name)", ("customers",), ()),
        ("CREATE UNIQUE INDEX ON ONLY s.customers (name)", ("s.customers",), ()),
        ("CREATE INDEX i ON customers (name)", ("i",), ()),
        ("CREATE TABLE a (b int, c int)", ("a",), ()),
    ],
)
def test_the_names_in_a_statement_show_which_objects_it_is_about(
    text: str, named: tuple[str, ...], empties: tuple[tuple[str, ...], ...]
) -> None:
    (one,) = analyse(text)
    assert (one.named, one.empties) == (named, empties)


def test_a_word_that_begins_no_statement_is_reported_with_the_words_that_do() -> None:
    with pytest.raises(RefusedError, match="this kind of statement is unknown") as refused:
        analyse("UPDAT t SET a = 1")
    assert "UPDATE" in refused.value.next_step


def test_a_parameter_becomes_a_number_and_its_value_never_text() -> None:
    (one,) = analyse("SELECT $a, $b::date, $a, '$c', \"$d\", $$ $e $$, a$f, $1 -- $g")
    assert one.text == "SELECT $1, $2::date, $1, '$c', \"$d\", $$ $e $$, a$f, $3"
    assert one.parameters == ("a", "b", "1")
    values = {"a": "'; DROP TABLE t; --", "b": None, "1": True}
    bind([one], values)
    assert values_of(one, values) == [b"'; DROP TABLE t; --", None, b"true"]


@pytest.mark.parametrize(
    "text, given, words",
    [
        ("SELECT $a", {}, "has no value"),
        ("SELECT 1", {"a": 1}, "is not used"),
        ("SELECT $a", {"a": [1]}, "a list or an object"),
        ("SELECT $a", {"a": "x\0"}, "NUL"),
    ],
)
def test_parameters_must_fit(text: str, given: dict[str, object], words: str) -> None:
    with pytest.raises(RefusedError, match=words) as refused:
        bind(analyse(text), given)
    assert "x\\0" not in str(refused.value)
    assert ("a string, a number, true, false or null" in refused.value.next_step) is ("list" in words)


def test_tokens_are_all_of_the_text_but_space_and_comments() -> None:
    text = 'SELECT a.b, 1.5e3 /* x */ -- y\n FROM "T""x" WHERE c @> \'{}\' ; TABLE t'
    assert [token.text for token in tokens_of("a<=b")] == ["a", "<", "=", "b"]
    assert [[token.text for token in one] for one in split(text)] == [
        ["SELECT", "a", ".", "b", ",", "1.5e3", "FROM", '"T""x"', "WHERE", "c", "@", ">", "'{}'"],
        ["TABLE", "t"],
    ]
