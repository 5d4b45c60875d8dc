"""Who is let through where: every route of the application, tried by everybody. A route without a row fails."""

import json
import urllib.parse
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, get_args

import pytest

from remit.contracts.browser.capabilities import ServiceCapability
from remit.web.console import confirm_page as confirming
from remit.web.console.redirects import REDIRECTED_PATHS
from remit.web.security.middleware import CSRF_FIELD
from tests.goals.goal_office import PING
from tests.plans.project import plan_of, replace
from tests.support.web_server import ALL_CAPS, NOBODY, Answer, WebSite, Who

CALLERS: Final = ("nobody", "an agent without capabilities", "an agent", "viewer", "approver", "operator", "admin")
"""One letter each, in this order: 4 not known (401), 3 may not (403), L sent to log in, . let through."""
PUBLIC: Final = "......."
KNOWN: Final = "4......"
PEOPLE: Final = "433...."
DECIDING: Final = "4333.3."
OPERATING: Final = "43.33.."
ADMIN: Final = "433333."
PAGE: Final = "L33...."
NO_ID: Final = "01234567-0123-7123-8123-0123456789ab"
DIGEST: Final = "sha256:" + "0" * 64
THE_PLAN: Final = "the id of a plan that waits"
YES: Final = (confirming.FIELD, "yes")
CATALOGUE: Final = "simulations.yaml"
DRAFT: Final = "ping"
ITS_DIGEST: Final = "the digest of the draft"


class Row(NamedTuple):
    method: str
    route: str
    expected: str
    path: str = ""
    body: Any = None
    """JSON for the API; a form, as a list of pairs, for the console."""


