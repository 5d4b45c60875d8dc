"""The fixed texts for users: complete, safe, and in the user's own language, or marked as English."""

import json
from importlib.resources import files
from typing import Any, Final

import pytest

from remit.contracts.goals.error_codes import USER_TEXT
from remit.core.errors import UsageError
from remit.core.text import printable
from remit.goals.confirmation.normalise import normalise_answer
from remit.goals.confirmation.parser import load_lexicon
from remit.goals.finder import finder
from remit.goals.messages.catalogue import (
    ENGLISH,
    FINDER_REASONS,
    ONLY_ENGLISH,
    PLACEHOLDERS,
    choose_language,
    is_right_to_left,
    placeholders_of,
    render_text,
    texts_in,
    user_text,
)
from remit.goals.user_messages import ending_text
from remit.services.goals.states import state_of
from tests.goals.goal_office import ARCHIVE, TENANT, Office

MISSING: Final[dict[str, frozenset[str]]] = {}
"""The texts that a language does not have. Users of it read them in English. May only get shorter."""
SAMPLES: Final[dict[str, str | int]] = {
    "back": "undo-it",
    "code": "ODD",
    "count": 7,
    "names": "a, b",
    "place": 2,
    "title": "T",
    "tag": "xx",
    "yes": "YE",
    "no": "NO",
}
LANGUAGES: Final = tuple(load_lexicon().languages())


@pytest.mark.req("AC-05")
def test_every_language_of_the_lexicon_has_every_text_or_is_listed() -> None:
    needed = set(ENGLISH) - ONLY_ENGLISH
    for language in LANGUAGES:
        missing = needed - set(texts_in(language))
        assert missing == MISSING.get(language, frozenset()), language
        assert set(texts_in(language)) - needed <= (ONLY_ENGLISH if language == "en" else set()), language
    folder = files("remit.goals.messages") / "texts"
    shipped = {item.name for item in folder.iterdir()}
    assert shipped <= {f"{language}.json" for language in LANGUAGES} - {"en.json"}


@pytest.mark.req("AC-05")
def test_every_text_has_the_placeholders_of_the_english_one_and_nothing_that_cannot_be_seen() -> None:
    for language in LANGUAGES:
        for name, text in texts_in(language).items():
            where = (language, name)
            assert placeholders_of(text) == placeholders_of(ENGLISH[name]), where
            assert "{" not in text.format(**SAMPLES), where
            assert 0 < len(text) <= 300, where
            # The joiners are letters of Persian, Sinhala and other scripts.
            assert printable(text.replace("\u200c", "").replace("\u200d", "")) == text.replace("\u200c", "").replace(
                "\u200d", ""
            ), where
            assert language == "en" or text != ENGLISH[name], where
    assert {each for text in ENGLISH.values() for each in placeholders_of(text)} == set(PLACEHOLDERS)


@pytest.mark.req("AC-05")
def test_a_question_has_the_words_of_the_lexicon_that_answer_it() -> None:
    for language, entry in load_lexicon().languages().items():
        words = {"yes": entry.yes, "no": entry.no}
        for name in ("PROMPT_ANSWER", "PROMPT_AGAIN"):
            if name in texts_in(language):
                told = render_text(name, language, **words)
                assert told.index(entry.yes) != told.rindex(entry.no), language
        assert load_lexicon().parse(entry.tags[0], entry.yes).verdict == "CONFIRMED"
        assert normalise_answer(entry.no, entry.folding)


def test_each_text_is_in_the_script_of_its_language() -> None:
    """A file under the wrong name would be noticed here."""
    first = {"Arab": 0x0600, "Hebr": 0x0590, "Cyrl": 0x0400, "Grek": 0x0370, "Deva": 0x0900, "Thai": 0x0E00}
    for language, entry in load_lexicon().languages().items():
        start = first.get(entry.script)
        if start is not None:
            for name, text in texts_in(language).items():
                assert any(start <= ord(char) < start + 0x100 for char in text), (language, name)


def test_values_are_typed_and_shown_with_everything_that_is_in_them() -> None:
    assert render_text("PROMPT_CUT", "en", count=7_000) == "(7,000 more characters, not shown)"
    told = render_text("FINDER_REASON_UNKNOWN", "en", code="A\u202eB{yes}")
    assert "A\\u202eB{yes}" in told
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("PROMPT_CUT", {"count": "7"}),
        ("PROMPT_CUT", {"count": True}),
        ("PROMPT_CUT", {}),
        ("PROMPT_UNDO", {"back": "x"}),
        ("PROMPT_ANSWER", {"yes": "yes", "no": 3}),
    ]
    for name, values in wrong:
        with pytest.raises(UsageError):
            render_text(name, "en", **values)


