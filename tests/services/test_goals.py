"""Goals at the desk: an agent asks for the user its token names, that user alone says yes, somebody else approves."""

import pytest

from remit.contracts.services.common import Decision
from remit.core.errors import Reason, RefusedError
from remit.identity.callers import AgentCaller
from remit.ledger.search import SearchFilter, find_entries
from remit.services.base.ownership import find_owner
from remit.services.goals import approvals as goal_questions
from remit.services.goals.states import line_state
from remit.services.services import Services
from tests.goals.goal_office import Office
from tests.services.conftest import CONSOLE, agent, person

WAIT = 30.0


@pytest.fixture(scope="module")
def bot(office: Office) -> AgentCaller:
    """Asks for mia."""
    return agent(office.workspace, "goal.ask", user="mia")


def test_an_agent_asks_and_the_user_confirms_in_the_inbox(services: Services, office: Office, bot: AgentCaller) -> None:
    asked = services.goals.ask(bot, "archive the note one", wait=WAIT)
    assert (asked.state, asked.waiting_for, asked.user_id) == ("waiting", "confirmation", "mia")
    assert asked.waiting is not None
    assert asked.waiting.link == f"{CONSOLE}/inbox/confirmation/acme/{asked.correlation_id}"
    assert asked.waiting.what == asked.text
    assert "one" in office.notes()
    for caller in (bot, agent(office.workspace, "goal.ask", user="mia", sub="other")):
        with pytest.raises(RefusedError):
            services.goals.answer(caller, asked.correlation_id, "yes")
        with pytest.raises(RefusedError):
            services.inbox.decide(caller, "confirmation", asked.correlation_id, Decision(answer="yes"))
    for somebody in (person("admin"), person("admin", user="leo"), person("admin", user="mia", tenant="globex")):
        with pytest.raises(RefusedError):
            services.goals.answer(somebody, asked.correlation_id, "yes")
        with pytest.raises(RefusedError):
            services.inbox.decide(somebody, "confirmation", asked.correlation_id, Decision(answer="yes"))
        with pytest.raises(RefusedError):
            services.inbox.show(somebody, "confirmation", asked.correlation_id, tenant=somebody.tenant)
        assert not [each for each in services.inbox.list_open(somebody) if each.kind == "confirmation"]
    assert "one" in office.notes()
    mia = person("viewer", "mia", user="mia")
    [line] = [each for each in services.inbox.list_open(mia) if each.kind == "confirmation"]
    assert (line.id, line.tenant, line.asked_by, line.risk) == (asked.correlation_id, "acme", "agent:bot", "MEDIUM")
    view = services.inbox.show(mia, "confirmation", line.id, tenant="acme")
    assert view.goal is not None
    assert (view.goal.prompt, view.goal.fields) == (asked.text, {"note": "one"})
    assert (view.goal.prompt_language, asked.text_language) == ("en", "en")
    with pytest.raises(RefusedError, match="needs an answer in words"):
        services.inbox.decide(mia, "confirmation", line.id, Decision(approved=True))
    unclear = services.inbox.decide(mia, "confirmation", line.id, Decision(answer="perhaps"))
    assert (unclear.state, "one" in office.notes()) == ("PENDING", True)
    decided = services.inbox.decide(mia, "confirmation", line.id, Decision(answer="yes"))
    assert (decided.state, "one" in office.notes()) == ("APPROVED", False)
    done = services.goals.get(bot, "acme", asked.correlation_id)
    assert (done.state, done.event, done.can_take_back) == ("done", "SUCCEEDED", True)
    assert (
        services.goals.ask(bot, "archive the note one", correlation_id=asked.correlation_id, wait=WAIT).state == "done"
    )
    back = services.goals.undo(bot, asked.correlation_id, wait=WAIT)
    assert back.correlation_id != asked.correlation_id
    if back.waiting_for == "confirmation":
        services.inbox.decide(mia, "confirmation", back.correlation_id, Decision(answer="yes"))
    assert "one" in office.notes()
    assert services.goals.get(bot, "acme", asked.correlation_id).event == "ROLLED_BACK"