API: Final = (
    Row("GET", "/healthz", PUBLIC),
    Row("GET", "/readyz", PUBLIC),
    Row("GET", "/v1/openapi.json", PUBLIC),
    Row("GET", "/v1/me", KNOWN),
    Row("POST", "/v1/tasks", OPERATING, body={"manifest": {}, "lease": {}}),
    Row("GET", "/v1/tasks/{task_id}", KNOWN),
    Row("POST", "/v1/leases", ADMIN, body={"manifest": {}}),
    Row("POST", "/v1/plans/preview", OPERATING, body={}),
    Row("POST", "/v1/plans", OPERATING, body={"plan": {}}),
    Row("GET", "/v1/plans", KNOWN),
    Row("GET", "/v1/plans/{proposal_id}", KNOWN),
    Row("GET", "/v1/plans/{proposal_id}/preview", "43....."),
    Row("POST", "/v1/plans/{proposal_id}/preview", "43333..", body={}),
    Row("POST", "/v1/plans/{proposal_id}/decision", DECIDING, body={"approved": False}),
    Row("POST", "/v1/plans/{proposal_id}/decision", DECIDING, body={"approved": True, "preview_digest": DIGEST}),
    Row("POST", "/v1/plans/{proposal_id}/apply", OPERATING, body={}),
    Row("POST", "/v1/plans/{proposal_id}/cancel", "43.3...", body={}),
    Row("GET", "/v1/plans/{proposal_id}/undo", KNOWN),
    Row("POST", "/v1/plans/{proposal_id}/undo", OPERATING, body={}),
    Row("GET", "/v1/plans/{proposal_id}/report", KNOWN),
    Row("GET", "/v1/runs", PEOPLE),
    Row("GET", "/v1/runs/{envelope_id}", KNOWN),
    Row("GET", "/v1/runs/{envelope_id}/report", KNOWN),
    Row("POST", "/v1/browser/actions", "4..3333", body={}),
    Row("GET", "/v1/browser/actions/{action_id}", KNOWN),
    Row("GET", "/v1/browser/actions/{action_id}/picture", KNOWN),
    Row("GET", "/v1/browser/sessions", KNOWN),
    Row("POST", "/v1/goals", OPERATING, body={"utterance": "x", "correlation_id": "authority"}),
    Row("GET", "/v1/goals", PEOPLE, "/v1/goals?tenant=acme"),
    Row("GET", "/v1/goals/{tenant}/{correlation_id}", KNOWN),
    Row("POST", "/v1/goals/{tenant}/{correlation_id}/answer", PEOPLE, body={"answer": "yes"}),
    Row("POST", "/v1/goals/{tenant}/{correlation_id}/continue", OPERATING, body={}),
    Row("POST", "/v1/goals/{tenant}/{correlation_id}/undo", OPERATING, body={}),
    Row("GET", "/v1/goals/{tenant}/{correlation_id}/trace", PEOPLE),
    Row("GET", "/v1/goals/{tenant}/{correlation_id}/replay", PEOPLE),
    Row("GET", "/v1/inbox", PEOPLE),
    Row("GET", "/v1/inbox/closed", PEOPLE),
    Row("GET", "/v1/inbox/{kind}/{question_id}", PEOPLE, f"/v1/inbox/request/{NO_ID}"),
    *(
        Row("POST", "/v1/inbox/{kind}/{question_id}/decision", expected, f"/v1/inbox/{kind}/{NO_ID}/decision{of}", said)
        for kind, of, expected, said in (
            ("request", "", DECIDING, {"approved": True, "shown_digest": DIGEST}),
            ("plan", "", DECIDING, {"approved": True, "shown_digest": DIGEST}),
            ("goal", "?tenant=acme", DECIDING, {"approved": True}),
            ("confirmation", "?tenant=acme", PEOPLE, {"answer": "yes"}),
        )
    ),
    Row("GET", "/v1/inbox/request/{question_id}/picture", PEOPLE),
    Row("GET", "/v1/tokens", KNOWN),
    Row("POST", "/v1/tokens", ADMIN, body={"sub": "authority", "caps": ["task.run"]}),
    Row("POST", "/v1/tokens/{jti}/revoke", ADMIN, body={}),
    Row("GET", "/v1/ledger", PEOPLE),
    Row("GET", "/v1/ledger/heads", PEOPLE),
    Row("POST", "/v1/ledger/verify", PEOPLE, body={}),
    Row("GET", "/v1/ledger/verify", PEOPLE),
    Row("GET", "/v1/ledger/{tenant}/entries", PEOPLE),
    Row("GET", "/v1/ledger/{tenant}/entries/{seq}", PEOPLE, "/v1/ledger/default/entries/1"),
    Row("GET", "/v1/ledger/{tenant}/trace/{correlation_id}", PEOPLE),
    Row("GET", "/v1/ledger/{tenant}/bundle", PEOPLE),
    Row("GET", "/v1/catalogue/{tenant}", PEOPLE),
    Row("GET", "/v1/catalogue/{tenant}/{simulation_id}", PEOPLE),
    Row("POST", "/v1/catalogue/{tenant}/{simulation_id}/promote", ADMIN, body={"definition_digest": DIGEST}),
    Row("POST", "/v1/catalogue/{tenant}/{simulation_id}/retire", ADMIN, body={}),
    Row("GET", "/v1/people", PEOPLE),
    Row("POST", "/v1/people", ADMIN, body={"name": "newcomer", "role": "viewer"}),
    Row("POST", "/v1/people/remove", ADMIN, body={"name": "nobody-at-all"}),
    Row("GET", "/v1/events", KNOWN, "/v1/events?after=garbage"),
    Row("GET", "/metrics", PEOPLE),
    Row("ANY", "/mcp", "4..4444", body={}),
)
CONSOLE: Final = (
    Row("GET", "/login", PUBLIC),
    Row("POST", "/login", "3333333", body=[("code", "x" * 43)]),
    Row("GET", "/static/{name:path}", PUBLIC, "/static/nothing.css"),
    Row("GET", "/", PUBLIC),  # sends on to the inbox, and says nothing itself
    Row("GET", "/inbox", PAGE),
    Row("GET", "/inbox/question", PAGE),
    Row("GET", "/inbox/picture", PAGE),
    Row("GET", "/inbox/diff", PAGE),
    Row("GET", "/goals", PAGE),
    Row("GET", "/goals/one", PAGE),
    Row("POST", "/goals/ask", "L3333..", body=[("utterance", "nothing"), ("language", "en")]),
    Row("POST", "/goals/go-on", "L3333..", body=[("id", "none")]),
    Row("POST", "/goals/undo", "L3333..", body=[("tenant", "acme"), ("id", "none"), YES]),
    *(Row("GET", path, PAGE) for path in REDIRECTED_PATHS),  # where the page of a form is
    Row("GET", "/ledger/evidence", PAGE),
    Row("GET", "/inbox/{rest:path}", PUBLIC, f"/inbox/request/{NO_ID}"),  # as above
    Row("POST", "/inbox/answer", "L333.3.", body=[("kind", "plan"), ("id", THE_PLAN), ("decision", "deny"), YES]),
    Row("POST", "/inbox/compute", "L3333..", body=[("id", THE_PLAN), YES]),
    Row("POST", "/inbox/withdraw", "L333...", body=[("id", THE_PLAN), YES]),
    Row("GET", "/runs", PAGE),
    Row("GET", "/runs/{name}", PAGE),
    Row("POST", "/runs/apply", "L3333..", body=[("name", THE_PLAN), ("force", "0"), YES]),
    Row("POST", "/runs/cancel", "L333...", body=[("name", THE_PLAN), ("force", "0"), YES]),
    Row("POST", "/runs/undo", "L3333..", body=[("name", THE_PLAN), ("force", "0"), YES]),
    Row("GET", "/ledger", PAGE),
    Row("GET", "/ledger/entry", PAGE),
    Row("GET", "/ledger/trace", PAGE),
    Row("GET", "/ledger/verify", PAGE),
    Row("POST", "/ledger/verify", PAGE, body=[]),
    Row("GET", "/catalogue", PAGE),
    Row("GET", "/catalogue/simulation", PAGE),
    # A no is shown beside the simulation that it is about, so that has to be there.
    Row("POST", "/catalogue/promote", "L33333.", body=[("tenant", "acme"), ("id", DRAFT), ("digest", ITS_DIGEST), YES]),
    Row("POST", "/catalogue/retire", "L33333.", body=[("tenant", "acme"), ("id", DRAFT), YES]),
    Row("GET", "/tokens", PAGE),
    Row("POST", "/tokens/issue", "L33333.", body=[("sub", "x"), ("caps", "task.run"), ("life", "3600")]),
    Row("POST", "/tokens/revoke", "L33333.", body=[("jti", NO_ID), YES]),
    Row("GET", "/people", PAGE),
    Row("POST", "/people/invite", "L33333.", body=[("name", "x"), ("role", "viewer"), ("life", "15")]),
    Row("POST", "/people/remove", "L33333.", body=[("name", "nobody-at-all"), YES]),
    Row("GET", "/levels", PAGE),
    Row("POST", "/logout", "LLLLLLL", body=[]),  # the last one: it ends the sessions
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebSite]:
    """With a simulation that nobody has promoted."""
    made = WebSite(tmp_path_factory.mktemp("site"), goals={"catalogue": [CATALOGUE]})
    made.project.write(CATALOGUE, json.dumps({"version": 1, "simulations": [PING]}))
    yield made
    made.close()


