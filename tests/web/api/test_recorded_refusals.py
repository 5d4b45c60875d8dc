"""A refused request about a plan over HTTP is in the ledger with its caller, and has the error format of plans."""

import json
import time
from typing import Any

import pytest

from remit.contracts.plans.error_response import ErrorResponse
from remit.ledger.counted_entries import MAX_SINGLES, WINDOW
from tests.plans.project import create, plan_of, replace
from tests.support.refusal_entries import new_refusals, refusal_entries
from tests.support.web_server import ALL_CAPS, WebSite, agent_of, person_of

OUTSIDE: dict[str, Any] = json.loads(plan_of(create("a", "../outside.txt"), plan_id="outside"))
NO_DIGEST = "sha256:" + "0" * 64


def propose(site: WebSite, path: str) -> str:
    site.project.write(path)
    plan = json.loads(plan_of(replace("a", path), plan_id=f"plan-{path}"))
    made = site.ask("POST", "/v1/plans", site.bot, {"plan": plan})
    assert made.status == 201, made.body
    return str(made.tree["proposal_id"])


@pytest.mark.req("PX-44")
def test_every_refusal_after_parsing_is_recorded_with_its_caller(site: WebSite, subtests: pytest.Subtests) -> None:
    one = f"/v1/plans/{propose(site, 'recorded.txt')}"
    reader = agent_of(site.workspace, "reader")
    decision = {"approved": True, "preview_digest": NO_DIGEST}
    asked: list[tuple[str, str, Any, Any, str, str]] = [
        ("POST", "/v1/plans/preview", site.bot, OUTSIDE, "preview", "agent:bot"),
        ("POST", "/v1/plans", site.bot, {"plan": OUTSIDE}, "propose", "agent:bot"),
        ("POST", "/v1/plans", reader, {"plan": OUTSIDE}, "propose", "agent:reader"),
        ("POST", f"{one}/preview", site.bot, {}, "compute", "agent:bot"),
        ("POST", f"{one}/decision", site.bot, decision, "approve", "agent:bot"),
        ("POST", f"{one}/apply", site.bot, {}, "apply", "agent:bot"),
        ("POST", f"{one}/undo", site.bot, {}, "rollback", "agent:bot"),
        ("POST", f"{one}/cancel", reader, {}, "cancel", "agent:reader"),
        (
            *("POST", one.replace("/v1/plans/", "/v1/inbox/plan/") + "/decision", site.bot),
            *({"approved": True, "shown_digest": NO_DIGEST}, "approve", "agent:bot"),
        ),
    ]
    for method, path, who, body, operation, caller in asked:
        with subtests.test(path, operation=operation, caller=caller):
            with new_refusals(site.workspace) as found:
                answer = site.ask(method, path, who, body, {"Prefer": "wait=20"})
            assert 400 <= answer.status < 500, answer.body
            (entry,) = found
            assert (entry.actor, entry.payload["operation"]) == (caller, operation)
            assert entry.payload["reason"] == answer.tree["code"]
            (error,) = answer.tree["errors"]
            parsed = ErrorResponse.from_tree(error, source="the answer")
            assert parsed.error_code == entry.payload["code"]


@pytest.mark.req("PX-44")
def test_a_body_that_cannot_be_parsed_is_not_recorded(site: WebSite) -> None:
    with new_refusals(site.workspace) as found:
        for path, body in (("/v1/plans/preview", b"{"), ("/v1/plans", {"plan": {"plan_id": "p"}})):
            answer = site.ask("POST", path, site.bot, body)
            assert (answer.status, answer.tree["errors"][0]["error_code"]) == (400, 1001)
    assert found == []


@pytest.mark.req("PX-44")
def test_hundreds_of_refused_plans_of_an_agent_are_counted(site: WebSite) -> None:
    flooding = agent_of(site.workspace, "flooding", *ALL_CAPS[:3])
    person = person_of(site.workspace, site.settings.port, "operator", "oto")
    with new_refusals(site.workspace) as found:
        for _ in range(MAX_SINGLES + 120):
            assert site.ask("POST", "/v1/plans", flooding, {"plan": OUTSIDE}).status == 403
        assert site.ask("POST", "/v1/plans", person, {"plan": OUTSIDE}).status == 403
    of_agent = [each for each in found if each.actor == "agent:flooding"]
    assert [each.kind for each in of_agent] == ["request.refused"] * MAX_SINGLES + ["refusals.counted"] * 3
    assert of_agent[-1].payload["count"] == 100
    assert len(found) == len(of_agent) + 1, "that of the person is written by itself"


@pytest.mark.req("PX-44")
def test_a_server_states_the_count_of_a_window_that_ended(site: WebSite, monkeypatch: pytest.MonkeyPatch) -> None:
    flooding = agent_of(site.workspace, "late", *ALL_CAPS[:3])
    for _ in range(MAX_SINGLES + 5):
        assert site.ask("POST", "/v1/plans", flooding, {"plan": OUTSIDE}).status == 403
    monkeypatch.setattr("remit.web.server.run.TICKS_A_MINUTE", 2)
    before = len(refusal_entries(site.workspace))
    site.clock.offset += WINDOW
    while len(found := refusal_entries(site.workspace)) == before:
        time.sleep(0.02)
    ended = {each.actor: each.payload for each in found[before:]}
    assert (ended["agent:late"]["count"], ended["agent:late"]["window_ended"]) == (5, True)
