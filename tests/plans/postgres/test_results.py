"""Rows of a server saved to files of the project: a change of a file like any other."""

import json

import pytest

from remit.plans.engines.postgres import PostgresEngine
from tests.plans.postgres.postgres_project import UPDATE, Store, on_shop
from tests.plans.project import plan_of, ran, replace

ALL = "SELECT id, state, total FROM orders ORDER BY id"


@pytest.mark.req("PX-18", "PX-19")
def test_rows_are_saved_as_csv_and_as_json_and_rolled_back(store: Store) -> None:
    outcome = store.apply(
        plan_of(
            on_shop("a1", ALL, save_results_to="out/orders.csv"),
            on_shop("a2", ALL, save_results_to="out/orders.json"),
            replace("a3", "a.txt"),
        )
    )
    assert outcome.status.status == "SUCCESS", outcome.errors
    assert store.read("out/orders.csv").splitlines() == ["id,state,total", "1,open,10.50", "2,done,20", "3,open,5"]
    assert [row["state"] for row in json.loads(store.read("out/orders.json"))] == ["open", "done", "open"]
    assert store.rows() == store.before[1]
    assert [one.server for one in outcome.report.sql] == [store.where, store.where]
    assert outcome.manifest is not None
    assert outcome.manifest.rows is None
    assert store.workspace.rollback("last").status == "EXECUTED"
    assert store.world() == store.before


@pytest.mark.req("PX-18")
def test_rows_are_saved_as_the_actions_before_leave_them(store: Store) -> None:
    plan = plan_of(
        on_shop("a1", ALL, save_results_to="before.csv"),
        on_shop("a2", UPDATE),
        on_shop("a3", ALL, save_results_to="after.csv"),
    )
    assert store.apply(plan).status.status == "SUCCESS"
    assert "paid" not in store.read("before.csv")
    assert store.read("after.csv").splitlines() == ["id,state,total", "1,paid,11.50", "2,done,20", "3,paid,6"]
    assert store.ask("SELECT count(*) FROM orders WHERE state = 'paid'") == [(2,)]
    assert store.workspace.rollback("last").status == "EXECUTED"
    assert store.world() == store.before


@pytest.mark.req("PV-03", "PX-36")
def test_a_saved_file_has_the_bytes_of_the_preview_whatever_becomes_of_the_rows(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query that fills the file runs in the preview only. Rows that are only read are not bound by the approval."""
    plan = plan_of(
        on_shop("a1", "SELECT id, name FROM people ORDER BY id", save_results_to="people.csv"),
        on_shop("a2", UPDATE),
    )
    envelope = store.approve(plan).canonical()
    store.ask("UPDATE people SET name = 'Eve' WHERE id = 1")
    monkeypatch.setattr(PostgresEngine, "preview", None)
    assert ran(store.workspace.apply(envelope)).status.status == "SUCCESS"
    assert (store.root / "people.csv").read_bytes() == b"id,name\n1,Ada\n2,Bob\n"
    assert store.ask("SELECT name FROM people WHERE id = 1") == [("Eve",)]


@pytest.mark.parametrize("earlier", [(), (on_shop("a1", UPDATE),)])
def test_what_saves_rows_changes_none(store: Store, earlier: tuple[dict[str, object], ...]) -> None:
    writes = "UPDATE orders SET total = 0 RETURNING id"
    document = store.workspace.preview(plan_of(*earlier, on_shop("a2", writes, save_results_to="out.csv"))).document
    assert document.status == "WOULD_FAIL"
    assert [problem.details.action_id for problem in document.problems] == ["a2"]
    assert store.world() == store.before


def test_a_file_of_results_that_stands_there_is_replaced_and_restored(store: Store) -> None:
    store.write("out.csv", "old\n")
    before = store.tree()
    assert store.apply(plan_of(on_shop("a1", "SELECT 7 AS n", save_results_to="out.csv"))).status.status == "SUCCESS"
    assert store.read("out.csv") == "n\n7\n"
    assert store.workspace.rollback("last").status == "EXECUTED"
    assert store.tree() == before
