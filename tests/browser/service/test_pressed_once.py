"""A press that the page received is never repeated, and never told as an element that was not found.

Each page counts its presses in its title, and the site's own log is the evidence of what was sent. The widgets behave
like a Select of MUI and like Select and DropdownMenu of Radix: they open on pointerdown or mousedown, and what they
open covers the button, or takes its place, before the mouse button is up again.
"""

import json
from typing import Any

import pytest
from playwright.async_api import Mouse

from remit.browser.chromium import session
from remit.browser.chromium.documents import FoundElement, call_on_element
from remit.core.errors import Reason, RefusedError
from tests.browser.service.browser_workspace import Place, approve, deny

pytestmark = [pytest.mark.req("VX-17")]

REPORT = """<script>
let presses = 0;
document.addEventListener('pointerdown', (event) => { document.title = 'pressed ' + ++presses; }, true);
</script>"""
LID = "<div id=lid style='display:none;position:fixed;inset:0;background:#0003'><p id=item>Item</p></div>"
COVER = "lid.style.display = 'block'"
BUTTON = "<button id=go type=button style='position:absolute;left:40px;top:40px'>Choose</button>"


def page(script: str, *, button: str = BUTTON) -> str:
    return f"{REPORT}{button}{LID}<script>{script}</script>"


WIDGETS = {
    "opens on mousedown, like MUI": f"go.onmousedown = () => {{ {COVER} }}",
    "opens on pointerdown, like Radix": f"go.onpointerdown = (e) => {{ e.preventDefault(); {COVER} }}",
    "opens on pointerdown of the document": f"document.addEventListener('pointerdown', () => {{ {COVER} }}, true)",
    "opens and takes the pointer": (
        f"go.onpointerdown = (e) => {{ go.setPointerCapture(e.pointerId); {COVER}; lid.tabIndex = 0; lid.focus() }}"
    ),
    "makes the page below deaf, like Radix": (
        f"go.onpointerdown = () => {{ {COVER}; document.body.style.pointerEvents = 'none';"
        " lid.style.pointerEvents = 'auto' }"
    ),
    "goes away on mousedown": "go.onmousedown = () => go.remove()",
    "goes away on pointerdown": "go.onpointerdown = () => go.remove()",
    "is made again on pointerdown": "go.onpointerdown = () => go.replaceWith(go.cloneNode(true))",
    "moves away under the pointer": "go.onmousedown = () => { go.style.left = '600px' }",
    "is disabled by the press": "go.onmousedown = () => { go.disabled = true }",
    "gives the focus to another": "go.onmousedown = () => { lid.tabIndex = 0; lid.style.display='block'; lid.focus() }",
}


def presses(place: Place, path: str = "/") -> str:
    result = place.do(place.action("snapshot", path))
    assert result.output is not None, result
    return str(result.output["title"])


@pytest.mark.parametrize("widget", WIDGETS)
def test_a_widget_that_changes_under_the_press_is_pressed_once_and_it_succeeds(place: Place, widget: str) -> None:
    place.open(page(WIDGETS[widget]))
    result = place.click()
    assert result.success, result
    assert (presses(place), place.sleeps) == ("pressed 1", [])


def test_the_menu_that_a_press_has_opened_can_be_used_by_the_next_one(place: Place) -> None:
    place.open(
        page(
            WIDGETS["opens on mousedown, like MUI"]
            + "; item.onclick = () => fetch('/act', {method: 'POST', body: 'item'})"
        )
    )
    place.site.routes["/act"] = "done"
    assert place.click().success
    chosen = place.click("#item")
    assert (chosen.success, chosen.sent) == (True, 1)
    assert [seen.body for seen in place.site.posts()] == [b"item"]


@pytest.mark.parametrize("event", ["pointerdown", "mousedown", "mouseup"])
def test_a_press_that_posts_and_covers_posts_once(place: Place, event: str) -> None:
    place.site.routes["/act"] = "done"
    place.open(page(f"go.on{event} = () => {{ fetch('/act', {{method: 'POST', body: 'a'}}); {COVER} }}"))
    result = place.click()
    assert (result.success, result.sent, place.sleeps) == (True, 1, [])
    assert [seen.body for seen in place.site.posts()] == [b"a"]
    assert len(place.asked) == 1


