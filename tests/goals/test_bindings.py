"""What a simulation can be bound to: each goes down its own door, and a value of a field is never more than a value."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from remit.core.errors import RefusedError
from remit.goals.actions.runner import DRIFT_ADVICE
from tests.goals.goal_office import ARCHIVE, PING, UNDO_ARCHIVE, Office

TITLE = "x'); DROP TABLE todo; --"
ADD: dict[str, Any] = {
    "id": "add-todo",
    "version": "1",
    "title": "Add a to-do",
    "impact": "impactful",
    "risk": "LOW",
    "access_action": "archive_note",
    "fields": {"title": {"type": "text", "question": "What is to be done?"}},
    "phrases": {"en": ["remember {title}"]},
    "rollback": "undo-todo",
    "binding": {
        "type": "sql",
        "connection": "list",
        "query": "INSERT INTO todo VALUES ($title)",
        "parameters": {"title": "{title}"},
    },
}
UNDO: dict[str, Any] = {**UNDO_ARCHIVE, "id": "undo-todo", "rollback": "add-todo"}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path, simulations=(ARCHIVE, UNDO_ARCHIVE, PING, ADD, UNDO), policy=POLICY, connections=LIST)
    with duckdb.connect(str(made.root / "list.duckdb")) as connection:
        connection.execute("CREATE TABLE todo (title VARCHAR)")
    yield made
    made.close()


LIST = {"list": {"type": "duckdb", "path": "list.duckdb"}}
POLICY = '@id("all")\npermit (principal in Tenant::"acme", action, resource);\n'


def todos(office: Office) -> list[str]:
    with duckdb.connect(str(office.root / "list.duckdb"), read_only=True) as connection:
        return [row[0] for row in connection.execute("SELECT title FROM todo").fetchall()]


@pytest.mark.req("AC-20", "AC-24")
def test_a_query_uses_a_hostile_value_as_a_value_and_is_rolled_back(desk: Office) -> None:
    done = desk.done(f"remember {TITLE}")
    assert done.outcome.reason_code == "SIMULATION_SUCCEEDED", done.outcome
    assert todos(desk) == [TITLE]
    back = desk.goals.rollback(done.goal.correlation_id, user="mia", tenant="acme")
    assert desk.answer(back).outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert todos(desk) == []


@pytest.mark.req("AC-12", "AC-22")
def test_an_action_that_its_operation_refuses_is_refused_with_the_words_of_the_operation(desk: Office) -> None:
    reply = desk.done("archive the note missing")
    assert reply.outcome.reason_code == "SIMULATION_REFUSED"
    simulated = reply.outcome.simulation_outcome
    assert simulated is not None
    assert "notes/missing.txt" in json.dumps(simulated.payload)
    assert desk.events(reply.goal.correlation_id)[-1] == "REFUSED"
    assert desk.count("SELECT count(*) FROM claims") == 0


@pytest.mark.parametrize("name", ["../one", "one/../../x", "/etc/passwd", "one\nx"])
def test_a_name_that_is_no_name_is_asked_for_again(desk: Office, name: str) -> None:
    reply = desk.done(f"archive the note {name}")
    assert reply.outcome.reason_code in {"CLARIFY_REQUIRED", "SIMULATION_MISSING", "UTTERANCE_UNREADABLE"}
    assert desk.archived() == []


@pytest.mark.req("AC-05", "AC-14")
def test_an_irreversible_plan_runs_once_it_was_confirmed(tmp_path: Path) -> None:
    """Whether something of it needs to be named as irreversible is found out by a look, not from the author."""
    binding = {**ADD["binding"], "reversible": False}
    add = {**ADD, "impact": "irreversible", "rollback": "clear-todo", "binding": binding}
    clear = {
        **ADD,
        "id": "clear-todo",
        "title": "Forget a to-do",
        "fields": {**ADD["fields"], "of": {"type": "text", "question": "Which goal?", "optional": True}},
        "phrases": {"en": ["forget {title}"]},
        "rollback": "add-todo",
        "binding": {**ADD["binding"], "query": "DELETE FROM todo WHERE title = $title"},
    }
    office = Office(tmp_path, simulations=(ARCHIVE, UNDO_ARCHIVE, PING, add, clear), policy=POLICY, connections=LIST)
    with duckdb.connect(str(office.root / "list.duckdb")) as connection:
        connection.execute("CREATE TABLE todo (title VARCHAR)")
    asked = office.ask("remember milk")
    assert "cannot be undone" in asked.outcome.user_visible_text
    assert office.answer(asked).outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert todos(office) == ["milk"]
    back = office.goals.rollback(asked.goal.correlation_id, user="mia", tenant="acme")
    assert office.answer(back).outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert todos(office) == []
    assert office.events(asked.goal.correlation_id)[-1] == "ROLLED_BACK"
    office.close()


@pytest.mark.req("AC-14", "AC-22")
def test_a_rollback_that_fails_says_why(desk: Office) -> None:
    done = desk.done("archive the note one")
    (desk.root / "archive" / "one.txt").write_text("changed since\n")
    back = desk.goals.rollback(done.goal.correlation_id, user="mia", tenant="acme")
    assert "rolls back what that goal did" in back.outcome.user_visible_text
    ended = desk.answer(back).outcome
    assert ended.reason_code == "SIMULATION_FAILED"
    assert ended.simulation_outcome is not None
    errors: Any = ended.simulation_outcome.payload["errors"]
    (error,) = errors
    assert error["message"].startswith("this file was changed since the plan ran")
    assert error["message"].endswith(DRIFT_ADVICE)
    assert "--checkpoint" not in json.dumps(ended.simulation_outcome.payload)
    assert (desk.root / "archive" / "one.txt").read_text() == "changed since\n"


@pytest.mark.req("AC-20", "AC-22")
def test_a_simulation_that_reads_answers_with_rows_which_the_ledger_does_not_keep(tmp_path: Path) -> None:
    find = {
        **ADD,
        "id": "find-todo",
        "impact": "read_only",
        "phrases": {"en": ["what about {title}"]},
        "rollback": None,
        "binding": {
            "type": "sql",
            "connection": "read",
            "query": "SELECT title, 1 AS n FROM todo WHERE title LIKE $title",
            "parameters": {"title": "{title}"},
        },
    }
    office = Office(tmp_path, simulations=(), policy=POLICY, promoted=False)
    with duckdb.connect(str(office.root / "list.duckdb")) as connection:
        connection.execute("CREATE TABLE todo (title VARCHAR)")
        connection.execute("INSERT INTO todo VALUES ('unforgettable milk')")
    office.write_config(connections={"read": {"type": "duckdb", "path": "list.duckdb", "read_only": True}})
    office.write_catalogue(ARCHIVE, UNDO_ARCHIVE, PING, find)
    office.promote("find-todo")
    reply = office.ask("what about unforgettable milk")
    assert reply.outcome.simulation_outcome is not None
    answer: Any = reply.outcome.simulation_outcome.payload["answer"]
    assert answer["rows"] == [["unforgettable milk", "1"]]
    assert [column["name"] for column in answer["columns"]] == ["title", "n"]
    assert answer["result_rows"] == 1
    again = office.answer(reply, None).outcome.simulation_outcome
    assert again == reply.outcome.simulation_outcome
    none = office.ask("what about bread").outcome.simulation_outcome
    assert none is not None
    assert none.payload["answer"]["result_rows"] == 0  # type: ignore[call-overload,index]
    assert office.count("SELECT count(*) FROM ledger_entries WHERE payload LIKE '%[[\"unforgettable%'") == 0
    assert office.workspace.verify_ledger().holds
    office.close()


def test_a_query_for_a_database_that_is_not_configured_is_found_before_the_first_goal(tmp_path: Path) -> None:
    with pytest.raises(RefusedError) as refused:
        Office(tmp_path, simulations=(ARCHIVE, UNDO_ARCHIVE, PING, ADD, UNDO), policy=POLICY)
    assert "has no connection 'list'" in refused.value.what
    assert "add-todo" in refused.value.where
    assert "connections" in refused.value.next_step
