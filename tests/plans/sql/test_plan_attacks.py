"""Hostile texts through the door of plans: refused or harmless, and nothing outside is touched.

The engine's own list is in tests/effects/duckdb/test_attacks.py; here each is an action of a plan, on a project with
neighbours.
"""

from typing import Any, Final

import pytest

from tests.effects.duckdb.test_attacks import (
    ALLOWED,
    DENIED,
    DENIED_BY_THE_LOOK_ALONE,
    HIDDEN,
    NOT_FOR_READING,
    OUTSIDE,
)
from tests.plans.project import plan_of
from tests.plans.sql.hostile_shop import SECRET, HostileShop
from tests.plans.sql.shop import make_database, sql

REACHING: Final = DENIED | DENIED_BY_THE_LOOK_ALONE


@pytest.mark.req("PX-19")
@pytest.mark.parametrize("text", REACHING.values(), ids=REACHING.keys())
def test_a_text_that_reaches_outside_is_refused(shared: HostileShop, text: str) -> None:
    shared.require_refused(sql("a1", text.replace(OUTSIDE, str(shared.outside))))


@pytest.mark.req("PX-19")
def test_all_hostile_texts_in_one_plan_are_each_refused_in_memory_too(shared: HostileShop) -> None:
    texts = [text for text in (REACHING | HIDDEN).values() if "\0" not in text]
    filled = [text.replace(OUTSIDE, str(shared.outside)) for text in texts]
    before = shared.world()
    actions = [
        sql(f"a{number}", text, connection="memory", save_results_to=f"out/{number}.csv")
        for number, text in enumerate(filled)
    ]
    document = shared.workspace.preview(plan_of(*actions, stop_on_error=False)).document
    assert {problem.details.action_id for problem in document.problems} == {one["action_id"] for one in actions}
    assert {problem.error_type for problem in document.problems} == {"SQL_REFUSED"}
    assert SECRET not in document.canonical().decode()
    assert shared.world() == before
    assert shared.left_over() == []


@pytest.mark.req("PX-18", "PX-19")
@pytest.mark.parametrize("text", [*NOT_FOR_READING.values(), "SELECT hidden_nextval() AS a", "TRUNCATE victim"])
@pytest.mark.parametrize("more", [{"connection": "reading"}, {"save_results_to": "x.csv"}], ids=["closed", "saved"])
def test_what_changes_something_is_not_done_where_only_reading_was_asked_for(
    shared: HostileShop, text: str, more: dict[str, str]
) -> None:
    shared.require_refused(sql("a1", text, **more))


@pytest.mark.req("PX-18", "PX-20")
@pytest.mark.parametrize("text", ALLOWED.values(), ids=ALLOWED.keys())
def test_an_allowed_text_is_run_and_rolled_back(shared: HostileShop, text: str) -> None:
    assert shared.require_harmless(sql("a1", text)) == "SUCCESS"


@pytest.mark.req("PX-25")
@pytest.mark.parametrize(
    "text",
    [
        "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM t) SELECT count(*) AS n FROM t",
        "SELECT length(repeat('a', 20000000000)) AS n",
        "SELECT len(range(5000000000)) AS n",
        f"SELECT {'(' * 20_000}1{')' * 20_000} AS n",
        "INSERT INTO victim SELECT range FROM range(100000000000)",
    ],
    ids=["072", "073", "074", "075", "rows without end"],
)
def test_a_text_that_uses_unlimited_resources_is_stopped(shared: HostileShop, text: str) -> None:
    shared.require_refused(sql("a1", text, timeout_seconds=2))


@pytest.mark.req("PX-19")
def test_a_database_that_hides_what_a_text_may_not_say_reaches_nothing_either(hostile: HostileShop) -> None:
    """Made by somebody with the engine alone: views, macros and defaults that read files, the environment, settings."""
    make_database(
        hostile.database,
        f"""
        CREATE VIEW files AS SELECT * FROM read_text('{hostile.outside}/*');
        CREATE VIEW rows AS SELECT * FROM read_csv('{hostile.outside}/secret.csv');
        CREATE VIEW etc AS SELECT * FROM glob('/etc/*');
        CREATE MACRO content(path) AS TABLE SELECT content FROM read_text(path);
        CREATE MACRO hidden() AS nextval('sq');
        CREATE VIEW counting AS SELECT nextval('sq') AS n;
        CREATE MACRO anything(text) AS TABLE SELECT * FROM query(text);
        CREATE TABLE eager (a INTEGER, b BIGINT DEFAULT nextval('sq'));
        """,
    )
    for number, text in enumerate(
        (
            "SELECT * FROM files",
            "SELECT * FROM rows",
            "SELECT * FROM etc",
            f"SELECT * FROM content('{hostile.outside}/secret.csv')",
            "SELECT hidden() AS a",
            "SELECT * FROM counting",
            "SELECT * FROM anything('DELETE FROM victim')",
            f"SELECT * FROM anything('FROM read_text(''{hostile.outside}/secret.csv'')')",
        )
    ):
        hostile.require_refused(sql("a1", text, save_results_to=f"{number}.csv"))
        hostile.require_harmless(sql("a1", text))
        hostile.require_harmless(sql("a1", f"CREATE TABLE taken AS {text}"))


# --- parameters -----------------------------------------------------------------------------------------------------


@pytest.mark.req("PX-18")
@pytest.mark.parametrize(
    "value",
    [
        "1); DROP TABLE victim; --",
        "' OR 1=1 --",
        "$v",
        "?",
        "\0",
        "\ufeff'",
        "\u202e;drop",
        "x" * 100_000,
        "/etc/passwd",
    ],
)
def test_a_value_stays_a_value(shared: HostileShop, value: str) -> None:
    text = "INSERT INTO t VALUES (77, $v)"
    assert shared.require_harmless(sql("a1", text, parameters={"v": value})) in {"SUCCESS", "REFUSED"}
    saved = sql("a1", "SELECT $v AS v", parameters={"v": value}, save_results_to="v.json")
    assert shared.require_harmless(saved) in {"SUCCESS", "REFUSED"}


@pytest.mark.req("PX-18", "PX-19")
@pytest.mark.parametrize(
    "text, parameters",
    [
        ("SELECT * FROM $v", {"v": "victim"}),
        ("SELECT * FROM read_text($v)", {"v": "/etc/passwd"}),
        ("SELECT 1 AS a", {"v; DROP TABLE victim": 1}),
        ("SELECT 1 AS a", {"v": 1}),
        ("SELECT $v AS a", {}),
        ("SELECT $v AS a", {"V": 1, "v": 2}),
        ("SELECT $v AS a", {"v": ["a"]}),
        ("SELECT $v AS a", {"v": {"a": 1}}),
        ("SELECT ? AS a, $v AS b", {"1": 1, "v": 2}),
        ("ATTACH $v", {"v": "/etc/passwd"}),
    ],
)
def test_a_parameter_is_no_name_and_no_statement(shared: HostileShop, text: str, parameters: dict[str, Any]) -> None:
    shared.require_refused(sql("a1", text, parameters=parameters))
