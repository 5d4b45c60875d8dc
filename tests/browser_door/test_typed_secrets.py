"""What was typed into a field that does not show it is taken out of every text, however it is spelled there."""

import html
import json
import re
import time
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.browser.typed_secrets import TypedSecrets
from remit.errors import Reason, Refused

pytestmark = pytest.mark.req("VX-08")


def in_small_letters(text: str) -> str:
    return re.sub("[A-Z]", lambda capital: capital[0].lower(), text)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "percent": quote,
    "percent, all of it": lambda text: quote(text, safe=""),
    "percent, in small letters": lambda text: in_small_letters(quote(text, safe="")),
    "percent, twice": lambda text: quote(quote(text, safe="")),
    "form": quote_plus,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON, not only ASCII": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "HTML": html.escape,
    "host": in_small_letters,
}


@given(st.text(st.characters(codec="utf-8"), min_size=4, max_size=30), st.sampled_from(sorted(SPELLINGS)))
def test_every_spelling_is_found(secret: str, spelling: str) -> None:
    spelled = SPELLINGS[spelling](secret)
    assert TypedSecrets([secret]).hide(f"<{spelled}>") == "<********>"


def test_what_is_told_of_a_session_is_masked_in_all_its_shapes() -> None:
    secrets = TypedSecrets(["open jane@private.example sesame"])
    carried = quote("open jane@private.example sesame")
    assert secrets.url(f"https://shop.test/{carried}?a={carried}") == "https://shop.test/********?a=********"
    assert secrets.text("say: open jane@private.example sesame!") == "say: ********!"
    tree = {"role": "text", "name": "Open jane@private.example sesame", "children": [{"url": carried, "level": 1}]}
    assert secrets.tree(tree) == {"role": "text", "name": "********", "children": [{"url": "********", "level": 1}]}
    assert TypedSecrets(["button"]).tree({"role": "button", "name": "a button"}) == {
        "role": "button",
        "name": "a ********",
    }


def test_an_error_says_nothing_of_it() -> None:
    with pytest.raises(Refused) as refused, TypedSecrets(["sesame"]).kept_out_of_errors():
        raise Refused(Reason.PAGE_CHANGED, "at /sesame", where="/sesame?x", next_step="Go to /sesame.")
    assert refused.value.as_json() == {
        "reason": "page_changed",
        "what": "at /********",
        "where": "/********?x",
        "next_step": "Go to /********.",
    }
    assert "sesame" not in repr(refused.value)


def test_short_ones_stand_anywhere_and_long_ones_are_found_in_pieces() -> None:
    assert TypedSecrets(["abc"]).hide("abcdef") == "abcdef"
    long = "".join(chr(97 + number % 26) + str(number) for number in range(400))
    hidden = TypedSecrets([long]).hide(quote(long))
    assert set(hidden) == {"*"}
    started = time.process_time()
    secrets = TypedSecrets(["x" * 10_000, "&" * 10_000])
    secrets.hide("x" * 150 + "&" * 1_000_000)
    TypedSecrets(["\\" * 60 + "x", "%25" * 60]).hide("\\" * 100 + "%25" * 90)
    assert time.process_time() - started < 2
