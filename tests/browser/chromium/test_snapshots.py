"""What an agent reads of a page, the references it may use, and what no snapshot and no picture shows."""

import base64
from collections.abc import Sequence

import pytest

from remit.browser.chromium.types import Element
from remit.core.errors import Reason, RefusedError
from tests.browser.chromium.conftest import Stage
from tests.browser.chromium.snapshot_tree import names_of, node_of, nodes_of, ref_of
from tests.support.patience import SOON


@pytest.mark.req("VX-05")
def test_the_tree_has_roles_names_values_and_references(stage: Stage) -> None:
    stage.show(
        "<title>Shop</title><h1>Tea<b> </b></h1><p>Green <b>or</b> black</p>"
        "<div><div><label>Amount <input value=3 name=n></label></div></div>"
        "<input type=checkbox checked aria-label=Gift><select aria-label=Size><option>S<option selected>L</select>"
        "<button disabled>Buy</button><a href='/x?page=2&token=abc123def456ghi'>More</a>"
    )
    tree = stage.run(stage.session.snapshot())
    assert (tree["role"], tree["name"]) == ("document", "Shop")
    assert node_of(tree, "Tea")["role"] == "heading"
    assert {"Green", "or", "black"} <= set(names_of(tree)), "no blanks at either end"
    assert node_of(tree, "Amount")["value"] == "3"
    assert node_of(tree, "Gift")["checked"] is True
    assert node_of(tree, "Size")["value"] == "L"
    assert node_of(tree, "Buy")["disabled"] is True
    more = node_of(tree, "More")
    assert (more["role"], more["url"]) == ("link", "http://a.test/x?page=2&token=********")


def test_a_reference_can_be_used_and_stays_while_the_element_lives(stage: Stage) -> None:
    stage.show(
        "<button onclick=\"document.title='pressed'\">A</button><button id=b>B</button><script>var n = 0</script>"
    )
    first = stage.run(stage.session.snapshot())
    again = stage.run(stage.session.snapshot(Element("#b")))
    assert (again["role"], again["name"], again["ref"]) == ("button", "B", ref_of(first, "B"))
    stage.run(stage.session.click(Element(ref=ref_of(first, "A"))))
    stage.run(stage.session.wait_for_rest(SOON))
    assert stage.title == "pressed"


@pytest.mark.parametrize(
    "change",
    ["document.querySelector('#x').remove()", "document.querySelector('#x').outerHTML = '<p id=x><b>Gone</b></p>'",
     "location.reload()", "location = '/next'"],
)  # fmt: skip
def test_a_reference_of_an_element_that_is_gone_or_replaced_is_refused(stage: Stage, change: str) -> None:
    stage.show(f'<p id=x><button>Gone</button></p><button id=go onclick="{change}">go</button>')
    ref = ref_of(stage.run(stage.session.snapshot()), "Gone")
    stage.run(stage.session.click(Element("#go")))
    stage.run(stage.session.wait_for_rest(SOON))
    for unknown in (ref, "e99999", "button"):
        with pytest.raises(RefusedError) as refused:
            stage.run(stage.session.click(Element(ref=unknown)))
        assert refused.value.reason is Reason.ELEMENT_MISSING


def test_frames_are_part_of_it_and_their_elements_can_be_used(stage: Stage) -> None:
    inner = "<title>in</title><button id=i onclick=\"this.textContent='pressed ' + location.host\">{}</button>"
    stage.site.put("a.test/same", inner.format("Same") + "<iframe src=http://c.test/deep style='margin:30px'></iframe>")
    stage.site.put("b.test/other", inner.format("Other"))
    stage.site.put("c.test/deep", inner.format("Deep"))
    stage.show(
        "<div style='height:2000px'></div>"
        "<iframe src=/same style='border:7px solid;padding:11px;height:300px'></iframe>"
        "<iframe src=http://b.test/other></iframe><iframe srcdoc='<button>Inline</button>'></iframe>"
    )
    tree = stage.run(stage.session.snapshot())
    for name in ("Same", "Other", "Deep", "Inline"):
        stage.run(stage.session.click(Element(ref=ref_of(tree, name))))
    after = names_of(stage.run(stage.session.snapshot()))
    assert {"pressed a.test", "pressed b.test", "pressed c.test"} <= set(after)
    assert {node["url"] for node in nodes_of(tree) if "url" in node} == {
        "http://a.test/same", "http://b.test/other", "http://c.test/deep", "about:srcdoc",
    }  # fmt: skip


def test_a_selector_sees_neither_into_frames_nor_into_shadow_roots(stage: Stage) -> None:
    stage.show("<iframe srcdoc='<button id=x>In</button>'></iframe><div id=h></div>"
               "<script>h.attachShadow({mode:'open'}).innerHTML='<button id=x>Open</button>'</script>")  # fmt: skip
    with pytest.raises(RefusedError, match="no element of the page matches"):
        stage.run(stage.session.click(Element("#x")))


