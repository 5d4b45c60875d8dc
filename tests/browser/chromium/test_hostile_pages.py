"""Pages that lie, cover, trap, open, load, print and loop."""

import asyncio

import pytest
from playwright.async_api import Mouse

from remit.browser.chromium.types import Element
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from tests.browser.chromium.conftest import Stage, limit_calls, until
from tests.browser.chromium.snapshot_tree import names_of, ref_of
from tests.support.patience import SOON

LIES = """<script>
const lie = () => 'LIE';
for (const [proto, names] of [[Element.prototype, ['getAttribute','matches','getBoundingClientRect','hasAttribute']],
    [Document.prototype, ['querySelectorAll','elementFromPoint']]])
  for (const name of names) proto[name] = lie;
for (const name of ['action','method','elements'])
  Object.defineProperty(HTMLFormElement.prototype, name, {get: () => 'https://good.test/' });
Object.defineProperty(HTMLInputElement.prototype, 'type', {get: () => 'text'});
Object.defineProperty(Element.prototype, 'outerHTML', {get: () => '<html></html>'});
Object.defineProperty(Node.prototype, 'isConnected', {get: () => true});
Array.prototype.includes = () => true; Array.from = () => []; JSON.stringify = lie; Reflect.apply = lie;
Object.getOwnPropertyDescriptor = () => ({get: lie, set: lie}); window.innerWidth = 1;
</script>"""


@pytest.fixture
def form() -> str:
    return (
        "<form action=http://evil.test/take method=post>"
        "<input type=password id=pw name=pw><button id=b>Go</button></form>"
    )


def test_a_page_that_overrides_everything_does_not_change_what_is_seen(stage: Stage, form: str) -> None:
    stage.show(LIES + form)
    seen = stage.run(stage.session.describe(Element("#b")))
    assert seen.form == ("POST", "http://evil.test/take", "", ("pw",))
    assert seen.submits
    assert stage.run(stage.session.describe(Element("#pw"))).is_password
    first = stage.run(stage.session.content_hash())
    stage.show(f"{LIES}{form}<p>more</p>")
    assert stage.run(stage.session.content_hash()) != first


def test_fields_named_like_properties_do_not_hide_them(stage: Stage) -> None:
    names = ("action", "method", "elements", "getAttribute", "target", "parentNode", "isConnected", "localName",
             "ownerDocument", "getRootNode", "innerText", "nodeType", "requestSubmit")  # fmt: skip
    fields = "".join(f"<input name={name} value=https://good.test/>" for name in names)
    images = "".join(f"<img name={name} src=''>" for name in ("querySelectorAll", "elementFromPoint", "body", "URL"))
    stage.show(f"{images}<a id=remit></a><form id=f action=/take method=post>{fields}<button id=b>Go</button></form>")
    seen = stage.run(stage.session.describe(Element("#b")))
    assert seen.form is not None
    assert (seen.form.method, seen.form.action, seen.form.fields) == ("POST", "http://a.test/take", names)
    stage.run(stage.session.submit(Element("#f")))
    assert stage.run(stage.session.wait_for_rest(SOON))
    assert (stage.site.asked[-1].method, stage.site.asked[-1].url) == ("POST", "http://a.test/take")


@pytest.mark.parametrize(
    "selector",
    ["text=Pay", "xpath=//button", "//button", "css=button >> nth=0", "button >> visible=true", "_react=Pay",
     "button:has-text('Pay')", ":text('Pay')", "button:visible", "role=button", "data-testid=b", "[", "", "button,,a"],
)  # fmt: skip
def test_only_css_is_a_selector(stage: Stage, selector: str) -> None:
    stage.show("<button data-testid=b>Pay</button>")
    with pytest.raises(RefusedError, match="is not a CSS selector") as refused:
        stage.run(stage.session.click(Element(selector)))
    assert refused.value.reason is Reason.ELEMENT_MISSING


@pytest.mark.parametrize(
    "body, problem",
    [
        ("<p>none</p>", "no element of the page matches"),
        ("<button class=b>1</button><button class=b>2</button>", "2 elements of the page match"),
        ("<button class=b style='display:none'>x</button>", "is not visible"),
        ("<button class=b style='visibility:hidden'>x</button>", "is not visible"),
        ("<button class=b style='opacity:0'>x</button>", "is not visible"),
        ("<button class=b disabled>x</button>", "is disabled"),
        ("<fieldset disabled><button class=b>x</button></fieldset>", "is disabled"),
        ("<button class=b style='position:absolute;left:-900px'>x</button>", "cannot be scrolled into view"),
        ("<button class=b style='width:0;height:0;padding:0;border:0'></button>", "cannot be scrolled into view"),
        ("<button class=b>x</button><div id=lid style='position:fixed;inset:0;opacity:0'></div>", "covered by <div id"),
        ("<button class=b style='pointer-events:none'>x</button>", "is covered by"),
    ],
)  # fmt: skip
def test_what_cannot_be_pressed_by_a_person_is_refused(stage: Stage, body: str, problem: str) -> None:
    stage.show(body)
    for act in (stage.session.describe, stage.session.click, stage.session.submit):
        with pytest.raises(RefusedError, match=problem) as refused:
            stage.run(act(Element(".b")))
        assert refused.value.reason is Reason.ELEMENT_MISSING


