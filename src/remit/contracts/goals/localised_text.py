"""Texts for people in one language or several, and the choice of the one that a user reads. Pure."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Discriminator, Field, Tag

from remit.contracts.goals.goal import LanguageTag

_OTHERWISE: Final = "en"


def matching_language_tags(language_tag: str) -> tuple[str, ...]:
    """Return the tag and its more general tags, such as `zh-hant-tw`, `zh-hant`, `zh`. Never another language."""
    parts = language_tag.lower().split("-")
    return tuple("-".join(parts[:count]) for count in range(len(parts), 0, -1))


def in_language(texts: str | Mapping[str, str], language_tag: str) -> str:
    """Return the text in the language, else in a more general tag, else in English, else by the first tag.

    The first tag is that of the alphabet: a mapping has no order, and the same file must always give the same text.
    """
    if isinstance(texts, str):
        return texts
    by_tag = {tag.lower(): text for tag, text in texts.items()}
    found = next((tag for tag in (*matching_language_tags(language_tag), _OTHERWISE) if tag in by_tag), min(by_tag))
    return by_tag[found]


def _one_spelling(text_by_language: dict[str, str]) -> dict[str, str]:
    if len({tag.lower() for tag in text_by_language}) != len(text_by_language):
        raise ValueError("the same language is listed twice, in two spellings")
    return text_by_language


def _shape(value: Any) -> str:
    return "by language" if isinstance(value, Mapping) else "plain"


_Title = Annotated[str, Field(min_length=1, max_length=200)]
_Question = Annotated[str, Field(min_length=1, max_length=500)]
_Several = Field(min_length=1, max_length=50)

Title = Annotated[
    Annotated[_Title, Tag("plain")]
    | Annotated[dict[LanguageTag, _Title], _Several, AfterValidator(_one_spelling), Tag("by language")],
    Discriminator(_shape),
]
"""One text, or texts by language: `{en: Archive a note, de: Eine Notiz archivieren}`."""

Question = Annotated[
    Annotated[_Question, Tag("plain")]
    | Annotated[dict[LanguageTag, _Question], _Several, AfterValidator(_one_spelling), Tag("by language")],
    Discriminator(_shape),
]
