"""What nobody may read later: the text, its parameters and the rows. And what a text cannot reach."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from remit.plans.engines.duckdb import without_text
from tests.plans.project import plan_of, ran
from tests.plans.sql.shop import Shop, sql
from tests.support.kept_text import read_kept

WORDS = ("quokka-in-the-text", "axolotl-in-a-parameter", "xyzzy-hunter2", "4111222233334444")
TEXT = f"""
-- {WORDS[0]}
UPDATE people SET password = $new || '{WORDS[0]}' WHERE name <> '{WORDS[0]}' AND 4111222233334444 > 1;
SELECT password || '{WORDS[0]}', 4111222233334444, $new, password AS shown FROM people
"""


def everything_kept(shop: Shop, tmp_path: Path, logs: str) -> str:
    """All that Remit wrote anywhere, except the database itself, its backup, and the previews that people see."""
    kept = read_kept(tmp_path).items()
    return "\n".join((logs, *(text for path, text in kept if not path.name.endswith((".duckdb", ".duckdb.bak")))))


@pytest.mark.req("PX-18")
@pytest.mark.parametrize("fails", [False, True])
def test_no_text_no_parameter_and_no_row_is_kept(
    shop: Shop,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    fails: bool,  # noqa: FBT001
) -> None:
    caplog.set_level(logging.DEBUG)
    broken = f"INSERT INTO orders VALUES (1, '{WORDS[0]}', 0)" if fails else "SELECT 1 AS a"
    plan = plan_of(sql("a1", TEXT, parameters={"new": WORDS[1]}), sql("a2", broken), stop_on_error=False)
    envelope = shop.approve(plan, even_if_it_fails=True).canonical()
    heard: list[Any] = []
    outcome = ran(shop.workspace.apply(envelope, on_status=lambda update: heard.append(update.tree())))
    assert outcome.status.status == ("ROLLED_BACK" if fails else "SUCCESS")
    if not fails:
        (told, _) = outcome.report.sql
        assert [column.name for column in told.columns] == ["column 1", "column 2", "column 3", "shown"]
    kept = everything_kept(shop, tmp_path, caplog.text + json.dumps(heard) + outcome.canonical().decode())
    assert [word for word in WORDS if word in kept] == []


@pytest.mark.req("PX-18")
def test_the_members_of_a_type_are_no_name_of_it(shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They may have come from rows."""
    caplog.set_level(logging.DEBUG)
    shop.apply(plan_of(sql("a1", "CREATE TYPE e AS ENUM (SELECT password FROM people)")))
    text = "SELECT password::e AS x, [password::e] AS y, 1.5::DECIMAL(9,2) AS z FROM people"
    outcome = shop.apply(plan_of(sql("a1", text), plan_id="second"))
    assert [column.type for column in outcome.report.sql[0].columns] == ["ENUM", "ENUM[]", "DECIMAL(9,2)"]
    failing = shop.workspace.preview(plan_of(sql("a1", "SELECT sum(password::e) AS a FROM people"))).document
    assert failing.status == "WOULD_FAIL"
    kept = everything_kept(shop, tmp_path, caplog.text + outcome.canonical().decode() + failing.canonical().decode())
    assert [word for word in WORDS if word in kept] == []


@pytest.mark.req("PX-18")
@pytest.mark.parametrize(
    "text",
    [
        "SELECT list_aggr([1], $new) AS a",
        "SELECT struct_extract({'a': 1}, $new) AS a",
        'SELECT * FROM people WHERE name = "quokka-in-the-text"',
        "SELECT 1 'quokka-in-the-text'",
        "SELECT * FROM people WHERE 'quokka-in-the-text' = nowhere",
        "SELECT 'quokka-in-the-text'::INTEGER AS a",
        "SELECT 4111222233334444 4111222233334444",
        "SELECT CAST($new AS INTEGER) AS a",
        "SELECT error(password) AS a FROM people",
        "SELECT CAST(password AS INTEGER) AS a FROM people",
        "SELECT $$quokka-in-the-text$$ $$quokka-in-the-text$$",
        "SELECT nofunction('quokka-in-the-text') AS a",
        "INSERT INTO orders SELECT 1, password, 2 FROM people",
        "CREATE TABLE t (a INTEGER CHECK (a > 4111222233334444)); INSERT INTO t VALUES (1)",
    ],
)
def test_a_failure_quotes_nothing(kept_shop: Shop, text: str) -> None:
    parameters = {"new": WORDS[1]} if "$new" in text else {}
    document = kept_shop.workspace.preview(plan_of(sql("a1", text, parameters=parameters))).document
    assert document.status == "WOULD_FAIL"
    shown = document.canonical().decode()
    assert [word for word in WORDS if word in shown] == []
    assert document.problems[0].message


def test_of_the_engines_words_quotes_are_left_out_and_names_stay() -> None:
    assert without_text("it took 123456 bytes of 'x'") == "it took 123456 bytes of 'x'"
    told = without_text("statement 1 (SELECT): Catalog Error: Table with name ordrs does not exist! Did you mean 'x'?")
    assert told == "statement 1 (SELECT): Catalog Error: Table with name ordrs does not exist! Did you mean ...?"
    assert without_text("Parser Error: syntax error at or near \"'hush") == 'Parser Error: syntax error at or near "...'
    assert without_text("Binder Error: $a$ hush $a$ and 1234567") == "Binder Error: ... and ..."


@pytest.mark.req("PX-19")
@pytest.mark.parametrize(
    "text",
    [
        "COPY orders TO '{outside}/taken.csv'",
        "COPY orders FROM '{outside}/secret.csv'",
        "SELECT * FROM read_csv('{outside}/secret.csv')",
        "SELECT * FROM '{outside}/secret.csv'",
        "SELECT * FROM read_text('{state}/*')",
        "SELECT * FROM glob('{outside}/*')",
        "ATTACH '{outside}/other.duckdb'",
        "EXPORT DATABASE '{outside}/all'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "PRAGMA database_list",
        "SELECT * FROM 'https://example.com/x.csv'",
        "SELECT getenv('HOME') AS a",
        "CREATE PERSISTENT SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')",
        "USE memory",
        "CHECKPOINT",
        "BEGIN; DELETE FROM orders; COMMIT",
    ],
)
def test_a_text_reaches_nothing_but_its_database(kept_shop: Shop, tmp_path: Path, text: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.csv").write_text("word\nhunter2\n")
    before = kept_shop.tree()
    filled = text.format(outside=outside, state=kept_shop.root.parent / "state")
    for more in ({}, {"connection": "memory", "save_results_to": "x.csv"}):
        document = kept_shop.workspace.preview(plan_of(sql("a1", filled, **more))).document
        assert document.status == "WOULD_FAIL", document
        assert "hunter2" not in document.canonical().decode()
    assert sorted(path.name for path in outside.iterdir()) == ["secret.csv"]
    assert kept_shop.tree() == before
