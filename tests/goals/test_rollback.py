"""A rollback is a simulation of its own, through all the same gates, for the goal that named it and no other."""

import json
from datetime import timedelta
from typing import Any

import pytest

from remit.contracts.goals.goal import AgentGoalRequest
from remit.core.errors import Reason, RefusedError
from tests.goals.goal_office import TENANT, Office


@pytest.mark.req("AC-14")
@pytest.mark.parametrize("words", ["archive the note one", "copy the form as mine"])
def test_a_goal_is_rolled_back_by_the_simulation_that_it_names(office: Office, words: str) -> None:
    done = office.done(words)
    assert done.outcome.reason_code == "SIMULATION_SUCCEEDED"
    back = office.goals.rollback(done.goal.correlation_id, user="mia", tenant=TENANT)
    assert back.outcome.reason_code == "CONFIRMATION_REQUIRED"
    assert office.events(done.goal.correlation_id)[-1] == "SUCCEEDED"
    ended = office.answer(back)
    assert ended.outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert office.notes() == ["one", "three", "two"]
    assert office.archived() == []
    assert not (office.base / "mine.txt").exists()
    assert office.events(done.goal.correlation_id)[-1] == "ROLLED_BACK"
    assert "rolled back" in office.answer(done, None).outcome.user_visible_text
    assert office.workspace.verify_ledger().holds
    for reply in (done, back):
        assert all(one.agrees for one in office.goals.replay(reply.goal.correlation_id, tenant=TENANT))


@pytest.mark.req("AC-14")
def test_a_goal_is_rolled_back_once(desk: Office) -> None:
    done = desk.done("archive the note one")
    first = desk.goals.rollback(done.goal.correlation_id, user="mia", tenant=TENANT)
    second = desk.goals.rollback(done.goal.correlation_id, user="mia", tenant=TENANT)
    assert desk.answer(first).outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert desk.answer(second).outcome.reason_code == "IDEMPOTENCY_VIOLATION"
    assert desk.events(done.goal.correlation_id).count("ROLLED_BACK") == 1


@pytest.mark.req("AC-14")
def test_a_rollback_needs_access_too(desk: Office) -> None:
    done = desk.done("archive the note one")
    back = desk.goals.rollback(done.goal.correlation_id, user="eve", tenant=TENANT)
    assert desk.answer(back).outcome.reason_code == "ACCESS_SCOPE_VIOLATION"
    assert desk.archived() == ["one"]


@pytest.mark.req("AC-14")
def test_a_goal_that_was_not_done_cannot_be_rolled_back(desk: Office) -> None:
    refused = desk.done("archive the note one", "no")
    back = desk.goals.rollback(refused.goal.correlation_id, user="mia", tenant=TENANT)
    assert desk.answer(back).outcome.reason_code == "IDEMPOTENCY_VIOLATION"
    with pytest.raises(RefusedError) as unknown:
        desk.goals.rollback("nothing", user="mia", tenant=TENANT)
    assert unknown.value.reason is Reason.STATE_MISSING


@pytest.mark.req("AC-14")
def test_a_goal_of_another_tenant_cannot_be_rolled_back(desk: Office) -> None:
    done = desk.done("archive the note one")
    with pytest.raises(RefusedError):
        desk.goals.rollback(done.goal.correlation_id, user="mia", tenant="globex")


@pytest.mark.req("AC-14")
def test_an_undo_that_the_goal_did_not_name_is_refused(desk: Office) -> None:
    """The packet of a foreign Finder names the wrong one."""
    done = desk.done("archive the note one")
    back = desk.goals.rollback(done.goal.correlation_id, user="mia", tenant=TENANT, correlation_id="back")
    packet = back.goal.sim_finder_packet.tree()
    packet.update(candidates=[{"simulation_id": "undo-copy", "score": 1.0}], correlation_id="forged")
    goal = {**back.goal.tree(), "correlation_id": "forged", "sim_finder_packet": packet}
    made = AgentGoalRequest.from_tree(goal)
    assert desk.goals.core.run_goal(made).reason_code == "CONFIRMATION_REQUIRED"
    ended = desk.goals.answer("forged", "yes", user="mia", tenant=TENANT)
    assert ended.outcome.reason_code == "IDEMPOTENCY_VIOLATION"
    assert desk.archived() == ["one"]


@pytest.mark.req("AC-14", "AC-08")
@pytest.mark.parametrize("words", ["archive the note one", "copy the form as mine"])
def test_a_hand_that_is_moved_twice_does_it_once(desk: Office, words: str) -> None:
    """As after a crash, when nobody knows how far the first one came; and long after."""
    done = desk.done(words)
    back = desk.answer(desk.goals.rollback(done.goal.correlation_id, user="mia", tenant=TENANT))
    clock: Any = desk.clock
    clock.offset = timedelta(days=2)
    for reply in (done, back):
        with desk.workspace.store.reading() as connection:
            row = connection.one(
                "SELECT checkpoint FROM claims WHERE scope = 'simulation' AND correlation_id = ?",
                (reply.goal.correlation_id,),
            )
        assert row is not None
        runner = desk.goals.executor._operation.runner  # noqa: SLF001 - nobody else can reach them
        ended = runner.run(json.loads(row[0])["prepared"], 20)
        simulated = reply.outcome.simulation_outcome
        assert simulated is not None
        assert (ended.succeeded, dict(ended.payload)) == (True, simulated.payload)
    assert desk.archived() == []
    assert not (desk.base / "mine.txt").exists()
