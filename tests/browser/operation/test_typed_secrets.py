"""What was typed into a field that does not show it: in which places of a request it is masked, and where never."""

import html
import json
import re
import time
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.browser.model.form_fields import Field
from remit.browser.typed_secrets import TypedSecrets
from remit.core.errors import Reason, RefusedError
from remit.masking.field_names import Kind

PAGE = "https://shop.test/login"


def typed(
    *values: str, names: tuple[str, ...] = ("z9",), is_password: bool = True, kind: Kind = Kind.PASSWORD
) -> TypedSecrets:
    """Each into a field of its own."""
    secrets = TypedSecrets()
    for number, value in enumerate(values):
        own = (*names, f"field-{number}") if number else names
        secrets.add(value, kind, is_password=is_password, names=own, page=f"{PAGE}?from=here")
    return secrets


def masked(secrets: TypedSecrets, name: str, value: str, page: str = PAGE, *others: Field) -> str | None:
    return secrets.select_for_request((Field(name, value), *others), page).mask(name, value)


# --- places of a request ---------------------------------------------------------------------------------------------


@pytest.mark.req("VX-08")
@pytest.mark.parametrize("name", ["z9", "user[z9]", "login.z9", "x1", "[0]", "(text)", ""])
def test_a_whole_value_is_masked_under_its_own_name_and_under_one_that_says_nothing(name: str) -> None:
    assert masked(typed("open sesame"), name, "open sesame") == "********"
    assert masked(typed("open sesame"), name, "open%20sesame") == "********"
    assert masked(typed("100%"), name, "100%") == ("********" if "z9" in name else None), "a number is shown"


@pytest.mark.req("VX-16")
@pytest.mark.parametrize("name", ["iban", "to", "recipientAccount", "amount", "host", "redirect_url", "user.name"])
def test_a_name_that_says_who_gets_what_is_shown(name: str) -> None:
    assert masked(typed("evil.example"), name, "evil.example") is None


@pytest.mark.req("VX-16")
@pytest.mark.parametrize("value", ["100", "49.90", "49,90 EUR", "12345678", "2026-11-18", "abc", ""])
def test_numbers_and_short_texts_are_masked_only_where_they_were_typed(value: str) -> None:
    assert masked(typed(value), "x1", value) is None
    assert masked(typed(value), "z9", value) == ("********" if value else None)


@pytest.mark.req("VX-16")
def test_no_part_of_a_value_and_no_price_is_masked() -> None:
    assert masked(typed("sesame"), "x1", "open sesame") is None
    assert masked(typed("sesame"), "x1", "SESAME") is None
    assert masked(typed("49.90", names=("amount",)), "amount", "49.90") is None


@pytest.mark.req("VX-16")
def test_only_a_password_field_that_a_person_approved_is_followed_to_another_name() -> None:
    secrets = typed("open sesame", is_password=False)
    assert masked(secrets, "z9", "open sesame") == "********"
    assert masked(secrets, "x1", "open sesame") is None
    card = typed("4111111111111112", is_password=False, kind=Kind.CARD)
    assert masked(card, "z9", "4111111111111112") == "****-****-****-1112"


@pytest.mark.req("VX-16")
def test_what_is_carried_under_its_own_name_is_not_masked_under_another() -> None:
    secrets = typed("open sesame")
    assert masked(secrets, "x1", "open sesame", PAGE, Field("z9", "open sesame")) is None


@pytest.mark.req("VX-16")
def test_another_page_and_another_site_are_not_masked() -> None:
    secrets = typed("open sesame")
    assert masked(secrets, "z9", "open sesame", "https://shop.test/other") == "********"
    assert masked(secrets, "x1", "open sesame", "https://shop.test/other") is None
    assert masked(secrets, "z9", "open sesame", "https://bank.test/login") is None


@pytest.mark.req("VX-16")
def test_a_typed_value_that_the_agent_also_shows_openly_is_not_a_secret() -> None:
    for text in ("open sesame", "https://shop.test/?q=open+sesame", "https://shop.test/open%20sesame"):
        secrets = typed("open sesame")
        secrets.note_shown_text(text)
        assert masked(secrets, "x1", "open sesame") is None
        assert masked(secrets, "z9", "open sesame") == "********"
        assert secrets.text("say open sesame") == "say open sesame"


