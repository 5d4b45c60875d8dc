"""The stream of events: told as it happens, gone on with where it broke off, over with the credential."""

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from remit.web import sse
from tests.road.conftest import manifest
from tests.web_site import WebSite, Who


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


def test_what_happens_is_told_and_gone_on_with_after_the_last_event(site: WebSite) -> None:
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
        assert "does not count" in stream.until("desk.closed")["data"]
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


def test_more_listeners_than_the_settings_allow_are_refused(site: WebSite, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = site.settings.config.limits.model_copy(update={"listeners": 1})
    config = site.settings.config.model_copy(update={"limits": limits})
    monkeypatch.setattr(site.app.state, "settings", type(site.settings)(config, "127.0.0.1", site.settings.port))
    _wait_for_listeners(site, 0)
    with listening(site, site.admin):
        answer = site.get("/v1/events", site.admin)
        assert (answer.status, answer.tree["code"], answer.headers["retry-after"]) == (429, "resource_exhausted", "1")
