"""A refused task, browser action or goal is in the ledger with its caller, and many of them are counted."""

from collections.abc import Callable
from typing import Any

import pytest

from remit.core.errors import Reason, RefusedError
from remit.identity.callers import AgentCaller
from remit.ledger.counted_entries import MAX_SINGLES
from remit.services.services import Services
from tests.goals.goal_office import Office
from tests.services.conftest import agent, person
from tests.services.test_tasks import LIFE, WAIT
from tests.support.refusal_entries import new_refusals
from tests.support.task_workspace import file_task, manifest

pytestmark = pytest.mark.req("PX-44")
ACTION = b'{"action_id": "act-1", "type": "navigate", "target": "https://shop.test/"}'
NO_LEASE = b"{}"


@pytest.fixture(scope="module")
def bot(office: Office) -> AgentCaller:
    return agent(office.workspace, "task.run", "goal.ask", user="mia")


@pytest.fixture(scope="module")
def weak(office: Office) -> AgentCaller:
    return agent(office.workspace, "plan.propose", sub="weak")


def test_a_refusal_of_the_services_is_recorded_once_with_its_caller(
    services: Services, office: Office, bot: AgentCaller, weak: AgentCaller, subtests: pytest.Subtests
) -> None:
    task, viewer, mia = manifest("t-rec"), person("viewer"), person("operator", "mia", user="mia")
    protected = file_task("t-env", "FILE_COPY", office.base / ".env", office.base / "aside")
    leased = office.workspace.issue_lease(protected).canonical()
    theirs = services.goals.ask(mia, "archive the note three", wait=WAIT).correlation_id
    asked: list[tuple[str, str, str, Reason, Callable[[], Any]]] = [
        ("task", "login:ann", "t-rec", Reason.PERMISSION_DENIED, lambda: services.tasks.run(viewer, task, NO_LEASE)),
        ("task", "agent:weak", "t-rec", Reason.CAPABILITY_MISSING, lambda: services.tasks.run(weak, task, NO_LEASE)),
        ("task", "agent:bot", "t-rec", Reason.MALFORMED, lambda: services.tasks.run(bot, task, NO_LEASE, -1.0)),
        ("task", "agent:bot", "t-env", Reason.PROTECTED, lambda: services.tasks.run(bot, protected, leased, WAIT)),
        ("lease", "agent:bot", "t-rec", Reason.PERMISSION_DENIED, lambda: services.tasks.lease(bot, task, LIFE)),
        ("browse", "login:ann", "act-1", Reason.PERMISSION_DENIED, lambda: services.browser.act(viewer, ACTION)),
        ("ask", "login:ann", "unknown", Reason.PERMISSION_DENIED, lambda: services.goals.ask(viewer, "x")),
        ("ask", "agent:weak", "g-1", Reason.CAPABILITY_MISSING, lambda: services.goals.resume(weak, "g-1")),
        ("ask", "agent:bot", theirs, Reason.STATE_MISSING, lambda: services.goals.resume(bot, theirs)),
        ("ask", "agent:bot", theirs, Reason.STATE_MISSING, lambda: services.goals.undo(bot, theirs)),
        ("ask", "agent:bot", theirs, Reason.PERMISSION_DENIED, lambda: services.goals.answer(bot, theirs, "yes")),
    ]
    for operation, caller, about, reason, ask in asked:
        with subtests.test(operation=operation, caller=caller, reason=reason):
            with new_refusals(office.workspace) as found, pytest.raises(RefusedError) as refused:
                ask()
            assert refused.value.reason is reason
            assert [(each.kind, each.actor, each.correlation_id) for each in found] == [
                ("request.refused", caller, about)
            ]
            assert (found[0].payload["operation"], found[0].payload["reason"]) == (operation, reason.value)


def test_what_cannot_be_parsed_is_not_recorded(services: Services, office: Office, weak: AgentCaller) -> None:
    with new_refusals(office.workspace) as found:
        for document in (b"{", b"{}"):
            for ask in (
                lambda raw: services.tasks.run(weak, raw, NO_LEASE),
                lambda raw: services.tasks.lease(weak, raw, LIFE),
                lambda raw: services.browser.act(person(), raw),
            ):
                with pytest.raises(RefusedError):
                    ask(document)
    assert found == []


@pytest.mark.parametrize("times", [60, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_many_refused_tasks_of_one_agent_do_not_grow_the_ledger(services: Services, office: Office, times: int) -> None:
    """The engine refuses these: their lease is none."""
    flooding = agent(office.workspace, "task.run", sub=f"flood{times}")
    with new_refusals(office.workspace) as found:
        for number in range(times):
            answer = services.tasks.run(flooding, manifest(f"t-flood-{times}-{number}"), NO_LEASE, WAIT)
            assert answer.result is not None
            assert answer.result.status == "FAILURE"
    singles = [each for each in found if each.kind == "task.refused"]
    assert len(singles) == MAX_SINGLES
    assert {(each.actor, each.payload["caller"]) for each in singles} == {(flooding.id, flooding.id)}
    assert len(found) <= MAX_SINGLES + 5
    last = found[-1].payload
    assert (found[-1].kind, last["operation"], last["caller"]) == ("refusals.counted", "task", flooding.id)
    with new_refusals(office.workspace) as found:
        services.tasks.run(agent(office.workspace, "task.run", sub="quiet"), manifest("t-quiet"), NO_LEASE, WAIT)
    assert [(each.kind, each.actor) for each in found] == [("task.refused", "agent:quiet")], "nobody else is counted"
