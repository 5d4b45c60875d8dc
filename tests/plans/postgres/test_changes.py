"""Files and rows on a server, changed by one plan: both, or neither; and both taken back."""

import os
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from remit.core.errors import RemitError
from remit.plans.engines.postgres import PostgresEngine
from remit.plans.preparation.remote_sql import prepare_statements
from tests.plans.postgres.postgres_project import DELETE, UPDATE, Store, mixed, on_shop
from tests.plans.project import at_phase, plan_of, ran, refused, replace

OPEN_SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE usename = current_user AND pid <> pg_backend_pid()"


@pytest.mark.req("PX-18", "PX-19", "PX-29")
def test_files_and_rows_are_changed_by_one_plan_and_restored_by_one_rollback(store: Store) -> None:
    outcome = store.apply(mixed())
    assert outcome.status.status == "SUCCESS", outcome.errors
    assert store.state() == "after"
    assert store.ask("SELECT id, state, total::text FROM orders ORDER BY id") == [(3, "paid", "6")]
    assert store.ask("SELECT id FROM people") == [(2,)]
    assert [one.action_id for one in outcome.report.actions_completed] == ["a2", "a3", "a1", "a4"]
    assert outcome.manifest is not None
    rows = outcome.manifest.rows
    assert rows is not None
    assert {one.table: (one.inserted, one.updated, one.deleted) for one in rows.tables} == {
        "public.orders": (0, 2, 2),
        "public.people": (0, 0, 1),
    }
    restored = store.workspace.rollback("last")
    assert restored.status == "EXECUTED", restored.errors
    assert rows.checkpoint_id in restored.restored
    assert restored.manifest.status == "EXECUTED"
    assert store.state() == "before"
    assert store.workspace.verify_ledger().holds


@pytest.mark.req("PX-18")
def test_a_preview_counts_rows_and_changes_none(store: Store) -> None:
    document = store.workspace.preview(mixed()).document
    assert store.world() == store.before
    assert document.status == "READY"
    told = {one.action_id: one for one in document.sql}
    assert [(one.kind, one.rows_changed) for one in told["a2"].statements] == [("UPDATE", 2)]
    assert {one.table: one.deleted for one in told["a3"].tables} == {"public.orders": 2, "public.people": 1}
    assert told["a2"].server == store.where
    assert [file.path for file in document.files] == ["a.txt", "b.txt"]
    assert [item.path for item in document.inputs] == ["a.txt", "b.txt", "connection:shop/"]


@pytest.mark.req("PX-20", "PX-28")
def test_what_fails_on_its_last_action_leaves_neither_files_nor_rows(store: Store) -> None:
    victim = store.write("victim.txt")
    plan = mixed(replace("a5", "victim.txt"))
    before = store.world()
    envelope = store.approve(plan).canonical()
    outcome = ran(store.workspace.apply(envelope, on_status=at_phase("RUNNING", victim.unlink)))
    assert outcome.status.status == "ROLLED_BACK"
    assert {one.action_id for one in outcome.report.actions_completed} >= {"a2", "a3"}
    assert [one.action_id for one in outcome.report.actions_failed] == ["a5"]
    assert outcome.report.rollback_performed
    assert outcome.manifest is not None
    assert (outcome.manifest.status, outcome.manifest.rows) == ("EXECUTED", None)
    files, rows = store.world()
    assert rows == before[1]
    assert files == {path: traits for path, traits in before[0].items() if path != "victim.txt"}


@pytest.mark.req("PX-20")
def test_a_statement_that_cannot_run_is_reported_and_nothing_is_begun(store: Store) -> None:
    plan = mixed(on_shop("a5", "UPDATE orders SET nothing = 1"))
    document = store.workspace.preview(plan).document
    assert document.status == "WOULD_FAIL"
    assert document.doomed
    (problem,) = document.problems
    assert problem.details.action_id == "a5"
    assert document.consequence == "a5 would fail, so nothing would be changed at all."
    with pytest.raises(RemitError, match="the plan would fail"):
        store.approve(plan)
    assert store.world() == store.before


@pytest.mark.req("PX-36")
def test_rows_that_were_changed_since_the_approval_are_not_changed_and_the_approval_is_not_used(store: Store) -> None:
    envelope = store.approve(mixed()).canonical()
    store.ask("UPDATE orders SET total = 11 WHERE id = 1")
    told = refused(store.workspace.apply(envelope))
    assert "the rows that this plan would change are not those that were approved" in told[1]
    assert "connection:shop" in told[1]
    assert store.tree() == store.before[0]
    store.ask("UPDATE orders SET total = 10.50 WHERE id = 1")
    assert store.world() == store.before
    assert ran(store.workspace.apply(envelope)).status.status == "SUCCESS"


