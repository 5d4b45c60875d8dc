"""kill -9 of the server while questions of every kind wait: none is lost, and each can be answered afterwards."""

import json
import re
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pytest

from remit.authority.capability_token import TokenRequest
from remit.contracts.browser.browser import TokenConstraints
from remit.contracts.calls.call import CallAnswer
from remit.governed_functions import governed
from tests.crash.web.crash_workspace import AFTER, BEFORE, Place, place_with_browser
from tests.crash.web.killed_server import Server, kill_browser
from tests.support.browser_site import Site
from tests.support.web_server import Answer, Who, agent_of

PATIENT: Final = {"Prefer": "wait=30"}
"""Else a busy machine decides whether a goal is done when the answer comes."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Site]]:
    with place_with_browser(tmp_path_factory.mktemp("waiting")) as made:
        yield made


def log_in(server: Server) -> Who:
    """With the link that the server printed, as a browser does it."""
    code = server.said["login"].rpartition("#")[2]
    origin = {"Origin": f"http://127.0.0.1:{server.port}"}
    form = {"Content-Type": "application/x-www-form-urlencoded", **origin}
    answer = server.ask("POST", "/login", Who({}), f"code={code}".encode(), form)
    assert answer.status == 303, answer.body
    cookie = str(answer.headers["set-cookie"]).partition(";")[0]
    page = server.ask("GET", "/inbox", Who({"Cookie": cookie}), None, {"Accept": "text/html"}).body.decode()
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    assert found, page
    return Who({"Cookie": cookie, "X-Remit-CSRF": found[1], **origin})


def hold(place: Place, site: Site, server: Server) -> tuple[str, str]:
    """An action whose request waits for a person: its own id, and its question's."""

    def act(kind: str, **more: Any) -> Any:
        action = {"action_id": place.fresh("act"), "type": kind, "target": site.url("/"), **more}
        answer = server.post("/v1/browser/actions", action, place.browsing_bot)
        while answer.tree["state"] == "running":
            answer = server.get(f"/v1/browser/actions/{action['action_id']}", place.browsing_bot, wait=20)
        return answer.tree

    opened = act("navigate")
    assert opened["result"]["success"], opened
    # Nobody answers: whoever waits is told so, and not held.
    action = {"action_id": place.fresh("act"), "type": "click", "target": site.url("/"), "selector": "#go"}
    asked = server.post("/v1/browser/actions", action, place.browsing_bot, Prefer="wait=0")
    while asked.tree["state"] == "running":
        asked = server.post("/v1/browser/actions", action, place.browsing_bot, Prefer="wait=1")
    assert (asked.status, asked.tree["state"]) == (202, "waiting"), asked.body
    return str(action["action_id"]), str(asked.tree["waiting"]["id"])


class Function:
    """One that an agent may call once a person has said yes, in a program of its own: this one."""

    def __init__(self, place: Place) -> None:
        self.made: list[int] = []

        @governed(place.workspace, "crash.value")
        def set_value(value: int) -> int:
            self.made.append(value)
            return value

        self._function: Any = set_value
        wish = TokenRequest("caller", ("call.crash.value",), TokenConstraints(), timedelta(days=1))
        self._token = place.workspace.tokens.issue(wish).text

    def call(self) -> CallAnswer:
        answer: CallAnswer = self._function.call(token=self._token, key="once", value=2)
        return answer


def say_yes(server: Server, question: str, who: Who) -> None:
    """To what was shown."""
    digest = server.tree(f"/v1/inbox/request/{question}", who)["request"]["request_digest"]
    said = {"approved": True, "shown_digest": digest}
    assert server.post(f"/v1/inbox/request/{question}/decision", said, who).tree["state"] == "APPROVED"


