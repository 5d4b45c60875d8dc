"""SQL as a user who is not root: the copies are his own, and a database of somebody else is said to be one."""

import os
from pathlib import Path

import pytest

from tests.plans.project import plan_of
from tests.plans.sql.shop import DATABASE, Shop, sql
from tests.plans.sql.test_changes import UPDATE
from tests.plans.test_ordinary_user import as_nobody

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.mark.req("PX-18")
def test_a_database_that_an_ordinary_user_may_change_is_changed(shop: Shop, tmp_path: Path) -> None:
    shop.write("closed/x.txt")
    plan = plan_of(sql("a1", UPDATE), sql("a2", "FROM orders", save_results_to="rows.parquet"))
    assert as_nobody(shop, tmp_path, plan) == '{"problems": [], "status": "SUCCESS", "failed": []}'
    assert shop.rows("SELECT DISTINCT state FROM orders") == [("done",)]
    assert shop.left_over() == []


@pytest.mark.req("PX-18", "PX-22")
def test_a_database_in_a_folder_that_is_closed_to_the_user_is_found_before_the_run(shop: Shop, tmp_path: Path) -> None:
    (shop.root / "closed").mkdir()
    (shop.root / DATABASE).rename(shop.root / "closed/shop.duckdb")
    settings = {"duckdb": {"type": "duckdb", "path": "closed/shop.duckdb"}}
    shop.configure(connections=settings)
    before = shop.digest("closed/shop.duckdb")
    assert as_nobody(shop, tmp_path, plan_of(sql("a1", UPDATE))) == '{"problems": [3001]}'
    assert shop.digest("closed/shop.duckdb") == before
