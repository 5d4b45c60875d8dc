"""Whoever is known by his headers and keeps the body back is known no longer, once his token or session has ended."""

import http.client
import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from remit.web.http import request_body as bodies
from remit.web.security import middleware as guard
from tests.plans.project import plan_of, replace
from tests.support.task_workspace import manifest
from tests.support.web_server import JSON, Answer, WebSite, Who

HeldBack = Callable[[str, Who, Any, Callable[[], object]], Answer]


@pytest.fixture
def held_back(site: WebSite, monkeypatch: pytest.MonkeyPatch) -> HeldBack:
    """A request whose body comes when something else has happened, after the guard has found out who asks."""
    is_awaited, read_body = threading.Event(), bodies.read_body

    async def noticed(*given: Any) -> bytes:
        is_awaited.set()
        return await read_body(*given)

    def ask(path: str, who: Who, body: Any, meanwhile: Callable[[], object]) -> Answer:
        port, raw = site.settings.port, json.dumps(body).encode()
        headers = {**who.headers, "Content-Type": JSON, "Content-Length": str(len(raw)), "Prefer": "wait=20"}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with closing_after(connection), monkeypatch.context() as patched:
            is_awaited.clear()
            patched.setattr(guard, "read_body", noticed)
            connection.putrequest("POST", path)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders(raw[:1])
            assert is_awaited.wait(20)
            meanwhile()
            connection.send(raw[1:])
            found = connection.getresponse()
            return Answer(found.status, found.headers, found.read())

    return ask


@contextmanager
def closing_after(connection: http.client.HTTPConnection) -> Iterator[None]:
    try:
        yield
    finally:
        connection.close()


def revoke(site: WebSite, who: Who) -> Callable[[], object]:
    jti = site.workspace.tokens.verify(who.headers["Authorization"].removeprefix("Bearer ")).jti
    return lambda: site.post(f"/v1/tokens/{jti}/revoke", {}, site.admin)


def leased_task(site: WebSite, task_id: str) -> dict[str, Any]:
    asked = json.loads(manifest(task_id))
    return {"manifest": asked, "lease": site.post("/v1/leases", {"manifest": asked}, site.admin).tree}


def approved(site: WebSite, who: Who, path: str) -> str:
    site.project.write(path)
    plan = json.loads(plan_of(replace("a", path), plan_id=f"plan-{path}"))
    name: str = site.post("/v1/plans", {"plan": plan}, who).tree["proposal_id"]
    digest = site.get(f"/v1/plans/{name}/preview", site.admin).tree["preview_digest"]
    decided = site.post(f"/v1/plans/{name}/decision", {"approved": True, "preview_digest": digest}, site.admin)
    assert decided.status == 200
    return name


@pytest.mark.parametrize("fresh_seconds, status", [(0.0, 401), (math.inf, 403)])
def test_a_token_that_is_revoked_before_the_body_comes_does_nothing(
    site: WebSite, held_back: HeldBack, monkeypatch: pytest.MonkeyPatch, fresh_seconds: float, status: int
) -> None:
    """The guard looks again; and without that, what is to be recorded is refused all the same."""
    monkeypatch.setattr(site.app.state.guard, "fresh_seconds", fresh_seconds)
    bot = site.agent("held", "plan.propose", "plan.apply", "plan.undo")
    file = f"applied{status}.txt"
    applied, waiting = (approved(site, bot, path) for path in (file, f"waiting{status}.txt"))
    assert site.post(f"/v1/plans/{applied}/apply", {}, bot, Prefer="wait=20").status == 200
    changed = site.project.read(file)
    assert changed != "one\ntwo\nthree\n"
    verbs: dict[str, Any] = {
        "/v1/tasks": leased_task(site, f"held-{status}"),
        f"/v1/plans/{waiting}/apply": {},
        f"/v1/plans/{applied}/undo": {},
        f"/v1/plans/{waiting}/cancel": {},
    }
    for path, body in verbs.items():
        late = site.agent("held", "plan.propose", "plan.apply", "plan.undo", "task.run")
        answer = held_back(path, late, body, revoke(site, late))
        assert (answer.status, answer.tree["code"]) == (status, "revoked"), path
    assert site.project.read(file) == changed
    assert site.get(f"/v1/plans/{waiting}", site.admin).tree["state"] == "APPROVED"
    assert site.get(f"/v1/tasks/held-{status}", site.admin).status == 404
    assert held_back(f"/v1/plans/{waiting}/apply", bot, {}, lambda: None).tree["state"] == "APPLIED"


def test_a_caller_who_was_revoked_or_removed_meanwhile_gets_no_preview_either(
    site: WebSite, held_back: HeldBack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.app.state.guard, "fresh_seconds", 0)
    site.project.write("shown.txt")
    plan = json.loads(plan_of(replace("a", "shown.txt"), plan_id="shown"))
    late, person = site.agent("held", "plan.propose"), site.person("operator", "held")
    assert held_back("/v1/plans/preview", late, plan, lambda: None).status == 200
    assert held_back("/v1/plans/preview", person, plan, lambda: None).status == 200
    assert held_back("/v1/plans/preview", late, plan, revoke(site, late)).status == 401
    removed = held_back(
        "/v1/plans/preview", person, plan, lambda: site.workspace.people.remove("held", actor="os:test")
    )
    assert removed.status == 401
