"""How the Finder reads: one form of a text for all machines, and its words.

Characters are judged by Unicode 3.2, which every Python carries beside its own version: so a text reads the same under
each of them. What was added to Unicode later parts words, and stands for no letter. Folding is Python's own; what it
does to a character is fixed for ever once that character is assigned.
"""

import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

_FIXED: Final = unicodedata.ucd_3_2_0
MAX_UTTERANCE: Final = 2_000

# After NFKC: full-width signs are plain ones by then. No sign that could belong to a value: + - / @ # = and currencies.
PUNCTUATION: Final = ",.:;!?'\"()<>“”„«»\u2018\u2019。、।؟،؛「」"

_BLANKS: Final = frozenset("\t\n\r")
_JOINERS: Final = frozenset("\u200c\u200d")  # Persian and Hindi are spelled with them; they part no word
# Nothing that a person can see: hidden text, changed direction, characters of nobody.
_UNREADABLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
# The same, of those that Unicode 3.2 took for blanks or letters, or did not know yet: bidirectional isolates, invisible
# operators, fillers, and all of the plane for tags and variation selectors.
_INVISIBLE: Final = (
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x180B, 0x180F),
    (0x200B, 0x200B),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0xE0000, 0xE0FFF),
)

_WITHOUT_SPACES: Final = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),
    (0x3400, 0x9FFF),  # Han
    (0xF900, 0xFAFF),
    (0x20000, 0x2FA1F),
)


class Reading(NamedTuple):
    """A text in its one form, and folded; `origin` gives the place in `text` of each folded character, and one past."""

    text: str
    folded: str
    origin: tuple[int, ...]


class TextToken(NamedTuple):
    """A piece of a reading's text with its place: what stands between blanks, or a word."""

    start: int
    end: int
    text: str


def is_readable(text: str) -> bool:
    """Whether a person sees all of it: no control or format character but tabs, line ends and the two joiners."""
    return all(char in _BLANKS or char in _JOINERS or not _is_invisible(char) for char in text)


def read(text: str) -> Reading:
    """NFKC, decimal digits of every script as 0 to 9, each blank as one space."""
    plain = "".join(map(_plain, _FIXED.normalize("NFKC", text)))
    plain = " ".join(plain.split(" ")) if "  " not in plain else " ".join(filter(None, plain.split(" ")))
    plain = plain.strip(" ")
    folded: list[str] = []
    origin: list[int] = []
    for index, char in enumerate(plain):
        for each in fold(char):
            folded.append(each)
            origin.append(index)
    return Reading(plain, "".join(folded), (*origin, len(plain)))


def fold(text: str) -> str:
    return "".join(char.casefold() if _FIXED.category(char) != "Cn" else char for char in text if char not in _JOINERS)


def split_words(folded: str) -> tuple[str, ...]:
    """Runs of letters; where a script has no spaces between words, pairs of neighbours instead."""
    return tuple(word for _, run in _runs(folded) for _, word in _cut(run))


def locate_words(reading: Reading) -> tuple[TextToken, ...]:
    """The words of a reading with their places in its text."""
    return tuple(
        TextToken(reading.origin[start + at], reading.origin[start + at + len(word) - 1] + 1, word)
        for start, run in _runs(reading.folded)
        for at, word in _cut(run)
    )


def is_without_spaces(char: str) -> bool:
    number = ord(char)
    return any(low <= number <= high for low, high in _WITHOUT_SPACES)


def tokens(reading: Reading) -> tuple[TextToken, ...]:
    """The values that a text may hold stand here; scripts without spaces end one, or `退款A-17` would be a single."""
    found: list[TextToken] = []
    start = 0
    text = reading.text
    for index in range(len(text) + 1):
        if index == len(text) or text[index] == " " or is_without_spaces(text[index]):
            token = _bare(text, start, index)
            if token is not None:
                found.append(token)
            start = index + 1
    return tuple(found)


def _bare(text: str, start: int, end: int) -> TextToken | None:
    while start < end and text[start] in PUNCTUATION:
        start += 1
    while end > start and text[end - 1] in PUNCTUATION:
        end -= 1
    return TextToken(start, end, text[start:end]) if start < end else None


def _is_invisible(char: str) -> bool:
    number = ord(char)
    return _FIXED.category(char) in _UNREADABLE or any(low <= number <= high for low, high in _INVISIBLE)


def _plain(char: str) -> str:
    if char in _BLANKS or _FIXED.category(char) == "Zs":
        return " "
    if _FIXED.category(char) == "Nd":
        return str(_FIXED.decimal(char))
    return char


def is_letter(char: str) -> bool:
    return _FIXED.category(char)[0] in "LM"


def _runs(folded: str) -> Iterator[tuple[int, str]]:
    """Letters that stand together, of one manner of writing, each run with its place."""
    start = 0
    for index in range(len(folded) + 1):
        is_inside = index < len(folded) and is_letter(folded[index])
        continues = is_inside and (
            start == index or is_without_spaces(folded[index - 1]) == is_without_spaces(folded[index])
        )
        if continues:
            continue
        if start < index:
            yield start, folded[start:index]
        start = index if is_inside else index + 1


def _cut(run: str) -> tuple[tuple[int, str], ...]:
    if not is_without_spaces(run[0]) or len(run) == 1:
        return ((0, run),)
    return tuple((index, run[index : index + 2]) for index in range(len(run) - 1))
