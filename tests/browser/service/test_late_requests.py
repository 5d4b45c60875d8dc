"""What an action causes later is waited for, counted, and told as what it is: also when the action had ended before.

No test depends on how fast the machine is. Where a page waits for time, the action may wait for a minute; where a
request is to come after the end of its action, the page waits for an answer of the site, which the test gives then.
"""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from remit.cli.browse import exit_code
from remit.contracts.browser.browser import ActionResult, Approval
from tests.browser.service.browser_workspace import Place, approve, deny, made_place
from tests.support.browser_site import Reply

pytestmark = [pytest.mark.req("VX-17")]

POST = "fetch('/act', {method: 'POST', body: 'late'})"


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Waits a minute for what was put off: so no machine is too slow. Longer than it would without that setting."""
    with made_place(tmp_path_factory.mktemp("patient"), late_seconds=60) as place:
        yield place


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Does not wait for what was put off: so whatever the page waits for comes after the end of the action."""
    with made_place(tmp_path_factory.mktemp("hasty"), late_seconds=0) as place:
        yield place


def fresh(place: Place) -> Place:
    place.site.routes.clear()
    place.forget()
    place.sleeps.clear()
    place.issue()
    place.site.routes |= {
        "/act": "done",
        "/more": "{}",
        "/worker.js": "onmessage = () => fetch('/act', {method: 'POST', body: 'late'})",
    }
    return place


def button(work: str, more: str = "") -> str:
    return f"{more}<button id=go type=button>Save</button><script>go.onclick = async () => {{ {work} }}</script>"


def held_of(result: ActionResult) -> list[dict[str, Any]]:
    output: Any = result.output
    return list(output["held"])


