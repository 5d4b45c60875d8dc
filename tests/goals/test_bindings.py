"""What a simulation can be bound to: each goes down its own door, and a value of a field is never more than a value."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.goals.office import ARCHIVE, PING, UNDO_ARCHIVE, Office

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
    made = Office(tmp_path, simulations=(ARCHIVE, UNDO_ARCHIVE, PING, ADD, UNDO), policy=POLICY)
    with duckdb.connect(str(made.root / "list.duckdb")) as connection:
        connection.execute("CREATE TABLE todo (title VARCHAR)")
    made.write_config(connections={"list": {"type": "duckdb", "path": "list.duckdb"}})
    yield made
    made.close()


POLICY = '@id("all")\npermit (principal in Tenant::"acme", action, resource);\n'


def todos(office: Office) -> list[str]:
    with duckdb.connect(str(office.root / "list.duckdb"), read_only=True) as connection:
        return [row[0] for row in connection.execute("SELECT title FROM todo").fetchall()]


@pytest.mark.req("AC-20", "AC-24")
def test_a_query_takes_a_hostile_value_as_a_value_and_is_taken_back(desk: Office) -> None:
    done = desk.done(f"remember {TITLE}")
    assert done.outcome.reason_code == "SIMULATION_SUCCEEDED", done.outcome
    assert todos(desk) == [TITLE]
    back = desk.goals.take_back(done.goal.correlation_id, user="mia", tenant="acme")
    assert desk.answer(back).outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert todos(desk) == []


@pytest.mark.req("AC-12", "AC-22")
def test_what_its_own_door_refuses_is_refused_with_its_words(desk: Office) -> None:
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