@pytest.fixture(scope="module")
def callers(site: WebSite) -> list[Who]:
    user = {"user": "ada", "tenant": "acme"}
    people = [site.person(role, f"authority-{role}", **user) for role in ("viewer", "approver", "operator", "admin")]
    return [NOBODY, site.agent("bare"), site.agent("able", *ALL_CAPS, **user), *people]


def routes_of(site: WebSite) -> Iterator[tuple[str, str]]:
    pending = list(site.app.routes)
    while pending:
        route: Any = pending.pop()
        if hasattr(route, "effective_candidates"):  # a router that was included
            pending += route.effective_candidates()
        else:
            yield from ((method, route.path) for method in route.methods or ("ANY",))


def test_every_route_has_a_row(site: WebSite) -> None:
    assert {(row.method, row.route) for row in (*API, *CONSOLE)} == set(routes_of(site))
    assert len({len(row.expected) for row in (*API, *CONSOLE)}) == 1


def test_the_agent_of_this_table_has_every_capability_of_the_services() -> None:
    assert set(ALL_CAPS) == set(get_args(ServiceCapability))


def test_every_caller_gets_the_answer_that_the_table_says(site: WebSite, callers: list[Who]) -> None:
    wrong = []
    for row in (*API, *CONSOLE):
        for name, who, expected in zip(CALLERS, callers, row.expected, strict=True):
            answer = _try(site, row, who)
            found = _letter(answer)
            if found != expected or answer.status >= 500:
                wrong.append(f"{row.method} {row.route}, {name}: {expected} expected, {found} found ({answer.status})")
    assert not wrong, "\n".join(wrong)


