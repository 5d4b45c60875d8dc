"""How well a text fits a phrase, in ten-thousandths. Integers only: the same on every machine. Pure."""

from collections.abc import Sequence
from typing import Final

EXACT: Final = 10_000
NEARLY: Final = 9_999
THRESHOLD: Final = 7_000

_OF_A_WORD: Final = 4
_OF_A_PLACE: Final = 2
_OF_A_STRANGE_WORD: Final = 2


def score_of(phrase: Sequence[str], places: int, said: Sequence[str], filled: int) -> int:
    """Twice what both have in common, by what each has: words in their order, and places with a value.

    A word beyond the phrase weighs half: people are polite, and catalogues are short.
    """
    shared = longest_common(phrase, said)
    common = _OF_A_WORD * shared + _OF_A_PLACE * filled
    here = _OF_A_WORD * len(phrase) + _OF_A_PLACE * places
    there = common + _OF_A_STRANGE_WORD * (len(said) - shared)
    return min(NEARLY, EXACT * 2 * common // (here + there))


def best_possible(phrase: Sequence[str], places: int, said: frozenset[str], beyond: int = 0) -> int:
    """No text with these words, and so many `beyond` them, can score more: what is below need not be looked at."""
    shared = sum(word in said for word in phrase)
    common = _OF_A_WORD * shared + _OF_A_PLACE * places
    here = _OF_A_WORD * len(phrase) + _OF_A_PLACE * places
    return EXACT * 2 * common // (here + common + _OF_A_STRANGE_WORD * max(0, beyond - shared))


def longest_common(one: Sequence[str], two: Sequence[str]) -> int:
    """How many words both have in the same order."""
    before = [0] * (len(one) + 1)
    for word in two:
        now = [0]
        for place, mine in enumerate(one):
            now.append(before[place] + 1 if mine == word else max(before[place + 1], now[place]))
        before = now
    return before[-1]
