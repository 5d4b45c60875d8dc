"""Columns added with a constraint, and samples of rows, for which the engine has unusual statements and trees."""

from typing import Any

import duckdb
import pytest

from remit.core.errors import EnvironmentFailureError, RefusedError
from tests.effects.duckdb.duckdb_sandbox import Shop


@pytest.mark.req("PX-18")
@pytest.mark.parametrize(
    "column, rows",
    [
        ("c INTEGER NOT NULL DEFAULT 3", [(1, 3), (2, 3)]),
        ("c INTEGER DEFAULT 3 NOT NULL", [(1, 3), (2, 3)]),
        ("c INTEGER UNIQUE", [(1, None), (2, None)]),
    ],
)
def test_a_column_with_a_constraint_is_added_at_once(shop: Shop, column: str, rows: list[Any]) -> None:
    output = shop.run(f"ALTER TABLE t ADD COLUMN {column}; SELECT count(*) FROM t")
    assert [(one["kind"], one["writes"]) for one in output["statements"]] == [("ALTER", ["t"]), ("SELECT", [])]
    assert shop.ask("SELECT a, c FROM t ORDER BY a") == rows
    with duckdb.connect(str(shop.database)) as database, pytest.raises(duckdb.ConstraintException):
        database.execute(
            "INSERT INTO t (a, c) SELECT 9, NULL" if rows[0][1] else "INSERT INTO t SELECT 1, 'x', 5 FROM t"
        )


def test_a_constraint_that_fails_is_named_with_its_columns_and_no_value(shop: Shop) -> None:
    with pytest.raises(EnvironmentFailureError, match=r'NOT NULL constraint failed: n\."name"'):
        shop.run("CREATE TABLE n (id INTEGER PRIMARY KEY, name VARCHAR NOT NULL); INSERT INTO n VALUES (1, NULL)")
    keys = "CREATE TABLE k (id VARCHAR PRIMARY KEY); CREATE TABLE o (k VARCHAR REFERENCES k(id));"
    with pytest.raises(EnvironmentFailureError, match="key column id does not exist in the referenced") as failed:
        shop.run(f"{keys} INSERT INTO o VALUES ('hunter2')")
    assert "hunter2" not in str(failed.value)


@pytest.mark.req("PX-18")
def test_adding_a_not_null_column_that_would_be_null_changes_nothing(shop: Shop) -> None:
    before = shop.digest
    with pytest.raises(EnvironmentFailureError, match="NOT NULL constraint failed"):
        shop.run("ALTER TABLE t ADD COLUMN c INTEGER NOT NULL")
    assert shop.digest == before
    with pytest.raises(RefusedError, match="MULTI"):
        shop.run("PIVOT t ON b USING sum(a)")


@pytest.mark.req("PX-18")
def test_a_sample_of_rows_can_be_read(shop: Shop) -> None:
    assert len(shop.run("SELECT a FROM t USING SAMPLE 1 ROWS")["rows"]) == 1
