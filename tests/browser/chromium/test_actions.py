"""What an action does in a page: open it, press, type, submit, picture, hash."""

import struct
from decimal import Decimal

import pytest

from remit.browser.chromium.types import Element
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from tests.browser.chromium.conftest import Stage
from tests.browser.chromium.snapshot_tree import ref_of
from tests.support.patience import SOON

FORM = """<title>Order</title><form method=post action=/order>
<label>Item <input name=item value=old></label><label>Note <textarea name=note></textarea></label>
<select name=size aria-label=Size><option value=s>Small<option value=l>Large</select>
<input type=date name=day aria-label=Day><p contenteditable id=free>free</p>
<button id=buy name=go value=yes>Buy</button><button id=other formaction=/else formmethod=get>Else</button></form>"""


@pytest.mark.req("VX-05")
def test_navigation_tells_where_it_landed(stage: Stage) -> None:
    stage.site.put("a.test/", "<title>Home</title>")
    landed = stage.run(stage.session.navigate("http://a.test/", 10))
    assert landed == ("http://a.test/", 200, True, "")
    assert (stage.session.url, stage.title) == ("http://a.test/", "Home")
    assert stage.run(stage.session.navigate("http://a.test/none", 10)).status == 404


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "data:text/html,hi", "blob:http://a.test/1", "javascript:alert(1)", "chrome://version",
     "view-source:http://a.test/", "about:blank", "ftp://a.test/", "java\nscript:alert(1)", " http://a.test/", ""],
)  # fmt: skip
def test_only_web_addresses_are_opened(stage: Stage, url: str) -> None:
    with pytest.raises(RefusedError) as refused:
        stage.run(stage.session.navigate(url, 10))
    assert refused.value.reason is Reason.CONSTRAINT_VIOLATED
    assert stage.site.asked == []


def test_a_page_that_the_server_does_not_answer_in_time_is_reported_as_timed_out(stage: Stage) -> None:
    stage.site.held.add("a.test/slow")
    with pytest.raises(EnvironmentFailureError) as late:
        stage.run(stage.session.navigate("http://a.test/slow", 0.5))
    assert late.value.reason is Reason.TIMED_OUT
    stage.show("<title>next</title>")
    assert stage.title == "next"


def test_a_part_that_keeps_loading_does_not_keep_the_page(stage: Stage) -> None:
    stage.site.held.add("a.test/slow.png")
    stage.site.put("a.test/", "<title>Home</title><img src=/slow.png>")
    landed = stage.run(stage.session.navigate("http://a.test/", 1.5))
    assert (stage.title, landed.loaded) == ("Home", False)


def test_a_page_that_is_not_allowed_to_navigate_to_another_host_counts_as_loaded(stage: Stage) -> None:
    stage.site.empty.add("b.test/")
    stage.site.put("a.test/", "<title>Home</title><script>location = 'http://b.test/'</script><p>never read")
    landed = stage.run(stage.session.navigate("http://a.test/", 10))
    assert (landed.url, landed.loaded, stage.title) == ("http://a.test/", True, "Home")
    assert list(stage.session.requested_pages) == ["http://a.test/", "http://b.test/"]
    assert stage.run(stage.session.wait_for_rest(SOON))


def test_a_host_that_refuses_is_reported(stage: Stage) -> None:
    with pytest.raises(EnvironmentFailureError, match="ERR_TUNNEL_CONNECTION_FAILED"):
        stage.run(stage.session.navigate("https://a.test/", 10))


@pytest.mark.req("VX-05")
def test_typing_replaces_what_was_there_and_a_click_submits_it(stage: Stage) -> None:
    stage.show(FORM)
    session = stage.session
    for selector, text in (
        ("[name=item]", "Tea & <milk>\u00e9"),
        ("textarea", "two\nlines"),
        ("select", "Large"),
        ("[type=date]", "2026-11-16"),
    ):
        stage.run(session.type(Element(selector), text))
    stage.run(session.click(Element("#buy")))
    assert stage.run(session.wait_for_rest(SOON))
    assert session.url == "http://a.test/order"
    sent = stage.site.asked[-1]
    assert (sent.method, sent.url) == ("POST", "http://a.test/order")
    assert sent.body == b"item=Tea+%26+%3Cmilk%3E%C3%A9&note=two%0D%0Alines&size=l&day=2026-11-16&go=yes"


