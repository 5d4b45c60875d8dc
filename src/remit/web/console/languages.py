"""The languages that somebody can ask in: first those that his tenant's catalogue has phrases for, then all others in
which a yes can be said.
"""

from collections.abc import Iterable
from typing import NamedTuple

from remit.goals.confirmation.language_tags import read_tag
from remit.goals.confirmation.parser import load_lexicon


class Language(NamedTuple):
    tag: str
    name: str


class Languages(NamedTuple):
    here: tuple[Language, ...]
    others: tuple[Language, ...]
    chosen: str


def languages_for(phrases: Iterable[str], accepted: str, asked: str = "") -> Languages:
    """`phrases`: the tags of the catalogue's phrases. `accepted`: what the browser says that its user reads."""
    here = tuple(Language(tag, _name(tag)) for tag in sorted(set(phrases)))
    known = {each.tag for each in here}
    others = tuple(Language(key, entry.own_name) for key, entry in load_lexicon().languages().items())
    return Languages(here, tuple(each for each in others if each.tag not in known), _chosen(here, accepted, asked))


def _name(tag: str) -> str:
    words = load_lexicon().words_for(tag)
    if words is None:
        return tag
    return words.own_name if words.language == tag else f"{words.own_name} ({tag})"


def _chosen(here: tuple[Language, ...], accepted: str, asked: str) -> str:
    """What was asked in last; else the first language of the browser that the catalogue has; else English."""
    if asked:
        return asked
    by_language = {spoken.language: each.tag for each in reversed(here) if (spoken := read_tag(each.tag)) is not None}
    for part in accepted.split(",")[:20]:
        spoken = read_tag(part.partition(";")[0].strip())
        if spoken is not None and spoken.language in by_language:
            return by_language[spoken.language]
    return by_language.get("en") or (here[0].tag if here else "en")
