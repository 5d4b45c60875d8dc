"""A goal with several steps over MCP and HTTP: an agent follows it, and only its user sees and answers each step."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.goals.composite.test_outputs import CONNECTIONS, PARTS
from tests.goals.goal_office import Office
from tests.goals.test_bindings import POLICY
from tests.mcp_server.mcp_office import over_http, talking, words_of
from tests.support.task_workspace import MovableClock
from tests.support.web_server import ServedWorkspace


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    settings: dict[str, Any] = {"connections": CONNECTIONS, "web": {"port": 0}}
    clock = MovableClock()
    made = Office(tmp_path, simulations=PARTS, policy=POLICY, promoted=False, clock=clock, **settings)
    with duckdb.connect(str(made.root / "shop.duckdb")) as connection:
        connection.execute("CREATE TABLE projects (number INTEGER, note VARCHAR)")
        connection.execute("INSERT INTO projects VALUES (1, 'two')")
    for each in PARTS:
        made.promote(each["id"])
    yield made
    made.close()


@pytest.fixture
def site(office: Office) -> Iterator[ServedWorkspace]:
    served = ServedWorkspace(office.workspace)
    yield served
    served.close()


@pytest.mark.req("AC-30", "AC-33")
def test_an_agent_follows_the_steps_and_the_user_answers_each(site: ServedWorkspace, office: Office) -> None:
    bot = site.agent("bot", "goal.ask", user="mia", tenant="acme")
    mia = site.person("operator", "mia", user="mia", tenant="acme")
    token = bot.headers["Authorization"].partition(" ")[2]
    with talking(over_http(f"{site.url}/mcp", token)) as talk:
        asked = talk.ok("ask", utterance="close the project 1")
        name = asked["correlation_id"]
        waiting = talk.call("goal_status", correlation_id=name)
        assert "Steps: find: done, archive: waiting." in words_of(waiting)
        assert "two" not in f"{json.dumps(asked)}{waiting}"  # the value that the step `find` read
        find, archive = asked["steps"]["steps"]
        assert (find["fields"], find["outputs"], archive["fields"]) == ({"number": 1}, {"note": None}, {"note": None})
        assert asked["steps"]["withheld"]

        step = asked["waiting"]["step"]
        assert step == archive["step_id"] == asked["steps"]["waiting"]["step_id"]
        place = f"/v1/goals/acme/{name}"
        seen = site.get(place, mia).tree
        assert [each["fields"] for each in seen["steps"]["steps"]] == [{"number": 1}, {"note": "two"}]
        assert "note = two" in seen["text"]
        answer = {"answer": "yes", "step": step}
        assert site.post(f"{place}/answer", answer, bot).status == 403
        unnamed = site.post(f"{place}/answer", {"answer": "yes"}, mia)
        assert (unnamed.status, step in unnamed.tree["detail"]) == (400, True), unnamed.body
        assert office.archived() == []
        done = site.post(f"{place}/answer", answer, mia).tree
        assert (done["state"], done["steps"]["outcome"], office.archived()) == ("done", "COMPLETED", ["two"])
        told = talk.ok("goal_status", correlation_id=name)
        assert (told["state"], "two" in json.dumps(told)) == ("done", False)
        assert set(told["outcome"]["simulation_outcome"]["payload"]) == {"type", "withheld"}

    events = site.get("/v1/ledger/acme/entries?kind=agent.step&limit=100", site.admin).tree["items"]
    whole = [each["entry"]["payload"] for each in events if each["entry"]["payload"]["step_id"] == "goal"]
    assert [each["event"] for each in whole] == ["COMPLETED", "STARTED"]


@pytest.mark.req("AC-30", "AC-33")
def test_a_server_ends_a_goal_whose_question_no_person_answered(site: ServedWorkspace, office: Office) -> None:
    with duckdb.connect(str(office.root / "shop.duckdb")) as connection:
        connection.execute("DELETE FROM projects")
        connection.execute("INSERT INTO projects VALUES (1, 'one')")
    name = office.ask("close the project 1").goal.correlation_id
    site.desk.continue_overdue_goals()
    assert office.events(name)[-1] == "CONFIRMATION_REQUESTED"
    assert isinstance(office.clock, MovableClock)
    office.clock.offset += timedelta(minutes=11)
    before = office.events(name)
    assert site.get(f"/v1/goals/acme/{name}", site.admin).tree["state"] == "waiting"
    assert office.events(name) == before  # reading executes nothing
    site.desk.continue_overdue_goals()
    assert office.events(name)[-1] == "ABORTED_ROLLED_BACK"
    ended = site.get(f"/v1/goals/acme/{name}", site.admin).tree
    assert (ended["state"], ended["steps"]["steps"][1]["reason_code"]) == ("failed", "CONFIRMATION_EXPIRED")
    assert office.workspace.recover() == []
