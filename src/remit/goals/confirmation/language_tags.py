"""Reads the language, script and region from a BCP 47 language tag, as far as they select the words of an answer.

A tag that is not certain names no language, and then no word is a confirmation. Uncertain are tags of an unknown form,
and old tags whose later parts change the language itself. An extended language is a language of its own ("zh-yue" is
Cantonese, not Chinese). Variants, extensions and private parts do not change the words.
"""

import re
from typing import Final, NamedTuple

MAX_TAG: Final = 35

_TAG: Final = re.compile(
    r"(?P<language>[a-z]{2,3})"
    r"(?:-(?P<extended>[a-z]{3}))?"
    r"(?:-(?P<script>[a-z]{4}))?"
    r"(?:-(?P<region>[a-z]{2}|[0-9]{3}))?"
    r"(?:-(?:[a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*"
    r"(?:-[a-wyz0-9](?:-[a-z0-9]{2,8})+)*"
    r"(?:-x(?:-[a-z0-9]{1,8})+)?",
    re.ASCII,
)
# Tags that are registered as a whole, each for another language than its first part.
_OF_ANOTHER_LANGUAGE: Final = frozenset({"zh-hakka", "zh-xiang"})


class LanguageTag(NamedTuple):
    """The parts of a tag, in their usual upper or lower case. A part is empty if the tag does not have it."""

    language: str
    script: str
    region: str


def read_tag(tag: str) -> LanguageTag | None:
    lower = tag.lower() if tag.isascii() and len(tag) <= MAX_TAG else ""
    found = _TAG.fullmatch(lower)
    if found is None or lower in _OF_ANOTHER_LANGUAGE:
        return None
    language, script, region = found["extended"] or found["language"], found["script"] or "", found["region"] or ""
    return LanguageTag(language, script.capitalize(), region.upper())
