"""A person's answer, read as a yes, a no, or neither: by the words of one language only, that of the request's tag.

A yes is exactly one word or phrase of the language's list, spelled as `normalise` says. Whatever stands in no list is
ambiguous, and so is every answer in a language that the lexicon does not have. Pure: an answer is read from the
lexicon's document alone, so it can be read again later, by the document that was kept.

Limit: this tells what was said, not by whom, and not whether it was understood.
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
"""Of the shipped words. Raised when a release changes them; the digest in `Lexicon.ref` tells any two apart."""

Verdict = Literal["CONFIRMED", "REFUSED", "AMBIGUOUS"]

_LISTS: Final[Mapping[str, tuple[Verdict, str]]] = {
    "affirmative": ("CONFIRMED", "an explicit yes"),
    "refusal": ("REFUSED", "an explicit no"),
    "ambiguous": ("AMBIGUOUS", "a word that is no explicit yes"),
}
NOT_LISTED: Final = "no word of the language's lists"


@dataclass(frozen=True, slots=True)
class ParsedConfirmation:
    """What an answer was read as. `why` is a fixed phrase and never quotes the answer."""

    verdict: Verdict
    token: str | None
    """The word of the list, as it is spelled there; none for an ambiguous answer."""
    language: str
    """The key of the words that it was read by, such as "de" or "zh-Hant"; empty if there are none."""
    why: str


@dataclass(frozen=True, slots=True)
class LanguageWords:
    """What to show to whoever is asked."""

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
    """By the form in which an answer is compared."""

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
    """Words by language, and the answers they make. Built by `from_document` or `load_lexicon` only."""

    ref: str
    """Version and digest of the document: the same ref, the same reading of every answer."""
    _document: ConfirmLexicon
    _by_tag: Mapping[str, _Language]
    _by_script: Mapping[tuple[str, str], _Language]
    _unknown: ParsedConfirmation

    @classmethod
    def from_document(cls, tree: Any) -> Self:
        """The lexicon that a `document` describes, checked as if it came from a stranger."""
        document = ConfirmLexicon.from_tree(tree, source="the confirmation lexicon")
        by_tag: dict[str, _Language] = {}
        by_script: dict[tuple[str, str], _Language] = {}
        for key, entry in sorted(document.languages.items()):
            language = _Language(key, entry, _readings(key, entry))
            for tag in entry.tags:
                if by_tag.setdefault(tag, language) is not language:
                    _refuse(key, f"the tag {tag} stands in two languages")
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
        """Everything that a reading depends on, as JSON values. The caller's own copy."""
        return self._document.tree()

    def languages(self) -> Mapping[str, LanguageEntry]:
        """The words by the languages' keys, in the order of the keys."""
        return MappingProxyType(dict(sorted(self._document.languages.items())))

    def find_words(self, language_tag: str) -> LanguageWords | None:
        """The yes and the no to show in this language, or nothing, and then nobody can confirm in it."""
        found = self._find(language_tag)
        if found is None:
            return None
        entry = found.entry
        return LanguageWords(found.key, entry.english_name, entry.own_name, entry.yes, entry.no, entry.direction)

    def parse(self, language_tag: str, answer: str) -> ParsedConfirmation:
        found = self._find(language_tag)
        return self._unknown if found is None else found.parse(answer)

    def _find(self, language_tag: str) -> _Language | None:
        """A script that the tag names must be the words' own; a region may choose between scripts, or is passed over.

        There is no way from one language to another, however near: what is a yes in one may be a no next door.
        """
        tag = read_tag(language_tag)
        if tag is None:
            return None
        if tag.script:
            return self._by_script.get((tag.language, tag.script))
        return self._by_tag.get(f"{tag.language}-{tag.region}") or self._by_tag.get(tag.language)


@cache
def load_lexicon() -> Lexicon:
    """The shipped words."""
    folder = files("remit.goals.confirmation") / "lexicon"
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".json"))
    words = {name.removesuffix(".json"): json.loads((folder / name).read_bytes()) for name in names}
    return Lexicon.from_document({"version": VERSION, "rules": RULES, "languages": words})


def _readings(key: str, entry: LanguageEntry) -> Mapping[str, ParsedConfirmation]:
    """Each word's form with what it is read as. A form stands for one word only, in one list."""
    if entry.yes not in entry.affirmative or entry.no not in entry.refusal:
        _refuse(key, "the yes or the no to show is not in its list")
    readings: dict[str, ParsedConfirmation] = {}
    for (verdict, why), words in _lists(entry):
        for word in words:
            if not is_normalised(word):
                _refuse(key, "a word is not in lower case, or has characters that no answer is compared by")
            form = normalise_answer(word, entry.folding)
            if form in readings:
                _refuse(key, "a word is there twice, or in two lists")
            token = None if verdict == "AMBIGUOUS" else word
            readings[form] = ParsedConfirmation(verdict, token, key, why)
    return MappingProxyType(readings)


def _lists(entry: LanguageEntry) -> Iterator[tuple[tuple[Verdict, str], tuple[str, ...]]]:
    for name, reading in _LISTS.items():
        yield reading, getattr(entry, name)


def _names(key: str, entry: LanguageEntry) -> set[str]:
    """Every language code by which these words are known: that of the key, and those of the tags."""
    return {name.partition("-")[0] for name in (key, *entry.tags)}


def _unknown_language(document: ConfirmLexicon) -> str:
    return f"the lexicon has no words for this language; it has {', '.join(sorted(document.languages))}"


def _refuse(key: str, what: str) -> NoReturn:
    raise RefusedError(
        Reason.MALFORMED,
        f"the confirmation lexicon contradicts itself: {what}",
        where=f"language {key}",
        next_step="Correct the words of this language, or use the lexicon that is shipped.",
    )
