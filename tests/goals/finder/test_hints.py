"""What a user is told beside a packet: why his words did not do, and what he may have meant. Nothing depends on it."""

from typing import Any

import pytest

from remit.core.errors import RefusedError
from remit.goals.catalogue.catalogue import build_catalogue
from remit.goals.confirmation.parser import load_lexicon
from remit.goals.finder.finder import EmbeddedFinder
from remit.goals.finder.suggestions import MOST
from remit.goals.finder.value_errors import NEGATED, SEVERAL, explain_unread_field
from remit.goals.user_messages import confirmation_prompt
from tests.goals.catalogue.simulations import ALL, AMOUNT, LOOKUP, MOVE, REFUND, catalogue_of, changed, simulation
from tests.goals.finder.fixed_questions import FINDER, asked, found

FIELDS: dict[str, Any] = {
    "order": {"type": "integer", "question": "Which order?", "maximum": 99},
    "amount": AMOUNT,
    "colour": {"type": "choice", "question": "Which colour?", "choices": ["red", "blue"]},
    "name": {"type": "identifier", "question": "Which name?", "pattern": "[A-Z]-[0-9]+"},
    "word": {"type": "identifier", "question": "Which word?"},
    "day": {"type": "date", "question": "When?"},
    "pin": {"type": "integer", "question": "Which number?"},
}
MANY = changed(LOOKUP, fields=FIELDS, phrases={"en": ["show order {order}", "paint {word}", "name {name} to {word}"]})
NUMBER = "is not a whole number of at most 15 digits"


def why(field: str, text: str, *, answers: bool = True, **more: Any) -> str:
    return explain_unread_field(simulation(MANY), field, "en-GB", text, answers=answers, **more)


def test_the_hint_says_why_an_answer_does_not_fit() -> None:
    for field, text, told in (
        ("order", "17b", f"“17b” {NUMBER}"),
        ("order", "170.", "“170.” must be 99 or less"),
        ("order", "order=1x", f"“1x” {NUMBER}"),
        ("order", "order=1 order=2", SEVERAL),
        ("order", "17 or 18", SEVERAL),
        ("amount", "12", "“12” is not an amount with its currency, such as 12.50 EUR"),
        ("amount", "12 GBP", "“12 GBP”: the currency must be EUR or USD"),
        ("colour", "purple!", "“purple!” is not one of: red, blue"),
        ("name", "A-b", "“A-b” does not match the field's pattern: [A-Z]-[0-9]+"),
        ("day", "2026-02-30", "“2026-02-30” must be a date, such as 2026-01-31"),
        ("order", "17", ""),
        ("nothing", "17", ""),
        ("order", "a\u202eb", ""),
    ):
        assert why(field, text) == told, text


def test_the_hint_for_a_new_goal_is_only_about_words_at_the_place_of_the_field() -> None:
    for field, text, told in (
        ("order", "show order 17b", f"“17b” {NUMBER}"),
        ("order", "show order 170", "“170” must be 99 or less"),
        ("order", "show order", ""),
        ("order", "show order to me", ""),  # `to` is a word of a phrase, and no value
        ("word", "paint never", "“never” may also be a negation"),
        ("name", "name x7 to y", "“x7” does not match the field's pattern: [A-Z]-[0-9]+"),
    ):
        assert why(field, text, answers=False) == told, text
    assert NEGATED.startswith("this ")
    both = "show order 7, and 8 of them"
    assert why("order", both, answers=False) == SEVERAL
    assert why("order", both, answers=False, known={"pin": 8}) == ""


def test_no_secret_comes_back_and_nothing_long() -> None:
    for field, text in (
        ("pin", "hunter2"),
        ("pin", "pin=hunter2"),
        ("order", "my password is hunter2"),
        ("order", "order=x password=hunter2"),
        ("order", "hunter2 " * 10),
    ):
        assert why(field, text) == f"The value that you gave {NUMBER}", text