@pytest.mark.req("VX-16")
def test_a_field_holds_what_was_typed_last() -> None:
    secrets = typed("open sesame")
    secrets.add("xyzzy 12", Kind.PASSWORD, is_password=True, names=["z9"], page=PAGE)
    assert (masked(secrets, "x1", "open sesame"), masked(secrets, "x1", "xyzzy 12")) == (None, "********")


@pytest.mark.req("VX-08", "VX-16")
def test_headers_that_only_a_browser_sets_are_never_masked() -> None:
    carried = typed("keep-alive").select_for_request((), PAGE)
    for name in ("Connection", "Host", "Content-Type", "Sec-Fetch-Mode", "X-HTTP-Method-Override", "Origin"):
        assert carried.mask_header(name, "keep-alive") is None
    assert carried.mask_header("X-Odd", "keep-alive") == "********"
    assert carried.masked == ["X-Odd"]


@pytest.mark.req("VX-08", "VX-16")
def test_of_an_address_only_values_are_masked() -> None:
    secrets = typed("shop.test", "secret-path", "open sesame", "name")
    assert secrets.mask_url(
        "https://shop.test:8443/secret-path?name=1&q=open%20sesame&to=open+sesame#open%20sesame"
    ) == ("https://shop.test:8443/secret-path?name=1&q=********&to=open+sesame#********")


# --- what a page says ------------------------------------------------------------------------------------------------


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
    "in small letters": in_small_letters,
}


@pytest.mark.req("VX-08")
@given(st.text(st.characters(codec="utf-8"), min_size=4, max_size=30), st.sampled_from(sorted(SPELLINGS)))
def test_every_spelling_of_a_password_is_found_in_what_a_page_says(secret: str, spelling: str) -> None:
    spelled = SPELLINGS[spelling](secret)
    assert typed(secret).mask_tree({"name": f"<{spelled}>"}) == {"name": "<********>"}


@pytest.mark.req("VX-08")
def test_a_snapshot_is_masked_but_for_the_words_of_the_browser_and_the_places_of_its_addresses() -> None:
    secrets = typed("open jane@private.example sesame")
    carried = quote("open jane@private.example sesame")
    tree = {"role": "text", "name": "Open jane@private.example sesame", "children": [{"name": carried, "level": 1}]}
    assert secrets.mask_tree(tree) == {
        "role": "text",
        "name": "********",
        "children": [{"name": "********", "level": 1}],
    }
    told = {"role": "button", "name": "a button", "url": "https://button.test/button?button=1&x=button"}
    assert typed("button").mask_tree(told) == {
        "role": "button",
        "name": "a ********",
        "url": "https://button.test/button?button=1&x=********",
    }


@pytest.mark.req("VX-08", "VX-16")
def test_a_selector_in_an_error_is_masked_in_its_quotes_and_our_words_are_not() -> None:
    selector = "[title='open sesame'] > .open"
    with pytest.raises(RefusedError) as refused, typed("open sesame", "was found").masked_errors(selector):
        raise RefusedError(
            Reason.ELEMENT_MISSING, f"{selector} was found twice", where=selector, next_step="open sesame"
        )
    assert refused.value.as_json() == {
        "reason": "element_missing",
        "what": "[title='********'] > .open was found twice",
        "where": "[title='********'] > .open",
        "next_step": "open sesame",
    }
    assert "sesame" not in repr(refused.value)


def test_short_ones_stand_anywhere_and_long_ones_are_found_in_pieces() -> None:
    assert typed("abc").text("abcdef") == "abcdef"
    long = "".join(chr(97 + number % 26) + str(number) for number in range(400))
    assert set(typed(long).text(quote(long))) == {"*"}
    started = time.process_time()
    secrets = typed("x" * 10_000, "&" * 10_000)
    secrets.mask_tree("x" * 150 + "&" * 1_000_000)
    typed("\\" * 60 + "x", "%25" * 60).text("\\" * 100 + "%25" * 90)
    assert time.process_time() - started < 5