@pytest.mark.req("PX-36")
def test_rows_that_come_into_reach_of_the_plan_since_the_approval_were_not_approved(store: Store) -> None:
    envelope = store.approve(mixed()).canonical()
    store.ask("INSERT INTO orders VALUES (9, 2, 'open', 1)")
    assert "not those that were approved" in refused(store.workspace.apply(envelope))[1]


def test_rows_that_no_statement_touches_may_change_meanwhile(store: Store) -> None:
    envelope = store.approve(mixed()).canonical()
    store.ask("INSERT INTO orders VALUES (9, 2, 'elsewhere', 1)")
    assert ran(store.workspace.apply(envelope)).status.status == "SUCCESS"


@pytest.mark.req("PX-36")
def test_rows_that_changed_since_the_preview_are_refused_and_the_approval_is_not_used(store: Store) -> None:
    envelope = store.approve(mixed()).canonical()
    (before,) = store.ask("SELECT total::text FROM orders WHERE id = 1")
    store.ask("UPDATE orders SET total = 99 WHERE id = 1")
    code, message = refused(store.workspace.apply(envelope))
    assert (code, "not those that were approved" in message) == (1003, True)
    assert "plan.intent" not in store.kinds()
    assert store.tree() == store.before[0]
    assert store.ask("SELECT total::text FROM orders WHERE id = 1") == [("99",)]
    store.ask(f"UPDATE orders SET total = {before[0]} WHERE id = 1")
    assert ran(store.workspace.apply(envelope)).status.status == "SUCCESS"


@pytest.mark.req("PV-03")
def test_the_statements_run_once_in_the_preview_and_once_in_apply(store: Store) -> None:
    runs: list[str] = []
    begin, preview = PostgresEngine.begin, PostgresEngine.preview

    def count_begin(*given: Any, **named: Any) -> Any:
        runs.append("begin")
        return begin(*given, **named)

    def count_preview(*given: Any, **named: Any) -> Any:
        runs.append("preview")
        return preview(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresEngine, "begin", count_begin)
        patch.setattr(PostgresEngine, "preview", count_preview)
        shown = store.workspace.preview(mixed())
        envelope = store.workspace.approve(mixed(), as_seen=shown.digest)
        assert ran(store.workspace.apply(envelope)).status.status == "SUCCESS"
    assert runs == ["preview", "begin"]


@pytest.mark.req("PV-03", "PX-34", "PX-36")
@pytest.mark.parametrize("cause", ["rows", "lock", "table"])
def test_a_refusal_before_the_intent_leaves_the_approval_usable_and_no_open_file(store: Store, cause: str) -> None:
    """The same envelope is applied when its cause is gone. Before-images of the refused runs are closed."""
    store.ask("ALTER TABLE people ALTER COLUMN note SET DEFAULT 'x'")
    before = store.world()
    envelope = store.approve(mixed()).canonical()
    changes = {
        "rows": ("UPDATE orders SET total = 11 WHERE id = 1", "UPDATE orders SET total = 10.50 WHERE id = 1"),
        "table": ("ALTER TABLE orders RENAME TO away", "ALTER TABLE away RENAME TO orders"),
    }

    def attempt() -> int:
        code, message = refused(store.workspace.apply(envelope))
        assert "plan.intent" not in store.kinds(), message
        assert store.tree() == before[0]
        assert not list((store.root / "agent_outputs" / "reports").iterdir())
        assert store.ask(OPEN_SESSIONS) == [(1 if cause == "lock" else 0,)]
        return code

    def attempts() -> set[int]:
        attempt()
        opened = len(os.listdir("/proc/self/fd"))
        codes = {attempt() for _ in range(3)}
        assert len(os.listdir("/proc/self/fd")) == opened
        return codes

    if cause == "lock":
        with store.held("SELECT * FROM orders FOR UPDATE"):
            assert attempts() == {2011}
    else:
        away, back = changes[cause]
        store.ask(away)
        assert attempts() == {1003 if cause == "rows" else 1111}
        store.ask(back)
    assert store.world() == before
    assert ran(store.workspace.apply(envelope)).status.status == "SUCCESS"
    assert store.kinds().count("plan.intent") == 1
    assert store.workspace.rollback("last").status == "EXECUTED"
    assert store.rows() == before[1]


