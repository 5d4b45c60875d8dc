"""What is masked in a statement of SQL that a person says yes or no to: values that are secrets, and never code."""

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remit.masking import mask_sql
from remit.masking.sql import tokens_of
from remit.plans.model.simulation_result import show_sql

pytestmark = pytest.mark.req("VX-08")

_VALUE_OR_REMARK = frozenset({"string", "escaped", "dollar", "remark", "block"})


def test_a_name_beside_it_hides_nothing_that_is_not_its_own_value(subtests: pytest.Subtests) -> None:
    for text in [
        "UPDATE users SET password = password, role = 'admin', salary = 999999 WHERE name = 'mallory'",
        "UPDATE users SET token = token || 'x' WHERE name = 'mallory'",
        "SELECT * FROM users WHERE password IS NOT NULL AND role = 'admin' OR id = 7",
        "UPDATE users SET secret = secret\n, role = 'admin'",
        "DELETE FROM orders USING (SELECT 1 AS \"'\") c WHERE token = `'` OR true OR 'a' = 'b'",
        "SELECT 1 AS `-- password: `, (SELECT max(salary) FROM staff), 3 AS x FROM t",
        "UPDATE users SET password = query_to_xml('DELETE FROM staff', true, false, '')",
        "INSERT INTO t (name, password) VALUES ('bob', f('DELETE FROM staff'), 'x')",
        "INSERT INTO t (name, password) SELECT *, 'x' FROM u",
        "INSERT INTO t VALUES ('bob', 'x')",
        "INSERT INTO t (password, a) VALUES ($1, 'b') UNION SELECT f('x', 'y')",
        "SELECT note || 'x' AS password, 'y' AS note",
        "SELECT E'a'\n'\\', password = ', DELETE FROM staff --'",
    ]:
        with subtests.test(text):
            assert mask_sql(text) == text


def test_a_value_is_hidden_by_its_place_and_nothing_else(subtests: pytest.Subtests) -> None:
    for text, shown in [
        (
            "INSERT INTO a.t (name, password, role) VALUES ('bob', 'hunter2', $role), ('ada', E'x\\'y', 'user')",
            "INSERT INTO a.t (name, password, role) VALUES ('bob', '********', $role), ('ada', E'********', 'user')",
        ),
        (
            'INSERT INTO t ("Password", pin) OVERRIDING USER VALUE VALUES ($$a$$::text, 1234) RETURNING 7',
            'INSERT INTO t ("Password", pin) OVERRIDING USER VALUE VALUES ($$********$$::text, ********) RETURNING 7',
        ),
        (
            "INSERT INTO t (name, password) SELECT 'bob', 'hunter2' FROM u WHERE a = 'b'",
            "INSERT INTO t (name, password) SELECT 'bob', '********' FROM u WHERE a = 'b'",
        ),
        (
            "WITH n(name, password) AS NOT MATERIALIZED (VALUES ('bob', 'hunter2')) SELECT 'x', 'y'",
            "WITH n(name, password) AS NOT MATERIALIZED (VALUES ('bob', '********')) SELECT 'x', 'y'",
        ),
        (
            "UPDATE t SET (name, password) = ROW ('bob', 'hunter2'), a = ('c', 'd')",
            "UPDATE t SET (name, password) = ROW ('bob', '********'), a = ('c', 'd')",
        ),
        (
            "SELECT 'bob' AS name, 'hunter2' AS password, 'x' AS role",
            "SELECT 'bob' AS name, '********' AS password, 'x' AS role",
        ),
        (
            "ALTER TABLE t ALTER COLUMN password SET DEFAULT 'changeme', ALTER a SET DEFAULT 'b'",
            "ALTER TABLE t ALTER COLUMN password SET DEFAULT '********', ALTER a SET DEFAULT 'b'",
        ),
        (
            "CREATE TABLE t (a TEXT DEFAULT 'b', password VARCHAR(20) NOT NULL DEFAULT 'c', d TEXT DEFAULT 'e')",
            "CREATE TABLE t (a TEXT DEFAULT 'b', password VARCHAR(20) NOT NULL DEFAULT '********', d TEXT DEFAULT 'e')",
        ),
        (
            "UPDATE t SET password =\n  -- new\n  'hunter2', a = crypt('b'), token = crypt('c', 'd')",
            "UPDATE t SET password =\n  -- new\n  '********', a = crypt('b'), token = crypt('********', 'd')",
        ),
    ]:
        with subtests.test(text):
            assert mask_sql(text) == shown
            assert mask_sql(shown) == shown


def test_what_ends_a_comment_for_the_engine_ends_its_line_for_the_reader() -> None:
    shown = show_sql("DELETE FROM t WHERE id = 1 -- cleaning up\rOR true AND\r\nsecret = 'abc'", 1_000).text
    assert shown.split("\n") == [
        "DELETE FROM t WHERE id = 1 -- cleaning up\\r",
        "OR true AND",
        "secret = '********'",
        "-- masked in this statement: line 3",
    ]


def test_a_statement_that_is_short_only_because_of_its_masks_is_still_reported_as_cut() -> None:
    """Its end was never handed over."""
    assert show_sql("UPDATE t SET password = '" + "x" * 3_000 + "' WHERE tr", 2_000).is_cut


PIECES = st.sampled_from(
    ["password = ", "'", "''", '"', "`", "``", "--", "/*", "*/", "\n", "\r", " ", "$$", "$a$", "$é$", "$1", "E'", "e'",
     "N'", "U&'", "x'", "\\", "\\'", "a", "é", "\u00a0", "7", "1_0", ".", "(", ")", ";", ",", ":", "=", "#", "@", "|",
     "VALUES", "DELETE", "E'\\''", "`'`", " 'a' ", "\"'\"", "/* ' */", "-- '\n", "$$'$$", "$a$ ' $a$", " E'a'\n'\\'' "]
)  # fmt: skip


@settings(deadline=None, max_examples=400)
@given(st.lists(PIECES, max_size=20).map("".join))
def test_what_is_taken_for_a_value_or_a_remark_is_that_to_the_engine_too(text: str) -> None:
    """Nothing that it runs begins within one: else code could be masked as a part of it."""
    begins = {start for start, _ in duckdb.tokenize(text)}
    at = 0
    for token in tokens_of(text):
        size = len(token.text.encode())
        if token.kind in _VALUE_OR_REMARK:
            assert not {start for start in begins if at < start < at + size}, (text, token)
        at += size
    assert at == len(text.encode())
