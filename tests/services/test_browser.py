"""Browser actions at the desk: in a real browser, with a request that a person lets through, and one that is lost."""

import json
import os
import signal
from collections.abc import Iterator

import pytest

from remit.browser_daemon.client import HostClient
from remit.browser_daemon.socket_path import DaemonFolder
from remit.contracts.services.common import Decision
from remit.core.errors import Reason, RefusedError
from remit.identity.callers import AgentCaller
from remit.identity.models import ROLES
from remit.services.services import Services
from tests.browser.service.browser_workspace import EVERYTHING, Place, made_place
from tests.services.conftest import CONSOLE, agent, person

FORM = '<form method="post" action="/act"><input name="item" value="42"><button id="go">Pay now</button></form>'
WAIT = 30.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with made_place(tmp_path_factory.mktemp("browser"), idle_seconds=60) as made:
        made.site.routes |= {"/": FORM, "/act": "<title>Thanks</title>"}
        try:
            yield made
        finally:
            HostClient(made.workspace.root, DaemonFolder.of(made.workspace.state), {}).stop()


@pytest.fixture(scope="module")
def services(place: Place) -> Iterator[Services]:
    with Services(place.workspace, console_url=CONSOLE) as made:
        yield made


@pytest.fixture(scope="module")
def bot(place: Place) -> AgentCaller:
    return agent(place.workspace, *EVERYTHING)


def id_of(action: bytes) -> str:
    return str(json.loads(action)["action_id"])


def test_an_action_waits_for_a_person_and_continues_after_their_approval(
    services: Services, place: Place, bot: AgentCaller
) -> None:
    opened = services.browser.act(bot, place.action("navigate"), WAIT)
    assert (opened.state, opened.result and opened.result.success) == ("done", True), opened
    click = place.action("click", selector="#go")
    asked = services.browser.act(bot, click, 0)
    assert asked.state in {"running", "waiting"}
    while asked.state == "running":
        asked = services.browser.act(bot, click, 1)
    assert asked.waiting is not None
    assert asked.waiting.link == f"{CONSOLE}/inbox/request/{asked.waiting.id}"
    assert services.browser.get(bot, id_of(click)) == asked
    assert services.jobs.active_jobs() == [], "nobody's thread is held while a person thinks"
    assert place.site.posts() == []
    [line] = services.inbox.list_open(person("viewer"))
    view = services.inbox.show(person("approver"), "request", line.id)
    assert view.request is not None
    assert (line.id, view.request.has_picture) == (asked.waiting.id, True)
    assert services.inbox.read_picture(person("approver"), line.id).startswith(b"\x89PNG")
    services.inbox.decide(
        person("approver"), "request", line.id, Decision(approved=True, shown_digest=view.request.request_digest)
    )
    done = services.browser.act(bot, click, WAIT)
    assert (done.state, done.result and done.result.success) == ("done", True), done
    assert [seen.body for seen in place.site.posts()] == [b"item=42"]
    assert services.browser.get(bot, id_of(click)).result == done.result
    assert services.browser.status(bot).model_dump() == {"running": True, "sessions": 1}
    wrong, shot = place.action("screenshot"), place.action("screenshot", "/act")
    refused = services.browser.act(bot, wrong, WAIT)
    assert (refused.state, refused.refused) == ("done", True), "it is at another page"
    assert services.browser.get(bot, id_of(wrong)) == refused
    assert services.browser.act(bot, shot, WAIT).state == "done"
    assert services.browser.read_picture(bot, id_of(shot)).startswith(b"\x89PNG")
    stranger = agent(place.workspace, *EVERYTHING, sub="stranger")
    for name in (id_of(click), id_of(shot), id_of(wrong), "nothing", "a\nb"):
        for look in (services.browser.get, services.browser.read_picture):
            with pytest.raises(RefusedError) as unseen:
                look(stranger, name)
            assert unseen.value.reason is Reason.STATE_MISSING
    for role in ROLES:
        with pytest.raises(RefusedError):
            services.browser.act(person(role), shot, 0)
        assert services.browser.get(person(role), id_of(click)).result == done.result


def test_a_waiting_call_is_answered_as_soon_as_the_person_decides(
    services: Services, place: Place, bot: AgentCaller
) -> None:
    """The same call goes on with the answer: no second one is needed."""
    services.browser.act(bot, place.action("navigate"), WAIT)
    click = place.action("click", selector="#go")
    answered = services.jobs.start(
        "test", lambda _job: services.browser.act(bot, click, WAIT), subject="test", owner="test"
    )
    question = place.next_question()
    services.inbox.decide(person("approver"), "request", question.approval_id, Decision(approved=False, reason="no"))
    assert answered.wait(WAIT)
    result = answered.result().result
    assert result is not None
    assert (result.success, result.sent) == (False, 0)


def test_a_request_held_by_a_dead_browser_is_void_and_the_inbox_says_so(
    services: Services, place: Place, bot: AgentCaller
) -> None:
    services.browser.act(bot, place.action("navigate"), WAIT)
    click = place.action("click", selector="#go")
    asked = services.browser.act(bot, click, 0)
    question = place.next_question()
    told = HostClient(place.workspace.root, DaemonFolder.of(place.workspace.state), {}).status()
    assert told is not None
    os.kill(told["pid"], signal.SIGKILL)
    assert asked.action_id == id_of(click)
    deadline = 200
    while services.inbox.list_open(person("viewer")) and deadline:
        deadline -= 1
        place.workspace.approvals.wait(question.approval_id, 0.05)
    [closed] = [each for each in services.inbox.list_recent(person("viewer")) if each.id == question.approval_id]
    assert (closed.state, closed.reason) == ("VOID", "the process that held the request is gone")
    with pytest.raises(RefusedError):
        services.inbox.decide(
            person(), "request", closed.id, Decision(approved=True, shown_digest=question.request_digest)
        )
    ended = services.browser.get(bot, id_of(click), WAIT)
    assert ended.state == "done", "settled by whoever looks first"
    assert ended.result is not None
    assert (ended.result.success, ended.result.sent) == (False, 0)
