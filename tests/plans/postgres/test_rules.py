"""What a plan on a server may not be: half of one, two servers, files that it does not have. Said before it runs."""

from collections.abc import Callable
from typing import Any

import pytest

from remit.core.errors import RemitError
from tests.plans.postgres.postgres_project import UPDATE, VARIABLE, Store, mixed, on_shop
from tests.plans.project import plan_of, replace


def told_of(store: Store, plan: bytes) -> str:
    with pytest.raises(RemitError) as told:
        store.workspace.preview(plan)
    assert store.world() == store.before
    return str(told.value)


@pytest.mark.req("PX-20")
@pytest.mark.parametrize("flag", ["stop_on_error", "rollback_on_failure"])
def test_a_plan_on_a_server_must_be_done_as_a_whole_or_not_at_all(store: Store, flag: str) -> None:
    told = told_of(store, mixed(**{flag: False}))
    assert f"as a whole or not at all, and {flag} is false" in told
    assert f"Leave {flag} out" in told


def test_a_plan_that_only_saves_rows_of_a_server_may_go_on_after_an_error(store: Store) -> None:
    saves = on_shop("a1", "SELECT id FROM orders ORDER BY id", save_results_to="out.csv")
    plan = plan_of(saves, replace("a2", "none.txt"), stop_on_error=False, rollback_on_failure=False)
    assert store.apply(plan, even_if_it_fails=True).status.status == "PARTIAL"


@pytest.mark.req("PX-18")
def test_a_plan_has_one_server(store: Store) -> None:
    told = told_of(store, plan_of(on_shop("a1", UPDATE), on_shop("a2", "SELECT 1", connection="other")))
    assert "the plan uses 2 PostgreSQL connections (shop, other), and one is allowed" in told


@pytest.mark.parametrize(
    "more",
    [
        {"target": "a.txt"},
        {"expected_hash_before": "sha256:" + "0" * 64},
        {"expected_hash_after": "sha256:" + "0" * 64},
    ],
)
def test_an_action_on_a_server_has_no_file(store: Store, more: dict[str, Any]) -> None:
    assert "on a PostgreSQL database changes no file" in told_of(store, plan_of(on_shop("a1", UPDATE, **more)))


def test_a_rule_cannot_query_a_server(store: Store) -> None:
    rule = {"type": "sql_expect", "connection": "shop", "query": "SELECT 1", "expected": [[1]]}
    told = told_of(store, mixed(rules=[rule]))
    assert "a rule cannot query a PostgreSQL database" in told
    assert '"expect_results": true' in told
    check = "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM orders WHERE total < {})"
    for least, status in ((0, "READY"), (10, "WOULD_FAIL")):
        plan = mixed(on_shop("a5", check.format(least), expect_results=True))
        assert store.workspace.preview(plan).document.status == status, "as the next step says"


def test_rows_of_a_server_are_not_saved_as_parquet(store: Store) -> None:
    told = told_of(store, plan_of(on_shop("a1", "SELECT 1", save_results_to="out.parquet")))
    assert "cannot be saved in this format" in told
    assert "Use .csv or .json" in told


@pytest.mark.parametrize(
    "query, says",
    [
        ("COMMIT", "COMMIT"),
        (f"{UPDATE}; COMMIT; DROP TABLE orders", "COMMIT"),
        ("COPY orders TO '/tmp/stolen'", "COPY"),
        ("SET ROLE postgres", "SET"),
        ("DO $$BEGIN END$$", "DO"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "FUNCTION"),
    ],
)
def test_statements_that_are_not_for_a_plan_change_nothing(store: Store, query: str, says: str) -> None:
    document = store.workspace.preview(mixed(on_shop("a5", query))).document
    assert document.status == "WOULD_FAIL"
    (problem,) = document.problems
    assert problem.details.action_id == "a5"
    assert says in problem.message
    assert store.world() == store.before


@pytest.mark.parametrize("url, says", [("", "is not set"), ("mysql://x@y/z", "does not begin with postgresql://")])
def test_a_connection_needs_its_address(store: Store, url: str, says: str) -> None:
    store.environ[VARIABLE] = url
    told = told_of(store, plan_of(on_shop("a1", UPDATE)))
    assert says in told
    assert VARIABLE in told


def test_a_superuser_is_refused(store: Store) -> None:
    store.environ[VARIABLE] = store.admin
    assert "superuser" in told_of(store, plan_of(on_shop("a1", UPDATE)))


def test_the_address_may_be_in_a_file_that_no_other_user_can_read(
    open_store: Callable[..., Store], tmp_path: Any
) -> None:
    file = tmp_path / "url"
    store = open_store(connections={"shop": {"type": "postgresql", "preview": "execute", "url_file": str(file)}})
    file.write_text(store.url)
    file.chmod(0o644)
    assert "can be read or changed by other users" in told_of(store, plan_of(on_shop("a1", UPDATE)))
    file.chmod(0o600)
    assert store.apply(mixed()).status.status == "SUCCESS"
    assert store.state() == "after"
