"""Which role gets which page, what a form may contain, and the messages of errors. No browser is needed."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from fastapi.routing import APIRoute

from remit.contracts.config.config import CONFIG_NAME
from remit.contracts.goals.simulation import Simulation
from remit.contracts.services.plans import ProposalView
from remit.identity.callers import PersonCaller
from remit.identity.person import Person
from remit.services.plans.service import NO_ALLOWANCES
from remit.web.console.languages import languages_for
from remit.web.console.redirects import REDIRECTED_PATHS
from remit.web.console.router import ROUTERS
from tests.web.console.console_workspace import ADMIN, TENANT, Answer, Stage, created, replaced, served

PAGES = ("/inbox", "/runs", "/goals", "/ledger", "/ledger/verify", "/catalogue", "/tokens", "/people", "/levels")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with served(tmp_path_factory.mktemp("doors")) as made:
        yield made


def test_a_request_without_a_session_goes_to_the_login_and_an_agent_gets_no_page(stage: Stage) -> None:
    for path in PAGES:
        answer = stage.ask("GET", path)
        assert (answer.status, answer.headers["location"]) == (303, f"/login?next={path}"), path
        answer = stage.ask("GET", path, Authorization=f"Bearer {stage.agent.text}")
        assert answer.status == 403, path
        assert "The console is for people" in answer.text, path
    assert stage.ask("GET", "/ledger?text=a%26b").headers["location"] == "/login?next=/ledger%3Ftext%3Da%2526b"
    posted = stage.ask("POST", "/inbox/answer", "kind=plan")
    assert (posted.status, posted.headers["location"]) == (303, "/login?next=/inbox")
    cookie, csrf = stage.cookie("gone", "approver")
    stage.workspace.people.remove("gone", actor="os:test")
    late = stage.ask("POST", "/inbox/answer?kind=plan&id=x", urlencode({"csrf": csrf, "kind": "plan"}), Cookie=cookie)
    back = "/login?next=/inbox/question%3Fkind%3Dplan%26id%3Dx&said=ended"
    assert (late.status, late.headers["location"]) == (303, back)
    assert "request was not carried out" in stage.ask("GET", back).text


def test_an_approver_sees_the_parameters_of_sql_and_no_password(stage: Stage) -> None:
    given = {"role": "superadmin <b>", "password": "hunter2"}
    text = "CREATE TABLE staff AS SELECT $role AS role, $password AS hidden"
    operation = {"type": "sql_execute", "connection": "shop", "query": text, "parameters": given}
    proposal = stage.propose("staff", {"action_id": "a1", "action_type": "SQL_EXECUTE", "operation": operation})
    cookie, _ = stage.cookie("sql-reader", "approver")
    page = stage.ask("GET", f"/inbox/question?kind=plan&id={proposal.proposal_id}", Cookie=cookie)
    assert "SELECT $role AS role" in page.text
    assert "superadmin &lt;b&gt;" in page.text
    assert "$password</dt>" in page.text
    assert "hunter2" not in page.text
    answer = stage.ask("GET", f"/v1/plans/{proposal.proposal_id}/preview", Cookie=cookie, Accept="application/json")
    parameters = json.loads(answer.text)["document"]["sql"][0]["parameters"]
    assert sorted(parameters, key=lambda each: each["name"]) == [
        {"name": "password", "value": '"********"'},
        {"name": "role", "value": '"superadmin <b>"'},
    ]


def test_every_role_opens_every_page_and_each_button_needs_its_permission(stage: Stage) -> None:
    proposal = stage.propose("roles", created("x", "docs/roles.md", "x\n"))
    path = f"/inbox/question?kind=plan&id={proposal.proposal_id}"
    for role, answers in {"viewer": False, "operator": False, "approver": True, "admin": True}.items():
        cookie, csrf = stage.cookie(f"one-{role}", role)
        for each in PAGES:
            assert stage.ask("GET", each, Cookie=cookie).status == 200, (role, each)
        assert ('value="approve"' in stage.ask("GET", path, Cookie=cookie).text) == answers
        assert ("Issue a token" in stage.ask("GET", "/tokens", Cookie=cookie).text) == (role == "admin")
        assert ("Invite a person" in stage.ask("GET", "/people", Cookie=cookie).text) == (role == "admin")
        if role == "admin":
            continue
        # The services decide, whatever the page offered.
        yes = {"csrf": csrf, "confirmed": "yes"}
        forms = {
            "/tokens/issue": {"sub": "x", "life": "3600", "caps": "plan.propose"},
            "/tokens/revoke": {"jti": stage.agent.token.jti},
            "/people/invite": {"name": "x", "role": "admin", "life": "15"},
            "/people/remove": {"name": "one-viewer"},
            "/catalogue/promote": {"tenant": "acme", "id": "ping", "digest": "x"},
            "/catalogue/retire": {"tenant": "acme", "id": "copy-form"},
        }
        if role != "operator":
            forms["/goals/ask"] = {"utterance": "are you there"}
            forms["/goals/go-on"] = {"id": "x"}
            forms["/goals/undo"] = {"tenant": "acme", "id": "x"}
            forms["/runs/apply"] = forms["/runs/undo"] = {"name": proposal.proposal_id}
        if not answers:
            forms["/inbox/answer"] = {"kind": "plan", "id": proposal.proposal_id, "decision": "deny"}
        for each, fields in forms.items():
            refused = stage.ask("POST", each, urlencode({**fields, **yes}), Cookie=cookie)
            assert refused.status == 403, (role, each, refused.status)
    assert stage.desk.plans.get(stage.agent, proposal.proposal_id).state == "PENDING"


def test_the_inbox_marks_a_plan_that_would_fail(stage: Stage) -> None:
    stage.propose("hopeless", replaced("x", "docs/none.md", "two", "TWO"))
    assert stage.desk.plans.finish_previews(60)
    cookie, _ = stage.cookie("inbox-reader", "viewer")
    marked = re.findall(
        r"<li class=\"sheet question\".*?</li>", stage.ask("GET", "/inbox", Cookie=cookie).text, re.DOTALL
    )
    assert {"plan hopeless" in each for each in marked if ">would fail</span>" in each} == {True}


def test_people_who_cannot_deny_a_plan_and_its_proposer_are_offered_to_withdraw_it(stage: Stage) -> None:
    proposal = stage.propose("withdrawn", created("x", "docs/withdrawn.md", "x\n"))
    own = PersonCaller(Person("link:take-admin"), "admin")
    text = json.dumps({"plan_id": "own", "action_plan": [created("x", "docs/own.md", "x\n")]}).encode()
    of_admin = stage.desk.plans.propose(own, text)
    cookies = {role: stage.cookie(f"take-{role}", role) for role in ("viewer", "approver", "operator", "admin")}

    def form(role: str, plan: ProposalView, **fields: str) -> Answer:
        cookie, csrf = cookies[role]
        given = {"csrf": csrf, "id": plan.proposal_id, "reason": "wrong\x00 <b>", **fields}
        return stage.ask("POST", f"/inbox/withdraw?kind=plan&id={plan.proposal_id}", urlencode(given), Cookie=cookie)

    def page(role: str, plan: ProposalView) -> str:
        path = f"/inbox/question?kind=plan&id={plan.proposal_id}"
        return stage.ask("GET", path, Cookie=cookies[role][0]).text

    offered = {role: 'action="/inbox/withdraw' in page(role, proposal) for role in cookies}
    assert offered == {"viewer": False, "approver": False, "operator": True, "admin": False}
    assert 'action="/inbox/withdraw' in page("admin", of_admin)
    assert form("viewer", proposal, confirmed="yes").status == 403
    assert form("operator", proposal, confirmed="yes", csrf=cookies["admin"][1]).status == 403
    asked = form("operator", proposal)
    assert (asked.status, "Withdraw this plan?" in asked.text, "wrong" in asked.text) == (200, True, True)
    assert stage.desk.plans.get(stage.agent, proposal.proposal_id).state == "PENDING"
    done = form("operator", proposal, confirmed="yes")
    assert (done.status, done.headers["location"].endswith("&said=withdrawn")) == (303, True)
    found = stage.desk.plans.get(stage.agent, proposal.proposal_id)
    assert (found.state, found.reason) == ("VOID", "withdrawn by link:take-operator: wrong <b>")
    shown = page("operator", proposal)
    assert ("withdrawn by link:take-operator: wrong &lt;b&gt;" in shown, "/inbox/withdraw" in shown) == (True, False)
    assert form("operator", proposal, confirmed="yes").status == 409
    # Approved meanwhile: the approval becomes void, and the page of the run says so.
    digest = stage.desk.plans.read_preview(ADMIN, of_admin.proposal_id).preview_digest
    stage.desk.plans.decide(ADMIN, of_admin.proposal_id, approved=True, preview_digest=digest)
    assert 'action="/runs/cancel' in page("approver", of_admin)
    late = form("admin", of_admin, confirmed="yes")
    assert (late.status, late.headers["location"]) == (303, f"/runs/{of_admin.proposal_id}?said=cancelled")
    assert stage.desk.plans.get(own, of_admin.proposal_id).state == "VOID"


def test_a_form_is_bounded_complete_and_belongs_to_its_session(stage: Stage) -> None:
    cookie, csrf = stage.cookie("ada", "admin")
    _, other = stage.cookie("eve", "admin")
    fields = {"name": "x", "role": "viewer", "life": "15"}
    for given in ("", other, csrf[:-1]):
        answer = stage.ask("POST", "/people/invite", urlencode({**fields, "csrf": given}), Cookie=cookie)
        assert answer.status == 403
    foreign = stage.ask(
        "POST", "/people/invite", urlencode({**fields, "csrf": csrf}), Cookie=cookie, Origin="http://evil.example"
    )
    assert foreign.status == 403
    good = {**fields, "csrf": csrf}
    assert stage.ask("POST", "/people/invite", urlencode({**good, "life": "99999"}), Cookie=cookie).status == 400
    assert stage.ask("POST", "/people/invite", urlencode({**good, "role": "root"}), Cookie=cookie).status == 400
    for body in (f"csrf={csrf}&name=%ff", f"csrf={csrf}&name=\u00e9", f"csrf={csrf}" + "&a=1" * 30_000):
        assert stage.ask("POST", "/people/invite", body, Cookie=cookie).status in {400, 403}
    large = stage.ask("POST", "/people/invite", f"csrf={csrf}&name=" + "x" * (2 << 20), Cookie=cookie)
    assert large.status == 413
    as_json = stage.ask(
        "POST", "/people/invite", "{}", Cookie=cookie, Content_Type="application/json", X_Remit_CSRF=csrf
    )
    assert as_json.status == 400
    assert not [each for each in stage.workspace.people.listed() if each.id == "link:x"]


def test_a_long_list_of_exceptions_has_one_box_that_allows_what_was_shown(stage: Stage) -> None:
    many = [created(f"a{number}", f"scripts/{number}.sh", "#!/bin/sh\n") for number in range(41)]
    proposal = stage.propose("many", *many)
    cookie, csrf = stage.cookie("bob", "approver")
    text = stage.ask("GET", f"/inbox/question?kind=plan&id={proposal.proposal_id}", Cookie=cookie).text
    assert "All 41 of them" in text
    assert 'name="executable"' not in text
    digest = re.search(r'name="digest" value="(sha256:[0-9a-f]{64})"', text)
    assert digest is not None
    fields = {"csrf": csrf, "confirmed": "yes", "kind": "plan", "id": proposal.proposal_id, "decision": "approve"}
    without = stage.ask("POST", "/inbox/answer", urlencode({**fields, "digest": digest[1]}), Cookie=cookie)
    assert without.status == 403
    allowed = {**fields, "executable_all": "yes"}
    other = stage.ask("POST", "/inbox/answer", urlencode({**allowed, "digest": f"sha256:{'0' * 64}"}), Cookie=cookie)
    assert other.status == 409
    assert stage.desk.plans.get(stage.agent, proposal.proposal_id).state == "PENDING"
    assert stage.ask("POST", "/inbox/answer", urlencode({**allowed, "digest": digest[1]}), Cookie=cookie).status == 303
    assert stage.desk.plans.get(stage.agent, proposal.proposal_id).state == "APPROVED"


def test_lines_that_do_not_fit_have_their_own_pages_and_an_approval_must_name_them(stage: Stage) -> None:
    text = "".join(f"line {number}\n" for number in range(4_100)) + "EVIL\n"
    proposal = stage.propose("long", created("a", "docs/long.md", text))
    cookie, csrf = stage.cookie("bob", "approver")
    path = f"/inbox/question?kind=plan&id={proposal.proposal_id}"
    shown = stage.ask("GET", path, Cookie=cookie).text
    digest = re.search(r'name="unseen" value="(sha256:[0-9a-f]{64})" required', shown)
    assert digest is not None
    assert "2,102 lines of the diffs not shown on this page" in shown
    seen, following = shown, re.search(r'href="(/inbox/diff[^"]+)">Show the rest', shown)
    assert following is not None
    pages = 0
    while following is not None:
        assert "EVIL" not in seen
        seen = stage.ask("GET", following[1].replace("&amp;", "&"), Cookie=cookie).text
        following = re.search(r'rel="next" href="([^"]+)"', seen)
        pages += 1
    assert (pages, "EVIL" in seen, "something changed meanwhile" in seen) == (2, True, False)
    place = f"/inbox/diff?id={proposal.proposal_id}&digest={digest[1]}"
    stale = f"/inbox/diff?id={proposal.proposal_id}&digest=sha256:0"
    assert "something changed meanwhile" in stage.ask("GET", stale, Cookie=cookie).text
    for odd in ("&file=1", "&file=-1", "&first=-1", "&first=9999", "&first=%C2%B2", "&file=" + "9" * 5_000):
        assert 400 <= stage.ask("GET", place + odd, Cookie=cookie).status < 500, odd
    fields = {"csrf": csrf, "confirmed": "yes", "kind": "plan", "id": proposal.proposal_id, "decision": "approve"}
    for unseen in ("", "yes", f"sha256:{'0' * 64}"):
        said = {**fields, "digest": digest[1], "unseen": unseen}
        assert stage.ask("POST", "/inbox/answer", urlencode(said), Cookie=cookie).status == 400, unseen
    assert stage.desk.plans.get(stage.agent, proposal.proposal_id).state == "PENDING"
    said = {**fields, "digest": digest[1], "unseen": digest[1]}
    refused = stage.ask("POST", "/inbox/answer", urlencode(said), Cookie=cookie)
    assert (refused.status, "2,000 lines in 1 file are folded on the page" in refused.text) == (400, True)
    said["folded"] = digest[1]
    assert stage.ask("POST", "/inbox/answer", urlencode(said), Cookie=cookie).status == 303
    assert stage.desk.plans.get(stage.agent, proposal.proposal_id).state == "APPROVED"


@pytest.mark.req("PV-07")
def test_an_approval_with_folded_files_needs_a_tick(stage: Stage) -> None:
    text = "".join(f"line {number}\n" for number in range(450))
    proposal = stage.propose(
        "folded",
        created("a", "docs/f1.md", text),
        created("b", "docs/f2.md", "SMALL\n"),
        created("c", "docs/f3.md", ""),
    )
    cookie, csrf = stage.cookie("bob", "approver")
    path = f"/inbox/question?kind=plan&id={proposal.proposal_id}"
    shown = stage.ask("GET", path, Cookie=cookie).text
    digest = re.search(r'name="digest" value="(sha256:[0-9a-f]{64})"', shown)
    assert digest is not None
    assert "451 lines in 1 file are folded on this page" in shown
    assert "A file with more than 400 lines of diff is folded" in shown
    assert re.findall(r'<details class="file"( open)?>', shown) == ["", " open", " open"], "the long one only"
    assert f'name="folded" value="{digest[1]}" required' in shown
    fields = {"csrf": csrf, "confirmed": "yes", "kind": "plan", "id": proposal.proposal_id, "decision": "approve"}
    fields["digest"] = digest[1]
    for said in ({}, {"folded": ""}, {"folded": "yes"}, {"folded": f"sha256:{'0' * 64}"}, {"files": "none"}):
        refused = stage.ask("POST", "/inbox/answer", urlencode({**fields, **said}), Cookie=cookie)
        assert (refused.status, "451 lines in 1 file are folded on the page" in refused.text) == (400, True), said
    assert stage.desk.plans.get(stage.agent, proposal.proposal_id).state == "PENDING"

    link = re.search(r'href="([^"]+)">Unfold all files', shown)
    assert link is not None
    unfolded = stage.ask("GET", link[1].replace("&amp;", "&"), Cookie=cookie).text
    assert ('name="folded"' in unfolded, '<details class="file">' in unfolded) == (False, False)
    assert 'name="files" value="all"' in unfolded
    approved = stage.ask("POST", "/inbox/answer", urlencode({**fields, "files": "all"}), Cookie=cookie)
    assert approved.status == 303
    assert stage.desk.plans.get(stage.agent, proposal.proposal_id).state == "APPROVED"


@pytest.mark.req("PV-07")
def test_a_file_is_folded_for_its_own_length_or_when_the_page_is_full(stage: Stage) -> None:
    lengths = (399, 400, 399, 399, 399, 399, 399, 3, 1)  # each with a line that says where it is
    actions = [created(f"a{n}", f"docs/n{n}.md", "line\n" * length) for n, length in enumerate(lengths)]
    proposal = stage.propose("many", *actions)
    cookie, _ = stage.cookie("bob", "approver")
    shown = stage.ask("GET", f"/inbox/question?kind=plan&id={proposal.proposal_id}", Cookie=cookie).text
    is_open = [bool(found) for found in re.findall(r'<details class="file"( open)?>', shown)]
    assert is_open == [True, False, True, True, True, True, False, False, False]
    assert "807 lines in 4 files are folded on this page" in shown, "401 + 400 + 4 + 2"


def test_a_forced_rollback_overwrites_only_the_files_that_were_shown(stage: Stage) -> None:
    proposal = stage.approved("forced", created("a", "docs/one.md", "x\n"), created("b", "docs/two.md", "x\n"))
    assert stage.desk.plans.apply(stage.agent, proposal.proposal_id, 30).state == "APPLIED"
    cookie, csrf = stage.cookie("olga", "operator")
    stage.write("docs/one.md", "somebody was here\n")
    shown = stage.ask("GET", f"/runs/{proposal.proposal_id}", Cookie=cookie).text
    digest = re.search(r'name="drift_digest" value="(sha256:[0-9a-f]{64})"', shown)
    assert digest is not None
    fields = {"csrf": csrf, "name": proposal.proposal_id, "drift_digest": digest[1]}
    assert "1 file changed since the run" in stage.ask("POST", "/runs/undo", urlencode(fields), Cookie=cookie).text
    two = stage.write("docs/two.md", "and here\n")
    said = urlencode({**fields, "confirmed": "yes"})
    refused = stage.ask("POST", "/runs/undo", said, Cookie=cookie)
    assert (refused.status, two.read_text()) == (409, "and here\n")
    fresh = re.search(r'name="drift_digest" value="(sha256:[0-9a-f]{64})"', refused.text)
    assert fresh is not None
    assert fresh[1] != digest[1]
    said = urlencode({**fields, "drift_digest": fresh[1], "confirmed": "yes"})
    assert stage.ask("POST", "/runs/undo", said, Cookie=cookie).status == 303
    assert not two.exists()


def test_a_text_that_is_not_a_number_is_refused(stage: Stage) -> None:
    cookie, csrf = stage.cookie("ada", "admin")
    fields = {"csrf": csrf, "sub": "x", "life": "3600", "caps": "plan.propose", "currency": "EUR"}
    for name in ("amount", "max_actions"):
        for text in ("1.\u00b2", "\u00b2", "\u0663", "1.\u0663", "1e3", "-1", "1.5.5", "nan"):
            answer = stage.ask("POST", "/tokens/issue", urlencode({**fields, name: text}), Cookie=cookie)
            assert answer.status == 400, (name, text)


def test_with_several_tenants_one_must_be_named_and_the_message_lists_them(stage: Stage) -> None:
    cookie, csrf = stage.cookie("ada", "admin")
    token = {"csrf": csrf, "sub": "asker", "life": "3600", "caps": "goal.ask", "user": "mia"}
    person = {"csrf": csrf, "name": "mia", "role": "operator", "life": "15", "user": "mia"}
    for path, fields in (("/tokens/issue", token), ("/people/invite", person)):
        unclear = stage.ask("POST", path, urlencode(fields), Cookie=cookie)
        assert (unclear.status, "Give tenant, one of: acme, globex" in unclear.text) == (400, True), path
        assert stage.ask("POST", path, urlencode({**fields, "tenant": "acme"}), Cookie=cookie).status == 200, path


def test_links_of_answers_lead_to_the_approval_request_for_every_goal_id(stage: Stage) -> None:
    cookie, _ = stage.cookie("ada", "admin")
    answer = stage.ask("GET", "/inbox/goal/acme/a%2F..%2Fb%3Fx", Cookie=cookie)
    assert answer.headers["location"] == "/inbox/question?kind=goal&tenant=acme&id=a%2F..%2Fb%3Fx"
    for path in ("/inbox/plan", "/inbox/a/b/c/d", "/inbox/question?kind=none&id=x", "/inbox/question", "/runs/x"):
        assert stage.ask("GET", path, Cookie=cookie).status == 404, path
    assert stage.ask("GET", "/inbox/picture?id=../../keys", Cookie=cookie).status == 404


def test_only_the_static_files_of_the_console_are_served(stage: Stage) -> None:
    style = stage.ask("GET", "/static/css/console.css")
    assert (style.status, style.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert stage.ask("GET", "/static/css/console.css", If_None_Match=style.headers["etag"]).status == 304
    for name in ("css/none.css", "../pages.py", "..%2Fpages.py", "%2e%2e/pages.py", "css/../../pages.py", ""):
        assert stage.ask("GET", f"/static/{name}").status == 404, name


def test_errors_are_pages_with_a_next_step(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    cookie, _ = stage.cookie("ada", "admin")
    missing = stage.ask("GET", "/none", Cookie=cookie)
    assert (missing.status, "Not found" in missing.text, "Sections" in missing.text) == (404, True, True)

    def broken(*_: object) -> None:
        raise RuntimeError("the secret is hunter2")

    monkeypatch.setattr(stage.desk.catalogue, "list_simulations", broken)
    failed = stage.ask("GET", "/catalogue", Cookie=cookie)
    assert (failed.status, "Internal error in Remit" in failed.text) == (500, True)
    assert "hunter2" not in failed.text
    monkeypatch.setattr("remit.web.security.middleware.Buckets.take", lambda *_: 3.0)
    limited = stage.ask("GET", "/inbox", Cookie=cookie)
    assert (limited.status, "Too many requests" in limited.text) == (429, True)
    assert limited.headers["retry-after"]


def test_an_unreadable_configuration_is_shown_to_people_and_agents_get_503(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    cookie, _ = stage.cookie("ada", "admin")
    file = stage.root / CONFIG_NAME
    good = file.read_text()
    before = stage.ask("GET", "/inbox", Cookie=cookie).text
    try:
        file.write_text(good[:-1] + ', "nonsense": 1}')
        for token in (stage.agent.text, "a.b.c"):
            answer = stage.ask("GET", "/v1/me", Accept="application/json", Authorization=f"Bearer {token}")
            assert (answer.status, "retry-after" in answer.headers) == (503, True)
            assert str(stage.folder) not in answer.text
        ready = stage.ask("GET", "/readyz", Accept="application/json")
        assert (ready.status, '"settings","ok":false' in ready.text.replace(" ", "")) == (503, True)
        assert str(stage.folder) not in ready.text
        told = "the requests of agents are refused"
        assert (told in before, told in stage.ask("GET", "/inbox", Cookie=cookie).text) == (False, True)
        assert stage.ask("GET", "/catalogue", Cookie=cookie).status == 503
        assert told not in stage.ask("GET", "/login").text
    finally:
        file.write_text(good)
    good_again = stage.ask("GET", "/v1/me", Accept="application/json", Authorization=f"Bearer {stage.agent.text}")
    assert good_again.status == 200
    assert told not in stage.ask("GET", "/inbox", Cookie=cookie).text
    noted = capsys.readouterr().err
    assert noted.count(f"{CONFIG_NAME} cannot be read, so the requests of agents are refused") == 1
    assert noted.count(f"{CONFIG_NAME} can be read again.") == 1


def test_a_new_tenant_is_used_at_once_and_other_settings_need_a_restart(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    cookie, _ = stage.cookie("ada", "admin")
    file = stage.root / CONFIG_NAME
    good = file.read_text()
    tree = json.loads(good)
    told = "Restart the server to apply: "
    try:
        file.write_text(json.dumps({**tree, "tenants": {**tree["tenants"], "newcomer": {"users": ["mia"]}}}))
        shown = stage.ask("GET", "/catalogue", Cookie=cookie).text
        assert ("newcomer" in shown, told in shown) == (True, False)
        web = {**tree.get("web", {}), "session_hours": 3}
        file.write_text(json.dumps({**tree, "web": web, "timeouts": {"file_operation": 7}}))
        assert f"{told}timeouts, web" in stage.ask("GET", "/inbox", Cookie=cookie).text
        assert told not in stage.ask("GET", "/login").text
        assert "newcomer" not in stage.ask("GET", "/catalogue", Cookie=cookie).text
    finally:
        file.write_text(good)
    assert told not in stage.ask("GET", "/inbox", Cookie=cookie).text
    noted = capsys.readouterr().err
    assert noted.count("restart the server to apply: timeouts, web.") == 1
    assert noted.count("is again as it was when the server started.") == 1


def test_the_run_of_a_goal_is_listed_by_its_simulation_and_no_plan_can_take_such_a_name(stage: Stage) -> None:
    cookie, _ = stage.cookie("ada", "admin")
    for letter, actor in (("a", "simulation copy-form"), ("b", "os:somebody")):
        plan = {"plan_id": f"goal-{letter * 48}", "action_plan": [created("x", f"docs/{letter}.md", "x\n")]}
        text = json.dumps(plan).encode()
        envelope = stage.workspace.plans.approve(text, NO_ALLOWANCES, timedelta(hours=1), actor)
        stage.workspace.plans.apply(envelope.canonical())
    listed = stage.ask("GET", "/runs", Cookie=cookie).text
    assert ("goal: copy-form" in listed, "a" * 48 in listed, "b" * 48 in listed) == (True, False, True)


def test_changes_since_the_approval_are_named_and_no_button_offers_a_refused_action(stage: Stage) -> None:
    file = stage.write("docs/held.md", "one two\n")
    proposal = stage.approved("held", replaced("a", "docs/held.md", "two", "2"), created("b", "docs/more.md", "x\n"))
    cookie, csrf = stage.cookie("olga", "operator")
    pages = (f"/runs/{proposal.proposal_id}", f"/inbox/question?kind=plan&id={proposal.proposal_id}")
    warning = "Something changed since the approval, so this plan cannot be applied."
    for path in pages:
        before = stage.ask("GET", path, Cookie=cookie).text
        assert (warning in before, "would end as success" in before) == (False, True), path
    assert "Yes, apply it" in stage.ask("GET", pages[0], Cookie=cookie).text
    file.write_text("one two three\n")
    for path in pages:
        shown = stage.ask("GET", path, Cookie=cookie).text
        assert warning in shown, path
        assert "docs/held.md</span>: this file was changed since the plan was approved" in shown, path
        assert ("when this preview was computed" in shown, "what was approved" in shown) == (True, True), path
        assert ("Yes, apply it" in shown, "Waits for agent" in shown) == (False, False), path
    fields = urlencode({"csrf": csrf, "name": proposal.proposal_id, "confirmed": "yes"})
    refused = stage.ask("POST", f"/runs/apply?name={proposal.proposal_id}", fields, Cookie=cookie)
    assert (refused.status, "Nothing was applied: something changed since the approval." in refused.text) == (403, True)
    assert "remit preview" not in refused.text
    file.write_text("one two\n")
    assert stage.ask("POST", "/runs/apply", fields, Cookie=cookie).status == 303
    assert file.read_text() == "one 2\n"


def test_a_run_has_one_address_and_shows_who_applied_it_and_where_the_old_text_is(stage: Stage) -> None:
    proposal = stage.approved("once", created("a", "docs/deep/er/one.md", "x\n"))
    stage.desk.plans.apply(stage.agent, proposal.proposal_id, 30)
    cookie, csrf = stage.cookie("olga", "operator")
    own = f"/runs/{proposal.proposal_id}"
    other = stage.ask("GET", f"/runs/{proposal.envelope_id}?said=applied", Cookie=cookie)
    assert (other.status, other.headers["location"]) == (303, f"{own}?said=applied")
    assert f'href="{own}"' in stage.ask("GET", "/runs", Cookie=cookie).text
    assert "<dt>Applied by</dt><dd>agent:release-bot</dd>" in stage.ask("GET", own, Cookie=cookie).text
    stage.write("docs/deep/er/one.md", "mine\n")
    fields = {"csrf": csrf, "name": proposal.proposal_id, "confirmed": "yes"}
    refused = stage.ask("POST", "/runs/undo", urlencode(fields), Cookie=cookie)
    assert (refused.status, "“Overwrite and roll back” replaces these changes" in refused.text) == (409, True)
    assert ("--force" in refused.text, refused.text.count("nothing was restored")) == (False, 1)
    digest = re.search(r'name="drift_digest" value="(sha256:[0-9a-f]{64})"', refused.text)
    assert digest is not None
    said = urlencode({**fields, "drift_digest": digest[1]})
    assert stage.ask("POST", "/runs/undo", said, Cookie=cookie).status == 303
    shown = stage.ask("GET", own, Cookie=cookie).text
    assert "1 file as before the plan" in shown
    kept = re.search(r"agent_outputs/[^<]+/backups/[^<]+\.drifted-[^<]+", shown)
    assert kept is not None
    assert (stage.root / kept[0]).read_text() == "mine\n"


def test_a_reload_of_a_form_response_leads_to_the_page_of_the_form(stage: Stage) -> None:
    cookie, csrf = stage.cookie("ada", "admin")
    routes = {
        route.path
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute) and "POST" in (route.methods or ())
    }
    assert routes - {"/ledger/verify"} == set(REDIRECTED_PATHS)
    for path, query, own in (
        ("/runs/apply", "name=a-b", "/runs/a-b"),
        ("/runs/undo", "", "/runs"),
        ("/runs/undo", "name=..", "/runs"),
        ("/runs/undo", "name=../../logout", "/runs/..%2F..%2Flogout"),
        ("/runs/undo", "name=//evil.example", "/runs/%2F%2Fevil.example"),
        ("/inbox/answer", "kind=goal&tenant=acme&id=a%2Fb", "/inbox/question?kind=goal&tenant=acme&id=a%2Fb"),
        ("/goals/undo", "tenant=acme&id=x", "/goals/one?tenant=acme&id=x"),
        ("/catalogue/promote", "tenant=acme&id=ping", "/catalogue/simulation?tenant=acme&id=ping"),
        ("/tokens/issue", "", "/tokens"),
    ):
        answer = stage.ask("GET", f"{path}?{query}", Cookie=cookie)
        assert (answer.status, answer.headers["location"]) == (303, own), path
    fields = urlencode({"csrf": csrf, "name": "none", "confirmed": "yes"})
    refused = stage.ask("POST", "/runs/undo?name=none", fields, Cookie=cookie)
    assert (refused.status, '<meta name="own-page" content="/runs/none">' in refused.text) == (404, True)
    asked = stage.ask("POST", "/people/remove?x=1", urlencode({"csrf": csrf, "name": "x"}), Cookie=cookie)
    assert 'action="/people/remove?x=1"' in asked.text


def test_the_languages_of_the_catalogue_come_first_and_the_browser_selects_one() -> None:
    found = languages_for(("en", "ar", "pt-BR"), "xx, ar-EG;q=0.8, en")
    assert [each.tag for each in found.here] == ["ar", "en", "pt-BR"]
    assert (found.chosen, found.here[0].name, found.here[2].name) == ("ar", "العربية", "português (pt-BR)")
    assert {"de", "zh-Hant"} <= {each.tag for each in found.others}
    assert "en" not in {each.tag for each in found.others}
    assert languages_for(("de",), "").chosen == "de"
    assert languages_for((), "fr").chosen == "en"
    assert languages_for(("de", "en"), "", "de").chosen == "de"


def test_the_reply_to_a_goal_is_read_in_the_language_of_the_goal(stage: Stage) -> None:
    link = stage.workspace.people.invite("mia", "operator", actor="os:test", user="mia", tenant="acme")
    session = stage.workspace.people.redeem(link.code)
    cookie = f"remit_session={session.cookie}"
    shown = stage.ask("GET", "/goals", Cookie=cookie, Accept_Language="de").text
    assert '<optgroup label="Languages of the catalogue"><option value="en" selected>English</option>' in shown
    assert '<option value="ar">' in shown
    fields = {"csrf": session.csrf, "utterance": "copy the form", "language": "en-GB"}
    asked = stage.ask("POST", "/goals/ask", urlencode(fields), Cookie=cookie).headers["location"]
    assert "Ask again with the answer" not in stage.ask("GET", asked, Cookie=cookie).text
    name = asked.rpartition("id=")[2]
    reply = {"csrf": session.csrf, "utterance": "invoice-3", "reply_to": name}
    answered = stage.ask("POST", "/goals/ask", urlencode(reply), Cookie=cookie).headers["location"]
    mia = PersonCaller(Person("link:mia"), "operator", "mia", "acme")
    assert stage.desk.goals.read_language(mia, "acme", answered.rpartition("id=")[2]) == "en-GB"


@pytest.mark.req("AC-29")
def test_the_catalogue_shows_the_steps_of_a_composite_and_what_reverses_them(stage: Stage) -> None:
    cookie, _ = stage.cookie("ada", "admin")
    file = stage.root / "simulations.json"
    good = file.read_text()
    tree = json.loads(good)
    copy = next(each for each in tree["simulations"] if each["id"] == "copy-form")
    steps = [{"id": "first", "simulation": "copy-form", "fields": {name: f"{{{name}}}" for name in copy["fields"]}}]
    twice = {**copy, "id": "copy-it", "phrases": {}, "rollback": None, "binding": {"type": "composite", "steps": steps}}
    try:
        file.write_text(json.dumps({**tree, "simulations": [*tree["simulations"], twice]}))
        assert "copy-it 1: copy-form" in stage.ask("GET", "/catalogue", Cookie=cookie).text
        shown = stage.ask("GET", f"/catalogue/simulation?tenant={TENANT}&id=copy-it", Cookie=cookie).text
        assert all(each in shown for each in ("first", "undo-copy", Simulation.from_tree(copy).own_digest))
    finally:
        file.write_text(good)