def test_an_empty_text_empties_the_field_and_free_text_can_be_written(stage: Stage) -> None:
    stage.show(FORM)
    stage.run(stage.session.type(Element("[name=item]"), ""))
    stage.run(stage.session.type(Element("#free"), "words"))
    stage.run(stage.session.submit(Element("[name=item]")))
    stage.run(stage.session.wait_for_rest(SOON))
    assert stage.site.asked[-1].body.startswith(b"item=&note=")


def test_what_takes_no_text_is_refused(stage: Stage) -> None:
    stage.show(f"{FORM}<input readonly id=fixed value=1><input type=checkbox id=box><input type=file id=file>")
    for selector in ("#fixed", "#box", "#file", "#buy", "title", "select"):
        with pytest.raises(RefusedError) as refused:
            stage.run(stage.session.type(Element(selector), "x"))
        assert refused.value.reason is Reason.ELEMENT_MISSING


@pytest.mark.req("VX-06")
def test_a_description_tells_what_a_click_would_submit(stage: Stage) -> None:
    stage.show(
        f"{FORM}<button id=lone>Lone</button><form id=f2 action='/two?x=1'></form>"
        "<button form=f2 id=far><span id=in>Far</span></button><label id=label for=far>Press</label>"
        "<a id=link href=/next>Next</a><form id=f3 action=/p><input type=password name=pw id=pw></form>"
        "<form method=dialog><button type=reset id=reset>R</button><input type=image alt=Img id=image></form>"
    )
    described = {
        name: stage.run(stage.session.describe(Element(f"#{name}")))
        for name in ("buy", "other", "lone", "far", "in", "label", "link", "pw", "reset", "image")
    }
    buy, other = described["buy"], described["other"]
    assert (buy.role, buy.name, buy.submits, buy.tag) == ("button", "Buy", True, "button")
    assert buy.form == ("POST", "http://a.test/order", "", ("item", "note", "size", "day", "go"))
    assert other.form is not None
    assert (other.form.method, other.form.action, other.submits) == ("GET", "http://a.test/else", True)
    assert (described["lone"].submits, described["lone"].form) == (False, None)
    for name in ("far", "in", "label"):
        form = described[name].form
        assert form is not None
        assert (described[name].submits, form.action) == (True, "http://a.test/two?x=1")
    assert (described["link"].submits, described["link"].href) == (False, "http://a.test/next")
    assert (described["pw"].is_password, described["pw"].is_secret, described["pw"].submits) == (True, True, False)
    assert [described[name].submits for name in ("reset", "image")] == [False, True]


def test_submit_of_a_field_sends_its_form_and_no_button(stage: Stage) -> None:
    stage.show(FORM)
    stage.run(stage.session.submit(Element("[name=item]")))
    stage.run(stage.session.wait_for_rest(SOON))
    assert b"go=yes" not in stage.site.asked[-1].body
    assert stage.run(stage.session.navigation_reason("http://a.test/order")) == "formSubmissionPost"
    stage.show("<p id=p>no form</p>")
    with pytest.raises(RefusedError, match="belongs to no form"):
        stage.run(stage.session.submit(Element("#p")))


