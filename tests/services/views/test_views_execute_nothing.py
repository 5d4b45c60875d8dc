"""Pages, lists, GET routes, commands that show and MCP reads execute nothing, on any engine."""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from remit.contracts.plans.envelope import Approvals
from remit.contracts.plans.plan import Plan
from remit.identity.callers import AgentCaller, PersonCaller
from remit.identity.person import Person
from remit.plans.proposals.draft import ProposalDraft
from tests.mcp_server.mcp_office import over_http, talking
from tests.services.views.conftest import ViewedSite
from tests.support.web_server import Who
from tests.web.api.test_authority import routes_of

APPROVER = PersonCaller(Person("os:bob"), "approver")
OPERATOR = PersonCaller(Person("os:oto"), "operator")
VIEWS = 20
EVERY = 0.05
"""Seconds between two commits of the writer."""
ENGINES = ("sql.copied", "pipeline.filled")
"""Fault points that DuckDB and pipelines pass, in the process that asks for them."""


def bot(viewed: ViewedSite) -> AgentCaller:
    text = viewed.site.bot.headers["Authorization"].removeprefix("Bearer ")
    return AgentCaller.by(viewed.site.workspace.tokens, text)


def proposed(viewed: ViewedSite, name: str) -> str:
    """Also shows that whatever is executed is seen: computing the preview runs something on every engine."""
    before, taken = viewed.executed()
    made = viewed.site.desk.plans.propose(bot(viewed), viewed.plan(name)).proposal_id
    assert viewed.site.desk.plans.finish_previews(300), "an agent is answered before the preview is computed"
    after, now = viewed.executed()
    assert any("UPDATE orders" in line for line in after[len(before) :]), "the server's log shows what runs there"
    assert now > taken
    return made


def approved(viewed: ViewedSite, name: str) -> str:
    proposal_id = proposed(viewed, name)
    plans = viewed.site.desk.plans
    shown = plans.read_preview(APPROVER, proposal_id)
    allow = Approvals.from_tree(shown.document.needs.tree())
    plans.decide(APPROVER, proposal_id, approved=True, preview_digest=shown.preview_digest, allow=allow)
    return proposal_id


def applied(viewed: ViewedSite, name: str) -> str:
    proposal_id = approved(viewed, name)
    assert viewed.site.desk.plans.apply(OPERATOR, proposal_id, 30).state == "APPLIED"
    return proposal_id


def not_kept(viewed: ViewedSite, name: str) -> str:
    """As a proposal that was made before previews were stored, or whose process ended before it had one."""
    plan = Plan.parse(viewed.plan(name))
    draft = ProposalDraft(plan.canonical(), plan.plan_id, "no preview of it", "LOW", bot(viewed).actor)
    return str(viewed.site.workspace.proposals.propose(draft).row.proposal_id)


MADE: dict[str, Callable[[ViewedSite, str], str]] = {
    "pending": proposed,
    "approved": approved,
    "applied": applied,
    "not kept": not_kept,
}


def addresses(viewed: ViewedSite, proposal_id: str) -> list[str]:
    """Every GET route of the API and the console, about this proposal wherever a route can be."""
    fills = {
        "proposal_id": proposal_id,
        "question_id": proposal_id,
        "kind": "plan",
        "envelope_id": viewed.site.desk.plans.get(APPROVER, proposal_id).envelope_id or proposal_id,
        "name": proposal_id,
        "rest:path": f"plan/{proposal_id}",
        "name:path": "css/base.css",
        "tenant": "default",
        "tenant_id": "default",
        "seq": "1",
        "correlation_id": proposal_id,
    }
    query = f"?kind=plan&id={proposal_id}&name={proposal_id}&tenant=default&correlation={proposal_id}"
    found = []
    for method, route in sorted(routes_of(viewed.site)):
        if method != "GET":
            continue
        path = route
        for part in [each.partition("}")[0] for each in route.split("{")[1:]]:
            path = path.replace(f"{{{part}}}", quote(fills.get(part, proposal_id), safe="/"))
        found += [path] if path.startswith("/v1") else [path, path + query]
    return [*found, f"/inbox/question?kind=plan&id={proposal_id}", f"/inbox/diff?id={proposal_id}&file=0&first=0"]


