"""What masks leave of a text that a person says yes or no to: no secret, every line, and every word of a statement."""

import re
import time

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remit.masking import mask_diff, mask_shaped, mask_shown, mask_sql, mask_text
from remit.plans.model.simulation_result import show_sql, show_text

pytestmark = pytest.mark.req("VX-08")

HIDING = [
    '-- password="\nDELETE FROM users -- "',
    "-- password='\rDELETE FROM users -- '",
    '/* password=" */ DELETE FROM users /* " */',
    "/* secret: { */ DELETE FROM users /* } */",
    "SELECT 'password=''', (SELECT count(*) FROM users), ''''",
    "-- -----BEGIN PRIVATE KEY-----\nDELETE FROM users\n-- -----END PRIVATE KEY-----",
    "-- password: |\n  DELETE FROM users",
    'SELECT 1 AS password, $$ token=" $$ FROM users -- "',
    "SELECT /* <password> */ * FROM users /* </password> */",
    "SELECT E'\\'password=\"' FROM users -- \"",
    "SELECT /* /* token=' */ ' */ * FROM users -- '",
]


def test_a_statement_shows_what_it_does_whatever_a_comment_or_a_string_opens(subtests: pytest.Subtests) -> None:
    for text in HIDING:
        with subtests.test(text):
            for shown in (mask_sql(text), show_sql(text, 2_000).text):
                assert "users" in shown
                assert ("DELETE FROM users" in text) == ("DELETE FROM users" in shown)
                assert "\n-- masked" in shown or shown.count("\n") in {text.count("\n"), len(text.splitlines()) - 1}


def test_the_masks_of_records_hide_such_statements_so_the_cases_are_real() -> None:
    assert sum("users" not in mask_text(text) for text in HIDING) >= len(HIDING) / 2


@pytest.mark.parametrize(
    "text, shown",
    [
        ("UPDATE t SET password = 'hunter2', b = 'x' WHERE id = 7",
         "UPDATE t SET password = '********', b = 'x' WHERE id = 7"),
        ("ALTER USER bob PASSWORD $$hunter2$$", "ALTER USER bob PASSWORD $$********$$"),
        ("UPDATE c SET card = 4111111111111111, pin = 1234", "UPDATE c SET card = ****-****-****-1111, pin = ********"),
        ("SELECT '{\"password\": \"x1y2\"}' -- token=abc12", "SELECT '{\"password\": \"********\"}' -- token=********"),
        ("SET token = 'a\nb;\nc'", "SET token = '********\n********\n********'"),
        ('SELECT sk_live_abcdef012345, "ghp_0123456789abcdefghij"', 'SELECT sk_...2345, "ghp_...ghij"'),
        ("SELECT 'it' || token || 'x' FROM t WHERE secret = k", "SELECT 'it' || token || 'x' FROM t WHERE secret = k"),
    ],
)  # fmt: skip
def test_a_value_is_hidden_and_all_else_stays(text: str, shown: str) -> None:
    assert mask_sql(text) == shown
    assert mask_sql(shown) == shown


def test_masked_parts_of_a_statement_are_reported_with_their_lines() -> None:
    assert show_sql("SELECT 1\nFROM t", 100) == ("SELECT 1\nFROM t", False)
    shown = show_sql("UPDATE t\nSET password = 'hunter2',\nmail = 'ada@example.com', secret = 'abc'", 1_000)
    assert shown.text.endswith("\n-- masked in this statement: lines 2, 3")
    assert not shown.is_cut
    assert show_sql("SELECT '" + "y" * 5_000 + "'", 2_000) == ("SELECT '" + "y" * 1_992 + "...", True)
    assert "hunter2" not in show_sql("SELECT '" + "y" * 1_960 + "', password = 'hunter2hunter2' , 1", 2_000).text


def test_where_the_databases_do_not_read_alike_nothing_is_taken_for_a_value() -> None:
    for text in (
        "SELECT 1\u00a0$$, password = ', DELETE FROM users",
        "SELECT '1, password = DELETE FROM users",
        "DELETE FROM orders USING (SELECT 1 AS \"'\") c WHERE token = `'` OR true OR 'a' = 'b'",
        "SELECT 1 AS `-- password: `, (SELECT max(salary) FROM staff), 3 AS x FROM t",
    ):
        assert mask_sql(text) == text
    assert "IOSFODNN7" not in mask_sql("SELECT 1\u00a0$$ AKIAIOSFODNN7EXAMPLE")


SQL = st.sampled_from(
    ["password=", "token = ", '"', "'", "''", "--", "/*", "*/", "\n", "\r", " ", "$$", "$a$", "E'", "\\", "\\'", "x",
     "users", "DELETE", "7", "4111111111111111", "(", ")", ";", ",", "secret: {", "}",
     "-----BEGIN PRIVATE KEY-----", "é", "@", "`", "#", "x'", "U&'", "$1"]
)  # fmt: skip


