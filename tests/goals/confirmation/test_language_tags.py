"""Which words a language tag leads to; and that one which leads to none lets nobody confirm."""

import pytest

from remit.goals.confirmation.parser import load_lexicon

LEXICON = load_lexicon()

LEADS_TO = {
    "de": "de",
    "DE": "de",
    "de-AT": "de",
    "de-Latn": "de",
    "de-latn-at": "de",
    "de-CH-1996": "de",
    "de-u-co-phonebk": "de",
    "de-AT-x-anything": "de",
    "en-001": "en",
    "pt-BR": "pt",
    "pt": "pt",
    "zh": "zh-Hans",
    "zh-CN": "zh-Hans",
    "zh-SG": "zh-Hans",
    "zh-TW": "zh-Hant",
    "zh-hk": "zh-Hant",
    "zh-Hans-TW": "zh-Hans",
    "zh-Hant-CN": "zh-Hant",
    "zh-cmn-Hant": "zh-Hant",
    "cmn": "zh-Hans",
    "zh-yue": "yue",
    "yue": "yue",
    "sr": "sr-Cyrl",
    "sr-RS": "sr-Cyrl",
    "sr-Latn-RS": "sr-Latn",
    "sr-ME": "sr-Latn",
    "sr-Cyrl-ME": "sr-Cyrl",
    "sh": "sr-Latn",
    "no": "nb",
    "nb-NO": "nb",
    "nn": "nn",
    "iw": "he",
    "in": "id",
    "mo": "ro",
    "tl": "fil",
}
LEADS_NOWHERE = [
    "",
    "-",
    "e",
    "english",
    "de_AT",
    "de-",
    "de--AT",
    "de-Latn-Latn",
    "de-AT-CH",
    "de-u",
    "de\n",
    " de",
    "dе",  # with a Cyrillic letter
    "ｄｅ",
    "x-de",
    "i-default",
    "tlh",
    "und",
    "mul",
    "ger",
    "ru-Latn",  # its words are written in Cyrillic
    "hi-Latn",
    "bs-Cyrl",
    "ja-Latn",
    "zh-Latn",
    "zh-hakka",
    "zh-min-nan",
    "zh-xiang",
    "gsw",
    "de" + "-abcde" * 6,
]


@pytest.mark.req("AC-05")
def test_a_tag_leads_to_the_words_of_its_own_language_and_script() -> None:
    for tag, key in LEADS_TO.items():
        words = LEXICON.find_words(tag)
        assert words is not None, tag
        assert (tag, words.language) == (tag, key)
        assert LEXICON.parse(tag, words.yes).verdict == "CONFIRMED"
        assert LEXICON.parse(tag, words.no).verdict == "REFUSED"


@pytest.mark.req("AC-05")
def test_a_tag_that_leads_nowhere_makes_every_answer_ambiguous_and_names_the_languages_there_are() -> None:
    for tag in LEADS_NOWHERE:
        assert LEXICON.find_words(tag) is None, tag
        for answer in ("yes", "ja", "да", "no", ""):
            found = LEXICON.parse(tag, answer)
            assert (found.verdict, found.token, found.language) == ("AMBIGUOUS", None, ""), (tag, answer)
            assert all(key in found.why for key in LEXICON.languages())


def test_the_words_for_a_prompt_come_with_their_writing_direction() -> None:
    hebrew, japanese = LEXICON.find_words("he-IL"), LEXICON.find_words("ja")
    assert hebrew is not None
    assert japanese is not None
    assert (hebrew.direction, hebrew.yes, hebrew.no, hebrew.own_name) == ("rtl", "כן", "לא", "עברית")
    assert (japanese.direction, japanese.yes, japanese.no, japanese.english_name) == (
        "ltr",
        "はい",
        "いいえ",
        "Japanese",
    )