def test_an_agent_sees_the_goals_it_asked_for_and_no_others(
    services: Services, office: Office, bot: AgentCaller
) -> None:
    mias = services.goals.ask(person("operator", "mia", user="mia"), "archive the note two", wait=WAIT)
    others = services.goals.ask(
        agent(office.workspace, "goal.ask", user="mia", sub="other"), "archive the note two", wait=WAIT
    )
    by_command_line = office.ask("archive the note three")
    for correlation in (
        mias.correlation_id,
        others.correlation_id,
        by_command_line.goal.correlation_id,
        "none",
        "a\nb",
    ):
        for look in (services.goals.get, lambda caller, _tenant, name: services.goals.resume(caller, name)):
            with pytest.raises(RefusedError) as refused:
                look(bot, "acme", correlation)
            assert refused.value.reason is Reason.STATE_MISSING
        with pytest.raises(RefusedError):
            services.goals.undo(bot, correlation)
        with pytest.raises(RefusedError):
            services.goals.ask(bot, "yes", reply_to=correlation)
    with pytest.raises(RefusedError) as refused:  # nor by asking the same under its id
        services.goals.ask(bot, "archive the note two", correlation_id=mias.correlation_id, wait=WAIT)
    assert refused.value.reason is Reason.GOAL_CONFLICT
    with pytest.raises(RefusedError):
        services.goals.get(bot, "acme", mias.correlation_id)
    with pytest.raises(RefusedError):
        services.goals.get(bot, "globex", mias.correlation_id)
    assert services.goals.get(person("viewer"), "acme", others.correlation_id).state == "waiting"
    lines = services.goals.list_goals(person("viewer"), "acme")
    assert {mias.correlation_id, others.correlation_id} <= {each.correlation_id for each in lines}
    assert {(each.event, each.state) for each in lines} >= {("CONFIRMATION_REQUESTED", "waiting_for_confirmation")}
    assert all(each.state == line_state(each.event, each.at, each.at) for each in lines)
    for method in (services.goals.list_goals, services.goals.list_intake):
        with pytest.raises(RefusedError):
            method(bot, "acme")
    with pytest.raises(RefusedError):
        services.ledger.trace(bot, "acme", mias.correlation_id)


def test_who_can_ask_and_for_whom(services: Services, office: Office) -> None:
    nobodys = agent(office.workspace, "goal.ask")
    with pytest.raises(RefusedError) as refused:
        services.goals.ask(nobodys, "are you there")
    assert refused.value.reason is Reason.CONSTRAINT_VIOLATED
    for caller in (person("admin"), person("viewer", user="mia"), agent(office.workspace, "task.run")):
        with pytest.raises(RefusedError):
            services.goals.ask(caller, "are you there")
    done = services.goals.ask(agent(office.workspace, "goal.ask", user="mia"), "are you there", wait=WAIT)
    assert done.state == "done"
    unknown = agent(office.workspace, "goal.ask", user="mia", tenant="nowhere")
    assert services.goals.ask(unknown, "are you there", wait=WAIT).state == "refused"
    assert "nowhere" not in [each.tenant_id for each in services.ledger.list_chains(person())]


def test_another_person_approves_and_the_agent_continues(services: Services, office: Office) -> None:
    bot = agent(office.workspace, "goal.ask", user="leo", sub="leos")
    leo = person("admin", "leo", user="leo")
    asked = services.goals.ask(bot, "copy the form as fresh", wait=WAIT)
    if asked.waiting_for == "confirmation":
        services.inbox.decide(leo, "confirmation", asked.correlation_id, Decision(answer="yes"))
    stands = services.goals.get(bot, "acme", asked.correlation_id)
    assert (stands.state, stands.waiting_for) == ("waiting", "approval")
    assert stands.waiting is not None
    assert stands.waiting.kind == "goal"
    waiting = [each for each in services.inbox.list_open(person("viewer")) if each.kind == "goal"]
    [line] = [each for each in waiting if each.id == asked.correlation_id]
    assert (line.id, line.asked_by, line.tenant) == (asked.correlation_id, "leo", "acme")
    assert "leo-asks-first" in line.authority
    shown = services.inbox.show(person("viewer"), "goal", line.id, tenant="acme")
    assert shown.goal is not None
    assert shown.goal.utterance == "copy the form as fresh"
    yes = Decision(approved=True, reason="fine")
    for caller in (bot, person("viewer"), person("operator")):
        with pytest.raises(RefusedError):
            services.inbox.decide(caller, "goal", line.id, yes, tenant="acme")
    with pytest.raises(RefusedError, match="tenant"):
        services.inbox.decide(person("approver"), "goal", line.id, yes)
    assert services.goals.resume(bot, line.id, wait=WAIT).waiting_for == "approval"
    assert not (office.base / "fresh.txt").exists()
    decided = services.inbox.decide(person("approver"), "goal", line.id, yes, tenant="acme")
    assert (decided.state, decided.decided_by, decided.reason) == ("APPROVED", "login:ann", "fine")
    assert not (office.base / "fresh.txt").exists()
    assert services.goals.resume(bot, line.id, wait=WAIT).state == "done"
    assert (office.base / "fresh.txt").exists()
    trace = services.ledger.trace(person("viewer"), "acme", line.id)
    assert trace.holds, trace.problems
    assert services.goals.replay(person("viewer"), "acme", line.id).agrees


def test_the_state_of_a_goal_is_reported_while_it_runs(services: Services, office: Office, bot: AgentCaller) -> None:
    asked = services.goals.ask(bot, "are you there", correlation_id="follow-me", wait=0)
    assert asked.correlation_id == "follow-me"
    assert asked.state in {"running", "done"}
    assert services.goals.get(bot, "acme", "follow-me", wait=WAIT).state == "done"
    clarify = services.goals.ask(bot, "archive the note", wait=WAIT)
    assert (clarify.state, clarify.waiting_for) == ("waiting", "clarification")
    more = services.goals.ask(bot, "three", reply_to=clarify.correlation_id, wait=WAIT)
    assert more.waiting_for == "confirmation"


