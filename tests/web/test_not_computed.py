"""A plan whose preview executes something, proposed without the capability over HTTP, MCP and the command line."""

import html
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from remit.services.plans.preview_computation import CAPABILITY, FOR_AGENT
from tests.mcp_server.mcp_office import over_http, talking, words_of
from tests.plans.project import create, plan_of
from tests.plans.sql.shop import DATABASE, make_database, sql
from tests.support import preloaded
from tests.support.counted_sandboxes import count_sandboxes
from tests.support.shared_zygotes import zygotes_are_shared
from tests.support.web_server import WebSite, Who

__all__ = ["zygotes_are_shared"]

pytestmark = [pytest.mark.req("PV-02"), pytest.mark.req("RU-04")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebSite]:
    folder = tmp_path_factory.mktemp("site")
    made = WebSite(folder, connections={"shop": {"type": "duckdb", "path": DATABASE}})
    make_database(made.project.root / DATABASE)
    yield made
    made.close()


@pytest.fixture
def sandboxes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return count_sandboxes(monkeypatch)


def plan(name: str) -> dict[str, Any]:
    action = sql("s", "UPDATE orders SET amount = amount + 1", connection="shop")
    return dict(json.loads(plan_of(action, plan_id=f"plan-{name}")))


def token(who: Who) -> str:
    return who.headers["Authorization"].removeprefix("Bearer ")