# How a page puts off what a click sets off.
PUT_OFF = {
    "50 ms": button(f"setTimeout(() => {POST}, 50)"),
    "500 ms": button(f"setTimeout(() => {POST}, 500)"),
    "6 s": button(f"setTimeout(() => {POST}, 6000)"),
    "3 s, in a page that is busy most of the time": button(
        f"setTimeout(() => {POST}, 3000); setTimeout(() => setInterval(() => {{ const from = performance.now();"
        " while (performance.now() < from + 400); }, 420), 900)"
    ),
    "a debounced form": button(
        f"let t; const later = () => {{ clearTimeout(t); t = setTimeout(() => {POST}, 300) }}; later(); later()"
    ),
    "timers one after the other": button(f"setTimeout(() => setTimeout(() => setTimeout(() => {POST}, 90), 90), 90)"),
    "a chain of promises": button(
        f"const sleep = (ms) => new Promise((done) => setTimeout(done, ms)); await sleep(80); await sleep(80); {POST}"
    ),
    "an answer that is read": button(f"await (await fetch('/more')).json(); await null; {POST}"),
    "an answer of an XHR": button(
        "const x = new XMLHttpRequest(); x.open('GET', '/more');"
        f"x.onload = () => setTimeout(() => {POST}, 60); x.send()"
    ),
    "an animation frame": button(f"requestAnimationFrame(() => requestAnimationFrame(() => {POST}))"),
    "a frame in the page": (
        '<iframe id=f srcdoc="<script>onmessage = () => {}; function act() '
        f'{{ setTimeout(() => {POST}, 300) }}</script>"></iframe>' + button("f.contentWindow.act()")
    ),
    "mousedown and a list that covers it": (
        "<div id=lid style='display:none;position:fixed;inset:0'></div><button id=go type=button>Save</button>"
        f"<script>go.onmousedown = () => {{ lid.style.display = 'block'; setTimeout(() => {POST}, 400) }}</script>"
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", PUT_OFF)
def test_an_action_waits_for_what_the_page_has_put_off_because_of_it(patient: Place, way: str) -> None:
    place = fresh(patient)
    place.open(PUT_OFF[way])
    result = place.click()
    assert (result.success, result.sent) == (True, 1), result
    assert [(held["by_itself"], held["seconds_after"], held["state"]) for held in held_of(result)] == [
        (False, None, "answered")
    ]
    assert [seen.body for seen in place.site.posts()] == [b"late"]
    assert "by itself" not in place.asked[0].approval.preview.estimated_effect


def test_a_denied_late_request_fails_the_action_that_caused_it(patient: Place) -> None:
    place = fresh(patient)
    place.open(PUT_OFF["500 ms"])
    result = place.click(answer=deny)
    assert result.error is not None
    assert (result.error.code, result.sent) == ("APPROVAL_DENIED", 0)
    assert place.site.posts() == []


@pytest.mark.parametrize("kind", ["text", "number", "list"])
def test_what_a_field_saves_a_moment_after_the_typing_is_the_typings(patient: Place, kind: str) -> None:
    field = {
        "text": "<input id=go>",
        "number": "<input id=go type=number>",
        "list": "<select id=go><option>1<option>2</select>",
    }[kind]
    place = fresh(patient)
    place.open(
        f"{field}<script>let t; go.oninput = () => {{ clearTimeout(t); t = setTimeout(() => {POST}, 400) }}</script>"
    )
    result = place.do(place.action("type", selector="#go", value="2"))
    assert (result.success, result.sent) == (True, 1), result
    assert len(place.site.posts()) == 1


def test_what_a_form_sends_after_it_was_submitted_is_the_submits(patient: Place) -> None:
    place = fresh(patient)
    place.open(
        "<form id=go><input name=a></form><script>go.onsubmit = (event) => { event.preventDefault();"
        f" setTimeout(() => {POST}, 300) }}</script>"
    )
    result = place.do(place.action("submit", selector="#go"))
    assert (result.success, result.sent) == (True, 1), result


def test_a_timer_of_the_pages_own_keeps_no_action_waiting(patient: Place) -> None:
    """Else every click on a page that looks for news would take the whole minute."""
    place = fresh(patient)
    place.open(
        button("document.title = 'clicked'")
        + "<script>const look = () => setTimeout(look, 30); look(); setTimeout(() => {}, 50000)</script>"
    )
    result = place.click()
    assert result.success
    place.workspace.browser_service._driver._thread.run(_rested(place))  # type: ignore[union-attr]  # noqa: SLF001


async def _rested(place: Place) -> None:
    tab = place.workspace.browser_service._driver._sessions.tabs[-1]  # type: ignore[union-attr]  # noqa: SLF001
    assert await tab.page.wait_for_rest(30)
    assert not tab.page.has_deferred_work


def waiting_for(place: Place) -> threading.Event:
    """The page waits for an answer of /signal, which comes when this is set."""
    event = threading.Event()
    place.site.routes["/signal"] = Reply(200, b"{}", wait_for=event)
    return event


LATE = {
    "a promise": button(f"document.title = 'on'; await fetch('/signal'); {POST}"),
    "a timer": button(f"document.title = 'on'; await fetch('/signal'); setTimeout(() => {POST}, 10)"),
    "a worker": button(
        "document.title = 'on'; const w = new Worker('/worker.js'); await fetch('/signal'); w.postMessage(0)"
    ),
    "a frame": (
        f"<iframe id=f srcdoc=\"<script>async function act() {{ await fetch('/signal'); {POST} }}</script>\"></iframe>"
        + button("document.title = 'on'; f.contentWindow.act()")
    ),
}


def late_request(place: Place, way: str = "a promise") -> tuple[bytes, ActionResult, Any]:
    """A click that has ended, and then the approval request for what it caused."""
    signal = waiting_for(place)
    place.open(LATE[way])
    action = place.action("click", selector="#go")
    result = place.do(action)
    assert (result.success, result.sent, held_of(result)) == (True, 0, [])
    signal.set()
    return action, result, place.next_question()


@pytest.mark.parametrize("way", LATE)
def test_a_request_after_the_end_of_its_action_is_shown_as_late_and_not_as_the_pages_own(
    hasty: Place, way: str
) -> None:
    place = fresh(hasty)
    action, _, question = late_request(place, way)
    told = question.preview.estimated_effect
    assert "by itself" not in told
    assert f"after the agent's click on the button 'Save' (action {json.loads(action)['action_id']}) had ended" in told
    assert question.action_id == json.loads(action)["action_id"]
    assert place.site.posts() == [], "it was sent before the answer"
    approve(place, question)
    place.site.wait_until(lambda site: site.posts())


def test_a_late_request_is_named_and_counted_with_its_action_from_then_on(hasty: Place) -> None:
    place = fresh(hasty)
    action, _, question = late_request(place)
    action_id = json.loads(action)["action_id"]

    told = held_of(place.do(place.action("snapshot")))  # the next result of the session
    assert [(held["approval_id"], held["action_id"], held["by_itself"]) for held in told] == [
        (question.approval_id, action_id, False)
    ]
    assert told[0]["seconds_after"] is not None
    waiting = place.do(action)  # the same action again
    assert [(held["approval_id"], held["state"]) for held in held_of(waiting)] == [(question.approval_id, "waiting")]
    assert waiting.sent == 0

    approve(place, question)
    place.site.wait_until(lambda site: site.posts())
    ended(place, question.approval_id)
    again = place.do(action)
    assert again.sent == 1, "never 0 when one was sent"
    assert [(held["approval_id"], held["state"], held["status"]) for held in held_of(again)] == [
        (question.approval_id, "answered", 200)
    ]
    assert len(place.site.posts()) == 1

    [late] = [told for told in place.payloads("browser.late") if told["action_id"] == action_id]
    assert (late["approval_id"], late["state"], late["status"], late["sent"]) == (
        question.approval_id, "ANSWERED", 200, 1,
    )  # fmt: skip
    [audit] = [told for told in place.payloads("browser.action") if told["action_id"] == action_id]
    assert audit["sent"] == 0
    assert place.kinds(action_id)[-2:] == ["browser_request.outcome", "browser.late"], "in one transaction"


def test_a_look_at_the_page_does_not_make_a_late_request_the_pages_own(hasty: Place) -> None:
    place = fresh(hasty)
    signal = waiting_for(place)
    place.open(LATE["a promise"])
    action = place.action("click", selector="#go")
    place.do(action)
    place.do(place.action("snapshot"))
    signal.set()
    question = place.next_question()
    assert question.action_id == json.loads(action)["action_id"]
    assert "by itself" not in question.preview.estimated_effect
    deny(place, question)


def test_what_a_page_asks_for_before_any_action_in_it_is_still_its_own(hasty: Place) -> None:
    place = fresh(hasty)
    signal = waiting_for(place)
    place.open(LATE["a promise"])
    place.do(place.action("click", selector="#go"))
    place.open(f"<script>fetch('/signal').then(() => {POST})</script>", "/next")
    signal.set()
    question = place.next_question()
    assert "The page sends this by itself" in question.preview.estimated_effect
    deny(place, question)


def ended(place: Place, approval_id: str) -> None:
    """Until the request of that approval has an outcome in the ledger."""
    deadline = threading.Event()
    for _ in range(600):
        outcomes = [told["outcome"] for told in place.payloads("browser_request.outcome")]
        if any(outcome["approval_id"] == approval_id for outcome in outcomes):
            return
        deadline.wait(0.05)
    raise AssertionError("it has no outcome")


def test_the_limit_is_a_setting(hasty: Place) -> None:
    """With 0 seconds a click does not wait for the page's timer; the test of 6 s above shows that it does else."""
    place = fresh(hasty)
    place.open(button(f"document.title = 'on'; setTimeout(() => {POST}, 60000)"))
    result = place.click()
    assert (result.success, result.sent, held_of(result)) == (True, 0, [])
    assert result.output is not None
    assert result.output["title"] == "on"


LEFT = {
    "a beacon": "addEventListener('pagehide', () => navigator.sendBeacon('/act', 'late'))",
    "a fetch that outlives its page": (
        "document.addEventListener('visibilitychange',"
        " () => fetch('/act', {method: 'POST', body: 'late', keepalive: true}))"
    ),
}


@pytest.mark.parametrize("way", LEFT)
def test_what_a_page_sends_as_the_agent_leaves_it_counts_with_the_last_action_in_it(hasty: Place, way: str) -> None:
    """Such as a draft that is saved when its page goes. The new page did not ask for it, and navigating did not."""
    place = fresh(hasty)
    place.site.routes["/next"] = "hello"
    place.open(button(LEFT[way]))
    action = place.action("click", selector="#go")
    assert place.do(action).sent == 0
    assert place.do(place.action("navigate", "/next")).success
    question = place.next_question()
    told = question.preview.estimated_effect
    assert "by itself" not in told
    assert f"after the agent's click on the button 'Save' (action {json.loads(action)['action_id']}) had ended" in told
    assert "The agent has gone to another page since then." in told
    assert question.action_id == json.loads(action)["action_id"]
    approve(place, question)
    place.site.wait_until(lambda site: site.posts())
    ended(place, question.approval_id)
    assert place.do(action).sent == 1, "never 0 when one was sent"


def test_what_a_worker_sends_when_its_page_was_left_counts_with_the_last_action_in_that(hasty: Place) -> None:
    place = fresh(hasty)
    signal = waiting_for(place)
    worker = (
        "oninstall = () => skipWaiting(); onactivate = (event) => event.waitUntil(clients.claim());"
        f"onmessage = (event) => event.waitUntil(fetch('/signal').then(() => {POST}))"
    )
    place.site.routes |= {"/sw.js": Reply(200, worker.encode(), content_type="text/javascript"), "/next": "hello"}
    place.open(
        button(
            "(await navigator.serviceWorker.ready).active.postMessage(0)",
            "<script>navigator.serviceWorker.register('/sw.js')</script>",
        ),
        tls=True,
    )
    action = place.action("click", selector="#go", tls=True)
    assert place.do(action).success
    place.site.wait_until(lambda site: "GET /signal" in site.paths())
    assert place.do(place.action("navigate", "/next", tls=True)).success
    signal.set()
    question = place.next_question()
    assert question.action_id == json.loads(action)["action_id"]
    assert "by itself" not in question.preview.estimated_effect
    deny(place, question)


# --- an action that failed, and what its page sends later all the same -----------------------------------------------

DENIED_FIRST = f"await fetch('/act', {{method: 'POST', body: 'first'}}).catch(() => 0); WAITS; {POST}"


def only_the_second(place: Place, approval: Approval) -> None:
    (deny if len(place.asked) == 1 else approve)(place, approval)


def test_what_a_page_sends_after_a_request_was_denied_is_counted_with_the_action(
    patient: Place,
) -> None:
    place = fresh(patient)
    place.open(button(DENIED_FIRST.replace("WAITS", "await new Promise((done) => setTimeout(done, 400))")))
    result = place.click(answer=only_the_second)
    assert result.error is not None
    assert (result.error.code, result.sent) == ("APPROVAL_DENIED", 1)
    assert exit_code(result, refused=False) == 1, "2 says that nothing was sent"
    assert [seen.body for seen in place.site.posts()] == [b"late"]
    assert [held["by_itself"] for held in held_of(place.do(place.action("snapshot")))] == []


def test_what_is_sent_after_an_action_had_failed_is_late_and_counted_when_it_is_asked_for_again(hasty: Place) -> None:
    place = fresh(hasty)
    signal = waiting_for(place)
    place.open(button(DENIED_FIRST.replace("WAITS", "await fetch('/signal')")))
    action = place.action("click", selector="#go")
    first = place.do(action, deny)
    assert first.error is not None
    assert (first.error.code, first.sent, exit_code(first, refused=False)) == ("APPROVAL_DENIED", 0, 2)
    signal.set()
    question = place.next_question()
    assert question.action_id == json.loads(action)["action_id"]
    assert "by itself" not in question.preview.estimated_effect
    approve(place, question)
    place.site.wait_until(lambda site: site.posts())
    ended(place, question.approval_id)
    again = place.do(action)
    assert again.error is not None
    assert (again.error.code, again.sent, exit_code(again, refused=False)) == ("APPROVAL_DENIED", 1, 1)
    assert [seen.body for seen in place.site.posts()] == [b"late"]
