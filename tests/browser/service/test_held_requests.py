"""Whatever a page sends, and by whatever means: nothing arrives before a yes, exactly what was shown arrives after it,
and nothing after a no. The site's own log is the evidence.
"""

from typing import Any

import pytest

from remit.approvals.errors import ASK_AGAIN
from remit.contracts.browser.browser import ActionResult, Approval, HTTPPreview
from tests.browser.service.browser_workspace import Answer, Place, Question, approve, deny, let_it_expire
from tests.support.browser_site import Reply, Seen, redirect
from tests.support.sampling import some

pytestmark = [pytest.mark.req("VX-05", "VX-06", "VX-07", "VX-09")]

BUTTON = '<button id="go" type="button" onclick="{}">go</button>'
FORM = '<form method="{}" action="/act"{}><input name="item" value="42"><button id="go">Pay now</button></form>'


def script(code: str) -> str:
    return f"<script>function act() {{ {code} }}</script>" + BUTTON.format("act()")


# What the page does when #go is clicked, and how many requests of it a person is asked about.
WAYS: dict[str, tuple[str, int]] = {
    "form POST": (FORM.format("post", ""), 1),
    "form POST of text": (FORM.format("post", ' enctype="text/plain"'), 1),
    "form POST of parts": (FORM.format("post", ' enctype="multipart/form-data"'), 1),
    "GET form": (FORM.format("get", ""), 1),
    "fetch": (script("fetch('/act', {method: 'POST', body: 'a=1'})"), 1),
    "fetch PUT": (script("fetch('/act', {method: 'PUT', body: JSON.stringify({a: [1, 2]})})"), 1),
    "fetch DELETE": (script("fetch('/act', {method: 'DELETE'})"), 1),
    "fetch PATCH, kept alive": (script("fetch('/act', {method: 'PATCH', body: 'x', keepalive: true})"), 1),
    "XHR": (script("const x = new XMLHttpRequest(); x.open('POST', '/act'); x.send('plain text')"), 1),
    "synchronous XHR": (script("const x = new XMLHttpRequest(); x.open('POST', '/act', false); x.send('now')"), 1),
    "sendBeacon": (script("navigator.sendBeacon('/act', 'seen')"), 1),
    "upload of bytes": (
        script(
            "const f = new FormData(); f.append('note', 'hi');"
            "f.append('file', new Blob([new Uint8Array([0, 255, 10])]), 'a.bin');"
            "fetch('/act', {method: 'POST', body: f})"
        ),
        1,
    ),
    "WebSocket": (
        script("const s = new WebSocket(location.href.replace('http', 'ws') + 'ws'); s.onopen = () => s.send('hello')"),
        2,
    ),
    "script submits": (
        '<form id="f" method="post" action="/act"><input name="a" value="1"></form>'
        + script("document.getElementById('f').submit()"),
        1,
    ),
    "script submits a GET form": (
        '<form id="f" action="/act"><input name="a" value="1"></form>'
        + script("document.getElementById('f').submit()"),
        1,
    ),
    "form in a frame": (
        "<iframe srcdoc='<form id=f method=post action=/act><input name=a value=1></form>'></iframe>"
        + script("frames[0].document.getElementById('f').submit()"),
        1,
    ),
    "form into a frame": (
        '<iframe name="inner"></iframe>' + FORM.format("post", ' target="inner"'),
        1,
    ),
    "worker": (script("new Worker('/worker.js')"), 1),
    "shared worker": (script("new SharedWorker('/worker.js')"), 1),
}


def held_of(result: ActionResult) -> list[dict[str, Any]]:
    output: Any = result.output
    return list(output["held"])


def answered_later(place: Place, questions: int, answer: Answer) -> bool:
    """A worker may begin only when the click is over: then its request is asked about by itself. Whether it was so."""
    is_late = len(place.asked) < questions
    while len(place.asked) < questions:
        place.asked.append(Question(place.next_question(), place.arrived))
        answer(place, place.asked[-1].approval)
    return is_late


