"""The document of a lexicon: enough to read every answer again, closed, and what the shipped one promises."""

import copy
import json
import unicodedata
from typing import Any

import pytest

from remit.core.canonical import digest
from remit.core.errors import Reason, RefusedError
from remit.goals.confirmation.parser import Lexicon, load_lexicon

LEXICON = load_lexicon()
LANGUAGES = LEXICON.languages()

# How the letters of a script begin in Unicode's own names for them.
LETTERS = {
    "Latn": ("LATIN", "MODIFIER LETTER TURNED COMMA"), "Cyrl": ("CYRILLIC",), "Grek": ("GREEK",), "Arab": ("ARABIC",),
    "Hebr": ("HEBREW",), "Deva": ("DEVANAGARI",), "Beng": ("BENGALI",), "Guru": ("GURMUKHI",), "Gujr": ("GUJARATI",),
    "Taml": ("TAMIL",), "Telu": ("TELUGU",), "Knda": ("KANNADA",), "Mlym": ("MALAYALAM",), "Sinh": ("SINHALA",),
    "Thai": ("THAI",), "Laoo": ("LAO",), "Ethi": ("ETHIOPIC",), "Armn": ("ARMENIAN",), "Geor": ("GEORGIAN",),
    "Hans": ("CJK",), "Hant": ("CJK",), "Jpan": ("CJK", "HIRAGANA", "KATAKANA"), "Kore": ("HANGUL",),
}  # fmt: skip


def _spoiled(path: str, value: Any) -> dict[str, Any]:
    tree = LEXICON.document()
    *way, last = path.split("/")
    place: Any = tree
    for step in way:
        place = place[step]
    place[last] = value
    return tree


@pytest.mark.req("AC-05")
def test_a_lexicon_from_its_own_document_reads_every_answer_the_same() -> None:
    kept = json.loads(json.dumps(LEXICON.document()))
    again = Lexicon.from_document(kept)
    assert again.ref == LEXICON.ref
    assert again.document() == LEXICON.document()
    answers = {word for entry in LANGUAGES.values() for word in (entry.yes, entry.no, *entry.ambiguous[:3])}
    for tag in [*LANGUAGES, "sr", "zh", "zh-TW", "tlh"]:
        for answer in answers | {"", "yes?", "\u200byes"}:
            assert again.parse(tag, answer) == LEXICON.parse(tag, answer)


@pytest.mark.req("AC-05")
def test_the_ref_names_version_and_digest_and_changes_with_a_single_word() -> None:
    assert LEXICON.ref == f"confirm-lexicon-1@{digest(LEXICON.document())}"
    assert len(LEXICON.ref) <= 200
    assert LEXICON.ref.isprintable()
    entry = LANGUAGES["en"]
    fewer = Lexicon.from_document(_spoiled("languages/en/ambiguous", list(entry.ambiguous[1:])))
    later = Lexicon.from_document(_spoiled("version", 2))
    assert len({LEXICON.ref, fewer.ref, later.ref}) == 3
    assert later.ref.startswith("confirm-lexicon-2@sha256:")


def test_an_old_document_still_says_what_it_said() -> None:
    old = Lexicon.from_document(_spoiled("languages/en/affirmative", ["yes", "aye aye"]))
    assert old.parse("en", "aye aye").verdict == "CONFIRMED"
    assert LEXICON.parse("en", "aye aye").verdict == "AMBIGUOUS"
    assert old.parse("en", "confirm").verdict == "AMBIGUOUS"


@pytest.mark.req("AC-05")
def test_a_document_that_contradicts_itself_or_has_another_shape_is_refused() -> None:
    words = list(LANGUAGES["en"].affirmative)
    wrong = [
        _spoiled("rules", 2),
        _spoiled("rules", True),
        _spoiled("version", 0),
        _spoiled("more", 1),
        _spoiled("languages", {}),
        _spoiled("languages/English", LEXICON.document()["languages"]["en"]),
        _spoiled("languages/xx", LEXICON.document()["languages"]["en"]),  # the tag en, a second time
        _spoiled("languages/xx", {**LEXICON.document()["languages"]["en"], "script": "Cyrl"}),
        _spoiled("languages/en-Latn", {**LEXICON.document()["languages"]["en"], "tags": ["en-GB"]}),
        _spoiled("languages/en/tags", []),
        _spoiled("languages/en/folding", "any"),
        _spoiled("languages/en/more", ""),
        _spoiled("languages/en/yes", "aye"),
        _spoiled("languages/en/no", "yes"),
        _spoiled("languages/en/affirmative", []),
    ]
    wrong += [
        _spoiled("languages/en/affirmative", [*words, word])
        for word in (
            "", " ", "Aye", "aye ", "aye  aye", "aye.", "aye\u200b", "a\u0301ye", "𝐚ye", "👍", "no",
            "okay", "yes", "aye\n", "ﬁ",
        )
    ]  # fmt: skip
    for tree in wrong:
        with pytest.raises(RefusedError) as refused:
            Lexicon.from_document(tree)
        assert refused.value.reason is Reason.MALFORMED


def test_a_caller_cannot_change_the_lexicon_through_its_document() -> None:
    before = copy.deepcopy(LEXICON.document())
    LEXICON.document()["languages"]["en"]["affirmative"].append("okay")
    assert LEXICON.document() == before
    assert LEXICON.parse("en", "okay").verdict == "AMBIGUOUS"


@pytest.mark.req("AC-05")
def test_the_shipped_words_are_of_many_languages_and_scripts_and_name_their_sources() -> None:
    assert len(LANGUAGES) >= 30
    assert {entry.script for entry in LANGUAGES.values()} == set(LETTERS)
    assert {key for key, entry in LANGUAGES.items() if entry.direction == "rtl"} == {"ar", "fa", "he", "ur"}
    assert {key for key, entry in LANGUAGES.items() if entry.folding == "turkic"} == {"az", "tr"}
    for key, entry in LANGUAGES.items():
        sourced = {word for source in entry.sources for word in source.words}
        listed = {*entry.affirmative, *entry.refusal, *entry.ambiguous}
        assert {entry.yes, entry.no} <= sourced <= listed, key
        assert {"ok", "okay"} <= set(entry.ambiguous), key


@pytest.mark.req("AC-05")
def test_no_listed_yes_mixes_scripts_or_is_a_single_initial() -> None:
    for key, entry in LANGUAGES.items():
        for word in entry.affirmative:
            letters = [letter for letter in word if unicodedata.category(letter)[0] in "LM"]
            named = [unicodedata.name(letter).startswith(LETTERS[entry.script]) for letter in letters]
            assert all(named), (key, word)
            assert len(word) > 1 or entry.script in {"Hans", "Hant", "Kore"}, (key, word)
