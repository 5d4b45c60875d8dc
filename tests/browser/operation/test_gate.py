"""Who decides about each request of a session: its rules, without a browser around them."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from remit.browser.gate import MAX_HELD, MAX_NAVIGATIONS, SessionGate
from remit.browser.held_requests import PendingOutcome, PendingRequest, RunningAction, wait_for_approval_ids
from remit.browser.model.requests import Ending, GateDecision, OutgoingRequest, RequestKind
from remit.contracts.browser.browser import Action
from remit.masking.field_names import Kind

T = TypeVar("T")


class Stage:
    """A gate, and whoever holds what it holds."""

    def __init__(self, *, reason: str | None = None, answer: GateDecision | None = GateDecision.SEND) -> None:
        self.held: list[PendingRequest] = []
        self.dead = ""
        self.ended = 0
        self._answer = answer

        async def why(_: str) -> str | None:
            return reason

        def on_dead() -> None:
            self.ended += 1

        self.gate = SessionGate(("shop.test", "*.cdn.test"), lambda: self.dead, self._hold, why, on_dead)

    async def _hold(self, held: PendingRequest) -> None:
        self.held.append(held)
        if self._answer is not None:
            held.decision.set_result(self._answer)
            held.done.set_result(PendingOutcome(200))
        else:
            await asyncio.wait_for(held.done, 5)

    def begin(self, kind: str = "click", *, submits: bool = False) -> RunningAction:
        element = {} if kind == "navigate" else {"selector": "#a"}
        action = Action.from_tree({"action_id": "a", "type": kind, "target": "https://shop.test/x", **element})
        running = RunningAction(action, "sha256:" + "0" * 64, submits=submits)
        self.gate.begin(running)
        return running


def request(
    method: str = "GET",
    url: str = "https://shop.test/x",
    *,
    kind: RequestKind = "request",
    number: int = 1,
    goes: bool = False,
) -> OutgoingRequest:
    return OutgoingRequest(f"r{number}", kind, method, url, (("Host", "shop.test"),), is_navigation=goes)


def run(work: Callable[[], Awaitable[T]]) -> T:
    async def whole() -> T:
        return await work()

    return asyncio.run(whole())


@pytest.mark.req("VX-07")
def test_reading_passes_and_everything_else_is_held(subtests: pytest.Subtests) -> None:
    for asked, is_held in [
        (request("GET"), False),
        (request("HEAD"), False),
        (request("OPTIONS"), False),
        (request("GET", goes=True), False),
        (request("GET", "https://shop.test/x?_method=DELETE"), True),
        (request("HEAD", "https://shop.test/x?a=1&_method=put"), True),
        (request("GET", "https://shop.test/x?%5fMethod=Delete"), True),
        (request("GET", "https://shop.test/x?+_METHOD=%20patch"), True),
        (request("GET", "https://shop.test/x?a=1;_method=merge"), True),
        (request("GET", "https://shop.test/x?_method[]=DELETE"), True),
        (request("GET", "https://shop.test/x?X-HTTP-Method-Override=POST"), True),
        (request("GET", "https://shop.test/x?http_method=delete"), True),
        (request("GET", "https://shop.test/x?_method=GET"), False),
        (request("GET", "https://shop.test/x?_method="), False),
        (request("GET", "https://shop.test/x?method=delete&request_method=online&q=_method"), False),
        (request("POST", "https://shop.test/x?_method=GET"), True),
        (request("POST"), True),
        (request("PUT"), True),
        (request("DELETE"), True),
        (request("QUERY"), True),
        (request("get"), True),
        (request("GET", "wss://shop.test/ws", kind="websocket"), True),
        (request("", "wss://shop.test/ws", kind="message"), True),
    ]:
        with subtests.test(asked=asked, is_held=is_held):
            decision, held = run(functools.partial(_judged, asked))
            assert decision is (GateDecision.SEND if is_held else GateDecision.READ)
            assert bool(held) is is_held


async def _judged(asked: OutgoingRequest) -> tuple[GateDecision, list[PendingRequest]]:
    stage = Stage()
    stage.begin()
    return await stage.gate.judge(asked), stage.held


@pytest.mark.parametrize(
    "reason, submits, is_held",
    [("formSubmissionGet", False, True), ("anchorClick", False, False), (None, True, True), (None, False, False)],
)
def test_a_form_that_is_submitted_by_get_is_held(reason: str | None, submits: bool, is_held: bool) -> None:  # noqa: FBT001
    async def work() -> None:
        stage = Stage(reason=reason)
        stage.begin(submits=submits)
        await stage.gate.judge(request("GET", "https://shop.test/search?a=1", goes=True))
        assert bool(stage.held) is is_held

    run(work)


def test_where_the_agent_asked_to_go_is_not_taken_for_a_form_that_it_sent_before() -> None:
    async def work() -> None:
        stage = Stage(reason="formSubmissionGet")
        stage.begin("navigate")
        await stage.gate.judge(request(goes=True))
        assert stage.held == []

    run(work)


@pytest.mark.parametrize(
    "host, is_refused",
    [("shop.test", False), ("a.cdn.test", False), ("cdn.test", True), ("a.b.cdn.test", True), ("xshop.test", True)],
)
def test_places_are_those_of_the_token(host: str, is_refused: bool) -> None:  # noqa: FBT001
    async def work() -> None:
        assert bool(Stage().gate.check_destination("https", host, 443)) is is_refused

    run(work)


@pytest.mark.req("VX-02")
def test_a_token_that_died_stops_everything_and_ends_the_session_once() -> None:
    async def work() -> None:
        stage = Stage()
        stage.begin()
        stage.dead = "the token was revoked"
        assert stage.gate.check_destination("https", "shop.test", 443) == "the token was revoked"
        stage.dead = ""
        assert await stage.gate.judge(request()) is GateDecision.DROP
        assert stage.ended == 1

    run(work)


def test_before_the_first_action_nothing_is_sent() -> None:
    async def work() -> None:
        assert await Stage().gate.judge(request()) is GateDecision.DROP

    run(work)


@pytest.mark.req("VX-08", "VX-16")
def test_what_is_noted_of_a_request_that_was_turned_away_is_masked() -> None:
    async def work() -> None:
        stage = Stage()
        running = stage.begin()
        for typed in ("open sesame", "evil.test"):
            stage.gate.secrets.add(
                typed, Kind.PASSWORD, is_password=True, names=[typed], page="https://shop.test/login"
            )
        url = "https://evil.test/open%20sesame?card=4111111111111112&x=open%20sesame"
        stage.gate.note_refused("GET", url, "no way to OPEN SESAME")
        noted = running.turned_away[0]
        assert (noted.url, noted.why) == (
            "https://evil.test/open%20sesame?card=****-****-****-1112&x=********",
            "no way to OPEN SESAME",
        )

    run(work)


def test_people_are_not_asked_more_than_they_can_read() -> None:
    async def work() -> None:
        stage = Stage(answer=None)
        running = stage.begin()
        tasks = [asyncio.ensure_future(stage.gate.judge(request("POST", number=n))) for n in range(MAX_HELD)]
        await asyncio.sleep(0)
        assert await stage.gate.judge(request("POST", number=99)) is GateDecision.DROP
        assert "wait for a person already" in running.turned_away[0].why
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert len(stage.held) == MAX_HELD
        for held in stage.held:
            held.done.set_result(PendingOutcome())

    run(work)


def test_an_action_may_lead_through_so_many_pages() -> None:
    async def work() -> None:
        stage = Stage()
        stage.begin()
        answers = [await stage.gate.judge(request(number=number, goes=True)) for number in range(MAX_NAVIGATIONS + 1)]
        assert answers == [*[GateDecision.READ] * MAX_NAVIGATIONS, GateDecision.DROP]

    run(work)


@pytest.mark.req("VX-12")
def test_what_the_browser_gives_up_was_not_sent_even_if_the_yes_came_at_that_moment() -> None:
    async def work() -> None:
        stage = Stage(answer=None)
        running = stage.begin()
        told: list[str] = []
        judging = asyncio.ensure_future(stage.gate.judge(request("POST")))
        await asyncio.sleep(0.01)
        held = stage.held[0]
        held.on_abandoned = lambda: told.append("given up")
        held.release()
        judging.cancel()
        await asyncio.gather(judging, return_exceptions=True)
        assert judging.cancelled()
        assert held.ending.result(0) == Ending(None, sent=False, problem="the browser gave the request up")
        assert not running.may_have_sent
        assert told == ["given up"]
        held.done.set_result(PendingOutcome())

    run(work)


@pytest.mark.req("VX-07")
@pytest.mark.parametrize("location", ["/next#top", "https://shop.test/next", "next"])
def test_what_a_server_sends_the_browser_on_to_is_known_as_redirected_once(location: str) -> None:
    async def work() -> list[str]:
        stage = Stage()
        stage.begin()
        stage.gate.note_end(request("POST"), Ending(307, sent=True, location="http://[no address"))
        stage.gate.note_end(request("POST"), Ending(307, sent=True, location=location))
        for number in range(2):
            await stage.gate.judge(request("POST", "https://shop.test/next", number=number))
        return [held.redirected_from for held in stage.held]

    assert run(work) == ["https://shop.test/x", ""]


@pytest.mark.req("VX-06", "VX-07")
@pytest.mark.parametrize(
    "status, method, asked, is_held",
    [
        (303, "GET", "https://shop.test/next?order=1", False),
        (302, "GET", "https://shop.test/next?order=1", False),
        (307, "GET", "https://shop.test/next?order=1", True),
        (308, "GET", "https://shop.test/next?order=1", True),
        (303, "POST", "https://shop.test/next?order=1", True),
        (303, "GET", "https://shop.test/next", True),
        (303, "GET", "https://shop.test/next?order=2", True),
        (303, "GET", "https://a.cdn.test/next?order=1", True),
    ],
)
def test_only_the_very_place_that_an_approved_answer_leads_to_is_read_unasked(
    status: int,
    method: str,
    asked: str,
    is_held: bool,  # noqa: FBT001
) -> None:
    async def work() -> list[int]:
        stage = Stage(answer=None)
        running = stage.begin("submit", submits=True)
        posting = asyncio.ensure_future(stage.gate.judge(request("POST", "https://shop.test/buy")))
        await asyncio.sleep(0.01)
        stage.held[0].release()
        await posting
        stage.gate.note_end(
            request("POST", "https://shop.test/buy"), Ending(status, sent=True, location="/next?order=1#thanks")
        )
        counts = []
        for number in (2, 3):  # it counts once
            going = asyncio.ensure_future(stage.gate.judge(request(method, asked, number=number, goes=True)))
            await asyncio.sleep(0.01)
            counts.append(len(running.held) - 1)
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)
        for held in stage.held:
            held.done.set_result(PendingOutcome())
        return counts

    assert run(work) == ([1, 2] if is_held else [0, 1])


@pytest.mark.req("VX-06", "VX-07")
@pytest.mark.parametrize("approved", ["nothing", "of another action"])
def test_where_the_answer_to_anything_else_leads_is_asked_about(approved: str) -> None:
    async def work() -> int:
        stage = Stage(answer=None)
        stage.begin("submit", submits=True)
        if approved == "nothing":
            reading = request("GET", "https://shop.test/script.js")
            await stage.gate.judge(reading)
            stage.gate.note_end(reading, Ending(302, sent=True, location="/next"))
        else:
            posting = asyncio.ensure_future(stage.gate.judge(request("POST", "https://shop.test/buy")))
            await asyncio.sleep(0.01)
            stage.held[0].release()
            await posting
            stage.begin("submit", submits=True)
            stage.gate.note_end(request("POST", "https://shop.test/buy"), Ending(302, sent=True, location="/next"))
        before = len(stage.held)
        going = asyncio.ensure_future(stage.gate.judge(request("GET", "https://shop.test/next", number=2, goes=True)))
        await asyncio.sleep(0.01)
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
        for held in stage.held:
            held.done.set_result(PendingOutcome())
        return len(stage.held) - before

    assert run(work) == 1


@pytest.mark.req("VX-12")
def test_what_was_released_may_have_been_sent_until_it_is_known_otherwise() -> None:
    async def work() -> None:
        stage = Stage(answer=None)
        running = stage.begin()
        judging = asyncio.ensure_future(stage.gate.judge(request("POST")))
        await asyncio.sleep(0.01)
        seen = [running.may_have_sent]
        stage.held[0].release()
        assert await judging is GateDecision.SEND
        seen.append(running.may_have_sent)
        stage.gate.note_end(request("POST"), Ending(None, sent=False, problem="no connection"))
        seen.append(running.may_have_sent)
        assert seen == [False, True, False]
        stage.held[0].done.set_result(PendingOutcome())

    run(work)


@pytest.mark.req("VX-12")
@pytest.mark.parametrize(
    "ending, url, answer",
    [
        (Ending(None, sent=True, problem="no answer"), "https://shop.test/x", GateDecision.DROP),
        (Ending(None, sent=True, problem="no answer"), "https://shop.test/other", GateDecision.SEND),
        (Ending(None, sent=False, problem="no connection"), "https://shop.test/x", GateDecision.SEND),
        (Ending(200, sent=True), "https://shop.test/x", GateDecision.SEND),
    ],
)
def test_what_was_sent_to_an_unknown_end_is_not_asked_about_again(
    ending: Ending, url: str, answer: GateDecision
) -> None:
    async def work() -> tuple[GateDecision, int]:
        stage = Stage(answer=None)
        stage.begin()
        judging = asyncio.ensure_future(stage.gate.judge(request("POST")))
        await asyncio.sleep(0.01)
        stage.held[0].release()
        await judging
        stage.gate.note_end(request("POST"), ending)
        again = asyncio.ensure_future(stage.gate.judge(request("POST", url, number=2)))
        await asyncio.sleep(0.01)
        for held in stage.held[1:]:
            held.release()
        given = await again
        for held in stage.held:
            held.done.set_result(PendingOutcome())
        return given, len(stage.held)

    assert run(work) == (answer, 1 if answer is GateDecision.DROP else 2)


@pytest.mark.req("VX-06")
@pytest.mark.parametrize(
    "url, is_held",
    [
        ("https://shop.test/buy?a=1", True),
        ("https://shop.test/buy", True),
        ("https://shop.test/style.css", False),
        ("https://shop.test/buy/more", False),
    ],
)
def test_a_script_or_a_worker_that_sends_a_form_in_its_stead_is_held(url: str, is_held: bool) -> None:  # noqa: FBT001
    async def work() -> bool:
        stage = Stage()
        running = stage.begin("submit", submits=True)
        running.form_address = "https://shop.test/buy"
        await stage.gate.judge(request("GET", url))
        return bool(stage.held)

    assert run(work) is is_held


@pytest.mark.req("VX-06")
def test_what_opens_a_window_of_its_own_is_turned_away() -> None:
    async def work() -> tuple[GateDecision, list[PendingRequest], list[str]]:
        stage = Stage(reason="newWindow")
        running = stage.begin()
        answer = await stage.gate.judge(request("GET", "https://shop.test/other", goes=True))
        return answer, stage.held, [each.why for each in running.turned_away]

    assert run(work) == (GateDecision.DROP, [], ["it is for a new window, which Remit does not open"])


@pytest.mark.req("VX-09")
@pytest.mark.parametrize(
    "kind, is_over, expected",
    [
        ("navigate", False, (True, False)),
        ("snapshot", False, (True, False)),
        ("click", False, (False, False)),
        ("click", True, (False, True)),
    ],
)
def test_what_is_asked_for_before_any_action_is_the_pages_own_and_after_one_it_is_late(
    kind: str,
    is_over: bool,  # noqa: FBT001
    expected: tuple[bool, bool],
) -> None:
    async def work() -> tuple[bool, bool]:
        stage = Stage()
        running = stage.begin(kind)
        if is_over:
            running.end(asyncio.get_running_loop().time())
        await stage.gate.judge(request("POST"))
        held = stage.held[0]
        assert held.is_awaited is not (any(expected))
        return held.by_itself, held.seconds_after is not None

    assert run(work) == expected


@pytest.mark.req("VX-07")
@pytest.mark.parametrize(
    "name",
    [
        "X-HTTP-Method-Override", "X_HTTP_Method_Override", "x.http.method.override", "X-HTTP_METHOD-override",
        "X-HTTP-Method", "X-Method-Override", "X_Method_Override", "X-Override-Method", "HTTP-Method-Override",
        "X-HttpMethodOverride", "X-Original-Method", "X-Original-URL", "X_ORIGINAL_URL", "x-rewrite-url",
        "X_Rewrite_URL", "X-Original-URI", "X-Forwarded-URI", "X-Forwarded-Method", "X-Forwarded-Path",
        "X-Method", "X-HTTP-Verb-Override", "X-Verb-Override", "X-Request-Method", "X-HTTP-Path-Override",
        "X-Requested-Method", "X-HTTP-Override", "X_Override", "XHTTPMethodOverride", "x--original__url",
    ],
)  # fmt: skip
def test_reading_that_names_another_method_or_address_in_its_head_is_held(name: str) -> None:
    async def work() -> tuple[GateDecision, int]:
        stage = Stage()
        stage.begin()
        asked = request("GET")
        answer = await stage.gate.judge(replace(asked, headers=(*asked.headers, (name, "DELETE"))))
        return answer, len(stage.held)

    assert run(work) == (GateDecision.SEND, 1)


@pytest.mark.parametrize(
    "name",
    ["Access-Control-Request-Method", "Referer", "Origin", "Cookie", "X-Requested-With", "X-Forwarded-For", "Method"],
)
def test_other_headers_have_nothing_held(name: str) -> None:
    async def work() -> tuple[GateDecision, int]:
        stage = Stage()
        stage.begin()
        asked = request("GET")
        answer = await stage.gate.judge(replace(asked, headers=(*asked.headers, (name, "DELETE"))))
        return answer, len(stage.held)

    assert run(work) == (GateDecision.READ, 0)


@pytest.mark.req("VX-09")
@pytest.mark.parametrize(
    "is_closed, goes_on, why",
    [
        (False, False, "the page gave the request up"),
        (False, True, "the page that sent it was left"),
        (True, True, "its browser session has ended"),
    ],
)
def test_the_reason_why_a_request_was_abandoned_is_reported(is_closed: bool, goes_on: bool, why: str) -> None:  # noqa: FBT001
    async def work() -> str:
        stage = Stage()
        stage.begin()
        await stage.gate.judge(request("POST"))
        if goes_on:
            await stage.gate.judge(request(number=2, goes=True))
        stage.gate.closed = is_closed
        return stage.gate.abandonment_reason(stage.held[0])

    assert run(work) == why


@pytest.mark.req("VX-09")
def test_an_action_waits_for_its_own_questions_until_they_are_answered() -> None:
    async def work() -> list[str | None]:
        stage = Stage(answer=None)
        told: list[str | None] = []

        def note() -> None:
            held = stage.gate.awaited_request
            told.append(None if held is None else held.approval_id)

        running = stage.begin()
        judging = asyncio.ensure_future(stage.gate.judge(request("POST")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        note()
        stage.held[0].set_approval("q-1")
        await wait_for_approval_ids(running.held, 5)
        note()
        stage.held[0].by_itself = True
        note()
        stage.held[0].by_itself = False
        stage.held[0].release()
        await judging
        note()
        stage.held[0].done.set_result(PendingOutcome())
        return told

    assert run(work) == [None, "q-1", None, None]


@pytest.mark.req("VX-07")
@pytest.mark.parametrize(
    "kind, expected", [("navigate", GateDecision.DROP), ("snapshot", GateDecision.DROP), ("click", GateDecision.SEND)]
)
def test_going_to_an_address_that_names_another_method_is_asked_about_or_not_done(
    kind: str, expected: GateDecision
) -> None:
    """Navigating is reading, and is not asked about: so it is not done."""

    async def work() -> tuple[GateDecision, list[str]]:
        stage = Stage()
        running = stage.begin(kind)
        answer = await stage.gate.judge(request("GET", "https://shop.test/x?_method=DELETE", goes=True))
        return answer, [each.why for each in running.turned_away]

    why = "its parameter _method names another method, but a navigation may only read"
    assert run(work) == (expected, [why] if expected is GateDecision.DROP else [])


@pytest.mark.req("VX-17")
@pytest.mark.parametrize(
    "referer, is_own",
    [
        ("https://shop.test/x", True),
        ("https://shop.test/led/on", True),
        ("https://shop.test/before", False),
        ("https://shop.test/worker.js", False),
        ("https://shop.test/", False),
        ("", False),
    ],
)
def test_after_the_agent_has_left_a_page_only_what_names_the_new_page_is_that_pages_own(
    referer: str,
    is_own: bool,  # noqa: FBT001
) -> None:
    async def work() -> tuple[str, bool, bool, bool]:
        stage = Stage()
        clicked = stage.begin()
        clicked.end(asyncio.get_running_loop().time())
        stage.gate.begin(navigating(), "https://shop.test/before#part")
        await stage.gate.judge(request("GET", "https://shop.test/led/on", goes=True))
        asked = request("POST", number=2)
        named = (("Referer", referer),) if referer else ()
        await stage.gate.judge(replace(asked, headers=(*asked.headers, *named)))
        [held] = stage.held
        assert held.seconds_after is None if is_own else held.seconds_after is not None
        return held.cause.action.type, held.by_itself, held.page_left, held.is_awaited

    assert run(work) == (("navigate", True, False, False) if is_own else ("click", False, True, False))


@pytest.mark.req("VX-17")
def test_a_page_that_is_loaded_again_cannot_be_distinguished_from_the_page_that_was_left() -> None:
    async def work() -> str:
        stage = Stage()
        stage.begin().end(0)
        stage.gate.begin(navigating(), "https://shop.test/x")
        asked = request("POST")
        await stage.gate.judge(replace(asked, headers=(*asked.headers, ("Referer", "https://shop.test/x"))))
        return stage.held[0].cause.action.type

    assert run(work) == "click"


def navigating() -> RunningAction:
    action = Action.from_tree({"action_id": "b", "type": "navigate", "target": "https://shop.test/x"})
    return RunningAction(action, "sha256:" + "0" * 64)
