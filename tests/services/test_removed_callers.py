"""Whoever is let in no more, while what he asks was on its way: it is asked again where that is recorded.

What a way in does first, to find out who calls, has happened; what it found out is not so any more.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from remit.contracts.services.common import Decision
from remit.core.errors import Reason, RefusedError, RemitError
from remit.execution.engine import IncompleteError
from remit.identity.callers import AgentCaller, PersonCaller
from remit.identity.models import Role
from remit.identity.people import People
from remit.services.services import Services
from remit.tasks.operation import TaskOperation
from tests.approvals.conftest import question
from tests.goals.goal_office import Office
from tests.plans.project import create, plan_of
from tests.services.conftest import agent, person
from tests.support.task_workspace import MovableClock, manifest

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


def test_no_answer_and_no_request_of_a_person_who_lost_access_is_accepted(services: Services, office: Office) -> None:
    workspace = office.workspace
    asked = workspace.approvals.ask(question(1, agent_id="bot"))
    made = services.plans.propose(person("operator"), plan_of(create("a", "new.txt"), plan_id="p1"))
    digest = services.plans.read_preview(person(), made.proposal_id).preview_digest
    own = services.goals.ask(person("operator", "mia", user="mia"), "archive the note one", wait=WAIT)
    others = services.goals.ask(
        agent(workspace, "goal.ask", user="leo", sub="leos"), "copy the form as fresh", wait=WAIT
    )
    if others.waiting_for == "confirmation":
        services.inbox.decide(person("admin", "leo", user="leo"), "confirmation", others.correlation_id, SAY_YES)

    def answers(who: PersonCaller) -> dict[str, Callable[[], Any]]:
        yes = Decision(approved=True, shown_digest=asked.request_digest)
        return {
            "request": lambda: services.inbox.decide(who, "request", asked.approval_id, yes),
            "request, no": lambda: services.inbox.decide(who, "request", asked.approval_id, Decision(approved=False)),
            "plan": lambda: services.plans.decide(who, made.proposal_id, approved=True, preview_digest=digest),
            "plan, no": lambda: services.plans.decide(who, made.proposal_id, approved=False),
            "goal": lambda: services.inbox.decide(
                who, "goal", others.correlation_id, Decision(approved=True), tenant="acme"
            ),
            "confirmation": lambda: services.inbox.decide(who, "confirmation", own.correlation_id, SAY_YES),
            "asking": lambda: services.goals.ask(who, "are you there", correlation_id="asked-late", wait=WAIT),
            "retiring": lambda: services.catalogue.retire(who, "acme", "ping"),
        }

    for way, end in WAYS.items():
        who, cookie = logged_in(office, "mia", "admin", "mia")
        end(workspace.people, "mia", cookie)
        for what, answer in answers(who).items():
            with pytest.raises(RemitError) as refused:
                answer()
            assert refused.value.reason is Reason.REVOKED, (way, what)
    assert workspace.approvals.show(asked.approval_id).state == "PENDING"
    assert services.plans.get(person(), made.proposal_id).state == "PENDING"
    assert services.goals.get(person(), "acme", others.correlation_id).waiting_for == "approval"
    assert services.goals.get(person(), "acme", own.correlation_id).waiting_for == "confirmation"
    with pytest.raises(RefusedError):
        services.goals.get(person(), "acme", "asked-late")
    there, _ = logged_in(office, "mia", "admin", "mia")  # and where he is let in, each of them counts
    for what in ("request", "plan", "goal", "confirmation", "asking"):
        answers(there)[what]()
    assert "one" not in office.notes()


def approved_goal(services: Services, bot: AgentCaller, words: str) -> str:
    """Asked by an agent, confirmed by its user, approved by somebody else, and not gone on with."""
    asked = services.goals.ask(bot, words, wait=WAIT)
    if asked.waiting_for == "confirmation":
        services.inbox.decide(person("admin", "leo", user="leo"), "confirmation", asked.correlation_id, SAY_YES)
    services.inbox.decide(person(), "goal", asked.correlation_id, Decision(approved=True), tenant="acme")
    return asked.correlation_id


def test_an_agent_whose_token_is_no_longer_valid_can_do_nothing(services: Services, office: Office) -> None:
    tokens, clock = office.workspace.tokens, office.clock
    assert isinstance(clock, MovableClock)

    def issued() -> AgentCaller:
        return agent(office.workspace, "goal.ask", "task.run", user="leo", sub="late", life=timedelta(minutes=5))

    bot, task = issued(), manifest("late")
    leased = services.tasks.lease(person(), task, timedelta(hours=1)).canonical()
    done, waits = (approved_goal(services, bot, f"copy the form as {name}") for name in ("before", "after"))
    assert services.goals.resume(bot, done, WAIT).state == "done"

    def run(who: AgentCaller) -> None:
        answer = services.tasks.run(who, task, leased, WAIT)
        if answer.refused is not None:
            raise RefusedError(answer.refused.code, answer.refused.what)

    verbs: dict[str, Callable[[AgentCaller], Any]] = {
        "run": run,
        "ask": lambda who: services.goals.ask(who, "are you there", correlation_id="asked-too-late", wait=WAIT),
        "go on": lambda who: services.goals.resume(who, waits, WAIT),
        "take back": lambda who: services.goals.undo(who, done, WAIT),
    }

    def grow_old() -> None:
        clock.offset += timedelta(minutes=6)

    ways: dict[Reason, list[Callable[[AgentCaller], object]]] = {
        Reason.REVOKED: [
            lambda who: tokens.revoke(who.token.jti, actor="os:ann"),
            lambda _: tokens.rotate_key(revoke=True),
        ],
        Reason.EXPIRED: [lambda _: grow_old()],
    }
    for reason, each in ways.items():
        for end in each:
            late = issued()
            end(late)
            for verb, ask in verbs.items():
                with pytest.raises(RefusedError) as refused:
                    ask(late)
                assert refused.value.reason is reason, verb
    assert (office.base / "before.txt").exists()
    assert not (office.base / "after.txt").exists()
    assert services.tasks.run(issued(), task, leased, WAIT).state == "done"
    assert verbs["ask"](issued()).state == "done"


def test_an_agent_whose_token_was_revoked_cannot_resume_an_interrupted_task(
    services: Services, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot, late = (agent(office.workspace, "task.run", sub="late") for _ in range(2))
    task = manifest("cut-short")
    leased = services.tasks.lease(person(), task, timedelta(minutes=5)).canonical()

    def cut_short(*_: object) -> None:
        raise IncompleteError(Reason.EFFECT_FAILED, "cut short")

    with monkeypatch.context() as broken:
        broken.setattr(TaskOperation, "effect", cut_short)
        with pytest.raises(IncompleteError):
            services.tasks.run(bot, task, leased, WAIT)
    office.workspace.tokens.revoke(late.token.jti, actor="os:ann")
    answer = services.tasks.run(late, task, leased, WAIT)
    assert answer.refused is not None
    assert answer.refused.code is Reason.REVOKED
    assert services.tasks.run(bot, task, leased, WAIT).state == "done"
