"""Every word of every language, in all the ways to write it; and everything near to a yes that is none."""

import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remit.contracts.goals.lexicon import LanguageEntry
from remit.goals.confirmation.parser import load_lexicon

LEXICON = load_lexicon()
LANGUAGES = LEXICON.languages()

# Zero-width, bidirectional, and others that nobody sees: two spaces that are none, fillers, a variation selector.
UNSEEN = (
    "\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2063\u2066\u2067\u2068\u2069\ufeff\u00ad"
    "\u061c\u180e\u034f\u115f\u1160\u3164\uffa0\u2800\ufe0e\ufe0f\U000e0001\U000e0079\x00\x07\x1b\x7f\x85\u2028\u2029"
    "\ue000\U000f0000\ud800\u0378\u1680"
)
TAKEN_OFF = (
    " \u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000\t\r\n.!。！।۔։።．｡"
)
LOOK_ALIKES = {
    "a": "аαɑ𝐚ⓐᵃ", "b": "ƅЬ𝐛", "c": "сϲⅽ", "d": "ԁⅾ", "e": "еє℮ⓔ", "f": "ſƒ", "g": "ɡց", "h": "һ", "i": "іɩⅰı",
    "j": "јϳ", "k": "кκ", "l": "ӏⅼ1", "m": "мⅿ", "n": "ոп", "o": "оοօ0", "p": "рρ", "r": "г", "s": "ѕꜱ𝐬",
    "t": "тτ", "u": "υս", "v": "νѵⅴ", "w": "ԝ", "x": "хⅹ", "y": "уγ𝐲", "z": "ᴢ", "á": "а", "ä": "ӓ", "í": "ί",
    "ı": "i", "ə": "әǝ", "а": "aα", "д": "ԁg", "к": "kĸ", "и": "u", "і": "i", "н": "h", "т": "t", "о": "o",
    "е": "e", "р": "p", "с": "c", "м": "m", "α": "aа", "ι": "iі", "ν": "vѵ", "ο": "oо", "ε": "є", "ω": "w",
    "ի": "h", "ո": "n", "ա": "ɯ", "օ": "o", "კ": "3", "ن": "ں", "ل": "I", "ا": "١", "ه": "ہة", "ی": "يى",
    "ک": "ك", "ہ": "ه", "כ": "ב", "ן": "ו", "ह": "ड", "ா": "π", "ஆ": "அ", "ใ": "ไ", "是": "昰⽇", "确": "硧",
    "は": "ば", "い": "ぃレ", "예": "에", "네": "내", "係": "系",
}  # fmt: skip
AROUND = (
    "{} but", "{}, but", "but {}", "{}?", "{} ?", "{}？", "{}؟", "{} ؟", "{}⸮", "{};", "{}\u037e", "{}՞", "{}፧",
    "{}?!", "{}!?", "not {}", "not {}.", "{} not", "{} {}", "{}, {}", "{}{}", "{}/no", "{}, no", "no, {}",
    "{} no", "maybe {}", "okay {}", '"{}"', "'{}'", "“{}”", "„{}“", "«{}»", "「{}」", "({})", "[{}]", "`{}`",
    "*{}*", "_{}_", "<{}>", "{},", "{}:", "{}-", "-{}", "{}..", "{}...", "{}…", "{}!!", ".{}", "!{}", "¡{}!",
    "{}~", "{}👍", "👍{}", "{} 👍", "{} ✅", "{} 🙄", "{}1", "1{}", "{}\n{}", "{}\nno", "{}\r\nno", "{}\tno",
    "{}\x00", "{}\u0330", "\u0301{}", "{}\u0338", "{}\u20e0",
)  # fmt: skip


def _affirmative() -> Iterator[tuple[str, LanguageEntry, str]]:
    for key, entry in LANGUAGES.items():
        for word in entry.affirmative:
            yield key, entry, word


def _tag(key: str, entry: LanguageEntry) -> str:
    """A tag that leads to these words: the key itself, or the language with its script."""
    return key if "-" in key else entry.tags[0]


def _upper(entry: LanguageEntry, word: str) -> str:
    if entry.folding == "turkic":
        word = word.replace("i", "\u0130")
    return word.upper()


def _written(entry: LanguageEntry, word: str) -> Iterator[str]:
    """A word in all the ways that must not matter."""
    upper = _upper(entry, word)
    yield from (word, upper, upper[0] + word[1:])
    yield from (word + ".", word + "!", word + "。", word + "！", word + "।", word + "۔", word + " !", word + "\u202f!")
    yield from (f"  {word}\t", f"{word}\n", f"{word}\r\n", f"\u3000{word}\u00a0", word.replace(" ", "  \u00a0"))
    yield from (unicodedata.normalize("NFD", word), unicodedata.normalize("NFD", upper) + "!")
    if word.isascii():
        yield "".join("\u3000" if letter == " " else chr(ord(letter) + 0xFEE0) for letter in word)


