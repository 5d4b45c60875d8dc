"""Rows of a statement: held once, invisible in the catalog, and scanned when they are saved."""

import csv
import json
from typing import Any

import duckdb
import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from tests.effects.duckdb.duckdb_sandbox import Shop, make_database

CATALOGS = {
    "tables": "SELECT table_name FROM duckdb_tables() WHERE NOT internal ORDER BY 1",
    "show": "SHOW TABLES",
    "standard": "SELECT table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' ORDER BY 1",
    "of sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1",
    "all": "SELECT name FROM (SHOW ALL TABLES) WHERE name <> 'v_over_secret' ORDER BY 1",
}
OWN = [["secret"], ["t"], ["victim"]]


def saved(shop: Shop, text: str, form: str, mode: int = 0o644) -> dict[str, Any]:
    """Run the text and save its rows to a new file."""
    (shop.work / "results.out").unlink(missing_ok=True)
    return shop.run(text, results={"format": form, "mode": mode})


@pytest.mark.req("PX-18")
@pytest.mark.parametrize("query", CATALOGS.values(), ids=CATALOGS.keys())
def test_the_catalog_shows_only_the_objects_of_the_database(shop: Shop, query: str) -> None:
    shown = [row for row in shop.run(query)["rows"] if row != ["v_over_secret"]]
    assert shown == OWN
    after = shop.run(f"SELECT a FROM t; INSERT INTO t VALUES (3, 'c') RETURNING a; {query}")["rows"]
    assert [row for row in after if row != ["v_over_secret"]] == OWN


@pytest.mark.req("PX-18")
def test_a_table_made_from_the_catalog_has_only_the_objects_of_the_database(shop: Shop) -> None:
    shop.run(
        "SELECT a FROM t; CREATE TABLE seen AS SELECT table_name AS n FROM duckdb_tables();"
        "INSERT INTO seen SELECT table_name FROM duckdb_tables() RETURNING n;"
        "SELECT 1; INSERT INTO seen SELECT table_name FROM duckdb_tables()"
    )
    assert {name for (name,) in shop.ask("SELECT n FROM seen")} == {"secret", "seen", "t", "victim"}


@pytest.mark.req("PX-18")
@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_the_statement_runs_once_and_the_shown_rows_are_saved(shop: Shop, form: str) -> None:
    output = saved(shop, "SELECT random() AS r, range AS n FROM range(5)", form)
    with duckdb.connect(":memory:") as reader:
        read = f"read_{form}('{shop.work / 'results.out'}')"
        found = reader.execute(f"SELECT r::DOUBLE, n::INTEGER FROM {read}").fetchall()
    assert found == [(float(r), int(n)) for r, n in output["rows"]]
    assert len({r for r, _ in found}) == 5


@pytest.mark.parametrize(
    "value", [1, -7, 2**40, 1.5, -2.5e300, 0.1, "it's", "", "a\0b\0", "'; DROP TABLE t --", "ä\n\\", True, False, None]
)
def test_a_value_arrives_as_the_engine_would_bind_it(shop: Shop, value: Any) -> None:
    text = "SELECT $given AS v, typeof($given) AS kind"
    with duckdb.connect(":memory:") as engine:
        ((wanted, kind),) = engine.execute(f"SELECT v::VARCHAR, kind FROM ({text})", {"given": value}).fetchall()
    assert shop.run(text, parameters={"given": value})["rows"] == [[wanted, kind]]
    numbered = shop.run("SELECT count(*) FROM t WHERE ? IS NOT DISTINCT FROM $1", parameters={"1": value})
    assert numbered["rows"] == [["2"]]


def test_values_of_any_number_and_name_are_bound(shop: Shop) -> None:
    given = {"2": "b", "1": "a"}
    assert shop.run("SELECT $2, $1", parameters=given)["rows"] == [["b", "a"]]
    assert shop.run("SELECT ?, ?", parameters=given)["rows"] == [["a", "b"]]
    assert shop.run("SELECT $select, $Zwölf", parameters={"select": 1, "Zwölf": 2})["rows"] == [["1", "2"]]
    returned = shop.run("INSERT INTO t VALUES ($n, $word) RETURNING b", parameters={"n": 9, "word": "o'clock"})
    assert returned["statements"][0]["rows_changed"] == 1
    assert shop.ask("SELECT b FROM t WHERE a = 9") == [("o'clock",)]


@pytest.mark.req("PX-18")
@pytest.mark.parametrize("how", ["", "ANALYZE ", "(FORMAT json) "])
def test_no_plan_shows_the_value_of_a_parameter(shop: Shop, how: str) -> None:
    text = f"EXPLAIN {how}SELECT * FROM t WHERE b = $word AND a = $number"
    output = shop.run(text, parameters={"word": "xyzzy", "number": 987123})
    assert output["rows"]
    assert "xyzzy" not in json.dumps(output)
    assert "987123" not in json.dumps(output)
    plain = shop.run(f"EXPLAIN {how}SELECT * FROM t WHERE b = 'two'")
    assert "two" in json.dumps(plain["rows"]), "the control: the engine writes values into a plan"