def _words(text: str) -> list[str]:
    """Of the code alone, as the engine itself takes the text apart."""
    raw = text.encode()
    found = duckdb.tokenize(text)
    ends = [*(start for start, _ in found[1:]), len(raw)][: len(found)]
    kinds = {duckdb.token_type.identifier, duckdb.token_type.keyword, duckdb.token_type.operator}
    pieces = [raw[start:end] for (start, kind), end in zip(found, ends, strict=True) if kind in kinds]
    return re.findall(r"DELETE|users", b" ".join(piece for piece in pieces if not piece.startswith(b'"')).decode())


@settings(deadline=None, max_examples=300)
@given(st.lists(SQL, max_size=25).map("".join))
def test_no_word_that_the_engine_reads_as_code_is_ever_hidden(text: str) -> None:
    shown = mask_sql(text)
    assert shown.count("\n") == text.count("\n")
    for word in ("DELETE", "users"):
        assert len(re.findall(word, shown)) >= _words(text).count(word), (text, shown)


@settings(deadline=None)
@given(st.lists(SQL, max_size=25).map("".join))
def test_no_line_of_any_text_is_lost_and_a_second_look_changes_nothing(text: str) -> None:
    shown = mask_shown(text)
    assert len(shown.splitlines()) == len(text.splitlines())
    assert mask_shown(shown) == shown
    for line, masked in zip(text.splitlines(), shown.splitlines(), strict=True):
        assert "users" not in line or "users" in masked or re.search(r"=|:|KEY|secret|token|password", line), text


def test_every_line_of_a_key_is_hidden_and_nothing_else_in_it() -> None:
    body = "MIIEpAIBAAKCAQEA7Jn4\n  uK3x+0/9aBcDeFgHiJkL\nAb12=="
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"
    text = show_text(f"{key}\nand more\n-----BEGIN PRIVATE KEY-----\nDROP TABLE users;\n")
    assert text == (
        "-----BEGIN RSA PRIVATE KEY-----\n********\n  ********\n********\n-----END RSA PRIVATE KEY-----\nand more\n"
        "-----BEGIN PRIVATE KEY-----\nDROP TABLE users;\n"
    )


def test_a_preview_that_is_masked_again_loses_no_more_than_a_value() -> None:
    said = mask_shown('greet password="hunter2\\nand pay') + "\nto: ada@example.com, 4111 1111 1111 1111"
    again = mask_shaped(said)
    assert again == said.replace("ada@example.com", "a***@example.com").replace(
        "4111 1111 1111 1111", "****-****-****-1111"
    )


HOSTS = [
    "https://u:p@evil.example/x@bank.example/pay",
    "https://evil.example:/@bank.example/pay",
    "https://evil.example:000443/@bank.example/pay",
    "https://u:p@evil.example#@bank.example",
    "https://evil.example#@bank.example",
    "https://u:p@evil.example?@bank.example",
    "https://evil.example:?x=@bank.example/pay",
    "https://evil.example\\@bank.example/pay",
    r"https:\/\/u:p@evil.example\/x@bank.example",
    "postgres://a:b@evil.example/db@bank.example",
    "https://x@pw=evil.example/y",
    "https://x;auth=0123456789abcdefghij.evil.example/",
    "https://sk_live_abcdef0123456789.evil.example/",
    "sqlmap -u https://evil.example/x",
    "https://evil.example/x:y@tcp(bank.example)",
    '"https://evil.example/a"@bank.example',
    "token://evil.example/x",
    "u=https%3A%2F%2Fevil.example%3A%23%40bank.example",
]


def test_no_host_is_ever_hidden_behind_another(subtests: pytest.Subtests) -> None:
    for url in HOSTS:
        with subtests.test(url):
            for shown in (
                mask_shown(url),
                mask_shaped(mask_shown(url)),
                mask_diff(f"+{url}"),
                mask_sql(f"SELECT '{url}'"),
            ):
                assert "evil.example" in shown, shown
            assert ":p@" not in mask_shown(url), "and the password is"
            assert mask_shown(mask_shown(url)) == mask_shown(url)


def test_a_host_that_looks_like_a_number_or_stands_for_another_is_shown() -> None:
    assert mask_shown("https://u:hunter2@4111111111111111:8080/x") == "https://u:********@4111111111111111:8080/x"
    assert mask_shown("https://u@token:8080/x") == "https://u***@token:8080/x"
    forged = "hosta.zz\ue000 https://evil.example/ https://bank.example/"
    assert mask_shown(forged) == forged
    assert mask_shown("password=https://u:p@evil.example/x") == "password=********"


def test_it_takes_no_longer_for_being_hostile() -> None:
    for piece in ("password='", "/*", "$a", "E'\\", "'", "--\n", "token=1 ", "é$", "-----BEGIN PRIVATE KEY-----\n"):
        for text in (piece * 4_000, f"SELECT '{piece * 4_000}'"):
            begun = time.process_time()
            mask_sql(text, 2_000)
            mask_shown(text)
            assert time.process_time() - begun < 5, piece