@pytest.mark.req("AC-05")
def test_every_affirmative_word_confirms_in_each_spelling_and_is_named_in_its_usual_one() -> None:
    seen = 0
    for key, entry, word in _affirmative():
        for written in _written(entry, word):
            found = LEXICON.parse(_tag(key, entry), written)
            assert (found.verdict, found.token, found.language) == ("CONFIRMED", word, key), ascii(written)
            seen += 1
    assert seen > 4_000


@pytest.mark.req("AC-05")
def test_an_affirmative_word_confirms_only_in_languages_that_list_it() -> None:
    elsewhere = 0
    for _, _, word in _affirmative():
        for key, entry in LANGUAGES.items():
            confirmed = LEXICON.parse(_tag(key, entry), word).verdict == "CONFIRMED"
            assert confirmed == (word in entry.affirmative), (word, key)
            elsewhere += not confirmed
    assert elsewhere > 15_000


@pytest.mark.req("AC-05")
def test_every_no_refuses_and_every_doubtful_word_is_ambiguous() -> None:
    for key, entry in LANGUAGES.items():
        for words, verdict in ((entry.refusal, "REFUSED"), (entry.ambiguous, "AMBIGUOUS")):
            for word in words:
                for written in _written(entry, word):
                    found = LEXICON.parse(_tag(key, entry), written)
                    assert found.verdict == verdict, (key, ascii(written))
                    assert found.token == (word if verdict == "REFUSED" else None)
                assert LEXICON.parse(_tag(key, entry), word + "?").verdict == "AMBIGUOUS", (key, word)


@pytest.mark.req("AC-05")
def test_an_invisible_character_anywhere_in_an_affirmative_word_makes_it_ambiguous() -> None:
    for key, entry, word in _affirmative():
        for at in range(len(word) + 1):
            for unseen in UNSEEN:
                answer = word[:at] + unseen + word[at:]
                assert LEXICON.parse(_tag(key, entry), answer).verdict == "AMBIGUOUS", (key, ascii(answer))


@pytest.mark.req("AC-05")
def test_a_letter_that_only_looks_like_one_of_a_yes_makes_it_ambiguous() -> None:
    swapped = set()
    for key, entry, word in _affirmative():
        for at, letter in enumerate(word):
            for other in LOOK_ALIKES.get(letter, ""):
                answer = word[:at] + other + word[at + 1 :]
                for written in (answer, answer + "!"):
                    assert LEXICON.parse(_tag(key, entry), written).verdict != "CONFIRMED", (key, ascii(written))
                swapped.add(key)
    assert len(swapped) > 50


@pytest.mark.req("AC-05")
def test_anything_before_after_or_around_a_yes_makes_it_something_else() -> None:
    for key, entry, word in _affirmative():
        for frame in AROUND:
            answer = frame.replace("{}", word)
            assert LEXICON.parse(_tag(key, entry), answer).verdict != "CONFIRMED", (key, ascii(answer))


@pytest.mark.req("AC-05")
@settings(max_examples=200)
@given(st.sampled_from(sorted(LANGUAGES)), st.text(max_size=210))
def test_no_other_text_is_ever_a_yes(key: str, text: str) -> None:
    entry = LANGUAGES[key]
    found = LEXICON.parse(_tag(key, entry), text)
    if found.verdict == "CONFIRMED":
        assert any(word.casefold() in unicodedata.normalize("NFKC", text).casefold() for word in entry.affirmative)
    assert found.why in {
        "a word of confirmation",
        "a word of refusal",
        "a word that may mean more than one thing",
        "the answer is not a listed word of the language",
        "the answer is empty",
        "the answer is too long",
        "the answer has a character that is not of writing: invisible, a symbol, or in disguise",
    }


@pytest.mark.req("AC-05")
@settings(max_examples=200)
@given(st.data())
def test_a_yes_with_one_character_changed_added_or_lost_is_a_yes_only_if_it_is_listed_so(data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(LANGUAGES)))
    entry = LANGUAGES[key]
    word = data.draw(st.sampled_from(entry.affirmative))
    at = data.draw(st.integers(0, len(word)))
    more = data.draw(st.characters(exclude_characters=TAKEN_OFF) | st.just(""))
    answer = word[:at] + more + word[at + data.draw(st.integers(0, 1)) :]
    expected = {unicodedata.normalize("NFKC", listed).casefold() for listed in entry.affirmative}
    if entry.folding == "default" and unicodedata.normalize("NFKC", answer.casefold()) not in expected:
        assert LEXICON.parse(_tag(key, entry), answer).verdict != "CONFIRMED", ascii(answer)