def test_all_that_waited_is_there_can_be_answered_and_is_done_once(world: tuple[Place, Site]) -> None:
    place, site = world
    leos = agent_of(place.workspace, "leos", "goal.ask", user="leo", tenant="acme")
    leo = place.person("operator", "leo", user="leo", tenant="acme")
    function = Function(place)
    with place.served() as server:
        ann = log_in(server)
        plan, approved = (place.propose(server, name) for name in ("waits.txt", "approved.txt"))
        place.decide(server, approved)
        server.post("/v1/goals", {"utterance": "copy the form as mine", "correlation_id": "g-leo"}, leos, **PATIENT)
        goal = server.post("/v1/goals/acme/g-leo/answer", {"answer": "yes"}, leo, **PATIENT).tree
        assert goal["waiting_for"] == "approval", goal
        wish = {"utterance": "archive the note one", "correlation_id": "g-mia"}
        asked = server.post("/v1/goals", wish, place.bot, **PATIENT)
        assert asked.tree["waiting_for"] == "confirmation", asked.body
        call = function.call().waiting
        assert call is not None
        action, held = hold(place, site, server)
        before = {each["id"]: each for each in server.tree("/v1/inbox", ann)["items"]}
        assert sorted(each["kind"] for each in before.values()) == ["goal", "plan", "request", "request"]
        server.kill()

    with place.served(real=True) as server:
        assert server.said["recovered"] == 0, "nothing ran, so nothing was settled"
        assert server.tree("/v1/me", ann)["role"] == "admin", "the session is over"
        assert {each["id"]: each for each in server.tree("/v1/inbox", ann)["items"]} == before
        [own] = [each for each in server.tree("/v1/inbox", place.mia)["items"] if each["kind"] == "confirmation"]
        assert own["id"] == "g-mia"
        page = server.ask("GET", "/inbox", ann, None, {"Accept": "text/html"}).body.decode()
        assert all(f"id={name}" in page for name in before), "the console shows less"

        # The plan, the one that was approved already, and the goals.
        assert (place.read("waits.txt"), place.read("approved.txt")) == (BEFORE, BEFORE)
        place.decide(server, plan)
        for each, name in ((plan, "waits.txt"), (approved, "approved.txt")):
            assert server.post(f"{each}/apply", {}, place.bot).tree["state"] == "APPLIED"
            assert place.read(name) == AFTER
        said = server.post("/v1/inbox/goal/g-leo/decision?tenant=acme", {"approved": True}, ann)
        assert said.tree["state"] == "APPROVED", said.body
        assert not (place.base / "mine.txt").exists()
        assert server.post("/v1/goals/acme/g-leo/continue", {}, leos, **PATIENT).tree["state"] == "done"
        assert (place.base / "mine.txt").read_text() == "form\n"
        confirmed = server.post("/v1/goals/acme/g-mia/answer", {"answer": "yes"}, place.mia, **PATIENT)
        assert confirmed.tree["state"] == "done"
        assert (place.office.archived(), "one" in place.office.notes()) == (["one"], False)

        # The request that the browser still holds, and the call that a program wants to make.
        for question in (held, call.approval_id):
            say_yes(server, question, ann)
        done = server.tree(f"/v1/browser/actions/{action}", place.browsing_bot, wait=30)
        assert (done["state"], done["result"]["success"]) == ("done", True), done
        assert [seen.body for seen in site.posts()] == [b"item=42"]
        assert (function.call().state, function.made) == ("done", [2])
        assert server.tree("/v1/inbox", ann)["items"] == []
        verdict = server.post("/v1/ledger/verify", {}, ann).tree["verdict"]
        assert verdict["holds"], verdict


def test_a_server_that_is_asked_to_end_releases_waiting_callers_and_the_browser_keeps_the_held_request(
    world: tuple[Place, Site],
) -> None:
    place, site = world
    with place.served() as server:
        action, held = hold(place, site, server)
        answers: list[Answer] = []

        def wait() -> None:
            answers.append(server.get(f"/v1/browser/actions/{action}", place.browsing_bot, wait=30))

        waiting = threading.Thread(target=wait)
        waiting.start()
        began = time.monotonic()
        assert server.terminate() == 0, server.errors
        assert time.monotonic() - began < 25, "whoever waits keeps it alive"
        waiting.join()
        [answer] = answers
        assert (answer.status, answer.tree["state"], answer.tree["waiting"]["id"]) == (202, "waiting", held)
        assert "error" not in server.errors.lower(), server.errors
    with place.served() as server:
        assert server.said["recovered"] == 0
        said = {"approved": False, "reason": "not today"}
        assert server.post(f"/v1/inbox/request/{held}/decision", said, place.admin).tree["state"] == "DENIED"
        done = server.tree(f"/v1/browser/actions/{action}", place.browsing_bot, wait=30)
        assert (done["state"], done["result"]["success"], done["result"]["sent"]) == ("done", False, 0), done


@pytest.mark.parametrize("killed", ["both", pytest.param("the browser", marks=pytest.mark.long)])
def test_what_a_browser_held_that_was_killed_is_void_and_the_console_says_so(
    world: tuple[Place, Site], killed: str
) -> None:
    """With the server at the same moment, as when a machine goes down; or alone, under the server's eyes."""
    place, site = world
    sent = len(site.posts())
    with place.served() as server:
        action, held = hold(place, site, server)
        plan = place.propose(server, f"beside {killed}.txt").rpartition("/")[2]
        kill_browser(place.workspace)
        if killed == "the browser":
            look_at_void(place, server, action, held, plan)
        server.kill()
    with place.served() as server:
        assert server.said["recovered"] == (killed == "both")
        look_at_void(place, server, action, held, plan)
    assert len(site.posts()) == sent, "it was sent"
    place.require_sound()


def look_at_void(place: Place, server: Server, action: str, held: str, plan: str) -> None:
    waiting = [each["id"] for each in server.tree("/v1/inbox", place.admin)["items"]]
    assert plan in waiting, "what the browser did not hold still waits"
    assert held not in waiting
    closed = {each["id"]: each["state"] for each in server.tree("/v1/inbox/closed", place.admin)["items"]}
    assert closed[held] == "VOID"
    listed, shown = (
        server.ask("GET", path, place.admin, None, {"Accept": "text/html"}).body.decode()
        for path in ("/inbox", f"/inbox/question?kind=request&id={held}")
    )
    for page in (listed, shown):
        assert "gone" in page, page
    assert "Void: the process that held it is gone" in shown
    assert 'name="decision"' not in shown, "it asks for an answer that nobody can use"
    digest = server.tree(f"/v1/inbox/request/{held}", place.admin)["request"]["request_digest"]
    decision = {"approved": True, "shown_digest": digest}
    assert server.post(f"/v1/inbox/request/{held}/decision", decision, place.admin).status == 409
    done = server.tree(f"/v1/browser/actions/{action}", place.browsing_bot, wait=30)
    assert (done["state"], done["result"]["success"], done["result"]["sent"]) == ("done", False, 0), done
    assert "not sent" in json.dumps(done["result"]["error"])