def test_a_text_that_a_language_does_not_have_is_in_english_and_says_so() -> None:
    assert user_text("CONFIRMATION_REFUSED", "en-GB") == (USER_TEXT["CONFIRMATION_REFUSED"], "en")
    for tag in ("tlh", "zh-hakka", "nonsense-", ""):
        assert user_text("CONFIRMATION_REFUSED", tag) == (USER_TEXT["CONFIRMATION_REFUSED"], "en")
    assert user_text("PROMPT_NO_WORDS", "de", tag="tlh").language == "en"
    assert user_text("ODD", "de") == ("", None)
    assert choose_language("de-AT", ("CONFIRMATION_REFUSED",)) == "de"
    assert choose_language("de", ("CONFIRMATION_REFUSED", "PROMPT_NO_WORDS")) == "en"  # one sentence, one language


@pytest.mark.req("AC-05")
def test_the_end_of_a_goal_with_several_steps_is_in_one_language() -> None:
    german, english = user_text("CONFIRMATION_REFUSED", "de"), user_text("CONFIRMATION_REFUSED", "en")
    for ending, name in (("ABORTED_ROLLED_BACK", "ENDED_STEPS_ROLLED_BACK"), ("ABORTED_PARTIAL", "ENDED_STEPS_REMAIN")):
        told = ending_text(ending, ("one", "two"), german, "de")
        assert told == (f"{german.text} {texts_in('de')[name].format(names='one, two')}", "de")
        assert ending_text(ending, ("one",), english, "de").language is None  # two languages: no screen is misled
    assert ending_text("COMPLETED", (), english, "de") == (texts_in("de")["ENDED_COMPLETED"], "de")
    assert ending_text("REFUSED", (), german, "de") == german


@pytest.mark.req("AC-04")
def test_every_reason_of_the_embedded_finder_has_a_text() -> None:
    source = (files("remit.goals.finder") / "finder.py").read_text(encoding="utf-8")
    used = {part.partition('"')[0] for part in source.split('reason_code="')[1:]}
    assert used == FINDER_REASONS
    assert finder.VERSION
    assert set(ENGLISH) >= FINDER_REASONS


@pytest.mark.req("AC-04", "AC-05")
def test_the_user_reads_question_refusal_and_end_in_their_own_language(desk: Office) -> None:
    reply = desk.ask("archiviere die Notiz one", language="de-AT")
    assert reply.outcome.text_language == "de"
    assert reply.outcome.user_visible_text.startswith(f"{ARCHIVE['title']} (archive-note 1): note = one. ")
    assert "„ja“" in reply.outcome.user_visible_text
    again = desk.answer(reply, "okay")
    assert again.outcome.user_visible_text.startswith(render_text("PROMPT_AGAIN", "de", yes="ja", no="nein"))
    done = desk.answer(reply, "ja").outcome
    assert (done.user_visible_text, done.text_language) == (texts_in("de")["SIMULATION_SUCCEEDED"], "de")
    for language in ("he", "zh-TW", "tlh"):
        empty = desk.ask("", language=language).outcome
        assert (empty.reason_code, empty.text_language) == (
            "UTTERANCE_EMPTY",
            choose_language(language, ENGLISH.keys() - ONLY_ENGLISH),
        )
        assert empty.user_visible_text == user_text("UTTERANCE_EMPTY", language).text
    assert is_right_to_left("he")
    assert not is_right_to_left("de")
    assert not is_right_to_left(None)
    asked = desk.ask("archive the note").outcome
    assert (asked.user_visible_text, asked.text_language) == ("Which note?", None)


@pytest.mark.req("AC-04")
def test_a_reason_of_another_finder_gets_a_neutral_sentence_and_never_as_success(desk: Office) -> None:
    goal = desk.ask("don't archive the note one").goal
    packet = goal.sim_finder_packet.tree()
    assert packet["reason_code"] == "REQUEST_NEGATED"
    assert desk.goals.intake(TENANT) == []
    for code in ("OUT_OF_SCOPE", "SIMULATION_SUCCEEDED"):
        tree = {**goal.tree(), "correlation_id": code}
        tree["sim_finder_packet"] = {**packet, "correlation_id": code, "reason_code": code}
        outcome = desk.goals.run(json.dumps(tree).encode())
        assert outcome.user_visible_text == ENGLISH["FINDER_REASON_UNKNOWN"].format(code=code)
        assert state_of(outcome, "REFUSED") == "refused"