def test_what_the_specification_says_of_a_route_is_what_it_demands(site: WebSite) -> None:
    """`x-remit-right` against the table above, which the test before this one holds against the server."""
    paths = site.get("/v1/openapi.json", NOBODY).tree["paths"]
    wrong, seen = [], 0
    for row in API:
        told = paths.get(row.route, {}).get(row.method.lower(), {}).get("x-remit-right")
        if told is None:
            continue
        seen += 1
        letters = "4" + _demands(told)
        if letters != row.expected and not _is_decided_by_kind(row):
            wrong.append(f"{row.method} {row.route}: the specification says {letters}, the table {row.expected}")
    assert not wrong, "\n".join(wrong)
    assert seen > 50


def test_a_refusal_names_the_right_that_the_specification_declares(site: WebSite) -> None:
    """Two rights can belong to the same roles. So each route is also tried with its capability alone, and without."""
    paths = site.get("/v1/openapi.json", NOBODY).tree["paths"]
    roles = [site.person(role, f"declared-{role}") for role in CALLERS[3:]]  # an earlier test ends other sessions
    wrong, refusals = [], 0
    for row in API:
        told = paths.get(row.route, {}).get(row.method.lower(), {}).get("x-remit-right")
        if told is None or _is_decided_by_kind(row):
            continue
        people = zip(roles, row.expected[3:], strict=True)
        refused = [(who, f"right {told['right']}") for who, letter in people if letter == "3"]
        if (capability := told["capability"]) is not None:
            others = set(ALL_CAPS) - {capability, told.get("also")}
            without = _agent(site, *sorted(others))
            refused.append((without, f"capability {capability}"))
            for each in {capability, told.get("also", capability)}:
                alone = _try(site, row, _agent(site, each))
                if _letter(alone) != ".":
                    wrong.append(f"{row.method} {row.route}: refused with {each} alone ({alone.status})")
        for who, where in refused:
            answer, refusals = _try(site, row, who), refusals + 1
            if (answer.status, answer.tree["where"]) != (403, where):
                wrong.append(f"{row.method} {row.route}: {where} declared, {answer.status} for {answer.tree['where']}")
    assert not wrong, "\n".join(wrong)
    assert refusals > 40


def _agent(site: WebSite, *caps: str) -> Who:
    """A token with these capabilities. A user goes with one for goals only."""
    user = {"user": "ada", "tenant": "acme"} if "goal.ask" in caps else {}
    return site.agent("tried", *caps, **user)


def _demands(told: dict[str, Any]) -> str:
    lets = (told["any_agent"], told["any_agent"] or told["capability"] is not None)
    return "".join("." if each else "3" for each in (*lets, *(role in told["roles"] for role in CALLERS[3:])))


def _is_decided_by_kind(row: Row) -> bool:
    """One route for all questions: what it says is what the least of them needs, a user's own confirmation."""
    return row.route == "/v1/inbox/{kind}/{question_id}/decision" and "/confirmation/" not in row.path


def _try(site: WebSite, row: Row, who: Who) -> Answer:
    path = row.path or row.route.replace("{tenant}", "acme")
    path = "/".join(NO_ID if part.startswith("{") else part for part in path.split("/"))
    method = "POST" if row.method == "ANY" else row.method
    if not isinstance(row.body, list):
        return site.ask(method, path, who, row.body)
    csrf = who.headers.get("X-Remit-CSRF")
    made = {THE_PLAN: lambda: _plan(site, row), ITS_DIGEST: lambda: _digest(site)}
    fields = [(name, made[value]() if value in made else value) for name, value in row.body]
    form = urllib.parse.urlencode([*fields, *([(CSRF_FIELD, csrf)] if csrf else [])]).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
    return site.ask(method, path, who, form, headers)


def _letter(answer: Answer) -> str:
    if answer.status == 303 and answer.headers["location"].startswith("/login"):
        return "L"
    return {401: "4", 403: "3"}.get(answer.status, ".")


def _plan(site: WebSite, row: Row) -> str:
    """One for each row: what somebody did about it in one must not decide about the next."""
    site.project.write("authority.txt")
    plan = {"plan": json.loads(plan_of(replace("a", "authority.txt")))}
    made = site.post("/v1/plans", plan, site.bot, Idempotency_Key=row.route)
    assert made.status == 201, made.body
    proposal_id: str = made.tree["proposal_id"]
    return proposal_id


def _digest(site: WebSite) -> str:
    found = site.workspace.promotion.catalogue("acme").find(DRAFT)
    assert found is not None
    return found.digest
