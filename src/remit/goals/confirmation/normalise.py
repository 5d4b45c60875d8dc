r"""How an answer is spelled, apart from what does not matter: the form in which it is compared with a lexicon's words.

These are the rules with number 1. Another set of rules needs another number, so that an old answer is read again by
the rules under which it was given. In this order:

1. At most 200 characters (`too long`).
2. Space, tab, CR, LF and the spaces of Unicode are taken off both ends. Inside, only spaces may stand.
3. Every character is one of writing: a letter, a mark, a digit, a punctuation mark or a space (`not of writing`). Out
   are control, format and bidirectional characters, private, unassigned and surrogate ones, symbols, emoji, and
   letters in disguise: bold, circled, raised, ligatures, Roman numerals. Of compatibility forms there remain wide and
   narrow ones, the shapes of Arabic letters, the Armenian ligature ew, and the Thai and Lao vowel am. ZWJ and ZWNJ may
   stand in an answer, and count: it then fits only a word that has them in the same places.
   A character that came after Unicode 3.2 is out too, but for the capitals of sharp s and of Georgian. Python's Unicode
   grows with Python; thus the same answer means the same under each.
4. NFKC, then the fold of capitals and once more NFKC. The fold is Unicode's full one (sharp s as ss, the
   final sigma as any other); in Turkish and Azerbaijani I is the capital of the dotless i, and I with a dot that of i.
   Lithuanian needs nothing of its own: it keeps the dot of an i with an accent in dictionaries only, and such an
   accent makes another word anyway.
5. Runs of spaces become one.
6. One mark of the end of a sentence is taken off, with the space that French sets before it. A question mark is none
   of these, in no script; nor are two marks: "yes..." has its doubts.

Nothing else is taken off or forgiven. Quotation marks, commas, accents and marks too many make it another word.
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

# By number where they cannot be seen.
_SPACES: Final = "\u0020\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_AROUND: Final = _SPACES + "\t\r\n"
_SPACE_RUN: Final = re.compile(f"[{_SPACES}]+")
_JOINERS: Final = frozenset("\u200c\u200d")
# Full stop, exclamation mark; ideographic full stop; danda; of Arabic, Armenian, Ethiopic. NFKC has made the wide and
# narrow ones ordinary. U+037E, the Greek question mark, has become a semicolon, which is not among them.
_ENDS: Final = frozenset(".!\u3002\u0964\u06d4\u0589\u1362")
_OF_WRITING: Final = frozenset("LMNP")
_PLAIN_FORMS: Final = frozenset({"<wide>", "<narrow>", "<initial>", "<medial>", "<final>", "<isolated>"})
# Letters of everyday writing to those who write them: Armenian ew, Thai am, Lao am.
_EVERYDAY: Final = frozenset("\u0587\u0e33\u0eb3")
# The capital sharp s, and the capitals of Georgian (Mtavruli).
_LATER: Final = frozenset(chr(point) for point in (0x1E9E, *range(0x1C90, 0x1CBB), 0x1CBD, 0x1CBE, 0x1CBF))


class UnreadableError(Exception):
    """An answer that has no form to compare. The text is one of the phrases above, never the answer's."""


def normalise_answer(text: str, folding: Folding) -> str:
    """The form in which an answer is compared, or `UnreadableError`. Pure: the same under every Python and locale."""
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
    """Whether a lexicon may list a word like this: composed, in lower case, with nothing that a reader takes off."""
    return (
        all(map(_is_of_writing, word))
        and word == unicodedata.normalize("NFC", word)
        and word == word.lower()
        and word == _SPACE_RUN.sub(" ", word).strip(_AROUND)
        and word[-1] not in _ENDS
    )


@lru_cache(maxsize=4_096)  # the alphabets of all words fit in
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
