"""The client is asked for details of a goal: only if the config allows it, and never for a confirmation."""

from collections.abc import Iterator
from typing import Any

import pytest
from mcp.types import ElicitRequestParams, ElicitResult

from remit.mcp_server.elicitation import _asks_for_secret
from remit.mcp_server.http import LOOPBACK_HOSTS, mcp_app
from tests.mcp_server.http_server import serving
from tests.mcp_server.mcp_office import Desked, over_http, talking

BOTH = pytest.mark.parametrize("mode", ["auto", "legacy"])


class Person:
    """The answers at the client: of a person, or of the client itself without a person."""

    def __init__(self, **answer: Any) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def __call__(self, _: Any, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        return ElicitResult(**self.answer)


@pytest.fixture(scope="session")
def asking(desked: Desked) -> Iterator[str]:
    """A server that may ask the client."""
    app = mcp_app(desked.desk, allowed_hosts=LOOPBACK_HOSTS, elicitation=True)
    with serving(app, app.running) as found:
        yield found


@BOTH
def test_a_missing_field_is_asked_for_and_the_goal_goes_on_to_its_user(mode: str, desked: Desked, asking: str) -> None:
    person = Person(action="accept", content={"reply": "two"})
    with talking(over_http(asking, desked.agent, mode, elicitation_callback=person)) as talk:
        answer = talk.ok("ask", utterance="archive the note")
    assert person.asked
    assert "Which note?" in person.asked[0]
    assert answer["waiting_for"] == "confirmation"
    assert "two" not in desked.office.archived()


@BOTH
def test_a_client_that_accepts_everything_has_approved_nothing(mode: str, desked: Desked, asking: str) -> None:
    person = Person(action="accept", content={"reply": "yes", "approved": True, "confirm": "yes"})
    before = desked.office.notes()
    with talking(over_http(asking, desked.agent, mode, elicitation_callback=person)) as talk:
        asked = talk.ok("ask", utterance="archive the note three")
        assert asked["waiting_for"] == "confirmation"
        plan, file = desked.plan()
        proposal = talk.ok("propose_plan", plan=plan, wait_seconds=1)["proposal_id"]
        assert talk.ok("plan_status", proposal_id=proposal)["state"] == "PENDING"
        assert talk.call("apply_plan", proposal_id=proposal).is_error
    assert person.asked == []
    assert file.read_text() == "one\ntwo\nthree\n"
    assert desked.office.notes() == before


@BOTH
def test_without_a_reply_the_agent_learns_what_is_missing(mode: str, desked: Desked, asking: str) -> None:
    no_replies: list[dict[str, Any]] = [
        {"action": "decline"},
        {"action": "cancel"},
        {"action": "accept", "content": {"other": "two"}},
        {"action": "accept", "content": {"reply": 5}},
        {"action": "accept", "content": {"reply": "x" * 5_000}},
    ]
    person = Person()
    with talking(over_http(asking, desked.agent, mode, elicitation_callback=person)) as talk:
        for number, answer in enumerate(no_replies, 1):
            person.answer = answer
            told = talk.ok("ask", utterance="archive the note")
            assert len(person.asked) == number
            assert told["waiting_for"] == "clarification"
            assert "Which note?" in told["text"]


@BOTH
def test_the_client_is_not_asked_if_the_config_does_not_allow_it(mode: str, desked: Desked, address: str) -> None:
    person = Person(action="accept", content={"reply": "two"})
    with talking(over_http(address, desked.agent, mode, elicitation_callback=person)) as talk:
        told = talk.ok("ask", utterance="archive the note")
        assert told["waiting_for"] == "clarification"
        reply = talk.ok("ask", utterance="two", reply_to=told["correlation_id"])
        assert reply["waiting_for"] == "confirmation"
    assert person.asked == []


def test_a_client_that_cannot_be_asked_is_not_asked(desked: Desked, asking: str) -> None:
    with talking(over_http(asking, desked.agent)) as talk:
        assert talk.ok("ask", utterance="archive the note")["waiting_for"] == "clarification"


@pytest.mark.parametrize(
    "question, secret",
    [
        ("Which note?", False),
        ("Under which name?", False),
        ("What is your password?", True),
        ("Please give the API key.", True),
        ("Which access_token should be used?", True),
    ],
)
def test_nothing_that_sounds_like_a_secret_is_asked_for(question: str, secret: bool) -> None:  # noqa: FBT001
    assert _asks_for_secret(question) is secret