def test_a_press_that_posts_twice_is_one_press_and_counts_both(place: Place) -> None:
    place.site.routes["/act"] = "done"
    post = "fetch('/act', {method: 'POST', body: event.type})"
    place.open(page(f"go.onpointerdown = (event) => {{ {post}; {COVER} }}; go.onmousedown = (event) => {{ {post} }}"))
    result = place.click()
    assert (result.success, result.sent) == (True, 2)
    assert sorted(seen.body for seen in place.site.posts()) == [b"mousedown", b"pointerdown"]
    assert presses(place) == "pressed 1"


def test_a_denied_post_of_a_covered_press_is_not_tried_again(place: Place) -> None:
    place.open(page(f"go.onmousedown = () => {{ fetch('/act', {{method: 'POST', body: 'a'}}); {COVER} }}"))
    result = place.click(answer=deny)
    assert result.error is not None
    assert (result.error.code, result.sent, len(place.asked)) == ("APPROVAL_DENIED", 0, 1)
    assert (place.site.posts(), place.sleeps) == ([], [])


def test_what_is_under_the_pointer_before_the_press_gets_nothing_and_it_is_not_called_missing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page hears of the press on its window before Remit's guard does. So it may have acted on it."""
    place.site.routes["/act"] = "done"
    place.open(
        "<script>addEventListener('pointerdown', () => fetch('/act', {method: 'POST', body: 'heard'}), true)</script>"
        "<button id=go type=button>Safe</button><form action=/pay method=post>"
        "<button id=pay style='display:none;position:fixed;inset:0;width:100%;height:100%'>Pay</button></form>"
    )
    down = Mouse.down

    tab = place.workspace.browser_service._driver._sessions.tabs[-1]  # type: ignore[union-attr]  # noqa: SLF001

    async def too_late(mouse: Mouse) -> None:
        await tab.page._page.evaluate("pay.style.display = 'block'")  # noqa: SLF001 - as a timer of the page could
        await down(mouse)

    monkeypatch.setattr(Mouse, "down", too_late)
    result = place.click()
    assert result.error is not None
    assert result.error.code == "KERNEL_ERROR", "that it was not found would say that nothing was pressed"
    assert "pressed once" in (result.reason or "")
    assert (result.sent, place.sleeps) == (1, [])
    assert [(seen.path, seen.body) for seen in place.site.posts()] == [("/act", b"heard")]


def test_an_element_that_is_covered_before_the_press_is_not_found_and_nothing_was_pressed(place: Place) -> None:
    place.open(page(COVER))
    result = place.click()
    assert result.error is not None
    assert (result.error.code, result.sent) == ("ELEMENT_NOT_FOUND", 0)
    assert len(place.sleeps) == 3
    assert presses(place) == ""


@pytest.mark.parametrize("kind", ["submit", "purchase"])
def test_a_submit_button_that_is_covered_by_its_press_submits_once(place: Place, kind: str) -> None:
    place.issue(max_purchase={"value": 10, "currency": "EUR"})
    place.site.routes["/act"] = "<title>done</title>"
    place.open(
        f"{REPORT}<form action=/act method=post><input name=total value=5><button id=go>Pay</button></form>{LID}"
        f"<script>go.onmousedown = () => {{ {COVER}; go.form.requestSubmit() }}</script>"
    )
    more: dict[str, Any] = {"amount": {"value": 5, "currency": "EUR"}} if kind == "purchase" else {}
    result = place.do(place.action(kind, selector="#go", **more))
    assert (result.success, result.sent) == (True, 1), result
    assert len(place.site.posts()) == 1


def test_what_was_typed_is_not_typed_again(place: Place) -> None:
    """A field that changes what it gets: the page has received it, whatever became of it."""
    place.site.routes["/act"] = "done"
    place.open("<input id=go type=number oninput=\"fetch('/act', {method: 'POST', body: 'typed'})\">")
    result = place.do(place.action("type", selector="#go", value="no number"))
    assert result.error is not None
    assert (result.error.code, result.sent, place.sleeps) == ("KERNEL_ERROR", 1, [])
    assert len(place.site.posts()) == 1


def test_an_option_that_a_list_does_not_have_is_not_found_and_nothing_was_done(place: Place) -> None:
    place.open("<select id=go onchange=\"fetch('/act', {method: 'POST'})\"><option>a</option></select>")
    result = place.do(place.action("type", selector="#go", value="b"))
    assert result.error is not None
    assert (result.error.code, result.sent) == ("ELEMENT_NOT_FOUND", 0)
    assert place.site.posts() == []