def test_what_comes_under_the_pointer_at_the_last_moment_gets_no_click(stage: Stage) -> None:
    stage.show(
        "<button id=b>Safe</button><form action=/pay method=post><button id=pay style='display:none;position:fixed;"
        "inset:0;width:100%;height:100%'>Pay</button></form>"
        "<script>addEventListener('pointerdown', () => { pay.style.display = 'block' }, true)</script>"
    )
    stage.run(stage.session.click(Element("#b")))
    assert stage.session.has_pressed
    stage.run(stage.session.wait_for_rest(SOON))
    assert [asked for asked in stage.site.asked if asked.method == "POST"] == []


def test_a_button_that_comes_between_the_last_look_and_the_press_is_not_pressed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.show(
        "<button id=b>Safe</button><form action=/pay method=post><button id=pay style='display:none;position:fixed;"
        "inset:0;width:100%;height:100%'>Pay</button></form>"
    )
    down, page = Mouse.down, stage.session._page  # noqa: SLF001 - what the page's own timer could do in time

    async def too_late(mouse: Mouse) -> None:
        await page.evaluate("pay.style.display = 'block'")
        await down(mouse)

    monkeypatch.setattr(Mouse, "down", too_late)
    with pytest.raises(EnvironmentFailureError, match=r"pressed once .* <button id=.pay.> was in the way"):
        stage.run(stage.session.click(Element("#b")))
    stage.run(stage.session.wait_for_rest(SOON))
    assert [asked for asked in stage.site.asked if asked.method == "POST"] == []


def test_an_overlay_that_comes_with_the_pointer_is_seen(stage: Stage) -> None:
    stage.show(
        "<button id=b onmouseover=\"lid.style.display='block'\">Safe</button>"
        "<div id=lid style='display:none;position:fixed;inset:0'>"
    )
    with pytest.raises(RefusedError, match=r"covered by <div id=.lid.>|was not hit"):
        stage.run(stage.session.click(Element("#b")))


def test_dialogs_are_answered_no_and_noted(stage: Stage) -> None:
    stage.show("<button id=b onclick=\"alert('a'); document.title = confirm('sure?') + '/' + prompt('how much?')\">x")
    stage.run(stage.session.click(Element("#b")))
    stage.run(stage.session.wait_for_rest(SOON))
    assert stage.title == "false/null"
    noted = [(noted.kind, noted.what) for noted in stage.session.events]
    assert noted == [("alert", "a"), ("confirm", "sure?"), ("prompt", "how much?")]


def test_a_page_cannot_keep_the_session_from_leaving(stage: Stage) -> None:
    stage.show("<button id=b>x</button><script>onbeforeunload = (e) => { e.preventDefault(); return 'stay' }</script>")
    stage.run(stage.session.click(Element("#b")))
    stage.site.put("a.test/next", "<title>next</title>")
    stage.run(stage.session.navigate("http://a.test/next", 5))
    assert stage.title == "next"
    assert [noted.kind for noted in stage.session.events] == ["beforeunload"]


def test_windows_are_closed_and_noted_and_the_page_stays_the_target(stage: Stage) -> None:
    stage.show(
        "<button id=b onclick=\"for (let i = 0; i < 3; i++) window.open('http://b.test/pop' + i)\">x</button>"
        "<a id=a href=/blank target=_blank>blank</a>"
    )
    for selector, tried in (("#b", 3), ("#a", 4)):
        stage.run(stage.session.click(Element(selector)))
        stage.run(stage.session.wait_for_rest(SOON))
        assert [noted.kind for noted in stage.session.events] == ["popup"] * tried  # when the click is over, not later
    assert stage.session.url == "http://a.test/"
    stage.run(until(lambda: len(stage.session._context.pages) == 1))  # noqa: SLF001 - that no other page is left


def test_a_download_comes_to_nothing(stage: Stage) -> None:
    stage.site.put("a.test/evil.sh", b"#!/bin/sh", "application/octet-stream")
    stage.show("<a id=a href=/evil.sh download>get</a><script>setTimeout(() => a.click(), 10)</script>")
    stage.run(until(lambda: bool(stage.session.events)))
    assert [noted.kind for noted in stage.session.events] == ["download"]
    with pytest.raises(EnvironmentFailureError, match=r"Download is starting|ERR_ABORTED"):
        stage.run(stage.session.navigate("http://a.test/evil.sh", 5))
    assert stage.session.url == "http://a.test/"