@pytest.mark.parametrize(
    "body, url, reason",
    [
        ("<form action=/get><input name=q value=1><button id=x>", "http://a.test/get?q=1", "formSubmissionGet"),
        ("<a id=x href=/get>go</a>", "http://a.test/get", "anchorClick"),
        ("<button id=x onclick=\"location='/get'\">go</button>", "http://a.test/get", "scriptInitiated"),
        ("<form action=/get target=new><input name=q value=1><button id=x>", "http://a.test/get?q=1",
         "formSubmissionGet"),
        # The browser takes the user out of the address, and the fragment.
        ("<form action='http://me:pw@a.test/get#p'><input name=q value=1><button id=x>", "http://a.test/get?q=1",
         "formSubmissionGet"),
        # It may ask for http by https.
        ("<form action=/get><input name=q value=1><button id=x>", "https://a.test/get?q=1", "formSubmissionGet"),
        # Then it does not say whether it is a form.
        ("<form action=/get target=_blank><input name=q value=1><button id=x>", "http://a.test/get?q=1", "newWindow"),
        ("<a id=x href=/get target=_blank>go</a>", "http://a.test/get", "newWindow"),
    ],
)  # fmt: skip
def test_the_reason_of_a_navigation_is_known_while_its_request_is_held(
    stage: Stage, body: str, url: str, reason: str
) -> None:
    stage.show(body)
    stage.site.held.add("a.test/get")
    stage.run(stage.session.click(Element("#x")))
    assert stage.run(stage.session.navigation_reason(url)) == reason
    assert stage.run(stage.session.navigation_reason("http://a.test/other")) is None


@pytest.mark.parametrize(
    "href", ["#part", "mailto:a@b.test", "javascript:void(0)", "/empty", "/file", "about:blank", "tel:1"]
)
def test_what_leads_nowhere_is_not_waited_for(stage: Stage, href: str) -> None:
    stage.site.put("a.test/file", b"x", "application/octet-stream")
    stage.site.empty.add("a.test/empty")
    stage.show(f"<title>here</title><a id=x href='{href}'>go</a><iframe srcdoc='<a href=/x>in</a>'></iframe>")
    stage.run(stage.session.click(Element("#x")))
    assert stage.run(stage.session.wait_for_rest(SOON))
    assert not stage.session.is_navigating


def test_a_form_in_a_frame_of_another_site_has_its_reason_too(stage: Stage) -> None:
    stage.site.put("b.test/f", "<form action=/get><input name=q value=1><button>Go</button></form>")
    stage.show("<iframe src=http://b.test/f></iframe>")
    ref = ref_of(stage.run(stage.session.snapshot()), "Go")
    stage.run(stage.session.click(Element(ref=ref)))
    assert stage.run(stage.session.navigation_reason("http://b.test/get?q=1")) == "formSubmissionGet"


def test_the_hash_follows_the_page_and_its_frames_and_not_the_fields(stage: Stage) -> None:
    stage.site.put("b.test/f", "<p>one</p>")
    page = "<input id=i><iframe src=http://b.test/f></iframe>"
    stage.show(page)
    first = stage.run(stage.session.content_hash())
    stage.run(stage.session.type(Element("#i"), "secret"))
    assert stage.run(stage.session.content_hash()) == first
    stage.site.put("b.test/f", "<p>two</p>")
    stage.show(page)
    second = stage.run(stage.session.content_hash())
    assert first.startswith("sha256:")
    assert len(first) == 71
    assert second != first


def test_amounts_near_the_form_come_first(stage: Stage) -> None:
    stage.show(
        "<p>Shipping over \u20ac50 is free</p><form><b>Total: 1.234,50 EUR</b><button>Buy</button></form>"
        "<p hidden>$1.00</p>"
    )
    found = stage.run(stage.session.amounts(Element("button")))
    assert [(amount.value, amount.currency) for amount in found if amount.in_form] == [(Decimal("1234.50"), "EUR")]
    assert {(amount.value, amount.currency) for amount in found} == {(Decimal("1234.50"), "EUR"), (Decimal(50), "EUR")}


@pytest.mark.req("VX-05")
def test_a_picture_is_png_of_the_page_or_of_a_part(stage: Stage) -> None:
    stage.show("<body style='margin:0'><div id=part style='width:200px;height:100px;background:#00f'></div>")
    assert _size(stage.run(stage.session.screenshot())) == (1280, 800)
    assert _size(stage.run(stage.session.screenshot(Element("#part")))) == (200, 100)


def _size(picture: bytes) -> tuple[int, int]:
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", picture[16:24])
    return width, height