def wait_for(happened: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < until
        time.sleep(EVERY / 10)


def opened(viewed: ViewedSite, path: str, who: Who) -> int:
    """The beginning of the answer is enough, since the stream of events has no end."""
    connection = http.client.HTTPConnection("127.0.0.1", viewed.site.settings.port, timeout=60)
    try:
        connection.request("GET", path, headers={"Host": f"127.0.0.1:{viewed.site.settings.port}", **who.headers})
        answer = connection.getresponse()
        if "event-stream" not in (answer.getheader("content-type") or ""):
            answer.read()
        return answer.status
    finally:
        connection.close()


@pytest.mark.req("PV-02")
@pytest.mark.parametrize("state", MADE)
def test_no_get_route_executes_anything(viewed: ViewedSite, state: str) -> None:
    proposal_id = MADE[state](viewed, f"walk-{state.replace(' ', '-')}")
    paths = addresses(viewed, proposal_id)
    assert len(paths) > 60
    callers = [viewed.site.person("viewer", f"vera-{state.replace(' ', '-')}"), viewed.site.admin, viewed.site.bot]
    before = viewed.executed()
    for path in paths:
        for who in callers:
            status = opened(viewed, path, who)
            assert status < 500 or path.startswith("/readyz"), (path, status)
            assert viewed.executed() == before, f"{path} executed something"
    kept = 404 if state == "not kept" else 200
    assert opened(viewed, f"/v1/plans/{proposal_id}/preview", callers[0]) == kept
    assert opened(viewed, f"/inbox/question?kind=plan&id={proposal_id}", callers[0]) == 200
    if state == "applied":
        assert opened(viewed, f"/v1/plans/{proposal_id}/undo", callers[0]) == 200
        assert opened(viewed, f"/runs/{proposal_id}", callers[0]) == 200


@pytest.mark.req("PV-02")
def test_without_a_stored_preview_views_say_so_and_offer_to_compute_it_again(viewed: ViewedSite) -> None:
    """That is a POST, it needs the right to propose, and it is recorded with the person who asked for it."""
    proposal_id = not_kept(viewed, "nothing-kept")
    route, page = f"/v1/plans/{proposal_id}/preview", f"/inbox/question?kind=plan&id={proposal_id}"
    viewer, operator = (viewed.site.person(role, f"{role}-nothing-kept") for role in ("viewer", "operator"))
    button = 'action="/inbox/compute'
    before = viewed.executed()
    for who in (viewer, operator):
        told = viewed.site.get(route, who)
        assert (told.status, told.tree["code"]) == (404, "state_missing")
        assert f"remit approvals compute {proposal_id}" in told.tree["next_step"]
        shown = viewed.site.get(page, who).body.decode()
        assert "preview of this plan is stored" in shown
        assert (button in shown) is (who is operator)
    assert viewed.site.post(route, {}, viewer).status == 403
    assert viewed.site.post(route, {}, viewed.site.person("approver", "approver-nothing-kept")).status == 403
    assert viewed.site.post(route, {}, viewed.site.bot).status == 403
    assert viewed.executed() == before

    assert viewed.site.post(route, {}, operator).status == 200
    after = viewed.executed()
    assert any("UPDATE orders" in line for line in after[0][len(before[0]) :])
    assert viewed.site.get(route, viewer).tree["computed_by"] == "link:operator-nothing-kept"
    query = "SELECT actor FROM ledger_entries WHERE kind = 'proposal.previewed' AND correlation_id = ?"
    with viewed.site.workspace.store.reading() as connection:
        assert list(connection.rows(query, (proposal_id,))) == [("link:operator-nothing-kept",)]
    assert viewed.executed() == after


@pytest.mark.req("PV-02")
def test_no_mcp_tool_or_resource_that_only_reads_executes_anything(viewed: ViewedSite) -> None:
    proposal_id = proposed(viewed, "mcp")
    token = viewed.site.bot.headers["Authorization"].removeprefix("Bearer ")
    known: dict[str, Any] = {
        "preview_plan": {"plan": json.loads(viewed.plan("mcp"))},
        "plan_status": {"proposal_id": proposal_id},
        "read_plan_preview": {"proposal_id": proposal_id},
        "task_status": {"task_id": "none"},
    }
    with talking(over_http(f"{viewed.site.url}/mcp", token)) as talk:
        tools = talk.run(lambda client: client.list_tools()).tools
        reading = [tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint]
        templates = talk.run(lambda client: client.list_resource_templates()).resource_templates
        assert set(known) <= set(reading)
        before = viewed.executed()
        for name in reading:
            talk.call(name, **known.get(name, {"correlation_id": "none", "action_id": proposal_id}))
            assert viewed.executed() == before, f"{name} executed something"
        for template in templates:
            address = template.uri_template
            for part in [each.partition("}")[0] for each in address.split("{")[1:]]:
                address = address.replace(f"{{{part}}}", proposal_id)
            try:
                talk.read(address)
            except Exception as problem:
                if "diffs" in address:
                    raise AssertionError(f"{address} cannot be read") from problem
            assert viewed.executed() == before, f"{address} executed something"


@pytest.mark.req("PV-02")
def test_no_command_that_shows_executes_anything(viewed: ViewedSite) -> None:
    proposal_id = proposed(viewed, "command")
    viewed.site.project.write("command.txt", "another\n")  # stale: said, and nothing is run to say it

    def remit(*words: str) -> str:
        environ = {**os.environ, **viewed.site.project.environ, "REMIT_FAULT": "announce"}
        command = [sys.executable, "-m", "remit", *words, "-C", str(viewed.root)]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, (words, done.stdout[-2_000:], done.stderr[-2_000:])
        return done.stdout

    before = viewed.executed()
    for words in (("approvals",), ("approvals", "list"), ("approvals", "show", proposal_id), ("runs",)):
        said = remit(*words)
        assert viewed.executed() == before, words
        assert not [point for point in ENGINES if f"remit-fault {point}" in said], words
    viewed.site.project.write("command.txt")
    said = remit("approvals", "compute", proposal_id)
    assert all(f"remit-fault {point}" in said for point in ENGINES), "what is executed is seen"
    assert len(viewed.executed()[0]) > len(before[0])


@pytest.mark.req("PV-02")
def test_views_beside_a_writer_send_no_statement_and_cost_it_no_error(viewed: ViewedSite) -> None:
    proposal_id = proposed(viewed, "beside")
    viewer = viewed.site.person("viewer", "vera-beside")
    paths = (f"/inbox/question?kind=plan&id={proposal_id}", f"/v1/plans/{proposal_id}/preview")
    ended, begun = threading.Event(), threading.Event()
    commits, errors = [0], []

    def write() -> None:
        with psycopg.connect(viewed.server.admin) as connection:
            while not ended.is_set():
                try:
                    connection.execute("UPDATE orders SET total = total + 1 WHERE id = %s", (commits[0] % 50 + 1,))
                    connection.commit()
                    commits[0] += 1
                except psycopg.Error as problem:
                    errors.append(repr(problem))
                    connection.rollback()
                begun.set()
                time.sleep(EVERY)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert begun.wait(60)
        before = viewed.executed()
        statuses = []
        for number in range(VIEWS):
            seen = commits[0]
            statuses.append(opened(viewed, paths[number % 2], viewer))
            wait_for(lambda seen=seen: commits[0] > seen or errors)  # type: ignore[misc]
        after = viewed.executed()
    finally:
        ended.set()
        writer.join()
    assert statuses == [200] * VIEWS
    assert after[0][len(before[0]) :] == [], "statements of Remit on that server during the views"
    assert after[1] == before[1]
    assert (errors, commits[0] >= VIEWS) == ([], True)


def test_the_document_that_is_shown_is_the_one_that_the_api_gives(viewed: ViewedSite) -> None:
    """One document for all views, and the digest of it is what an approval names."""
    proposal_id = proposed(viewed, "same")
    viewer = viewed.site.person("viewer", "vera-same")
    told = json.loads(viewed.site.get(f"/v1/plans/{proposal_id}/preview", viewer).body)
    page = viewed.site.get(f"/inbox/question?kind=plan&id={proposal_id}", viewer).body.decode()
    assert told["preview_digest"] in page
    assert {each["action_id"] for each in told["document"]["sql"]} == {"server", "local"}
    assert [each["pipeline"] for each in told["document"]["pipelines"]] == ["report"]
