"""Four eyes through `remit serve`: a person cannot approve their own plan over HTTP or in the console."""

import html
import json
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from remit.identity.callers import PersonCaller
from remit.identity.person import Person
from remit.web.console import confirm_page
from remit.web.security.middleware import CSRF_FIELD
from tests.plans.project import create, plan_of
from tests.support.shared_zygotes import zygotes_are_shared
from tests.support.web_server import WebSite, Who

__all__ = ["zygotes_are_shared"]

pytestmark = pytest.mark.req("PV-04")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebSite]:
    made = WebSite(tmp_path_factory.mktemp("site"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def open_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebSite]:
    made = WebSite(tmp_path_factory.mktemp("open"), approvals={"allow_own": True})
    yield made
    made.close()


def propose(site: WebSite, who: Who, name: str) -> str:
    plan = json.loads(plan_of(create("a", f"{name}.txt", "new\n"), plan_id=f"plan-{name}"))
    made = site.post("/v1/plans", {"plan": plan}, who)
    assert made.status == 201, made.body
    return str(made.tree["proposal_id"])


def decide(site: WebSite, who: Who, proposal_id: str, *, approved: bool = True) -> tuple[int, dict[str, str]]:
    shown = site.get(f"/v1/plans/{proposal_id}/preview", who).tree
    body = {"approved": approved, "preview_digest": shown["preview_digest"]} if approved else {"approved": False}
    answer = site.post(f"/v1/plans/{proposal_id}/decision", body, who)
    return answer.status, answer.tree


def read_page(site: WebSite, who: Who, proposal_id: str) -> str:
    answer = site.get(f"/inbox/question?kind=plan&id={proposal_id}", who, Accept="text/html")
    assert answer.status == 200
    return html.unescape(answer.body.decode())


def approve_by_form(site: WebSite, who: Who, proposal_id: str) -> tuple[int, str]:
    digest = site.get(f"/v1/plans/{proposal_id}/preview", who).tree["preview_digest"]
    fields = {"kind": "plan", "id": proposal_id, "tenant": "default", "digest": digest, "decision": "approve"}
    form = urlencode({**fields, confirm_page.FIELD: "yes", CSRF_FIELD: who.headers["X-Remit-CSRF"]})
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
    answer = site.ask("POST", "/inbox/answer", who, form.encode(), headers)
    return answer.status, html.unescape(answer.body.decode())


def state(site: WebSite, proposal_id: str) -> str:
    return str(site.get(f"/v1/plans/{proposal_id}", site.admin).tree["state"])


def test_the_proposer_cannot_approve_over_http_but_can_deny(site: WebSite) -> None:
    ann = site.person("admin", "ann")
    made = propose(site, ann, "http")

    status, problem = decide(site, ann, made)

    assert (status, problem["code"]) == (403, "permission_denied")
    assert "requested by link:ann" in str(problem)
    assert "role approver or admin" in str(problem)
    assert "approvals.allow_own" in str(problem)
    assert state(site, made) == "PENDING"
    assert decide(site, ann, made, approved=False)[0] == 200
    assert state(site, made) == "DENIED"


def test_the_proposer_cannot_approve_with_a_second_login(site: WebSite) -> None:
    made = propose(site, site.person("admin", "bea"), "login")

    assert decide(site, site.person("approver", "bea"), made)[0] == 403
    assert decide(site, site.person("approver", "BEA"), made)[0] == 403, "the same account, spelled differently"
    assert state(site, made) == "PENDING"


def test_another_person_approves(site: WebSite) -> None:
    made = propose(site, site.person("admin", "cid"), "other")

    status, view = decide(site, site.person("approver", "dora"), made)

    assert (status, view["state"], view["decided_by"]) == (200, "APPROVED", "link:dora")


def test_a_plan_that_the_owner_proposed_at_the_terminal_needs_another_person_in_the_console(site: WebSite) -> None:
    at_terminal = PersonCaller(Person("os:eve"), "admin", at_terminal=True)
    plan = plan_of(create("a", "eve.txt", "new\n"), plan_id="plan-eve")
    made = site.desk.plans.propose(at_terminal, plan).proposal_id

    assert decide(site, site.person("admin", "eve"), made)[0] == 403
    preview = site.desk.plans.read_preview(at_terminal, made)
    decided = site.desk.plans.decide(at_terminal, made, approved=True, preview_digest=preview.preview_digest)
    assert decided.state == "APPROVED", "at the command line of the workspace it is allowed"


def test_the_console_says_why_in_place_of_the_button(site: WebSite) -> None:
    fay = site.person("admin", "fay")
    made = propose(site, fay, "console")

    own, others = read_page(site, fay, made), read_page(site, site.person("approver", "gus"), made)

    assert ('value="approve"' in own, 'value="deny"' in own) == (False, True)
    assert "You cannot approve what you requested yourself" in own
    assert "set approvals.allow_own to true" in own
    assert 'value="approve"' in others
    assert "requested yourself" not in others
    status, page = approve_by_form(site, fay, made)
    assert (status, "You cannot approve" in page) == (403, True)
    assert state(site, made) == "PENDING"


def test_the_setting_lets_people_approve_their_own_plans(open_site: WebSite) -> None:
    hal = open_site.person("admin", "hal")
    made, second = propose(open_site, hal, "allowed"), propose(open_site, hal, "allowed-too")

    assert 'value="approve"' in read_page(open_site, hal, made)
    assert decide(open_site, hal, made)[0] == 200
    assert approve_by_form(open_site, hal, second)[0] in {200, 302, 303}
    assert (state(open_site, made), state(open_site, second)) == ("APPROVED", "APPROVED")


def test_the_plan_of_an_agent_is_nobodys_own(site: WebSite) -> None:
    made = propose(site, site.agent("ida", "plan.propose"), "agent")
    site.desk.plans.finish_previews(20)

    assert decide(site, site.person("approver", "jon"), made)[0] == 200