def yes_and_then(second: Answer) -> Answer:
    """Yes to the first request, and this once that has arrived."""

    def answer(place: Place, approval: Approval) -> None:
        (second if place.site.posts() else approve)(place, approval)

    return answer


def prepared(place: Place, way: str) -> int:
    html, questions = WAYS[way]
    place.site.routes |= {"/act": "<title>done</title>", "/worker.js": "fetch('/act', {method: 'POST', body: 'w'})"}
    place.open(html)
    return questions


@pytest.mark.parametrize("way", WAYS)
def test_exactly_what_was_shown_arrives_and_nothing_before_a_yes(place: Place, way: str) -> None:
    questions = prepared(place, way)
    result = place.click()
    is_late = answered_later(place, questions, approve)
    assert [question.arrived for question in place.asked] == list(range(questions)), "it arrived before the answer"
    assert result.success, result
    place.site.wait_until(lambda _: place.arrived == questions)
    shown = [question.approval.request_digest for question in place.asked]
    assert sorted(place.arrived_digests()) == sorted(shown), "something else arrived than was shown"
    first, seen = place.asked[0].approval.preview, place.changing[0]
    assert isinstance(first, HTTPPreview)
    assert (first.method, first.url.partition(":")[2]) == (seen.method, place.site.url(seen.target).partition(":")[2])
    assert first.headers == dict(seen.headers)
    assert is_late or [held["state"] for held in held_of(result)] == ["answered"] * questions


@pytest.mark.parametrize("way", some(WAYS, 4))
def test_nothing_arrives_after_a_no(place: Place, way: str) -> None:
    prepared(place, way)
    result = place.click(answer=deny)
    if not answered_later(place, 1, deny):
        assert result.error is not None
        assert (result.error.code, result.reason) == ("APPROVAL_DENIED", "User denied")
    assert len(place.asked) == 1
    place.do(place.action("snapshot", "/"))  # and the page is still there, and can be asked
    assert place.arrived == 0


@pytest.mark.parametrize("way", ["form POST", "fetch", "WebSocket", "GET form"])
def test_no_request_arrives_when_no_person_answers(place: Place, way: str) -> None:
    prepared(place, way)
    result = place.click(answer=let_it_expire)
    assert result.error is not None
    assert result.error.code == "APPROVAL_TIMEOUT"
    place.do(place.action("snapshot", "/"))
    assert place.arrived == 0


@pytest.mark.parametrize("status", [307, 308])
def test_a_repeated_post_after_a_redirect_is_a_question_of_its_own(place: Place, status: int) -> None:
    place.site.routes |= {"/act": redirect(status, "/elsewhere"), "/elsewhere": "<title>done</title>"}
    place.open(FORM.format("post", ""))
    result = place.click(answer=yes_and_then(deny))
    assert result.error is not None
    assert result.error.code == "APPROVAL_DENIED"
    assert [question.approval.preview.headline.partition(" ")[2] for question in place.asked] == [
        place.site.url("/act"),
        place.site.url("/elsewhere"),
    ]
    effects = [question.approval.preview.estimated_effect for question in place.asked]
    assert ["after a redirect from" in effect for effect in effects] == [False, True]
    assert f"after a redirect from {place.site.url('/act')}" in effects[1]
    assert [seen.path for seen in place.site.posts()] == ["/act"]
    assert result.sent == 1, "a no to the second does not call the first one back"
    message = result.error.tree()["message"]
    assert "denied it: not today This request was not sent, but 1 before it was sent" in message
    assert "do not repeat the action" in message


def test_after_one_request_was_sent_the_result_does_not_advise_to_ask_again(place: Place) -> None:
    place.site.routes |= {"/act": redirect(307, "/elsewhere"), "/elsewhere": "<title>done</title>"}
    place.open(FORM.format("post", ""))
    result = place.click(answer=yes_and_then(let_it_expire))
    assert result.error is not None
    assert (result.error.code, result.sent) == ("APPROVAL_TIMEOUT", 1)
    assert "do not repeat the action" in result.error.tree()["message"]
    assert ASK_AGAIN not in result.error.tree()["message"]


