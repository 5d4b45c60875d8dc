"""The languages that a user can ask in: first those of the tenant's catalogue, then all others in which a user can
confirm.
"""

from collections.abc import Iterable
from typing import NamedTuple

from remit.goals.confirmation.language_tags import read_tag
from remit.goals.confirmation.parser import LanguageWords, load_lexicon


class Language(NamedTuple):
    tag: str
    name: str


class Languages(NamedTuple):
    here: tuple[Language, ...]
    others: tuple[Language, ...]
    chosen: str


def languages_for(phrases: Iterable[str], accepted: str, last_used: str = "") -> Languages:
    """`phrases`: the tags of the catalogue's phrases. `accepted`: the Accept-Language header of the browser."""
    here = tuple(Language(tag, _name(tag)) for tag in sorted(set(phrases)))
    languages = {each.tag for each in here}
    others = tuple(Language(key, entry.own_name) for key, entry in load_lexicon().languages().items())
    return Languages(
        here, tuple(each for each in others if each.tag not in languages), _chosen(here, accepted, last_used)
    )


def find_answers(tag: str) -> LanguageWords | None:
    """Return the words for yes and no in the language of a goal. None if a user cannot confirm in it."""
    return load_lexicon().find_words(tag)


def _name(tag: str) -> str:
    name = load_lexicon().find_words(tag)
    if name is None:
        return tag
    return name.own_name if name.language == tag else f"{name.own_name} ({tag})"


def _chosen(here: tuple[Language, ...], accepted: str, last_used: str) -> str:
    """Return the language used last, or the first language of the browser that the catalogue has, or English."""
    if last_used:
        return last_used
    by_language = {
        preferred.language: each.tag for each in reversed(here) if (preferred := read_tag(each.tag)) is not None
    }
    for part in accepted.split(",")[:20]:
        preferred = read_tag(part.partition(";")[0].strip())
        if preferred is not None and preferred.language in by_language:
            return by_language[preferred.language]
    return by_language.get("en") or (here[0].tag if here else "en")
