"""The words of a confirmation by language: words that confirm, words that refuse, and words that do neither."""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from remit.contracts.base import Contract, Identifier, Many, Some, VersionOne
from remit.parsing import Bounds

MAX_ANSWER: Final = 200
"""The largest number of characters of an answer (`ConfirmState.answer`)."""

Word = Annotated[str, Field(min_length=1, max_length=60)]

LanguageKey = Annotated[str, Field(max_length=8, pattern=r"^[a-z]{2,3}(?:-[A-Z][a-z]{3})?$")]
"""The name of one list of words: a language, with its script if the language has several."""

LexiconTag = Annotated[str, Field(max_length=6, pattern=r"^[a-z]{2,3}(?:-[A-Z]{2})?$")]
"""A language, or a language in a region. Its answers are read with these words unless a request names a script."""


class WordSource(Contract):
    """A public reference and the words that it lists. A word without a source is general vocabulary."""

    name: Identifier
    words: Some[Word]


class LanguageEntry(Contract):
    """The words of one language in one script, in their usual spelling, in lower case."""

    english_name: Identifier
    own_name: Identifier
    script: Annotated[str, Field(max_length=4, pattern=r"^[A-Z][a-z]{3}$")]
    """The code of the script in ISO 15924."""
    direction: Literal["ltr", "rtl"]
    folding: Literal["default", "turkic"]
    """How capitals are folded. `turkic`: the capital of i has a dot, and I is the capital of the i without a dot."""
    tags: Some[LexiconTag]
    yes: Word
    no: Word
    """`yes` and `no` are the two words that the user sees in the question."""
    affirmative: Some[Word]
    refusal: Some[Word]
    ambiguous: Some[Word]
    """Common words that do not confirm explicitly. A word that is in no list is ambiguous too."""
    sources: Many[WordSource]


class ConfirmLexicon(Contract):
    """A whole lexicon. `rules` is the number of the spelling rules by which an answer is compared with a word."""

    bounds: ClassVar[Bounds] = Bounds(max_items=50_000)

    version: Annotated[int, Field(ge=1, le=1_000_000)]
    rules: VersionOne
    languages: Annotated[dict[LanguageKey, LanguageEntry], Field(min_length=1, max_length=1_000)]
