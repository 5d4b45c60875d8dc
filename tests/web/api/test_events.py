"""The stream of events: told as it happens, gone on with where it broke off, over with the credential."""

import http.client
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from remit.identity.callers import AgentCaller, Caller, PersonCaller
from remit.identity.person import Person
from remit.ledger.entry import NewEntry
from remit.services.base.fair_share import FairShareQuota, Share
from remit.web.http import sse
from remit.web.security.fair_share import LISTENING_AGENT, build_listener_quota
from tests.support.task_workspace import manifest
from tests.support.web_server import WebSite, Who


class Stream:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.response = response

    def lines(self) -> Iterator[str]:
        while line := self.response.readline():
            yield line.decode().rstrip("\n")

    def events(self) -> Iterator[dict[str, str]]:
        """Events with their fields; a heartbeat is one with a comment alone."""
        event: dict[str, str] = {}
        for line in self.lines():
            if not line:
                yield event
                event = {}
            else:
                name, _, value = line.partition(":")
                event[name or "comment"] = value.strip()

    def until(self, kind: str) -> dict[str, str]:
        return next(event for event in self.events() if event.get("event") == kind)


@contextmanager
def listening(site: WebSite, who: Who, query: str = "", **headers: str) -> Iterator[Stream]:
    connection = http.client.HTTPConnection("127.0.0.1", site.settings.port, timeout=20)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", f"/v1/events{query}", headers={**who.headers, "Accept": "text/event-stream", **named})
    try:
        response = connection.getresponse()
        assert response.status == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        stream = Stream(response)
        assert next(stream.events()) == {"retry": "2000"}
        yield stream
    finally:
        connection.close()


def run(site: WebSite, task_id: str, who: Who) -> None:
    asked = json.loads(manifest(task_id))
    lease = site.post("/v1/leases", {"manifest": asked}, site.admin).tree
    assert site.post("/v1/tasks", {"manifest": asked, "lease": lease}, who, Prefer="wait=20").status == 200


def test_events_are_sent_and_a_new_stream_continues_after_the_last_event(site: WebSite) -> None:
    with listening(site, site.admin) as stream:
        run(site, "event-1", site.bot)
        intent = stream.until("task.intent")
        told: dict[str, Any] = json.loads(intent["data"])
        assert (told["kind"], told["correlation_id"]) == ("task.intent", "event-1")
        assert told["id"] == intent["id"]
    run(site, "event-2", site.bot)
    with listening(site, site.admin, Last_Event_ID=intent["id"]) as stream:
        assert json.loads(stream.until("task.outcome")["data"])["correlation_id"] == "event-1"
        assert json.loads(stream.until("task.intent")["data"])["correlation_id"] == "event-2"
    with listening(site, site.admin, f"?after={intent['id']}") as stream:
        assert json.loads(stream.until("task.outcome")["data"])["correlation_id"] == "event-1"


def test_an_agent_hears_of_its_own_things_only_and_no_payload(site: WebSite) -> None:
    other = site.agent("other", "task.run")
    with listening(site, other) as stream:
        run(site, "not-his", site.bot)
        run(site, "his", other)
        first = json.loads(stream.until("task.intent")["data"])
        assert (first["correlation_id"], first["payload"]) == ("his", None)