# Where the answer to a form leads, by which status, and over which paths a person is not asked again.
LED: dict[str, tuple[int, list[str]]] = {
    "elsewhere": (302, ["/thanks"]),
    "back to the form's own place": (303, ["/act?done=1"]),
    "on and on": (301, ["/one", "/two", "/thanks"]),
}


@pytest.mark.parametrize("way", LED)
def test_a_redirect_that_only_reads_is_followed_without_another_approval_request(place: Place, way: str) -> None:
    status, steps = LED[way]

    def answer(seen: Seen) -> Reply | str:
        if seen.method == "GET" and seen.target == steps[-1]:
            return "<title>Thanks</title>"
        return redirect(status, steps[0] if seen.method == "POST" else steps[steps.index(seen.target) + 1])

    place.site.routes |= {step.partition("?")[0]: answer for step in ("/act", *steps)}
    place.open(FORM.format("post", ""))
    result = place.do(place.action("submit", selector="#go"))
    assert result.success, result
    assert (result.output or {})["title"] == "Thanks"
    sent = [(seen.method, seen.target) for seen in place.site.log if seen.path != "/favicon.ico"]
    assert sent == [("POST", "/act"), *(("GET", step) for step in steps)]
    assert len(place.asked) == 1, "the person was asked again about reading the answer"
    assert result.sent == 1


@pytest.mark.parametrize(
    "way",
    [
        '<meta http-equiv="refresh" content="0;url=/other">',
        "<form id=f action=/other></form><script>f.submit()</script>",
    ],
)
def test_where_a_page_goes_by_itself_after_a_redirect_is_asked_about(place: Place, way: str) -> None:
    place.site.routes |= {"/act": redirect(303, "/thanks"), "/thanks": way, "/other": "<title>other</title>"}
    place.open(FORM.format("post", ""))
    result = place.do(place.action("submit", selector="#go"), yes_and_then(deny))
    if len(place.asked) == 1:  # it went after the action was over: then it is the page's own
        deny(place, place.next_question())
    else:
        assert result.sent == 1
    assert "/other" not in {seen.path for seen in place.site.log}


@pytest.mark.req("VX-04")
def test_an_approved_form_that_is_led_to_a_barred_host_fails_and_was_sent(place: Place) -> None:
    place.site.routes["/act"] = redirect(302, place.site.url("/x", host="evil.test"))
    place.open(FORM.format("post", ""))
    result = place.do(place.action("submit", selector="#go"))
    assert result.error is not None
    assert result.error.tree() == {"code": "CONSTRAINT_VIOLATED", "constraint": "domains"}
    assert "not evil.test" in str(result.reason)
    assert "do not repeat the action" in str(result.reason)
    assert result.sent == len(place.asked) == 1
    assert {seen.host for seen in place.site.log} == {"shop.test"}


@pytest.mark.req("VX-12")
@pytest.mark.parametrize(
    "answer", [Reply(raw=b""), Reply(408, b"slow"), Reply(421, b"not here")], ids=["silence", "408", "421"]
)
def test_what_a_browser_would_send_again_by_itself_arrives_once_and_is_asked_once(place: Place, answer: Reply) -> None:
    place.site.routes["/act"] = answer
    place.open(FORM.format("get", ""))
    result = place.click()
    assert (result.sent, len(place.asked), place.arrived) == (1, 1, 1)
    assert result.success is (answer.raw is None)


def test_what_a_popup_wants_to_send_is_held_until_it_is_closed(place: Place) -> None:
    """Popups are closed as soon as they are seen; whoever is faster, nothing leaves without a yes."""
    place.site.routes["/act"] = "done"
    place.open(FORM.format("post", ' target="_blank"'))
    place.click(answer=deny)
    place.do(place.action("snapshot", "/"))
    assert place.site.posts() == []
    place.click()
    shown = {question.approval.request_digest for question in place.asked}
    assert shown >= set(place.arrived_digests())
    assert all(question.arrived == 0 for question in place.asked)


