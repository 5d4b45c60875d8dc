"""What an answer is good for: this request, this action, this token, once; and what nobody knows is not tried again."""

import errno
import os
import signal
import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from remit.approvals.service import ApprovalService
from remit.browser.held_requests import PendingRequest
from remit.browser.inflight import BrowseHooks
from remit.cli.browse import exit_code
from remit.contracts.browser.browser import Approval, HTTPPreview
from remit.contracts.browser.output import ActionOutput
from remit.core.errors import Reason, RefusedError
from remit.ledger.entry import COLUMNS, Entry
from remit.services.base.entry_text import render_meaning
from tests.browser.service.browser_workspace import SOMEBODY, Place, approve, deny
from tests.support.browser_site import Reply, redirect
from tests.support.patience import SOON

FORM = '<form method="post" action="/act"><input name="item" value="42"><button id="go">Pay now</button></form>'
LOGIN = (
    '<form method="post" action="/act"><input id="pw" type="password" name="x1"><button id="go">Log in</button></form>'
)
SECRET = "correct horse 77"


def held_now(place: Place) -> PendingRequest:
    world: Any = place.workspace.browser_service._driver  # noqa: SLF001 - what an attacker in the process would reach for
    held: PendingRequest = next(held for tab in world._sessions.tabs for held in tab.gate.waiting)  # noqa: SLF001
    return held


@pytest.mark.req("VX-07", "VX-09")
def test_a_request_that_was_swapped_after_the_approval_is_not_sent(place: Place) -> None:
    place.site.routes["/act"] = "done"
    place.open(FORM)

    def swap_and_approve(place: Place, approval: Approval) -> None:
        held = held_now(place)
        held.request = replace(held.request, body=b"item=99")
        approve(place, approval)

    result = place.click(answer=swap_and_approve)
    assert result.error is not None
    assert result.error.code == "APPROVAL_DENIED"
    assert "another request" in (result.reason or "")
    assert place.site.posts() == []


@pytest.mark.req("VX-09")
def test_an_approval_can_be_used_only_once(place: Place) -> None:
    place.site.routes["/act"] = "done"
    place.open(FORM)
    assert place.click().success
    approval = place.asked[0].approval
    assert place.workspace.approvals.show(approval.approval_id).state == "USED"
    with pytest.raises(RefusedError) as refused:
        place.workspace.ledger.transact(
            lambda batch: place.workspace.approvals.use(
                batch,
                approval.approval_id,
                request_digest=approval.request_digest,
                action_digest=approval.action_digest,
                token_jti=approval.token_jti,
            )
        )
    assert refused.value.reason is Reason.APPROVAL_DENIED


@pytest.mark.req("VX-09")
def test_an_approval_that_comes_after_the_token_was_revoked_sends_nothing(place: Place) -> None:
    place.site.routes["/act"] = "done"
    place.open(FORM)

    def revoke_first(place: Place, approval: Approval) -> None:
        place.workspace.tokens.revoke(approval.token_jti, actor="os:somebody")
        approve(place, approval)

    result = place.click(answer=revoke_first)
    assert result.error is not None
    assert (result.error.code, result.sent) == ("TOKEN_REVOKED", 0)
    assert place.site.posts() == []


@pytest.mark.req("VX-02", "VX-12")
@pytest.mark.parametrize("over", ["revoked", "expired"])
def test_a_token_that_is_over_still_hears_that_its_request_was_sent_and_no_other_does(place: Place, over: str) -> None:
    place.site.routes["/act"] = "done"
    other = place.issue()
    place.issue()
    place.open(FORM)
    action, nothing = place.action("submit", selector="#go"), place.action("snapshot")
    first = place.do(action)
    assert (first.success, first.sent) == (True, 1)
    if over == "revoked":
        for each in (place.token, other):
            place.workspace.tokens.revoke(place.workspace.tokens.verify(each).jti, actor="os:somebody")
    else:
        place.clock.offset += timedelta(days=3)
    again = place.do(action)
    assert again.error is not None
    assert (again.error.code, again.sent) == (f"TOKEN_{over.upper()}", 1)
    assert "this action has ended before: 1 request was sent; do not ask for it again" in str(again.reason)
    assert exit_code(again, refused=True) == 1
    another = action.replace(b"#go", b"#no")  # under the id of the first
    for told in (place.do(action, token=other), place.do(nothing), place.do(another)):
        assert told.error is not None
        assert (told.error.code, told.sent) == (f"TOKEN_{over.upper()}", 0)
        assert "this action" not in str(told.tree())
    valid = place.issue()
    assert place.do(action, token=valid).canonical() == first.canonical(), "as it was promised"
    assert len(place.site.posts()) == 1