def test_the_nearest_are_found_in_every_language_and_shown_in_the_language_of_the_user() -> None:
    def near(text: str, language: str) -> list[tuple[str, str | None]]:
        return [(each.simulation_id, each.phrase) for each in FINDER.nearest(language, text, catalogue_of())]

    refund = "refund-order"
    assert near("erstate Bestellung 7", "en") == [(refund, "refund order {order_id}")]
    assert near("refund the order A-17", "de-AT")[0] == (refund, "erstatte Bestellung {order_id}")
    assert near("退款", "fr") == [(refund, None)]
    assert near("shwo order", "en")[0] == ("look-up-order", "show order {order_id}")
    for far in ("paint the fence", "the", "what is the weather", "", "a\u202eb", "refund " * 400):
        assert near(far, "en") == [], far
    (only,) = FINDER.nearest("fr", "erstatte Bestellung", catalogue_of())
    assert (only.title, only.languages) == ("Refund an order", ("de", "en", "zh"))


def test_only_what_is_active_in_the_catalogue_is_shown_and_at_most_a_few() -> None:
    text = "erstatte Bestellung A-17"
    assert FINDER.nearest("en", text, catalogue_of(active=["look-up-order"])) == ()
    assert FINDER.nearest("en", text, build_catalogue("globex", [simulation(tree) for tree in ALL], {})) == ()
    crowd = [
        changed(MOVE, id=f"file-{number}", phrases={"en": [f"file the report {{name}} {word}"]})
        for number, word in enumerate(("here", "there", "above", "below", "behind"))
    ]
    shown = [each.simulation_id for each in FINDER.nearest("de", "file the report", catalogue_of(*reversed(crowd)))]
    assert shown == ["file-0", "file-1", "file-2"]
    assert len(shown) == MOST


def test_what_is_shown_is_in_no_packet() -> None:
    finder, fresh = EmbeddedFinder(), EmbeddedFinder()
    text = "erstatte Bestellung A-17"
    before = finder.find_with_proof(asked(text), catalogue_of())
    assert finder.nearest("en", text, catalogue_of())
    assert (
        finder.find_with_proof(asked(text), catalogue_of())
        == before
        == fresh.find_with_proof(asked(text), catalogue_of())
    )
    assert before[1]["considered"] == []


def test_questions_and_titles_may_stand_in_several_languages() -> None:
    question = {"en": "Which order?", "de": "Welche Bestellung?", "zh-Hant": "哪個訂單？"}
    spoken = changed(REFUND, title={"fr": "Rembourser", "ar": "ردّ"})
    spoken["fields"]["order_id"]["question"] = question
    catalogue = catalogue_of(spoken)
    phrases = {"en": "refund order", "de": "erstatte bestellung", "de-AT": "erstatte bestellung"}
    for language, text in phrases.items():
        packet = found(text, language, catalogue=catalogue)
        assert packet["question"] == question[language[:2]], packet
    made = simulation(spoken)
    for language, told in (
        ("zh-Hant-TW", "哪個訂單？"),
        ("zh", "Which order?"),
        ("DE", "Welche Bestellung?"),
        ("x", "Which order?"),
    ):
        assert made.question_in("order_id", language) == told, language
    assert [made.title_in(tag) for tag in ("fr-CA", "ar", "de", "en")] == ["Rembourser", "ردّ", "ردّ", "ردّ"]
    assert simulation(REFUND).title_in("fr") == "Refund an order"
    (entry,) = catalogue.entries
    assert confirmation_prompt(entry, {}, load_lexicon(), "fr").text.startswith("Rembourser (refund-order 1).")
    assert simulation(made.tree()).own_digest == made.own_digest
    # A plain text is what it was: whoever promoted a definition need not do so again.
    assert simulation(REFUND).own_digest == "sha256:72563707680dda5a825b9bdf4de7118578a12e079d578f0e809954f0d4934ac2"


def test_words_by_language_are_closed_too() -> None:
    for title, told in (
        ({}, "at least 1"),
        ({"en": "One", "EN": "Two"}, "twice, in two spellings"),
        ({"en": ""}, "must not be empty"),
        ({"no tag!": "One"}, "pattern"),
        ({"en": {"x": "y"}}, "must be a string"),
        (7, "must be a string"),
        (["en"], "must be a string"),
    ):
        with pytest.raises(RefusedError, match=told) as refused:
            simulation(changed(REFUND, title=title))
        assert "title" in refused.value.where, title