@pytest.mark.req("VX-07")
def test_a_request_of_a_service_worker_needs_approval_like_any_other(place: Place) -> None:
    worker = "onmessage = () => fetch('/act', {method: 'POST', body: 'from the worker'})"
    page = (
        "<title>starting</title><script>navigator.serviceWorker.register('/sw.js').then(async () => {"
        "window.worker = (await navigator.serviceWorker.ready).active; document.title = 'ready'})</script>"
        + BUTTON.format("worker.postMessage(1)")
    )
    place.site.routes |= {"/sw.js": Reply(200, worker.encode(), content_type="text/javascript"), "/act": "done"}
    place.open(page, tls=True)
    for _ in range(50):
        seen: Any = place.do(place.action("snapshot", tls=True)).output
        if seen["snapshot"]["name"] == "ready":
            break
    result = place.click(tls=True)
    assert result.success, result
    assert [question.arrived for question in place.asked] == [0]
    assert [seen.body for seen in place.site.posts()] == [b"from the worker"]


def test_what_a_page_sends_by_itself_is_asked_about_in_the_name_of_the_last_action(place: Place) -> None:
    place.site.routes["/act"] = "done"
    place.open("<script>setTimeout(() => fetch('/act', {method: 'POST', body: 'later'}), 300)</script>")
    question = place.next_question()
    assert "The page sends this by itself; it is not the agent's action." in question.preview.estimated_effect
    assert place.arrived == 0
    told = held_of(place.do(place.action("snapshot")))
    assert [(held["approval_id"], held["state"], held["by_itself"]) for held in told] == [
        (question.approval_id, "waiting", True)
    ]
    assert held_of(place.do(place.action("snapshot"))) == [], "it was told before, and is as it was"
    approve(place, question)
    place.site.wait_until(lambda site: site.posts())
    assert [seen.body for seen in place.site.posts()] == [b"later"]
    told = []
    while not told:  # its end is recorded a moment after the site has it
        told = held_of(place.do(place.action("snapshot")))
    assert [(held["approval_id"], held["state"], held["status"]) for held in told] == [
        (question.approval_id, "answered", 200)
    ]
    assert held_of(place.do(place.action("snapshot"))) == []


@pytest.mark.req("VX-09")
def test_what_a_page_asks_for_as_it_loads_is_named_in_the_result_and_ends_with_the_page(place: Place) -> None:
    place.site.routes["/act"] = "done"
    place.site.routes["/"] = "<script>fetch('/act', {method: 'POST', body: 'seen'}).catch(() => 0)</script>"
    result = place.do(place.action("navigate", "/"), deny)
    assert result.success, result
    assert place.asked == [], "the agent was told to wait for what it did not ask for"
    question = place.next_question()
    assert [(held["approval_id"], held["state"], held["by_itself"]) for held in held_of(result)] == [
        (question.approval_id, "waiting", True)
    ]
    assert "The page sends this by itself" in question.preview.estimated_effect
    assert place.open("<title>elsewhere</title>", "/else").success
    ended = place.workspace.approvals.wait(question.approval_id, 20)
    assert (ended.state, ended.reason) == ("VOID", "the page that sent it was left")
    assert place.arrived == 0


@pytest.mark.parametrize(
    "name", ["X_HTTP_Method_Override", "X-Original-URL", "x-rewrite-url", "X-HTTP-Method-Override"]
)
def test_reading_that_names_another_method_or_address_is_held_and_says_so(place: Place, name: str) -> None:
    place.site.routes["/act"] = "done"
    place.open(script(f"fetch('/act', {{headers: {{'{name}': 'DELETE'}}}})"))
    result = place.click(answer=deny)
    assert result.error is not None
    assert (result.error.code, place.arrived) == ("APPROVAL_DENIED", 0)
    place.forget()
    assert (place.click().sent, place.arrived) == (1, 1)
    shown = place.asked[0].approval.preview
    assert isinstance(shown, HTTPPreview)
    assert shown.headers[name] == "DELETE"
    assert f"Its header {name} names another method or address." in shown.estimated_effect