@pytest.mark.req("PV-05")
def test_statements_run_only_after_the_approval_has_been_checked(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outside protocol layer may sign an envelope that does not name an irreversible action."""
    begun: list[str] = []
    monkeypatch.setattr(PostgresEngine, "begin", lambda *_, **__: begun.append("it"))
    plan = plan_of(on_shop("a1", "INSERT INTO log VALUES ('x')"))
    with mock.patch("remit.plans.service.uncovered", return_value=()):
        envelope = store.approve(plan).canonical()
    message = refused(store.workspace.apply(envelope))[1]
    assert "the approval does not name it" in message
    assert begun == []


def test_a_plan_may_change_rows_and_no_file(store: Store) -> None:
    outcome = store.apply(plan_of(on_shop("a1", UPDATE)))
    assert outcome.status.status == "SUCCESS"
    assert outcome.change_log.changes == ()
    assert store.ask("SELECT count(*) FROM orders WHERE state = 'paid'") == [(2,)]
    assert store.workspace.rollback("last").status == "EXECUTED"
    assert store.world() == store.before


def test_a_plan_that_only_reads_rows_has_no_rows_to_roll_back(store: Store) -> None:
    outcome = store.apply(plan_of(on_shop("a1", "SELECT * FROM orders"), replace("a2", "a.txt")))
    assert outcome.status.status == "SUCCESS"
    assert outcome.manifest is not None
    assert outcome.manifest.rows is None
    assert store.rows() == store.before[1]
    assert store.workspace.rollback("last").status == "EXECUTED"


def test_a_read_only_connection_changes_nothing(store: Store) -> None:
    document = store.workspace.preview(plan_of(on_shop("a1", UPDATE, connection="reading"))).document
    assert document.status == "WOULD_FAIL"
    assert "`read_only: true`" in document.problems[0].message
    assert store.world() == store.before
    assert store.apply(plan_of(on_shop("a1", "SELECT 1", connection="reading"))).status.status == "SUCCESS"


def test_a_failed_statement_is_the_failure_of_its_own_action_and_names_table_and_column(store: Store) -> None:
    plan = plan_of(
        on_shop("up", "UPDATE people SET name = NULL WHERE id = 1"),
        on_shop("sel", "SELECT * FROM people", save_results_to="people.csv", depends_on=["up"]),
    )
    problems = {each.details.action_id: each for each in store.workspace.preview(plan).document.problems}
    assert problems["up"].error_code == 1111
    assert "column name, table people" in problems["up"].message
    assert problems["sel"].error_code == 4003
    assert "up cannot be done" in problems["sel"].message
    assert "UPDATE" not in problems["sel"].message


def test_statements_run_in_the_order_of_the_plan_and_see_each_other(store: Store) -> None:
    plan = plan_of(
        on_shop("a2", "UPDATE orders SET total = total * 2 WHERE id = 9", depends_on=["a3"]),
        on_shop("a3", "INSERT INTO orders VALUES (9, 2, 'new', 4)"),
    )
    assert store.apply(plan).status.status == "SUCCESS"
    assert store.ask("SELECT total::text FROM orders WHERE id = 9") == [("8",)]


def test_the_text_of_a_query_file_is_bound_and_its_parameters_are(store: Store) -> None:
    file = store.write("q.sql", "UPDATE orders SET state = $to WHERE id = $id")
    plan = plan_of(on_shop("a1", query_file="q.sql", parameters={"to": "'; DROP TABLE orders; --", "id": 1}))
    envelope = store.approve(plan).canonical()
    file.write_text("DELETE FROM orders WHERE id = $id OR state = $to")
    assert "this file was changed since the plan was approved" in refused(store.workspace.apply(envelope))[1]
    file.write_text("UPDATE orders SET state = $to WHERE id = $id")
    assert ran(store.workspace.apply(envelope)).status.status == "SUCCESS"
    assert store.ask("SELECT state FROM orders WHERE id = 1") == [("'; DROP TABLE orders; --",)]


@pytest.mark.req("PX-34")
def test_rows_locked_by_another_session_are_a_refusal_and_the_approval_is_not_used(store: Store) -> None:
    envelope = store.approve(mixed()).canonical()
    with store.held("UPDATE orders SET total = 1 WHERE id = 1"):
        code, message = refused(store.workspace.apply(envelope))
        assert code == 2011, message
    assert store.world() == store.before
    assert ran(store.workspace.apply(envelope)).status.status == "SUCCESS"


@pytest.mark.req("PX-34")
def test_a_reader_who_stays_is_a_refusal_and_the_approval_is_not_used(store: Store) -> None:
    envelope = store.approve(mixed()).canonical()
    with store.held("SELECT * FROM orders"):
        store.workspace.preview(mixed())
        code, message = refused(store.workspace.apply(envelope))
        assert code == 2011, message
    assert store.world() == store.before
    assert ran(store.workspace.apply(envelope)).status.status == "SUCCESS"


def test_before_images_of_rows_are_part_of_the_backup_limit(open_store: Callable[..., Store]) -> None:
    store = open_store(limits={"max_backup_bytes": 20_000})
    store.ask("INSERT INTO orders SELECT n, 2, 'many', n FROM generate_series(100, 2000) n")
    before = store.world()
    with pytest.raises(RemitError, match=r"for rows on a server, and 20,000 are allowed") as told:
        store.workspace.preview(mixed(on_shop("a5", "DELETE FROM orders WHERE state = 'many'")))
    assert "limits.max_backup_bytes" in told.value.next_step
    assert store.world() == before


@pytest.mark.req("PX-20")
def test_a_constraint_that_is_checked_at_the_end_is_found_before_anything_is_begun(store: Store) -> None:
    store.ask(
        "CREATE TABLE late (id integer PRIMARY KEY, person integer REFERENCES people DEFERRABLE INITIALLY DEFERRED)"
    )
    with pytest.raises(RemitError, match="when all constraints must hold") as told:
        store.workspace.preview(mixed(on_shop("a5", "INSERT INTO late VALUES (1, 77)")))
    assert told.value.where == store.where
    assert store.tree() == store.before[0]
    assert store.ask("SELECT * FROM late") == []


@pytest.mark.req("PX-20", "PX-28")
def test_files_are_undone_when_the_server_does_not_commit(store: Store) -> None:
    envelope = store.approve(mixed()).canonical()
    outcome = ran(store.workspace.apply(envelope, on_status=at_phase("REPORTING", store.end_connections)))
    assert outcome.status.status == "ROLLED_BACK"
    assert any("did not commit its part" in error.message for error in outcome.errors), outcome.errors
    assert outcome.manifest is not None
    assert outcome.manifest.status == "EXECUTED"
    papers = store.report_folder(outcome)
    assert '"status": "ROLLED_BACK"' in (papers / "status.json").read_text()
    assert '"status": "EXECUTED"' in (papers / "rollback_manifest.json").read_text()
    assert store.state() == "before"
    assert store.workspace.verify_ledger().holds


def test_progress_is_reported(store: Store) -> None:
    heard: list[str] = []
    envelope = store.approve(mixed()).canonical()
    store.workspace.apply(envelope, on_status=lambda update: heard.append(update.phase))
    assert list(dict.fromkeys(heard)) == ["CHECKING", "CHECKPOINT", "RUNNING", "VERIFYING", "REPORTING"]


def test_a_plan_that_is_cancelled_while_it_holds_a_transaction_leaves_nothing(store: Store) -> None:
    envelope = store.approve(mixed()).canonical()
    cancelled: list[bool] = []
    outcome = ran(
        store.workspace.apply(
            envelope,
            on_progress=lambda _done, _total: cancelled.append(True),
            is_cancelled=lambda: bool(cancelled),
        )
    )
    assert outcome.status.status == "CANCELLED"
    assert store.world() == store.before


def test_a_deletion_is_a_high_risk(store: Store) -> None:
    assert store.workspace.preview(plan_of(on_shop("a1", DELETE))).document.risk == "HIGH"
    assert store.workspace.preview(plan_of(on_shop("a1", UPDATE))).document.risk == "MEDIUM"


@pytest.mark.req("PV-03", "PX-02")
def test_a_query_file_that_changes_between_its_check_and_its_reading_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statements that run are those that were approved."""
    store.write("sql/u.sql", "UPDATE orders SET total = total + 1 WHERE id = 1")
    plan = plan_of(on_shop("a1", query_file="sql/u.sql"))
    envelope, rows = store.approve(plan), store.ask("SELECT id, total::text FROM orders ORDER BY id")
    prepare = prepare_statements

    def swap_and_prepare(*given: Any, **named: Any) -> Any:
        store.write("sql/u.sql", "UPDATE orders SET total = 0")
        return prepare(*given, **named)

    monkeypatch.setattr("remit.plans.operation.prepare_statements", swap_and_prepare)
    code, message = refused(store.workspace.apply(envelope))
    assert (code, "sql/u.sql" in message) == (1003, True), message
    assert store.ask("SELECT id, total::text FROM orders ORDER BY id") == rows
    assert "plan.intent" not in store.kinds()
