"""A person who is let in no more, while his answer was on its way: it is asked again where the answer is recorded.

What a way in does first, to find out who calls, has happened; what it found out is not so any more.
"""

from collections.abc import Callable
from typing import Any

import pytest

from remit.contracts.desk import Decision
from remit.desk.callers import PersonCaller
from remit.desk.desk import Desk
from remit.errors import Reason, Refused, RemitError
from remit.people.people import People
from remit.people.roles import Role
from tests.approvals.conftest import question
from tests.desk.conftest import agent, person
from tests.goals.office import Office
from tests.plan_road.project import create, plan_of

WAIT = 30.0
SAY_YES = Decision(answer="yes")
WAYS: dict[str, Callable[[People, str, str], object]] = {
    "removed": lambda people, name, _: people.remove(name, actor="os:ann"),
    "logged out": lambda people, _, cookie: people.end(cookie),
    "all ended": lambda people, name, _: people.end_all(name, actor="os:ann"),
    "another role": lambda people, name, _: people.invite(name, "viewer", actor="os:ann", user=name, tenant="acme"),
}


def logged_in(office: Office, name: str, role: Role, user: str) -> tuple[PersonCaller, str]:
    """As a way in finds him."""
    people = office.workspace.people
    cookie = people.redeem(people.invite(name, role, actor="os:ann", user=user, tenant="acme").code).cookie
    found = people.session(cookie)
    assert found is not None
    return PersonCaller(found.person, found.role, found.user, found.tenant), cookie


def test_his_answer_does_not_count_to_whatever_it_is(desk: Desk, office: Office) -> None:
    workspace = office.workspace
    asked = workspace.approvals.ask(question(1, agent_id="bot"))
    made = desk.plans.propose(person("operator"), plan_of(create("a", "new.txt"), plan_id="p1"))
    digest = desk.plans.look(person(), made.proposal_id).preview_digest
    own = desk.goals.ask(person("operator", "mia", user="mia"), "archive the note one", wait=WAIT)
    others = desk.goals.ask(agent(workspace, "goal.ask", user="leo", sub="leos"), "copy the form as fresh", wait=WAIT)
    if others.waiting_for == "confirmation":
        desk.inbox.decide(person("admin", "leo", user="leo"), "confirmation", others.correlation_id, SAY_YES)

    def answers(who: PersonCaller) -> dict[str, Callable[[], Any]]:
        yes = Decision(approved=True, shown_digest=asked.request_digest)
        return {
            "request": lambda: desk.inbox.decide(who, "request", asked.approval_id, yes),
            "request, no": lambda: desk.inbox.decide(who, "request", asked.approval_id, Decision(approved=False)),
            "plan": lambda: desk.plans.decide(who, made.proposal_id, approved=True, preview_digest=digest),
            "plan, no": lambda: desk.plans.decide(who, made.proposal_id, approved=False),
            "goal": lambda: desk.inbox.decide(
                who, "goal", others.correlation_id, Decision(approved=True), tenant="acme"
            ),
            "confirmation": lambda: desk.inbox.decide(who, "confirmation", own.correlation_id, SAY_YES),
            "asking": lambda: desk.goals.ask(who, "are you there", correlation_id="asked-late", wait=WAIT),
            "retiring": lambda: desk.catalogue.retire(who, "acme", "ping"),
        }

    for way, end in WAYS.items():
        who, cookie = logged_in(office, "mia", "admin", "mia")
        end(workspace.people, "mia", cookie)
        for what, answer in answers(who).items():
            with pytest.raises(RemitError) as refused:
                answer()
            assert refused.value.reason is Reason.REVOKED, (way, what)
    assert workspace.approvals.show(asked.approval_id).state == "PENDING"
    assert desk.plans.get(person(), made.proposal_id).state == "PENDING"
    assert desk.goals.get(person(), "acme", others.correlation_id).waiting_for == "approval"
    assert desk.goals.get(person(), "acme", own.correlation_id).waiting_for == "confirmation"
    with pytest.raises(Refused):
        desk.goals.get(person(), "acme", "asked-late")
    there, _ = logged_in(office, "mia", "admin", "mia")  # and where he is let in, each of them counts
    for what in ("request", "plan", "goal", "confirmation", "asking"):
        answers(there)[what]()
    assert "one" not in office.notes()


def test_an_agent_whose_token_was_revoked_meanwhile_asks_nothing(desk: Desk, office: Office) -> None:
    bot = agent(office.workspace, "goal.ask", user="mia", sub="late")
    office.workspace.tokens.revoke(bot.token.jti, actor="os:ann")
    with pytest.raises(Refused) as refused:
        desk.goals.ask(bot, "are you there", correlation_id="too-late", wait=WAIT)
    assert refused.value.reason is Reason.REVOKED