BECAUSE = {"approved_by": "os:somebody", "reason": "as agreed"}


def approve_because(place: Place, approval: Approval) -> None:
    place.workspace.approvals.decide(approval.approval_id, approved=True, who=SOMEBODY, reason=BECAUSE["reason"])


@pytest.mark.req("VX-06", "VX-09")
def test_typing_a_password_is_a_persons_to_allow(place: Place) -> None:
    place.site.routes["/act"] = "done"
    place.open(LOGIN)
    refused = place.do(place.action("type", selector="#pw", value=SECRET), deny)
    assert refused.error is not None
    assert refused.error.code == "APPROVAL_DENIED"
    assert place.refusals, "nothing was claimed"
    typed = place.do(place.action("type", selector="#pw", value=SECRET), approve_because)
    question = place.asked[-1].approval
    assert (typed.output or {})["approval"] == {"approval_id": question.approval_id, **BECAUSE}
    assert isinstance(question.preview, HTTPPreview)
    assert question.preview.method is None
    assert question.screenshot is not None
    clicked = place.click(answer=approve_because)
    [told] = ActionOutput.from_tree(clicked.output).held
    assert {"approved_by": told.approved_by, "reason": told.reason} == BECAUSE, "for the agent too"
    assert place.site.posts()[0].body == b"x1=correct+horse+77"
    shown = place.asked[-1].approval.preview
    assert isinstance(shown, HTTPPreview)
    assert shown.body.masked == {"x1": "********"}, "what was typed unseen is shown"


@pytest.mark.req("VX-06")
def test_typing_into_an_ordinary_field_needs_no_approval(place: Place) -> None:
    place.open('<input id="name">')
    assert place.do(place.action("type", selector="#name", value="Jane")).success
    assert place.asked == []


@pytest.mark.req("VX-09")
def test_a_page_that_changes_under_the_approval_gets_nothing(place: Place) -> None:
    changed = threading.Event()
    answers = {False: b"no", True: b"yes"}
    place.site.routes["/flag"] = lambda _: Reply(200, answers[changed.is_set()])
    place.open(
        LOGIN
        + """<script>const timer = setInterval(async () => {
            if (await (await fetch("/flag")).text() !== "yes") return;
            clearInterval(timer);
            document.forms[0].action = "/thief"; fetch("/changed");
        }, 20)</script>"""
    )

    def change_first(place: Place, approval: Approval) -> None:
        changed.set()
        place.site.wait_until(lambda site: any(seen.path == "/changed" for seen in site.log))
        approve(place, approval)

    result = place.do(place.action("type", selector="#pw", value=SECRET), change_first)
    assert "changed after the approval" in (result.reason or "")
    after = place.do(place.action("snapshot"))
    assert SECRET not in after.canonical().decode()


def test_an_action_names_the_page_that_it_means(place: Place) -> None:
    place.open(FORM, "/one")
    result = place.do(place.action("click", "/two", selector="#go"))
    assert "another page" in (result.reason or "")
    assert place.refusals
    assert place.asked == []


@pytest.mark.req("VX-12")
def test_a_request_of_unknown_fate_is_reported_as_such_and_never_repeated(place: Place) -> None:
    place.site.routes["/act"] = Reply(raw=b"", reset=True)
    place.open(FORM)
    action = place.action("click", selector="#go")
    result = place.do(action)
    assert result.error is not None
    assert result.error.code == "KERNEL_ERROR"
    assert "the server's response is unknown" in (result.reason or "")
    assert [seen.path for seen in place.site.posts()] == ["/act"]
    assert place.do(action).canonical() == result.canonical()
    assert len(place.site.posts()) == 1
    assert place.sleeps == []
    outcome = place.payloads("browser_request.outcome")[-1]["outcome"]
    assert (outcome["state"], outcome["status"]) == ("UNKNOWN", None)


