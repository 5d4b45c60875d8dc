"""What is told of SQL on a server: the statements, what is lost, the way back, and what to do next."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql as psql

from tests.plans.postgres.postgres_project import DELETE, UPDATE, Store, mixed, on_shop
from tests.plans.postgres.test_secrets import files_with, said
from tests.plans.project import plan_of, replace

MARK = "a_mark_of_this_text"

Saying = Callable[..., tuple[int, str]]


@pytest.fixture
def saying(store: Store, tmp_path: Path) -> Saying:
    """Runs a command on a plan, and gives its code and what it said, as one line."""

    def run(command: str, plan: bytes, *more: str) -> tuple[int, str]:
        path = tmp_path / "plan.json"
        path.write_bytes(plan)
        code, output = said(store, command, str(path), *more)
        return code, " ".join(output.split())

    return run


def in_file(store: Store, text: str) -> dict[str, Any]:
    store.write("sql/pay.sql", text)
    return on_shop("a1", None, query_file="sql/pay.sql")


@pytest.mark.req("PX-18", "PX-34")
def test_the_text_of_statements_is_shown_in_the_preview_and_kept_nowhere(store: Store, saying: Saying) -> None:
    text = f"UPDATE orders SET state = $to WHERE state = '{MARK}' OR id = 1;\nDELETE FROM people WHERE id = 2\n"
    store.write("sql/pay.sql", text)
    plan = plan_of(on_shop("a1", None, query_file="sql/pay.sql", parameters={"to": "a-value-of-nobody"}))
    (told,) = store.workspace.preview(plan).document.sql
    first, second = text.strip().split(";\n")
    assert told.texts == (first, second)
    code, output = saying("preview", plan)
    assert code == 0, output
    assert first in output
    assert '$to = "a-value-of-nobody"' in output
    kept = [files_with(store, word) for word in (MARK, "a-value-of-nobody")]
    assert store.apply(plan).status.status == "SUCCESS"
    assert files_with(store, MARK) == kept[0]
    written = files_with(store, "a-value-of-nobody") - kept[1]  # the way back has the rows as they became
    assert {path.rpartition("/")[2] for path in written} == {"rows.bak"}


@pytest.mark.req("PX-34")
def test_a_shown_text_is_masked_and_whole_and_one_that_does_not_fit_needs_an_approval_by_name(store: Store) -> None:
    token = "ghp_" + "a1B2" * 9
    query = f"UPDATE people SET note = '{token}' WHERE name IN ({', '.join(repr(str(one)) for one in range(2_000))})"
    (told,) = store.workspace.preview(plan_of(on_shop("a1", query))).document.sql
    (text,) = told.texts
    assert text.startswith("UPDATE people SET note = ")
    assert token not in text
    assert "'1999')\n-- masked in this statement: line 1" in text
    document = store.workspace.preview(
        plan_of(on_shop("a1", query.replace("SET", f"/* {'x ' * 40_000} */ SET")))
    ).document
    assert document.needs.content == ("connection:shop",)


@pytest.mark.req("PX-18", "PX-20")
def test_truncate_is_called_what_it_is_and_its_rows_are_counted(store: Store, saying: Saying) -> None:
    plan = plan_of(on_shop("a1", "TRUNCATE orders, public.log RESTART IDENTITY; ALTER TABLE people ADD COLUMN x text"))
    document = store.workspace.preview(plan).document
    (told,) = document.sql
    assert [(one.kind, one.rows_changed, one.destroys) for one in told.statements] == [
        ("TRUNCATE", 3, True),
        ("ALTER", None, False),
    ]
    assert told.statements[0].words == "empties orders, public.log"
    assert document.risk == "HIGH"
    assert told.irreversible == "TRUNCATE of orders, public.log, ALTER of people cannot be rolled back"
    assert store.world() == store.before
    _, output = saying("preview", plan)
    assert "tables changed on shop: orders, public.log, people" in output
    assert "0 rows" not in output
    assert "3 removed" in output
    assert "no: TRUNCATE of orders, public.log, ALTER of people cannot be rolled back" in output


def test_rows_that_truncate_takes_by_cascade_are_not_counted(store: Store, saying: Saying) -> None:
    plan = plan_of(on_shop("a1", "TRUNCATE people CASCADE"))
    (told,) = store.workspace.preview(plan).document.sql
    assert told.statements[0].rows_changed is None
    _, output = saying("preview", plan)
    assert "all, not counted" in output


def test_an_index_without_a_name_is_shown_by_its_table(store: Store) -> None:
    (told,) = store.workspace.preview(plan_of(on_shop("a1", "CREATE INDEX ON people (name)"))).document.sql
    (one,) = told.statements
    assert one.words == "creates an index on people"
    assert one.writes == ("people",)
    assert told.irreversible == "CREATE of an index on people cannot be rolled back"


def test_rows_of_a_cascade_are_shown_with_the_statement(saying: Saying) -> None:
    _, output = saying("preview", plan_of(on_shop("a1", DELETE)))
    assert "1 removed, 2 in other tables" in output


def test_a_plan_of_rows_alone_ends_with_its_rollback_command_and_no_empty_part(saying: Saying) -> None:
    code, output = saying("run", plan_of(on_shop("a1", UPDATE)), "--yes")
    assert code == 0, output
    assert "undo remit rollback last (until " in output
    assert "; )" not in output


@pytest.mark.req("PX-20")
def test_a_program_reads_that_an_approval_is_missing(store: Store, saying: Saying) -> None:
    plan = plan_of(on_shop("a1", "DROP TABLE log"))
    code, output = saying("approve", plan, "--json", "--digest", store.workspace.preview(plan).digest)
    assert code == 2
    assert json.loads(output)["error"]["reason"] == "irreversible", output


def test_a_right_that_is_missing_is_asked_for(store: Store, saying: Saying) -> None:
    with psycopg.connect(store.admin, autocommit=True) as connection:
        connection.execute("CREATE TABLE foreign_one (a int)")
        connection.execute(psql.SQL("ALTER SCHEMA public OWNER TO CURRENT_USER"))
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC; GRANT USAGE ON SCHEMA public TO PUBLIC")
    _, output = saying("preview", plan_of(on_shop("a1", "CREATE TABLE made (a int)")))
    assert "GRANT CREATE ON SCHEMA ... TO the role" in output
    assert "Fix the statement" not in output
    _, output = saying("preview", plan_of(on_shop("a1", "DELETE FROM foreign_one")))
    assert "GRANT DELETE ON what it names TO the role" in output


@pytest.mark.parametrize("query", ["CREATE TABLE orders (a int)", "ALTER TABLE people ADD COLUMN name text"])
def test_a_name_that_exists_already_is_reported(saying: Saying, query: str) -> None:
    _, output = saying("preview", plan_of(on_shop("a1", query)))
    assert "an object with this name already exists" in output
    assert "another name" in output


def test_a_plan_that_would_fail_on_a_server_is_not_advised_to_go_on(store: Store, saying: Saying) -> None:
    plan = plan_of(on_shop("a1", "DELETE FROM nowhere"))
    code, output = saying("approve", plan, "--even-if-it-fails", "--digest", store.workspace.preview(plan).digest)
    assert code == 2
    assert "done whole, or not at all" in output
    assert "stop_on_error" not in output


@pytest.mark.parametrize("has_files", [True, False])
def test_files_are_only_advised_where_there_are_some(store: Store, *, has_files: bool) -> None:
    files = [replace("a2", "a.txt")] if has_files else []
    store.apply(plan_of(on_shop("a1", UPDATE), *files))
    store.ask("UPDATE orders SET total = 99 WHERE id = 1")
    code, output = said(store, "rollback", "last")
    assert code == 2
    assert "--force" in output
    assert ("the files" in output) == has_files


@pytest.mark.req("PX-20")
@pytest.mark.parametrize("has_files", [True, False])
def test_a_run_whose_changes_must_stay_is_not_offered_for_undo(store: Store, *, has_files: bool) -> None:
    plan = (
        mixed(on_shop("a5", "INSERT INTO log VALUES ('x')")) if has_files else plan_of(on_shop("a5", "DROP TABLE log"))
    )
    names = ["a2", "a3", "a5"] if has_files else ["a5"]
    envelope = store.approve(plan, irreversible=names).canonical()
    store.workspace.apply(envelope)
    if has_files:
        assert store.workspace.rollback("last").status == "PARTIAL"
    _, output = said(store, "runs")
    assert "not possible" in output
    assert "To roll one back" not in output