def test_an_id_of_a_refused_request_has_no_owner_and_belongs_to_the_user_who_uses_it_later(
    services: Services, office: Office, bot: AgentCaller
) -> None:
    """An agent asks under ids that others will use, in a way that comes to no goal; it has no claim on them by that."""
    leos = agent(office.workspace, "goal.ask", user="leo", sub="squatter")
    mias = agent(office.workspace, "goal.ask", user="mia", sub="squatter")
    for squatter, utterance in ((leos, "copy the form as evil"), (mias, "archive the note three")):
        own = services.goals.ask(squatter, utterance, wait=WAIT)
        for name in ("ticket-17", "ticket-18", "ticket-19"):
            with pytest.raises(RefusedError):  # it did not ask back, so this is no reply to anything
                services.goals.ask(squatter, "yes", correlation_id=name, reply_to=own.correlation_id, wait=WAIT)
            with pytest.raises(RefusedError):
                services.goals.get(squatter, "acme", name)
    mia = person("operator", "mia", user="mia")
    assert services.goals.ask(mia, "archive the note three", correlation_id="ticket-17", wait=WAIT).user_id == "mia"
    assert office.ask("archive the note three", correlation_id="ticket-18").goal.user_id == "mia"
    assert services.goals.ask(bot, "archive the note three", correlation_id="ticket-19", wait=WAIT).user_id == "mia"
    for name in ("ticket-17", "ticket-18", "ticket-19"):
        for squatter in (leos, mias):
            with pytest.raises(RefusedError) as refused:
                services.goals.get(squatter, "acme", name)
            assert refused.value.reason is Reason.STATE_MISSING
            with pytest.raises(RefusedError):
                services.goals.ask(squatter, "archive the note three", correlation_id=name, wait=WAIT)
            with office.workspace.store.reading() as connection:
                found = find_entries(connection, "acme", SearchFilter(correlation_id=name), None, 100).entries
                owners = {find_owner(connection, entry) for entry in found if entry.kind != "agent.refused"}
            assert squatter.id not in owners
    assert services.goals.get(bot, "acme", "ticket-19").waiting_for == "confirmation"


def test_an_agent_asks_a_user_a_limited_number_of_questions_and_the_users_own_come_first(
    services: Services, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(goal_questions, "MAX_WAITING_PER_AGENT", 3)
    monkeypatch.setattr(goal_questions, "MAX_CONFIRMATIONS", 2)
    mia = person("operator", "mia", user="mia")
    own = services.goals.ask(mia, "archive the note three", wait=WAIT)
    flood = agent(office.workspace, "goal.ask", user="mia", sub="flood")
    asked = [services.goals.ask(flood, "archive the note three", wait=WAIT) for _ in range(3)]
    assert {each.waiting_for for each in asked} == {"confirmation"}
    with pytest.raises(RefusedError) as refused:
        services.goals.ask(flood, "archive the note three", wait=WAIT)
    assert refused.value.reason is Reason.RESOURCE_EXHAUSTED
    again = services.goals.ask(flood, "archive the note three", correlation_id=asked[0].correlation_id, wait=WAIT)
    assert again.waiting_for == "confirmation", "it is one of the three"
    shown = [each.id for each in services.inbox.list_open(mia) if each.kind == "confirmation"]
    assert (len(shown), own.correlation_id in shown) == (2, True)
    services.goals.answer(mia, asked[0].correlation_id, "no", wait=WAIT)
    assert services.goals.ask(flood, "archive the note three", wait=WAIT).waiting_for == "confirmation"
    leos = agent(office.workspace, "goal.ask", user="leo", sub="flood")
    with pytest.raises(RefusedError) as refused:  # the same agent, for somebody else
        services.goals.get(leos, "acme", asked[1].correlation_id)
    assert refused.value.reason is Reason.STATE_MISSING


@pytest.mark.req("AC-06")
def test_a_list_of_goals_shows_the_state_of_each(services: Services, office: Office) -> None:
    done = office.done("are you there")
    goals = {
        "done": done,
        "refused": office.done("archive the note three", user="eve"),
        "asks_question": office.ask("archive the note"),
        "recorded": office.ask("order a pizza"),
        "waiting_for_confirmation": office.ask("archive the note three"),
        "waiting_for_approval": office.done("copy the form as later", user="leo"),
    }
    lines = {each.correlation_id: each.state for each in services.goals.list_goals(person("viewer"), "acme", 200)}
    assert {name: lines[reply.goal.correlation_id] for name, reply in goals.items()} == {name: name for name in goals}
    at, later = "2026-01-01T00:00:00Z", "2026-01-01T00:10:01Z"
    assert line_state("CONFIRMATION_REQUESTED", at, later) == line_state("APPROVAL_REQUESTED", at, later) == "expired"
    assert line_state("CLARIFIED", at, later) == "asks_question"
    assert [line_state(event, at, later) for event in ("FAILED", "ROLLED_BACK", "DISPATCHED")] == [
        "failed",
        "rolled_back",
        "running",
    ]
