"""Reads a user's answer as confirmed, refused or ambiguous, by the words of one language: that of the request.

A confirmation is exactly one word or phrase of the language's list, after the answer is normalised by `normalise`. An
answer that is in no list is ambiguous. So is every answer in a language that the lexicon does not have. Pure: the
result depends only on the lexicon's document, so a replay reads the answer again from the stored document.

Limit: the result says what the answer means. It does not say who gave it, nor whether the user understood the question.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, Literal, NoReturn, Self

from remit.contracts.goals.lexicon import ConfirmLexicon, LanguageEntry
from remit.core.errors import Reason, RefusedError
from remit.goals.confirmation.language_tags import read_tag
from remit.goals.confirmation.normalise import RULES, UnreadableError, is_normalised, normalise_answer

VERSION: Final = 1
"""The version of the shipped words. A release that changes them raises it. `Lexicon.ref` also has their digest."""

Verdict = Literal["CONFIRMED", "REFUSED", "AMBIGUOUS"]

_LISTS: Final[Mapping[str, tuple[Verdict, str]]] = {
    "affirmative": ("CONFIRMED", "a word of confirmation"),
    "refusal": ("REFUSED", "a word of refusal"),
    "ambiguous": ("AMBIGUOUS", "a word that may mean more than one thing"),
}
NOT_LISTED: Final = "the answer is not a listed word of the language"


@dataclass(frozen=True, slots=True)
class ParsedConfirmation:
    """The meaning of an answer. `why` is a fixed phrase and never quotes the answer."""

    verdict: Verdict
    token: str | None
    """The word as the list spells it. None for an ambiguous answer."""
    language: str
    """The key of the language that was used, such as "de" or "zh-Hant". Empty if the lexicon has none."""
    why: str


@dataclass(frozen=True, slots=True)
class LanguageWords:
    """The words of a language to show to the user with a question."""

    language: str
    english_name: str
    own_name: str
    yes: str
    no: str
    direction: Literal["ltr", "rtl"]


@dataclass(frozen=True, slots=True)
class _Language:
    key: str
    entry: LanguageEntry
    readings: Mapping[str, ParsedConfirmation]
    """The meanings by the normalised form of an answer."""

    def parse(self, answer: str) -> ParsedConfirmation:
        try:
            form = normalise_answer(answer, self.entry.folding)
        except UnreadableError as problem:
            return self._ambiguous(str(problem))
        return self.readings.get(form) or self._ambiguous(NOT_LISTED)

    def _ambiguous(self, why: str) -> ParsedConfirmation:
        return ParsedConfirmation("AMBIGUOUS", None, self.key, why)


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The words of confirmation and refusal by language. Built only by `from_document` or `load_lexicon`."""

    ref: str
    """The version and digest of the document. The same reference gives every answer the same meaning."""
    _document: ConfirmLexicon
    _by_tag: Mapping[str, _Language]
    _by_script: Mapping[tuple[str, str], _Language]
    _unknown: ParsedConfirmation

    @classmethod
    def from_document(cls, tree: Any) -> Self:
        """Build the lexicon that a `document` describes. The document is checked like untrusted input."""
        document = ConfirmLexicon.from_tree(tree, source="the confirmation lexicon")
        by_tag: dict[str, _Language] = {}
        by_script: dict[tuple[str, str], _Language] = {}
        for key, entry in sorted(document.languages.items()):
            language = _Language(key, entry, _readings(key, entry))
            for tag in entry.tags:
                if by_tag.setdefault(tag, language) is not language:
                    _refuse(key, f"the tag {tag} belongs to two languages")
            for name in _names(key, entry):
                if by_script.setdefault((name, entry.script), language) is not language:
                    _refuse(key, f"{name} has two lists of words in one script")
        return cls(
            ref=f"confirm-lexicon-{document.version}@{document.digest()}",
            _document=document,
            _by_tag=MappingProxyType(by_tag),
            _by_script=MappingProxyType(by_script),
            _unknown=ParsedConfirmation("AMBIGUOUS", None, "", _unknown_language(document)),
        )

    def document(self) -> dict[str, Any]:
        """Return a copy of everything that the meaning of an answer depends on, as JSON values."""
        return self._document.tree()

    def languages(self) -> Mapping[str, LanguageEntry]:
        """Return the words by the key of the language, in the order of the keys."""
        return MappingProxyType(dict(sorted(self._document.languages.items())))

    def find_words(self, language_tag: str) -> LanguageWords | None:
        """Return the words to show in this language. None if it has no words; then users cannot confirm in it."""
        found = self._find(language_tag)
        if found is None:
            return None
        entry = found.entry
        return LanguageWords(found.key, entry.english_name, entry.own_name, entry.yes, entry.no, entry.direction)

    def parse(self, language_tag: str, answer: str) -> ParsedConfirmation:
        found = self._find(language_tag)
        return self._unknown if found is None else found.parse(answer)

    def _find(self, language_tag: str) -> _Language | None:
        """Find the words for a tag. A script in the tag must be that of the words. A region may select a script.

        No other language is ever used, not even a similar one: the same word may mean the opposite there.
        """
        tag = read_tag(language_tag)
        if tag is None:
            return None
        if tag.script:
            return self._by_script.get((tag.language, tag.script))
        return self._by_tag.get(f"{tag.language}-{tag.region}") or self._by_tag.get(tag.language)


@cache
def load_lexicon() -> Lexicon:
    """Load the shipped words."""
    folder = files("remit.goals.confirmation") / "lexicon"
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".json"))
    words = {name.removesuffix(".json"): json.loads((folder / name).read_bytes()) for name in names}
    return Lexicon.from_document({"version": VERSION, "rules": RULES, "languages": words})


def _readings(key: str, entry: LanguageEntry) -> Mapping[str, ParsedConfirmation]:
    """Return the meaning by the normalised form of each word. A form belongs to one word in one list."""
    if entry.yes not in entry.affirmative or entry.no not in entry.refusal:
        _refuse(key, "the word to show is not in its own list")
    readings: dict[str, ParsedConfirmation] = {}
    for (verdict, why), words in _lists(entry):
        for word in words:
            if not is_normalised(word):
                _refuse(key, "a word is not in lower case, or has characters that normalising removes or refuses")
            form = normalise_answer(word, entry.folding)
            if form in readings:
                _refuse(key, "a word is listed twice, or in two lists")
            token = None if verdict == "AMBIGUOUS" else word
            readings[form] = ParsedConfirmation(verdict, token, key, why)
    return MappingProxyType(readings)


def _lists(entry: LanguageEntry) -> Iterator[tuple[tuple[Verdict, str], tuple[str, ...]]]:
    for name, reading in _LISTS.items():
        yield reading, getattr(entry, name)


def _names(key: str, entry: LanguageEntry) -> set[str]:
    """Return every language code of these words: that of the key, and those of the tags."""
    return {name.partition("-")[0] for name in (key, *entry.tags)}


def _unknown_language(document: ConfirmLexicon) -> str:
    return f"the lexicon has no words for this language; it has {', '.join(sorted(document.languages))}"


def _refuse(key: str, what: str) -> NoReturn:
    raise RefusedError(
        Reason.MALFORMED,
        f"the confirmation lexicon contradicts itself: {what}",
        where=f"language {key}",
        next_step="Correct the words of this language, or use the shipped lexicon.",
    )