def test_a_document_that_goes_while_it_is_submitted_is_not_submitted_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused(ELEMENT_MISSING) after the page may have received it: neither tried again nor told as that."""
    place.site.routes["/act"] = "done"
    place.open("<form id=go action=/act method=post><input name=a value=1></form>")

    async def gone(found: FoundElement, method: str, argument: Any = None) -> Any:
        told = await call_on_element(found, method, argument)
        if method == "submit":
            raise RefusedError(Reason.ELEMENT_MISSING, "the page changed while Remit read it")
        return told

    monkeypatch.setattr(session, "call_on_element", gone)
    result = place.do(place.action("submit", selector="#go"))
    assert result.error is not None
    assert (result.error.code, result.sent, place.sleeps) == ("KERNEL_ERROR", 1, [])
    assert len(place.site.posts()) == 1


FORM = (
    "const f = document.createElement('form'); f.method = 'post'; f.action = '/act';"
    " document.body.append(f); f.submit()"
)
GOES_AT_ONCE = {
    "a fetch that outlives its page": ("fetch('/act', {method: 'POST', keepalive: true}); location = '/next'", "/next"),
    "a beacon": ("navigator.sendBeacon('/act', 'a'); location = '/next'", "/next"),
    "a form": (FORM, "/act"),
    "nothing": ("location = '/next'", "/next"),
}


@pytest.mark.parametrize("sends", GOES_AT_ONCE)
def test_a_click_after_which_the_page_navigates_at_once_is_pressed_once_and_counted_correctly(
    place: Place, sends: str
) -> None:
    script, lands_at = GOES_AT_ONCE[sends]
    sent = int(sends != "nothing")
    place.site.routes |= {"/act": "done", "/next": "hello"}
    place.open(page(f"go.onmousedown = () => {{ {script} }}"))
    result = place.click()
    assert (result.success, result.sent, place.sleeps) == (True, sent, []), result
    assert (len(place.site.posts()), len(place.asked)) == (sent, sent)
    output: Any = result.output
    assert output["url"].endswith(lands_at)
    assert [held["by_itself"] for held in output["held"]] == [False] * sent


def test_requests_that_a_page_sends_while_it_navigates_are_counted_as_the_site_counts_them(place: Place) -> None:
    """The browser gives such a request up when the page is gone. Whether a person was faster is not certain."""
    place.site.routes |= {"/act": "done", "/next": "hello"}
    place.open(page("go.onmousedown = () => { fetch('/act', {method: 'POST'}).catch(() => 0); location = '/next' }"))
    action = place.action("click", selector="#go")
    first = place.do(action)
    assert first.sent == place.do(action).sent == len(place.site.posts())
    assert place.sleeps == []


def test_what_a_click_sends_from_a_window_that_it_opens_is_held_and_counts_with_the_click(place: Place) -> None:
    """The window is closed at once. What outlives it is held, and it may come when the click has ended."""
    place.site.routes["/act"] = "done"
    place.open(page("go.onclick = () => open('').navigator.sendBeacon('/act', 'from the window')"))
    for answer, arrives in ((deny, []), (approve, [b"from the window"])):
        place.forget()
        action = place.action("click", selector="#go")
        place.do(action, answer)
        question = place.asked[0].approval if place.asked else place.next_question()
        assert question.action_id == json.loads(action)["action_id"]
        assert "by itself" not in question.preview.estimated_effect
        if not place.asked:
            assert place.site.posts() == []
            answer(place, question)
        place.workspace.approvals.wait(question.approval_id, 20)
        if arrives:
            place.site.wait_until(lambda site: site.posts())
        assert place.do(action).sent == len(arrives)
        assert [seen.body for seen in place.site.posts()] == arrives


def test_the_page_of_a_window_that_a_click_opens_is_not_asked_for_and_so_sends_nothing(place: Place) -> None:
    place.site.routes["/window"] = "<script>fetch('/act', {method: 'POST'})</script>"
    place.open(page("go.onclick = () => open('/window')"))
    result = place.click()
    assert (result.success, result.sent, place.asked, place.site.log) == (True, 0, [], [])
    output: Any = result.output
    assert [noted["kind"] for noted in output["noted"]] == ["popup"]