def test_a_file_chooser_gets_no_file_and_printing_nothing(stage: Stage) -> None:
    stage.show("<input type=file id=f><button id=b onclick=\"print(); document.title='on'\">x</button>")
    stage.run(stage.session.click(Element("#f")))
    stage.run(until(lambda: bool(stage.session.events)))
    stage.run(stage.session.click(Element("#b")))
    stage.run(stage.session.wait_for_rest(SOON))
    assert [noted.kind for noted in stage.session.events] == ["file_chooser"]
    assert stage.title == "on"


def test_nothing_is_done_at_an_address_without_a_host(stage: Stage) -> None:
    stage.show(
        "<button id=b onclick=\"location = window.URL.createObjectURL(new Blob(['<button id=b>x</button>'],"
        " {type: 'text/html'}))\">x</button>"
    )
    stage.run(stage.session.click(Element("#b")))
    stage.run(stage.session.wait_for_rest(SOON))
    assert stage.session.url.startswith("blob:")
    for look in (stage.session.snapshot(), stage.session.screenshot(), stage.session.click(Element("#b"))):
        with pytest.raises(RefusedError) as refused:
            stage.run(look)
        assert refused.value.reason is Reason.CONSTRAINT_VIOLATED


def test_history_tricks_change_the_address_within_the_site_only(stage: Stage) -> None:
    stage.show(
        "<button id=b onclick=\"history.pushState(0,'','/bank'); try { history.pushState(0,'','http://b.test/') }"
        ' catch (e) { document.title = e.name }">x</button>'
    )
    stage.run(stage.session.click(Element("#b")))
    stage.run(stage.session.wait_for_rest(SOON))
    assert (stage.session.url, stage.title) == ("http://a.test/bank", "SecurityError")


def test_an_endless_loop_times_out_and_the_session_can_be_closed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.show("<button id=b onclick='setTimeout(() => { for (;;); }, 0)'>x</button>")
    stage.run(stage.session.click(Element("#b")))
    limit_calls(monkeypatch, 1.0)
    assert not stage.run(stage.session.wait_for_rest(0.3))
    with pytest.raises(EnvironmentFailureError) as late:
        stage.run(stage.session.snapshot())
    assert late.value.reason is Reason.TIMED_OUT
    stage.run(asyncio.wait_for(stage.session.close(), 10))
    with pytest.raises(EnvironmentFailureError, match="has died or was closed"):
        stage.run(stage.session.snapshot())


def test_an_endless_series_of_dialogs_times_out_too(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.show("<button id=b onclick=\"setTimeout(() => { for (;;) alert('again') }, 0)\">x</button>")
    stage.run(stage.session.click(Element("#b")))
    stage.run(until(lambda: bool(stage.session.events)))
    limit_calls(monkeypatch, 1.0)
    with pytest.raises(EnvironmentFailureError) as late:
        stage.run(stage.session.snapshot())
    assert late.value.reason is Reason.TIMED_OUT
    assert 1 < len(stage.session.events) <= 100
    stage.run(asyncio.wait_for(stage.session.close(), 10))


def test_a_page_whose_process_dies_is_reported(stage: Stage) -> None:
    stage.show("<p>x</p>")
    stage.run(_crash(stage))
    stage.run(until(lambda: bool(stage.session.events)))
    assert stage.session.events[0].kind == "crash"
    with pytest.raises(EnvironmentFailureError, match="died"):
        stage.run(stage.session.snapshot())


def test_fifty_thousand_elements_make_a_bounded_snapshot(stage: Stage) -> None:
    stage.show(
        "<button id=b>Last</button><script>const d = document.createElement('div');"
        "d.innerHTML = '<p><b>x</b></p>'.repeat(25000); document.body.prepend(d)</script>"
    )
    tree = stage.run(stage.session.snapshot())
    assert tree["truncated"] is True
    assert names_of(tree) == ["", "Last"]
    stage.run(stage.session.click(Element("#b")))


def test_a_long_page_is_cut_and_says_so(stage: Stage) -> None:
    stage.show("<script>document.write('<p>x</p>'.repeat(4000))</script>")
    tree = stage.run(stage.session.snapshot())
    assert tree["truncated"] is True
    assert len(names_of(tree)) == 3000


def test_a_deep_page_is_read(stage: Stage) -> None:
    stage.show("<script>document.write('<ul><li>'.repeat(400) + '<button>deep</button>')</script>")
    tree = stage.run(stage.session.snapshot())
    assert ref_of(tree, "deep")


async def _crash(stage: Stage) -> None:
    crashing = asyncio.ensure_future(stage.session._documents.main.send("Page.crash"))  # noqa: SLF001
    await asyncio.wait({crashing}, timeout=2)
    crashing.cancel()
    await asyncio.gather(crashing, return_exceptions=True)