def test_a_stream_ends_with_the_token_that_it_was_opened_by(site: WebSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT", 0.05)
    issued = site.post("/v1/tokens", {"sub": "short", "caps": ["task.run"]}, site.admin).tree
    with listening(site, Who({"Authorization": f"Bearer {issued['token']}"})) as stream:
        assert next(stream.events()) == {"comment": "still here"}
        assert site.post(f"/v1/tokens/{issued['jti']}/revoke", {}, site.admin).status == 200
        assert "no longer valid" in stream.until("desk.closed")["data"]
        assert list(stream.lines()) == []


def test_who_hangs_up_is_forgotten(site: WebSite) -> None:
    _wait_for_listeners(site, 0)
    with listening(site, site.admin):
        _wait_for_listeners(site, 1)
    _wait_for_listeners(site, 0)


def _wait_for_listeners(site: WebSite, wanted: int) -> None:
    deadline = time.monotonic() + 20
    while site.desk.events.listeners != wanted:
        assert time.monotonic() < deadline, f"{site.desk.events.listeners} listen"
        time.sleep(0.01)


def test_one_agent_takes_its_share_of_the_listeners_however_many_come_at_once_and_people_have_theirs(
    site: WebSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    _wait_for_listeners(site, 0)
    monkeypatch.setattr(site.app.state, "listening", build_listener_quota(20))
    crowd = [site.agent("crowd") for _ in range(2)]  # two tokens are still one agent
    with ExitStack() as stack:
        sent = [_begin(site, crowd[at % 2], stack) for at in range(LISTENING_AGENT - 1 + 10)]
        # 15 of 20: a quarter is left to people.
        statuses = [_status_of(connection) for connection in sent]
        assert (statuses.count(b"200"), statuses.count(b"429")) == (15, 10)
        _wait_for_listeners(site, 15)
        others = site.get("/v1/events", site.agent("other"))
        assert (others.status, others.tree["code"], others.headers["retry-after"]) == (429, "resource_exhausted", "1")
        for _ in range(5):
            stack.enter_context(listening(site, site.admin))
        assert site.get("/v1/events", site.admin).status == 429
    _wait_for_listeners(site, 0)
    assert len(site.app.state.listening) == 0


def _begin(site: WebSite, who: Who, stack: ExitStack) -> socket.socket:
    """Sent, and not waited for."""
    port = site.settings.port
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
    own = "".join(f"{name}: {value}\r\n" for name, value in who.headers.items())
    connection.sendall(f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{own}\r\n".encode())
    return connection


def _status_of(connection: socket.socket) -> bytes:
    return connection.recv(4096)[9:12]


def test_shares_are_each_callers_own_and_agents_leave_some_to_people(site: WebSite) -> None:
    agents = [AgentCaller.by(site.workspace.tokens, _token(site, name)) for name in ("a1", "a2", "a3")]
    ada, bob = (PersonCaller(Person(f"link:{name}"), "viewer") for name in ("ada", "bob"))
    places = FairShareQuota("places", 8, agents=Share(3, 6), people=Share(4, 8))

    def back_up_files(caller: Caller) -> int:
        return next(number for number in range(100) if not places.acquire(caller))

    assert [back_up_files(each) for each in agents] == [3, 3, 0]
    assert [back_up_files(each) for each in (ada, bob)] == [2, 0]
    places.release(agents[0])
    assert [back_up_files(each) for each in (agents[1], ada, agents[0])] == [0, 1, 0]
    for caller, held in ((agents[0], 2), (agents[1], 3), (ada, 3)):
        for _ in range(held):
            places.release(caller)
    assert len(places) == 0
    assert back_up_files(bob) == 4


def _token(site: WebSite, name: str) -> str:
    return site.agent(name).headers["Authorization"].removeprefix("Bearer ")


def test_a_listener_who_is_removed_logged_out_or_revoked_receives_no_event_that_is_recorded_later(
    site: WebSite,
) -> None:
    """At once, not with the next heartbeat; and the others go on listening."""
    issued = site.post("/v1/tokens", {"sub": "revoked", "caps": ["plan.propose"]}, site.admin).tree
    ends = {
        "removed": (site.person("viewer", "leaving"), "/v1/people/remove", {"name": "leaving"}),
        "revoked": (Who({"Authorization": f"Bearer {issued['token']}"}), f"/v1/tokens/{issued['jti']}/revoke", {}),
    }
    for what, (who, path, body) in ends.items():
        with listening(site, who) as stream, listening(site, site.admin) as other:
            assert site.post(path, body, site.admin).status == 200
            for at in range(3):
                site.workspace.ledger.append(
                    NewEntry("default", "test.after", f"{what}-{at}", {}, actor="agent:revoked")
                )
            kinds = [event.get("event") for event in stream.events()]
            assert kinds[-1] == "desk.closed"
            assert not {"test.after", "person.removed", "token.revoked"} & set(kinds)
            assert json.loads(other.until("test.after")["data"])["correlation_id"] == f"{what}-0"
    leaver = site.person("viewer", "logging-out")
    with listening(site, leaver) as stream, listening(site, site.person("viewer", "logging-out")) as own:
        site.workspace.people.end(leaver.headers["Cookie"].partition("=")[2])
        site.workspace.ledger.append(NewEntry("default", "test.after", "logged-out", {}))
        assert [event.get("event") for event in stream.events()][-1] == "desk.closed"
        assert own.until("test.after")  # a session of its own