@pytest.mark.parametrize("mode", ["open", "closed"])
def test_elements_in_shadow_roots_are_used_by_reference(stage: Stage, mode: str) -> None:
    stage.show(
        f"<div id=h><b slot=s>slotted</b></div><script>const r = h.attachShadow({{mode:'{mode}'}});"
        "r.innerHTML = '<form action=/take><input aria-label=Field name=f><button>In</button></form><slot name=s>';"
        "</script>"
    )
    tree = stage.run(stage.session.snapshot())
    stage.run(stage.session.type(Element(ref=ref_of(tree, "Field")), "typed"))
    seen = stage.run(stage.session.describe(Element(ref=ref_of(tree, "In"))))
    assert seen.form is not None
    assert (seen.submits, seen.form.action) == (True, "http://a.test/take")
    stage.run(stage.session.click(Element(ref=ref_of(tree, "In"))))
    stage.run(stage.session.wait_for_rest(SOON))
    assert stage.session.url == "http://a.test/take?f=typed"


def test_a_frame_that_is_covered_or_turned_is_not_pressed(stage: Stage) -> None:
    stage.site.put("b.test/f", "<button>In</button>")
    for page, problem in (
        ("<iframe src=http://b.test/f></iframe><div style='position:fixed;inset:0'></div>", "covered"),
        ("<iframe src=http://b.test/f style='transform:scale(0.5)'></iframe>", "scaled or rotated"),
    ):
        stage.show(page)
        ref = ref_of(stage.run(stage.session.snapshot()), "In")
        with pytest.raises(RefusedError, match=problem):
            stage.run(stage.session.click(Element(ref=ref)))


SECRETS = (
    "<input type=password aria-label=One value=hunter2secret>"
    "<input name=card_number aria-label=Two value=4111111111111111>"
    "<input autocomplete='section-a cc-csc' aria-label=Three value=98765>"
    "<input aria-label=Four value=4111111111111111>"
    "<input aria-label=Five value=plainwords>"
    "<input aria-label=Six value=ada@example.com><p contenteditable>write to ada@example.com</p>"
)


@pytest.mark.req("VX-08")
def test_no_snapshot_shows_what_stands_in_a_secret_field(stage: Stage) -> None:
    stage.show(SECRETS)
    tree = stage.run(stage.session.snapshot())
    told = repr(tree)
    assert not [secret for secret in ("hunter2secret", "4111", "98765", "\u2022") if secret in told]
    assert node_of(tree, "Five")["value"] == "plainwords"


@pytest.mark.req("VX-08")
def test_no_picture_shows_what_stands_in_a_secret_field(stage: Stage) -> None:
    style = (
        "<style>*{margin:0;border:0;padding:0}input,p{position:absolute;left:0;width:300px;height:40px;background:#0f0}"
    )
    tops = "".join(f"input:nth-of-type({n}){{top:{n * 100}px}}" for n in range(1, 7)) + "p{top:700px}"
    stage.site.put(
        "b.test/f", "<style>body{margin:0}input{width:100px;height:40px}</style><input type=password value=x>"
    )
    stage.show(
        f"{style}{tops}</style>{SECRETS}"
        "<iframe src=http://b.test/f style='position:absolute;left:600px;top:300px;border:0'></iframe>"
        "<div id=h></div><script>h.attachShadow({mode: 'open'}).innerHTML ="
        " '<input type=password style=\"position:absolute;left:600px;top:500px;width:100px;height:40px\">'</script>"
    )
    picture = stage.run(stage.session.screenshot())
    colours = stage.run(_colours(stage, picture, [(250, n * 100 + 20) for n in range(1, 8)] + [(650, 320), (650, 520)]))
    dark = [48, 48, 48]
    assert colours == [dark, dark, dark, dark, [0, 255, 0], dark, dark, dark, dark]


def test_an_outline_is_in_the_picture_and_not_in_the_page(stage: Stage) -> None:
    stage.show("<body style='margin:0'><button id=b style='position:absolute;left:100px;top:100px'>B</button>"
               "<script>new MutationObserver(() => { document.title = 'seen' })"
               ".observe(document, {subtree: true, childList: true, attributes: true})</script>")  # fmt: skip
    before = stage.run(stage.session.content_hash())
    outline = stage.run(stage.session.describe(Element("#b"))).outline
    picture = stage.run(stage.session.screenshot(outline=outline))
    assert stage.run(_colours(stage, picture, [(97, 110), (50, 50)])) == [[224, 0, 0], [255, 255, 255]]
    assert stage.run(stage.session.content_hash()) == before


async def _colours(stage: Stage, picture: bytes, places: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Read by Chromium itself, in a page of its own."""
    code = """async ([picture, places]) => {
      const bytes = Uint8Array.from(atob(picture), (letter) => letter.charCodeAt(0));
      const image = await createImageBitmap(new Blob([bytes]));
      const brush = new OffscreenCanvas(image.width, image.height).getContext("2d");
      brush.drawImage(image, 0, 0);
      return places.map(([x, y]) => Array.from(brush.getImageData(x, y, 1, 1).data).slice(0, 3));
    }"""
    page = stage.session._page  # noqa: SLF001 - as good as any other
    colours: list[list[int]] = await page.evaluate(code, [base64.b64encode(picture).decode(), [*map(list, places)]])
    return colours
