"""The Finder's reading of a text: one form of the text on all machines, and its words.

Characters are judged by Unicode 3.2, which every Python has beside its current version. So every Python version reads a
text in the same way. A character that Unicode added later separates words and is not a letter. Case folding is
Python's own. The folding of a character never changes once the character is assigned.
"""

import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

_FIXED: Final = unicodedata.ucd_3_2_0
MAX_UTTERANCE: Final = 2_000

# After NFKC, full-width signs are plain ones. Signs of values are left out: + - / @ # = and currencies.
PUNCTUATION: Final = ",.:;!?'\"()<>“”„«»\u2018\u2019。、।؟،؛「」"

_BLANKS: Final = frozenset("\t\n\r")
_JOINERS: Final = frozenset("\u200c\u200d")  # Persian and Hindi words contain them; they do not separate words
# Categories that a person cannot see: control and format characters, surrogates, private use, separators.
_UNREADABLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
# More such characters, which Unicode 3.2 has as blanks or letters, or does not know: bidirectional isolates, invisible
# operators, fillers, and the whole plane of tags and variation selectors.
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
    """A text in its one form, and folded. `origin` has the place in `text` of each folded character, and the end."""

    text: str
    folded: str
    origin: tuple[int, ...]


class TextToken(NamedTuple):
    """A piece of a reading's text with its place: a word, or the text between two blanks."""

    start: int
    end: int
    text: str


def is_readable(text: str) -> bool:
    """Whether a person sees all of it: it has no control or format characters except tabs, line ends and joiners."""
    return all(char in _BLANKS or char in _JOINERS or not _is_invisible(char) for char in text)


def read(text: str) -> Reading:
    """Read a text: NFKC, decimal digits of every script as 0 to 9, each run of blanks as one space."""
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
    """Split into words: runs of letters, or pairs of neighbours in scripts without spaces between words."""
    return tuple(word for _, run in _runs(folded) for _, word in _cut(run))


def locate_words(reading: Reading) -> tuple[TextToken, ...]:
    """Return the words of a reading with their places in its text."""
    return tuple(
        TextToken(reading.origin[start + at], reading.origin[start + at + len(word) - 1] + 1, word)
        for start, run in _runs(reading.folded)
        for at, word in _cut(run)
    )


def is_without_spaces(char: str) -> bool:
    number = ord(char)
    return any(low <= number <= high for low, high in _WITHOUT_SPACES)


def tokens(reading: Reading) -> tuple[TextToken, ...]:
    """Return the pieces that may be values. A script without spaces ends a piece, so `退款A-17` gives `A-17`."""
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
    """Yield each run of neighbouring letters of one kind of script, with its place."""
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