def test_a_column_of_only_null_values_has_a_type_that_other_programs_can_read(shop: Shop) -> None:
    output = saved(shop, 'SELECT NULL AS n, 1 AS a, 2 AS a, NULL AS "N b"', "parquet")
    kinds = [(column["name"], column["type"]) for column in output["schema"]]
    assert kinds == [("n", "INTEGER"), ("a", "INTEGER"), ("a_1", "INTEGER"), ("N b", "INTEGER")]
    with duckdb.connect(":memory:") as reader:
        found = reader.execute(f"DESCRIBE FROM read_parquet('{shop.work / 'results.out'}')").fetchall()
    assert [(row[0], row[1]) for row in found] == kinds


EXACT = 2**53 + 1
"""A number that a DOUBLE cannot hold."""
MOST = 10**38 - 1


@pytest.mark.req("PX-18")
@pytest.mark.parametrize(
    "value, kind, number, wanted",
    [
        (f"sum({EXACT})", "DECIMAL(38,0)", "v", EXACT),
        (f"-{MOST}::HUGEINT", "DECIMAL(38,0)", "v", -MOST),
        (f"{EXACT}::UHUGEINT", "DECIMAL(38,0)", "v", EXACT),
        (f"[{EXACT}::HUGEINT]", "DECIMAL(38,0)[]", "v[1]", EXACT),
        (f"[{EXACT}::HUGEINT]::HUGEINT[1]", "DECIMAL(38,0)[1]", "v[1]", EXACT),
        (f"MAP {{1: {EXACT}::HUGEINT}}", "MAP", "v[1]", EXACT),
        (f"{{'HUGEINT': {EXACT}::HUGEINT, 'x \"': 1}}", "STRUCT", "v['HUGEINT']", EXACT),
        (f"row({EXACT}::HUGEINT, 2)", "STRUCT", "v['element1']", EXACT),
        (f"union_value(n := {EXACT}::HUGEINT)", "UNION", "v['n']", EXACT),
        (f"'{MOST}0'::BIGNUM", "VARCHAR", "v", f"{MOST}0"),
    ],
)
def test_whole_numbers_are_exact_in_parquet_and_shown_with_the_type_of_the_file(
    shop: Shop, value: str, kind: str, number: str, wanted: int | str
) -> None:
    output = saved(shop, f"SELECT 'x' AS w, {value} AS v", "parquet")
    assert output["schema"][1]["type"] == kind
    assert output["statements"][0]["columns"] == output["schema"]
    with duckdb.connect(":memory:") as reader:
        found = reader.execute(f"SELECT {number}::VARCHAR FROM read_parquet('{shop.work / 'results.out'}')").fetchall()
    assert found == [(str(wanted),)]


@pytest.mark.req("PX-18")
@pytest.mark.parametrize(
    "value",
    [
        f"{MOST - 28}::HUGEINT + range",
        f"{2**128 - 30}::UHUGEINT + range::UHUGEINT",
        f"[1, {MOST - 28}::HUGEINT + range]",
    ],
)
def test_a_number_that_parquet_cannot_hold_exactly_is_refused(shop: Shop, value: str) -> None:
    text = f"SELECT 'x' AS w, {value} AS v FROM range(30)"
    with pytest.raises(RefusedError, match=r"column 2 \(U?HUGEINT.* more than 38 digits") as refused:
        saved(shop, text, "parquet")
    assert str(MOST)[:5] not in str(refused.value)
    assert refused.value.next_step.startswith("Cast the column")
    assert saved(shop, text, "csv")["schema"][1]["type"] in ("HUGEINT", "UHUGEINT", "HUGEINT[]")


@pytest.mark.req("PX-18")
def test_values_that_became_names_of_columns_are_known_as_such(shop: Shop) -> None:
    shop.run("CREATE TYPE words AS ENUM (SELECT b FROM t)")
    pivot = "PIVOT t ON b IN words USING sum(a)"
    output = shop.run(pivot)
    assert {column["name"] for column in output["schema"]} >= {"one", "two"}, "the control"
    assert len(output["names_from_rows"]) == len(output["schema"]) >= 2
    assert shop.run("SELECT a FROM t")["names_from_rows"] == []
    assert shop.run(f"{pivot}; SELECT a FROM t")["names_from_rows"] == []


@pytest.mark.req("PX-18")
def test_names_of_columns_that_are_in_the_text_are_no_secret(shop: Shop) -> None:
    shop.run("CREATE TABLE s AS SELECT 'x' AS region, b AS kind, a AS n FROM t")
    plain = shop.run("PIVOT s ON kind IN ('one', 'two') USING sum(n) GROUP BY region")
    assert [column["name"] for column in plain["schema"]] == ["region", "one", "two"]
    assert plain["names_from_rows"] == []
    several = shop.run("PIVOT s ON kind IN ('one') USING sum(n) AS total, max(n) GROUP BY region")
    assert ([column["name"] for column in several["schema"]][1:], several["names_from_rows"]) == (
        ["one_total", "one_max(n)"],
        [],
    )
    implied = shop.run("PIVOT s ON kind IN ('one') USING sum(n)")
    assert implied["names_from_rows"] == [1], "region is not in the text"


