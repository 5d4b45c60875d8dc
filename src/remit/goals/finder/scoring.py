"""Scores the similarity of a text and a phrase, in ten-thousandths. Integers only: the same on every machine. Pure."""

from collections.abc import Sequence
from typing import Final

EXACT: Final = 10_000
NEARLY: Final = 9_999
THRESHOLD: Final = 7_000
MAX_BONUS: Final = 500
"""The most by which learned points move the score of a match."""

_WORD_WEIGHT: Final = 4
_SLOT_WEIGHT: Final = 2
_EXTRA_WORD_WEIGHT: Final = 2


def score_phrase(phrase: Sequence[str], slots: int, user_words: Sequence[str], filled: int) -> int:
    """Return twice the common weight divided by the weights of both: words in the same order, and filled placeholders.

    A word that the phrase does not have has half the weight, because users write more words than catalogues.
    """
    shared = longest_common(phrase, user_words)
    common = _WORD_WEIGHT * shared + _SLOT_WEIGHT * filled
    phrase_weight = _WORD_WEIGHT * len(phrase) + _SLOT_WEIGHT * slots
    text_weight = common + _EXTRA_WORD_WEIGHT * (len(user_words) - shared)
    return min(NEARLY, EXACT * 2 * common // (phrase_weight + text_weight))


def best_possible(phrase: Sequence[str], slots: int, user_words: frozenset[str], beyond: int = 0) -> int:
    """Return an upper bound of the score for a text that has these words, and `beyond` words in total."""
    shared = sum(word in user_words for word in phrase)
    common = _WORD_WEIGHT * shared + _SLOT_WEIGHT * slots
    phrase_weight = _WORD_WEIGHT * len(phrase) + _SLOT_WEIGHT * slots
    return EXACT * 2 * common // (phrase_weight + common + _EXTRA_WORD_WEIGHT * max(0, beyond - shared))


def longest_common(one: Sequence[str], two: Sequence[str]) -> int:
    """Return the number of words that both have in the same order."""
    before = [0] * (len(one) + 1)
    for word in two:
        now = [0]
        for index, mine in enumerate(one):
            now.append(before[index] + 1 if mine == word else max(before[index + 1], now[index]))
        before = now
    return before[-1]
