"""A simulation that is bound to a browser action: its own token, its own session, and the request still held."""

import json
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from remit.browser import timeout as browser_time
from remit.browser.service import BrowserActions
from remit.goals.service import Reply
from tests.browser.service.browser_workspace import SOMEBODY, Place
from tests.support import browser_site
from tests.support.browser_site import Seen
from tests.support.patience import SOON

POLICY = '@id("all")\npermit (principal in Tenant::"acme", action, resource);\n'
ROOM = {"room": {"type": "identifier", "question": "Which room?"}}
FORM = '<form method="post" action="/act"><input name="item" value="42"><button id="go">Book</button></form>'


def simulations(place: Place) -> list[dict[str, Any]]:
    common: dict[str, Any] = {"version": "1", "risk": "LOW", "fields": ROOM}
    page = place.site.url("/rooms/{room}")
    return [
        {
            **common,
            "id": "look-at-room",
            "title": "Look at a room",
            "impact": "side_effecting",
            "access_action": "look",
            "phrases": {"en": ["look at room {room}"]},
            "rollback": "leave-room",
            "binding": {"type": "browser", "action": {"type": "navigate", "target": page}, "domains": ["shop.test"]},
        },
        {
            **common,
            "id": "book-room",
            "title": "Book a room",
            "impact": "irreversible",
            "access_action": "book",
            "phrases": {"en": ["book room {room}"]},
            "rollback": "leave-room",
            "timeout_seconds": 60,
            "binding": {
                "type": "browser",
                "action": {"type": "click", "target": page, "selector": "#go"},
                "domains": ["shop.test"],
            },
        },
        {
            **common,
            "fields": {**ROOM, "of": {"type": "text", "question": "Which goal?", "optional": True}},
            "id": "leave-room",
            "title": "Give a room back",
            "impact": "side_effecting",
            "access_action": "book",
            "rollback": "book-room",
            "binding": {"type": "browser", "action": {"type": "navigate", "target": page}, "domains": ["shop.test"]},
        },
    ]


@pytest.fixture
def goals_place(place: Place) -> Place:
    root = place.workspace.root
    (root / "simulations.json").write_text(json.dumps({"version": 1, "simulations": simulations(place)}))
    (root / "access.cedar").write_text(POLICY)
    settings = json.loads((root / "remit.yaml").read_text())
    settings.update(
        goals={"catalogue": ["simulations.json"]},
        policies={"cedar_files": ["access.cedar"]},
        tenants={"acme": {"users": ["mia"]}},
    )
    (root / "remit.yaml").write_text(json.dumps(settings))
    if not place.workspace.promotion.states("acme"):
        for each in simulations(place):
            place.workspace.promotion.promote(each["id"], tenant_id="acme", who=SOMEBODY)
    return place


def done(place: Place, words: str) -> Reply:
    goals = place.workspace.goals
    asked = goals.ask(words, user="mia", tenant="acme")
    return goals.answer(asked.goal.correlation_id, "yes", user="mia", tenant="acme")


@pytest.mark.req("AC-20", "AC-22")
def test_a_page_is_opened_once(goals_place: Place) -> None:
    goals_place.site.routes["/rooms/blue"] = "the blue room"
    reply = done(goals_place, "look at room blue")
    assert reply.outcome.reason_code == "SIMULATION_SUCCEEDED", reply.outcome
    assert [seen.path for seen in goals_place.site.log].count("/rooms/blue") == 1
    again = goals_place.workspace.goals.answer(reply.goal.correlation_id, None, user="mia", tenant="acme")
    assert again.outcome.simulation_outcome == reply.outcome.simulation_outcome
    assert [seen.path for seen in goals_place.site.log].count("/rooms/blue") == 1


@pytest.mark.req("AC-20", "AC-05")
@pytest.mark.parametrize("approved", [True, False])
def test_confirming_a_goal_is_not_approving_its_request(goals_place: Place, *, approved: bool) -> None:
    goals_place.site.routes["/rooms/red"] = FORM
    goals_place.site.routes["/act"] = "booked"

    def decide() -> None:
        question = goals_place.next_question()
        assert goals_place.arrived == 0
        goals_place.workspace.approvals.decide(question.approval_id, approved=approved, who=SOMEBODY)

    person = threading.Thread(target=decide)
    person.start()
    reply = done(goals_place, "book room red")
    person.join()
    code = "SIMULATION_SUCCEEDED" if approved else "SIMULATION_FAILED"
    assert reply.outcome.reason_code == code, reply.outcome
    assert goals_place.arrived == (1 if approved else 0)
    replayed = goals_place.workspace.goals.replay(reply.goal.correlation_id, tenant="acme")
    assert all(one.agrees for one in replayed)


@pytest.fixture
def steps_clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """By how much the clock that a step is timed by is ahead."""
    ahead = [0.0]
    monkeypatch.setattr(browser_time, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + ahead[0]))
    return ahead


@pytest.mark.req("AC-12")
def test_a_page_that_takes_longer_than_the_step_may_is_given_up(goals_place: Place, steps_clock: list[float]) -> None:
    never = threading.Event()

    def slow(_: Seen) -> browser_site.Reply:
        steps_clock[0] += 60
        return browser_site.Reply(wait_for=never)

    goals_place.site.routes["/rooms/slow"] = slow
    began = time.monotonic()
    reply = done(goals_place, "look at room slow")
    assert reply.outcome.reason_code == "STEP_TIMEOUT", reply.outcome
    assert time.monotonic() - began < SOON
    never.set()
    workspace = goals_place.workspace
    assert not workspace.browser_service.is_busy
    assert goals_place.payloads("token.revoked")[-1]["reason"] == "the step's time is over"
    again = workspace.goals.answer(reply.goal.correlation_id, None, user="mia", tenant="acme")
    assert again.outcome.simulation_outcome == reply.outcome.simulation_outcome
    assert [seen.path for seen in goals_place.site.log].count("/rooms/slow") == 1
    assert "remit-action-time" not in {each.name for each in threading.enumerate()}


@pytest.mark.req("AC-12", "AC-05")
def test_what_a_person_takes_to_answer_is_not_the_steps_time(
    goals_place: Place, steps_clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    goals_place.site.routes["/rooms/red"] = FORM
    goals_place.site.routes["/act"] = "booked"
    looked = threading.Semaphore(0)
    waits = BrowserActions.waits_for_person

    def seen_waiting(browsing: BrowserActions, jti: str) -> bool:
        found = waits(browsing, jti)
        if found:
            looked.release()
        return found

    monkeypatch.setattr(BrowserActions, "waits_for_person", seen_waiting)

    def decide() -> None:
        question = goals_place.next_question()
        looked.acquire(timeout=20)
        steps_clock[0] += 400
        looked.acquire(timeout=20)  # the watch has seen that so much time went by
        looked.acquire(timeout=20)
        goals_place.workspace.approvals.decide(question.approval_id, approved=True, who=SOMEBODY)

    person = threading.Thread(target=decide)
    person.start()
    reply = done(goals_place, "book room red")
    person.join()
    assert reply.outcome.reason_code == "SIMULATION_SUCCEEDED", reply.outcome
    assert goals_place.arrived == 1