@pytest.mark.req("PX-18")
def test_a_remark_names_functions_of_time_and_chance(shop: Shop) -> None:
    text = (
        "UPDATE t SET b = now()::VARCHAR; SELECT current_date, random() FROM t USING SAMPLE 1;SELECT 'now()' AS \"now\""
    )
    asks = [remark.partition(": a preview that is computed again")[0] for remark in shop.run(text)["remarks"]]
    assert asks == [
        "statement 1 (UPDATE) uses now()",
        "statement 2 (SELECT) uses current_date, random(), SAMPLE",
    ]


# --- findings in saved rows -------------------------------------------------------------------------------------------

SECRETS = """
CREATE TABLE keys (name VARCHAR, password VARCHAR, note VARCHAR);
INSERT INTO keys VALUES ('ann', 'xyzzy-hunter2-9931', 'plain'), ('bob', NULL, 'AKIAIOSFODNN7EXAMPLQ');
"""


@pytest.mark.req("PX-18", "PX-24")
@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_credentials_in_saved_rows_are_found_by_column_and_by_shape(shop: Shop, form: str) -> None:
    make_database(shop.database, SECRETS)
    output = saved(shop, "SELECT * FROM keys ORDER BY name", form)
    found = [(one["rule"], one["where"]) for one in output["findings"]]
    assert found == [("credential", "row 1, column 2"), ("credential", "row 2, column 3")]
    assert "hunter2" not in json.dumps(output["findings"])
    assert saved(shop, "SELECT name FROM keys", form)["findings"] == []
    assert shop.run("SELECT * FROM keys ORDER BY name")["findings"] == [], "what is not saved needs no approval"


@pytest.mark.req("PX-18", "PX-24")
def test_credentials_in_late_rows_are_found_up_to_a_limit(shop: Shop) -> None:
    text = "SELECT range AS n, CASE WHEN range = 4321 THEN 'AKIAIOSFODNN7EXAMPLQ' ELSE 'x' END AS v FROM range(6000)"
    assert [one["where"] for one in saved(shop, text, "parquet")["findings"]] == ["row 4,322, column 2"]
    many = "SELECT 'AKIAIOSFODNN7EXAMPLQ' AS v FROM range(3000)"
    assert len(saved(shop, many, "parquet")["findings"]) == 100


@pytest.mark.req("PX-18", "PX-24")
def test_a_remark_says_that_rows_past_the_limit_were_not_scanned(shop: Shop) -> None:
    long = "SELECT repeat('x', 30000) AS v FROM range(2000)"
    (remark,) = saved(shop, long, "parquet")["remarks"]
    assert "credentials and commands were searched only" in remark
    assert saved(shop, "SELECT repeat('x', 3000) AS v FROM range(200)", "csv")["remarks"] == []


@pytest.mark.req("PX-18", "PX-24")
@pytest.mark.parametrize("form", ["csv", "json"])
def test_commands_in_saved_rows_are_found(shop: Shop, form: str) -> None:
    output = saved(shop, "SELECT '$(rm -rf /tmp/x)' AS v", form)
    assert {one["rule"] for one in output["findings"]} == {"command"}


@pytest.mark.req("PX-18", "PX-24")
def test_formulas_in_a_csv_are_remarked(shop: Shop) -> None:
    text = "SELECT '=1+1' AS v UNION ALL SELECT '-5' UNION ALL SELECT '@x' UNION ALL SELECT 'plain'"
    output = saved(shop, text, "csv")
    assert [remark.partition(",")[0] for remark in output["remarks"]] == [
        "line 2: a cell begins with '='",
        "line 4: a cell begins with '@'",
    ]
    with (shop.work / "results.out").open() as file:
        assert [row for (row,) in csv.reader(file)] == ["v", "=1+1", "-5", "@x", "plain"]
    assert saved(shop, text, "json")["remarks"] == []


@pytest.mark.req("PX-18", "PX-24")
def test_a_file_of_results_that_could_be_executed_is_found(shop: Shop) -> None:
    for mode, rules in ((0o644, []), (0o755, ["executable"])):
        output = saved(shop, "SELECT 1 AS a", "csv", mode)
        assert [one["rule"] for one in output["findings"]] == rules


@pytest.mark.req("PX-18", "PX-24")
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_saving_long_cells_needs_no_extra_memory(shop: Shop, form: str) -> None:
    """The scan of cells with a hundred thousand characters makes no second copy of all of them."""
    output = saved(shop, "SELECT repeat('x', 100000) || range AS v FROM range(500)", form)
    assert output["result_rows"] == 500
    assert any("searched only in the first" in remark for remark in output["remarks"])


@pytest.mark.req("PX-18", "PX-26")
def test_the_message_says_that_memory_for_saving_the_rows_is_missing(shop: Shop) -> None:
    with pytest.raises(EnvironmentFailureError, match="saving the rows needs more than") as failed:
        saved(shop, "SELECT repeat('x', 100000) || range AS v FROM range(1000)", "json")
    assert failed.value.reason is Reason.RESOURCE_EXHAUSTED