@pytest.mark.req("VX-12")
@pytest.mark.parametrize("point", ["browser.released", "browser.ended"])
def test_what_goes_wrong_after_the_request_was_let_go_is_never_told_as_not_sent(
    place: Place, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    def reach(name: str) -> None:
        if name == point:
            raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr("remit.browser.request_operation.reach", reach)
    place.site.routes["/act"] = "done"
    place.open(FORM)
    result = place.click()
    assert not result.success
    assert result.sent == 1
    outcome = place.payloads("browser_request.outcome")[-1]["outcome"]
    assert outcome["state"] == "UNKNOWN"


@pytest.mark.req("VX-09")
def test_an_approval_that_could_not_be_used_does_not_stay_open(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as for want of disk when it was to be used."""
    place.open(FORM)
    monkeypatch.setattr(ApprovalService, "use", raise_no_space)
    assert not place.click().success
    approval = place.asked[0].approval
    deadline = time.monotonic() + 5
    while place.workspace.approvals.show(approval.approval_id).state == "APPROVED":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert place.workspace.approvals.show(approval.approval_id).state == "VOID"
    assert place.site.posts() == []


def raise_no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "no space left")


@pytest.mark.req("VX-11")
def test_a_submit_that_sends_nothing_says_so(place: Place) -> None:
    place.open('<form method="post" action="/act"><input name="a" required><button id="go">go</button></form>')
    result = place.do(place.action("submit", selector="#go"))
    assert result.error is not None
    assert (result.error.code, result.reason) == ("KERNEL_ERROR", "nothing was sent")


@pytest.mark.req("VX-12")
def test_an_element_that_is_not_there_is_looked_for_four_times(place: Place) -> None:
    place.open(FORM)
    heard: list[int] = []
    action = place.action("click", selector="#nowhere")
    result = place.workspace.browser_service.browse(action, place.token, BrowseHooks(on_retry=heard.append))
    assert result.error is not None
    assert result.error.tree() == {"code": "ELEMENT_NOT_FOUND", "selector": "#nowhere"}
    assert place.sleeps == [1.0, 2.0, 4.0]
    retried = [entry["retry"] for entry in place.payloads("browser.retried")[-3:]]
    assert retried == heard == [1, 2, 3]


@pytest.mark.req("VX-12")
def test_nothing_is_tried_again_after_a_no(place: Place) -> None:
    place.open(FORM)
    place.click(answer=deny)
    assert place.sleeps == []
    assert len(place.asked) == 1


@pytest.mark.req("VX-05", "VX-10")
def test_an_action_is_audited_with_the_hash_of_the_page_before_and_after(place: Place) -> None:
    place.site.routes["/act"] = "<title>Thanks</title>"
    opened = place.open(FORM)
    result = place.click()
    assert result.content_hash_before == opened.content_hash_after
    assert result.content_hash_after not in {None, result.content_hash_before}
    audit = place.payloads("browser.action")[-1]
    assert audit["contentHashBefore"] == result.content_hash_before
    assert audit["contentHashAfter"] == result.content_hash_after
    assert (audit["success"], audit["action"], audit["target"]) == (True, "click", place.site.url("/"))
    kinds = place.kinds(result.action_id)
    assert kinds[-2:] == ["browser.outcome", "browser.action"], "with the outcome, in one transaction"


@pytest.mark.req("VX-04", "VX-06")
@pytest.mark.parametrize(
    "form, page, code",
    [
        ('<input name="amount" value="49.99">', "Total: EUR 49.99", "success"),
        ('<input name="amount" value="499.00">', "Total: EUR 49.99", "CONSTRAINT_VIOLATED"),
        ('<input name="item" value="7">', "Total: EUR 49.99", "success"),
        ('<input name="item" value="7">', "Total: EUR 120.00", "CONSTRAINT_VIOLATED"),
    ],
)
def test_a_purchase_costs_no_more_than_declared(place: Place, form: str, page: str, code: str) -> None:
    place.issue(max_purchase={"value": 60, "currency": "EUR"})
    place.site.routes["/act"] = "<title>Thanks</title>"
    place.open(f'<form method="post" action="/act"><p>{page}</p>{form}<button id="go">Buy</button></form>')
    buy = place.action("purchase", selector="#go", amount={"value": 49.99, "currency": "EUR"})
    result = place.do(buy)
    assert (result.error.code if result.error is not None else "success") == code, result
    assert len(place.site.posts()) == len(place.asked) == (1 if code == "success" else 0)
    if code == "success":
        assert "declares a price of 49.99 EUR" in place.asked[0].approval.preview.estimated_effect
    else:
        assert (result.reason or "").startswith("Amount exceeds limit: ")
        assert "the agent declared 49.99 EUR, and the token allows 60.00 EUR" in (result.reason or "")


@pytest.mark.req("VX-04")
@pytest.mark.parametrize("amount", [{"value": 60.01, "currency": "EUR"}, {"value": 1, "currency": "USD"}])
def test_a_purchase_above_the_tokens_limit_is_refused(place: Place, amount: dict[str, Any]) -> None:
    place.issue(max_purchase={"value": 60, "currency": "EUR"})
    place.open(FORM)
    result = place.do(place.action("purchase", selector="#go", amount=amount))
    assert (result.reason or "").startswith("Amount exceeds limit: ")
    assert "the token allows 60.00 EUR" in (result.reason or "")
    assert place.refusals
    assert place.asked == []


@pytest.mark.req("VX-04")
def test_a_purchase_that_is_called_a_click_has_the_same_limit(place: Place) -> None:
    place.issue(max_purchase={"value": 60, "currency": "EUR"})
    form = '<form method="post" action="/act"><input name="total" value="{}"><button id="go">Buy</button></form>'
    place.open(form.format("79.90"))
    result = place.click()
    assert result.reason is not None
    assert "79.90 in the field `total` of the request; the token allows 60.00 EUR" in result.reason
    assert place.asked == []
    assert place.site.posts() == []
    place.site.routes["/act"] = "<title>Thanks</title>"
    place.open(form.format("59.90"))
    assert place.click().success
    assert "names a price (total = 59.90)" in place.asked[0].approval.preview.estimated_effect
    with place.workspace.store.reading() as connection:
        query = f"SELECT {COLUMNS} FROM ledger_entries WHERE kind = 'browser_request.outcome' ORDER BY seq DESC LIMIT 1"
        [entry] = [Entry(*row) for row in connection.rows(query)]
    assert render_meaning(entry) == f"POST {place.site.url('/act')}, answered 200, approved by os:somebody"


@pytest.mark.req("VX-09")
def test_a_request_that_the_page_gives_up_is_a_question_no_more(place: Place) -> None:
    place.site.routes["/act"] = "done"
    place.open(
        """<script>function act() {
            const stop = new AbortController();
            fetch("/act", {method: "POST", body: "x", signal: stop.signal}).catch(() => 0);
            setTimeout(() => stop.abort(), 200);
        }</script><button id="go" onclick="act()">go</button>"""
    )

    def wait_and_approve(place: Place, approval: Approval) -> None:
        assert place.workspace.approvals.wait(approval.approval_id, 20).state == "VOID"
        with pytest.raises(RefusedError):
            place.workspace.approvals.decide(approval.approval_id, approved=True, who=SOMEBODY)

    result = place.click(answer=wait_and_approve)
    assert not result.success
    assert place.site.posts() == []


@pytest.mark.req("VX-09", "VX-12")
def test_a_browser_that_dies_takes_what_it_held_along_and_the_next_navigation_starts_another(place: Place) -> None:
    place.site.routes["/act"] = "done"
    place.open(FORM)

    def kill_and_approve(place: Place, approval: Approval) -> None:
        world: Any = place.workspace.browser_service._driver  # noqa: SLF001 - only it knows the process
        os.kill(world._sessions.tabs[0].chromium.pid, signal.SIGKILL)  # noqa: SLF001
        assert place.workspace.approvals.wait(approval.approval_id, 20).state == "VOID"

    def end_all(place: Place, _: Approval) -> None:
        world: Any = place.workspace.browser_service._driver  # noqa: SLF001 - as `remit browse --stop` does
        world.end_sessions()

    killed = place.click(answer=kill_and_approve)
    assert place.open(LOGIN).success
    ended = place.do(place.action("type", selector="#pw", value=SECRET), end_all)
    for result in (killed, ended):
        assert result.error is not None
        assert (result.error.code, result.sent) == ("KERNEL_ERROR", 0), "nobody said no"
        assert str(result.reason).startswith("not sent: the approval request is void: ")
        assert exit_code(result, refused=False) == 2
    # Chromium may tell that it gave the request up before the session's end is noticed.
    assert str(ended.reason).endswith(("its browser session has ended", "the browser gave the request up"))
    assert place.site.posts() == []


@pytest.mark.req("VX-09")
def test_a_session_that_waits_for_a_person_refuses_other_actions_at_once_and_names_the_question(place: Place) -> None:
    place.site.routes["/act"] = "done"
    for html, asking in (
        (FORM, place.action("click", selector="#go")),
        (LOGIN, place.action("type", selector="#pw", value=SECRET)),
    ):
        place.open(html)
        told: list[tuple[str, float]] = []

        def look_meanwhile(place: Place, approval: Approval, told: list[tuple[str, float]] = told) -> None:
            started = time.monotonic()
            result = place.workspace.browse(place.action("snapshot"), place.token)
            told.append((str(result.error), time.monotonic() - started))
            approve(place, approval)

        assert place.do(asking, look_meanwhile).success
        message, seconds = told[0]
        assert place.asked[-1].approval.approval_id in message
        assert "remit approvals show" in message
        assert seconds < SOON


def test_an_action_at_work_is_refused_at_once_under_another_token(place: Place) -> None:
    place.site.routes["/act"] = "done"
    place.open(FORM)
    mine, action = place.token, place.action("click", selector="#go")
    other = place.issue()
    told: list[tuple[str, float]] = []

    def ask_with_another(place: Place, approval: Approval) -> None:
        started = time.monotonic()
        told.append((str(place.workspace.browse(action, other).reason), time.monotonic() - started))
        approve(place, approval)

    assert place.do(action, ask_with_another, token=mine).success
    assert "already running under another token" in told[0][0]
    assert told[0][1] < 5
    assert len(place.site.posts()) == 1


@pytest.mark.req("VX-09")
def test_a_caller_who_joins_an_action_is_notified_of_the_pending_approval_and_not_of_the_used_one(place: Place) -> None:
    slow = threading.Event()
    place.site.routes |= {"/act": redirect(307, "/next"), "/next": Reply(200, b"done", wait_for=slow)}
    place.open(FORM)
    action = place.action("click", selector="#go")
    heard: list[tuple[str, str]] = []
    joined: list[threading.Thread] = []

    def join() -> None:
        hooks = BrowseHooks(
            on_waiting=lambda approval: heard.append((approval.approval_id, approval.state)),
            on_answered=lambda approval: heard.append((approval.approval_id, approval.state)),
        )
        before = len(heard)
        joined.append(
            threading.Thread(target=place.workspace.browser_service.browse, args=(action, place.token, hooks))
        )
        joined[-1].start()
        while len(heard) == before:
            joined[-1].join(0.01)

    def join_the_second(place: Place, approval: Approval) -> None:
        if len(place.asked) == 1:
            approve(place, approval)
            return
        join()
        approve(place, approval)
        place.site.wait_until(lambda site: len(site.posts()) == 2)
        join()
        slow.set()

    assert place.do(action, join_the_second).success
    for thread in joined:
        thread.join()
    second = place.asked[1].approval.approval_id
    assert heard == [(second, "PENDING"), (second, "USED")]
