"""Suggestions for a user when the Finder finds nothing. They are only displayed; Remit never acts on one. Pure.

The search is more tolerant than the Finder: it accepts words in any order, with a wrong letter, or in another language.
So a suggestion is only displayed, with a phrase that the user can enter. The Finder, the decision and the ledger do not
use it.
"""

from typing import Final, NamedTuple

from remit.contracts.goals.localised_text import matching_language_tags
from remit.contracts.goals.simulation import Phrase, Simulation
from remit.goals.binding.tokenizer import MAX_UTTERANCE, is_readable, is_without_spaces, read, split_words
from remit.goals.catalogue.catalogue import Catalogue
from remit.goals.catalogue.phrases import CompiledCatalogue
from remit.goals.finder.scoring import best_possible

MOST: Final = 3
NEAR: Final = 4_000
MOST_WORDS: Final = 100
_TELLING: Final = 4
"""The minimum number of letters of a significant word. Shorter words are mostly articles."""


class Near(NamedTuple):
    """A suggested simulation: its title, a phrase in the user's language if there is one, and its languages."""

    simulation_id: str
    title: str
    phrase: Phrase | None
    languages: tuple[str, ...]


def nearest(catalogue: Catalogue, compiled: CompiledCatalogue, language_tag: str, utterance: str) -> tuple[Near, ...]:
    """Return the nearest ACTIVE simulations, best first. Of equals, those with a phrase in the user's language."""
    if len(utterance) > MAX_UTTERANCE or not is_readable(utterance):
        return ()
    scores = _scores(compiled, split_words(read(utterance).folded)[:MOST_WORDS])
    found = []
    for entry in catalogue:
        score = scores.get(entry.simulation.id, 0)
        if entry.state == "ACTIVE" and score >= NEAR:
            near = _near(entry.simulation, language_tag)
            found.append((-score, near.phrase is None, near.simulation_id, near))
    return tuple(near for *_, near in sorted(found)[:MOST])


def _scores(compiled: CompiledCatalogue, user_words: tuple[str, ...]) -> dict[str, int]:
    """Return the score of the nearest phrase of each simulation, in any language."""
    nearby: dict[str, bool] = {}
    scores: dict[str, int] = {}
    for each in (one for listed in compiled.simulations.values() for one in listed):
        for phrase in each.phrases:
            for word in phrase.words:
                if word not in nearby:
                    nearby[word] = any(_is_nearly(word, mine) for mine in user_words)
            score = _nearness(phrase.words, frozenset(word for word in phrase.words if nearby[word]), len(user_words))
            scores[each.simulation_id] = max(score, scores.get(each.simulation_id, 0))
    return scores


def _nearness(phrase: tuple[str, ...], matched: frozenset[str], user_words: int) -> int:
    return best_possible(phrase, 0, matched, user_words) if any(map(_is_significant, matched)) else 0


def _is_significant(word: str) -> bool:
    """Tell whether a word is significant. Scripts with capitals need long words; in others two signs may be a word."""
    return len(word) >= _TELLING or is_without_spaces(word[0]) or (len(word) > 1 and word.upper() == word)


def _is_nearly(one: str, two: str) -> bool:
    """Tell whether two words are equal, or differ by one letter that is missing, added, replaced or swapped."""
    if one == two:
        return True
    if min(len(one), len(two)) < _TELLING or abs(len(one) - len(two)) > 1:
        return False
    start = next((index for index, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    rest, other = one[start:], two[start:]
    is_swapped = rest[:2] == other[1::-1] and rest[2:] == other[2:]
    return is_swapped or rest[1:] == other or rest == other[1:] or rest[1:] == other[1:]


def _near(simulation: Simulation, language_tag: str) -> Near:
    known = {tag.lower(): listed[0] for tag, listed in simulation.phrases.items()}
    phrase = next((known[tag] for tag in matching_language_tags(language_tag) if tag in known), None)
    return Near(simulation.id, simulation.title_in(language_tag), phrase, tuple(sorted(simulation.phrases)))
