r"""Normalises an answer to the form in which it is compared with the words of a lexicon.

These are the rules with number 1. Another set of rules needs another number, so that a replay reads an old answer by
the rules that were in force when it was given. The rules, in this order:

1. The answer has at most 200 characters (`too long`).
2. Space, tab, CR, LF and the spaces of Unicode are removed at both ends. Inside, only spaces are allowed.
3. Every character is a letter, a mark, a digit, a punctuation mark or a space (`not of writing`). These are refused:
   control, format and bidirectional characters, private, unassigned and surrogate ones, symbols, emoji, and special
   forms of letters: bold, circled, raised, ligatures, Roman numerals. These compatibility forms are accepted: wide and
   narrow ones, the shapes of Arabic letters, the Armenian ligature ew, and the Thai and Lao vowel am. ZWJ and ZWNJ are
   accepted and compared: the answer then matches only a word that has them in the same places.
   A character that is newer than Unicode 3.2 is refused too, except the capitals of sharp s and of Georgian. The
   Unicode version grows with Python, so this rule gives an answer the same meaning under every Python version.
4. NFKC, then case folding, then NFKC again. The folding is Unicode's full one (sharp s becomes ss, the final sigma an
   ordinary one). In Turkish and Azerbaijani, I is the capital of the dotless i, and I with a dot is the capital of i.
   Lithuanian needs no rule: it keeps the dot of an i with an accent in dictionaries only, and such an accent makes
   another word anyway.
5. Several spaces become one.
6. One sentence-ending mark is removed, with the space that French puts before it. Question marks are not removed, in
   any script. Two marks are not removed either: "yes..." is not certain.

No other difference is ignored. Quotation marks, commas, accents and additional marks make another word.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Final, Literal

from remit.contracts.goals.lexicon import MAX_ANSWER

RULES: Final = 1

Folding = Literal["default", "turkic"]

TOO_LONG: Final = "the answer is too long"
EMPTY: Final = "the answer is empty"
NOT_OF_WRITING: Final = "the answer has a character that is not of writing: invisible, a symbol, or in disguise"

# Invisible characters are written by number.
_SPACES: Final = "\u0020\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_AROUND: Final = _SPACES + "\t\r\n"
_SPACE_RUN: Final = re.compile(f"[{_SPACES}]+")
_JOINERS: Final = frozenset("\u200c\u200d")
# Full stop, exclamation mark; ideographic full stop; danda; those of Arabic, Armenian, Ethiopic. NFKC has replaced the
# wide and narrow ones. It replaces U+037E, the Greek question mark, by a semicolon, which is not in the list.
_ENDS: Final = frozenset(".!\u3002\u0964\u06d4\u0589\u1362")
_OF_WRITING: Final = frozenset("LMNP")
_PLAIN_FORMS: Final = frozenset({"<wide>", "<narrow>", "<initial>", "<medial>", "<final>", "<isolated>"})
# Letters of everyday writing: Armenian ew, Thai am, Lao am.
_EVERYDAY: Final = frozenset("\u0587\u0e33\u0eb3")
# The capital sharp s, and the capitals of Georgian (Mtavruli).
_LATER: Final = frozenset(chr(point) for point in (0x1E9E, *range(0x1C90, 0x1CBB), 0x1CBD, 0x1CBE, 0x1CBF))


class UnreadableError(Exception):
    """The answer cannot be normalised. The text is one of the phrases above and never quotes the answer."""


def normalise_answer(text: str, folding: Folding) -> str:
    """Return the form in which an answer is compared. Pure: the same under every Python version and locale.

    Raises:
        UnreadableError: The answer is too long, empty, or has a character that is not accepted.
    """
    if len(text) > MAX_ANSWER:
        raise UnreadableError(TOO_LONG)
    inner = text.strip(_AROUND)
    if not inner:
        raise UnreadableError(EMPTY)
    if not all(map(_is_of_writing, inner)):
        raise UnreadableError(NOT_OF_WRITING)
    folded = _SPACE_RUN.sub(" ", _fold(unicodedata.normalize("NFKC", inner), folding))
    if folded[-1] in _ENDS:
        folded = folded[:-1].rstrip(" ")
    if not folded:
        raise UnreadableError(EMPTY)
    return folded


def is_normalised(word: str) -> bool:
    """Tell whether a lexicon may list a word: composed, in lower case, without anything that normalising removes."""
    return (
        all(map(_is_of_writing, word))
        and word == unicodedata.normalize("NFC", word)
        and word == word.lower()
        and word == _SPACE_RUN.sub(" ", word).strip(_AROUND)
        and word[-1] not in _ENDS
    )


@lru_cache(maxsize=4_096)  # enough for the alphabets of all words
def _is_of_writing(character: str) -> bool:
    if character in _SPACES or character in _JOINERS:
        return True
    if unicodedata.ucd_3_2_0.category(character) == "Cn" and character not in _LATER:
        return False
    if unicodedata.category(character)[0] not in _OF_WRITING:
        return False
    form = unicodedata.decomposition(character)
    return not form.startswith("<") or form.split(" ", 1)[0] in _PLAIN_FORMS or character in _EVERYDAY


def _fold(text: str, folding: Folding) -> str:
    if folding == "turkic":
        # NFKC has composed I with a dot above already.
        text = text.replace("\u0130", "i").replace("I", "\u0131")
    return unicodedata.normalize("NFKC", text.casefold())
