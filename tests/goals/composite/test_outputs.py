"""The value that one step reads is the field of a later one, or that step is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from remit.goals.service import Reply
from tests.goals.composite.composites import LOOK, NOTHING, TIDY
from tests.goals.goal_office import ARCHIVE, UNDO_ARCHIVE, Office
from tests.goals.test_bindings import POLICY

FIND: dict[str, Any] = {
    **LOOK,
    "id": "find",
    "fields": {"number": {"type": "integer", "question": "Which project?"}},
    "binding": {
        "type": "sql",
        "connection": "read",
        "query": "SELECT note FROM projects WHERE number = $number",
        "parameters": {"number": "{number}"},
    },
    "outputs": {"note": {"type": "identifier", "source": "note"}},
}
CLOSE: dict[str, Any] = {
    **TIDY,
    "id": "close",
    "title": "Close a project",
    "fields": FIND["fields"],
    "phrases": {"en": ["close the project {number}"]},
    "binding": {
        "type": "composite",
        "steps": [
            {"id": "find", "simulation": "find", "fields": {"number": "{number}"}},
            {"id": "archive", "simulation": "archive-note", "fields": {"note": "{find.note}"}},
        ],
    },
}
PARTS = (ARCHIVE, UNDO_ARCHIVE, NOTHING, FIND, CLOSE)
CONNECTIONS = {"read": {"type": "duckdb", "path": "shop.duckdb", "read_only": True}}


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path, simulations=PARTS, policy=POLICY, promoted=False, connections=CONNECTIONS)
    yield made
    made.close()


@pytest.mark.req("AC-19", "AC-29")
def test_a_step_takes_what_an_earlier_step_has_read(office: Office) -> None:
    with duckdb.connect(str(office.root / "shop.duckdb")) as connection:
        connection.execute("CREATE TABLE projects (number INTEGER, note VARCHAR)")
        connection.execute("INSERT INTO projects VALUES (1, 'two'), (2, NULL), (3, 'mia@example.org')")
    for each in PARTS:
        office.promote(each["id"])

    def done(text: str) -> Reply:
        asked = office.ask(text)
        if asked.outcome.reason_code != "CONFIRMATION_REQUIRED":
            return asked
        assert "note = two" in asked.outcome.user_visible_text
        return office.answer(asked, step=asked.outcome.step_id)

    assert done("close the project 1").outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert office.archived() == ["two"]
    assert done("close the project 2").outcome.reason_code == "FIELDS_INVALID"
    masked = done("close the project 3")
    assert masked.outcome.reason_code == "SIMULATION_REFUSED"
    assert office.archived() == ["two"]
    assert office.workspace.verify_ledger().holds