def remit(site: WebSite, *arguments: str, as_agent: str | None = None) -> str:
    environ = {**os.environ, **site.project.environ, "COLUMNS": "400"}
    if as_agent is not None:
        environ["REMIT_TOKEN"] = as_agent
    done = subprocess.run(
        [preloaded.remit(), *arguments],
        cwd=site.project.root,
        env=environ,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def by_http(site: WebSite, who: Who, name: str, folder: Path) -> Any:
    del folder
    return site.post("/v1/plans", {"plan": plan(name)}, who).tree


def by_mcp(site: WebSite, who: Who, name: str, folder: Path) -> Any:
    del folder
    with talking(over_http(f"{site.url}/mcp", token(who))) as talk:
        answer = talk.call("propose_plan", plan=plan(name))
        assert FOR_AGENT in words_of(answer)
        return answer.structured_content


def by_command(site: WebSite, who: Who, name: str, folder: Path) -> Any:
    file = folder / "plan.json"
    file.write_text(json.dumps(plan(name)))
    made = json.loads(remit(site, "propose", str(file), "--json", "--key", name, as_agent=token(who)))
    assert made["proposal_id"] in remit(site, "propose", str(file), "--key", name, as_agent=token(who))
    assert FOR_AGENT in remit(site, "propose", str(file), "--key", name, as_agent=token(who))
    return made


@pytest.mark.parametrize("propose", [by_http, by_mcp, by_command])
def test_nothing_executes_until_a_person_computes(
    site: WebSite, sandboxes: list[int], tmp_path: Path, propose: Callable[..., Any]
) -> None:
    name = propose.__name__
    agent, operator, approver = (
        site.agent(f"bot-{name}", "plan.propose"),
        site.person("operator"),
        site.person("approver"),
    )

    made = propose(site, agent, name, tmp_path)

    proposal_id = made["proposal_id"]
    assert (made["preview_state"], made["preview_note"]) == (None, FOR_AGENT)
    assert site.get(f"/v1/plans/{proposal_id}", agent).tree["preview_note"] == FOR_AGENT
    seen = site.get(f"/v1/plans/{proposal_id}", approver).tree
    assert (seen["preview_state"], CAPABILITY in seen["preview_note"]) == ("not_computed", True)
    missing = site.get(f"/v1/plans/{proposal_id}/preview", approver)
    assert (missing.status, CAPABILITY in missing.body.decode()) == (404, True)
    assert "the right to compute" in missing.tree["next_step"]
    page = html.unescape(site.get(f"/inbox/question?kind=plan&id={proposal_id}", operator).body.decode())
    assert CAPABILITY in page
    assert ">Compute</button>" in page
    inbox = site.get("/inbox", approver).body.decode()
    assert "preview not computed" in inbox
    (question,) = (each for each in site.get("/v1/inbox", approver).tree["items"] if each["id"] == proposal_id)
    assert question["preview_state"] == "not_computed"
    listed = json.loads(remit(site, "approvals", "list", "--plans", "--json"))["plans"]
    assert {each["preview_state"] for each in listed if each["proposal_id"] == proposal_id} == {"not_computed"}
    assert "preview not computed" in remit(site, "approvals", "list", "--plans")
    shown = remit(site, "approvals", "show", proposal_id)
    assert CAPABILITY in shown
    assert f"approvals compute {proposal_id}" in shown
    assert sandboxes == [], "nothing of all this executes anything"

    if propose is by_command:
        remit(site, "approvals", "compute", proposal_id)
    else:
        assert site.post(f"/v1/plans/{proposal_id}/preview", {}, agent).status == 403
        assert site.post(f"/v1/plans/{proposal_id}/preview", {}, approver).status == 403
        assert sandboxes == []
        assert site.post(f"/v1/plans/{proposal_id}/preview", {}, operator).status == 200
        assert sandboxes

    seen = site.get(f"/v1/plans/{proposal_id}", approver).tree
    assert (seen["preview_state"], seen["preview_note"]) == ("computed", None)
    assert site.get(f"/v1/plans/{proposal_id}", agent).tree["preview_note"] == FOR_AGENT, "the agent learns nothing new"
    digest = site.get(f"/v1/plans/{proposal_id}/preview", approver).tree["preview_digest"]
    decision = {"approved": True, "preview_digest": digest}
    assert site.post(f"/v1/plans/{proposal_id}/decision", decision, approver).tree["state"] == "APPROVED"


def test_with_the_capability_it_is_computed_when_it_is_proposed(site: WebSite, tmp_path: Path) -> None:
    for propose in (by_http, by_command):
        agent = site.agent(f"able-{propose.__name__}", "plan.propose", CAPABILITY)
        file = tmp_path / "able.json"
        file.write_text(json.dumps(plan(f"able-{propose.__name__}")))
        if propose is by_http:
            made = by_http(site, agent, f"able-{propose.__name__}", tmp_path)
            assert site.desk.plans.finish_previews(60)
        else:
            made = json.loads(remit(site, "propose", str(file), "--json", as_agent=token(agent)))
        assert (made["preview_state"], made["preview_note"]) == (None, None)
        seen = site.get(f"/v1/plans/{made['proposal_id']}", site.admin).tree
        assert (seen["preview_state"], seen["preview_note"]) == ("computed", None)


def test_a_person_reads_the_statements_before_the_preview_is_computed(
    site: WebSite, sandboxes: list[int], tmp_path: Path
) -> None:
    secret = "ghp_" + "a1B2" * 9
    query = "UPDATE orders SET amount = amount + $more"
    actions = (
        sql("s", query, connection="shop", parameters={"more": 41, "password": "hunter2hunter2"}),
        create("c", "new.txt", f"first line\ntoken {secret}\n"),
    )
    agent, viewer = site.agent("bot-text", "plan.propose"), site.person("viewer")
    proposed = site.post("/v1/plans", {"plan": json.loads(plan_of(*actions, plan_id="plan-text"))}, agent).tree
    name = proposed["proposal_id"]

    shown = remit(site, "approvals", "show", name)
    page = html.unescape(site.get(f"/inbox/question?kind=plan&id={name}", viewer).body.decode())
    answer = site.get(f"/v1/plans/{name}", viewer).tree
    printed = json.loads(remit(site, "approvals", "show", name, "--json"))

    assert answer["title"] == printed["proposal"]["title"] == "plan plan-text: 2 actions, not computed"
    assert answer["plan_text"] == printed["plan_text"]
    assert answer["plan_text"]["sql"][0]["texts"] == [query]
    for text in (shown, page, json.dumps(answer)):
        assert query in text
        assert "first line" in text
        assert "new.txt" in text
        assert "41" in text
        assert secret not in text
        assert "hunter2" not in text
        assert "0 files" not in text
    assert "not computed" in page
    assert "discards" not in page
    assert site.get(f"/v1/plans/{name}", agent).tree["plan_text"] is None
    assert sandboxes == [], "reading executes nothing"
    remit(site, "approvals", "compute", name)
    assert site.get(f"/v1/plans/{name}", viewer).tree["plan_text"] is None


def test_the_page_says_whose_note_it_is(site: WebSite) -> None:
    document = json.loads(plan_of(create("c", "noted.txt"), plan_id="plan-note"))
    agent, person = site.agent("bot-note", "plan.propose"), site.person("operator")
    for who, label in ((agent, "Agent's note"), (person, "Note of the proposer")):
        made = site.post("/v1/plans", {"plan": document, "note": "as we agreed"}, who)
        address = f"/inbox/question?kind=plan&id={made.tree['proposal_id']}"
        assert f"{label} (not verified)" in html.unescape(site.get(address, site.admin).body.decode())
