"""The words of a confirmation, by language: what is a yes, what is a no, and what must not be taken for either."""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from remit.contracts.base import Contract, Identifier, Many, Some, VersionOne
from remit.parsing import Bounds

MAX_ANSWER: Final = 200
"""As many characters as an answer may have (`ConfirmState.answer`), and so a word too."""

Word = Annotated[str, Field(min_length=1, max_length=60)]

LanguageKey = Annotated[str, Field(max_length=8, pattern=r"^[a-z]{2,3}(?:-[A-Z][a-z]{3})?$")]
"""The name of one list of words: a language, with its script where it is written in more than one."""

LexiconTag = Annotated[str, Field(max_length=6, pattern=r"^[a-z]{2,3}(?:-[A-Z]{2})?$")]
"""A language, or a language in a region, that is read by these words unless a request names a script."""


class WordSource(Contract):
    """A public reference, and which of the words it gives. A word without a source is general vocabulary."""

    name: Identifier
    words: Some[Word]


class LanguageEntry(Contract):
    """The words of one language in one script, in their usual spelling, in lower case."""

    english_name: Identifier
    own_name: Identifier
    script: Annotated[str, Field(max_length=4, pattern=r"^[A-Z][a-z]{3}$")]
    """ISO 15924."""
    direction: Literal["ltr", "rtl"]
    folding: Literal["default", "turkic"]
    """Turkic: the capital of i has a dot, and I is the capital of the i without one."""
    tags: Some[LexiconTag]
    yes: Word
    no: Word
    """The two words to show to whoever is asked."""
    affirmative: Some[Word]
    refusal: Some[Word]
    ambiguous: Some[Word]
    """Words that people say, and that are no explicit yes. So is everything that stands in no list."""
    sources: Many[WordSource]


class ConfirmLexicon(Contract):
    """A whole lexicon. `rules` says by which rules of spelling an answer is compared with a word."""

    bounds: ClassVar[Bounds] = Bounds(max_items=50_000)

    version: Annotated[int, Field(ge=1, le=1_000_000)]
    rules: VersionOne
    languages: Annotated[dict[LanguageKey, LanguageEntry], Field(min_length=1, max_length=1_000)]
