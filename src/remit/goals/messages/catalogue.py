"""The fixed texts for the users of goals, in the languages of the confirmation lexicon. No agent writes them.

English is in this module, and each other language in a file of `texts`, with the name of its lexicon. A text that a
language does not have is shown in English, and the result says so. The texts are not part of a decision: a replay does
not read them.
"""

import json
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files
from string import Formatter
from types import MappingProxyType
from typing import Final, NamedTuple

from remit.contracts.goals.error_codes import USER_TEXT
from remit.contracts.goals.goal import DEFAULT_LANGUAGE
from remit.core.errors import Reason, UsageError
from remit.core.text import printable
from remit.goals.confirmation.parser import load_lexicon

FINDER_REASONS: Final = frozenset(
    {
        "UTTERANCE_EMPTY",
        "UTTERANCE_UNREADABLE",
        "REQUEST_NEGATED",
        "CANDIDATES_UNRESOLVED",
        "CLARIFY_STALE",
        "CLARIFY_LIMIT",
    }
)
"""The reason codes of the embedded Finder. Each has a text. Another Finder may have codes of its own."""

ENGLISH: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{code: text for code, text in USER_TEXT.items() if text},
        "UTTERANCE_EMPTY": "Your request has no words. Say what you want.",
        "UTTERANCE_UNREADABLE": "Your request is too long, or has characters that cannot be read. Write it again.",
        "REQUEST_NEGATED": "You said what you do not want. Nothing was done. Say what you want.",
        "CLARIFY_STALE": "The question that you answered is out of date. Ask again from the beginning.",
        "CLARIFY_LIMIT": "Your answers were not understood. Ask again from the beginning, and give all values.",
        "FINDER_REASON_UNKNOWN": "Your request was refused (reason: {code}). Nothing was done.",
        "ROLLED_BACK": "It was done, and was rolled back later.",
        "PROMPT_IMPACTFUL": "It changes something; `{back}` can roll it back.",
        "PROMPT_SIDE_EFFECTING": "It has effects outside of this workspace; `{back}` can compensate for them.",
        "PROMPT_IRREVERSIBLE": "It cannot be undone; `{back}` can only compensate for it.",
        "PROMPT_UNDO": "It rolls back what that goal did.",
        "PROMPT_ANSWER": "Answer “{yes}” to go on, “{no}” to stop.",
        "PROMPT_AGAIN": "That was neither a clear “{yes}” nor a clear “{no}”.",
        "STEP_PLACE": "Step {place} of {count} of “{title}”.",
        "STEP_ROLLED_BACK_UNASKED": (
            "If a later step does not succeed, Remit rolls this step back without asking again."
        ),
        "PROMPT_UNDO_STEPS": "Roll back all completed steps of “{title}”, the last one first: {names}.",
        "ENDED_COMPLETED": "All steps are done.",
        "ENDED_STEPS_ROLLED_BACK": "The steps before it were rolled back.",
        "ENDED_ALL_ROLLED_BACK": "All steps were done, and were rolled back later.",
        "ENDED_STEPS_REMAIN": "The effects of these steps remain: {names}.",
        "PROMPT_NO_WORDS": "Remit has no words for yes and no in `{tag}`. Ask again in another language.",
        "PROMPT_CUT": "({count} more characters, not shown)",
    }
)
"""The texts by name. The names of texts for a reason code are the codes."""

ONLY_ENGLISH: Final = frozenset({"PROMPT_NO_WORDS"})
"""Texts that no other language needs: this one is for languages that Remit does not know."""

PLACEHOLDERS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "back": str,
        "code": str,
        "count": int,
        "names": str,
        "no": str,
        "place": int,
        "tag": str,
        "title": str,
        "yes": str,
    }
)
"""The placeholders of all texts, with the type of their value."""


class UserText(NamedTuple):
    """A text for a user, and its language if that is known: the language of a lexicon, such as `de` or `zh-Hant`."""

    text: str
    language: str | None


def choose_language(language_tag: str, names: Collection[str]) -> str:
    """Return the user's language if it has all these texts, so that no sentence mixes two languages. Else English."""
    words = load_lexicon().find_words(language_tag)
    if words is None or words.language == DEFAULT_LANGUAGE:
        return DEFAULT_LANGUAGE
    return words.language if set(names) <= set(texts_in(words.language)) else DEFAULT_LANGUAGE


def render_text(name: str, language: str, /, **values: str | int) -> str:
    """Fill in one text of a language that has it. Invisible characters of values are spelled out.

    Raises:
        UsageError: The values are not those that the text needs.
    """
    text = texts_in(language)[name]
    if set(values) != placeholders_of(text) or any(
        type(value) is not PLACEHOLDERS[key] for key, value in values.items()
    ):
        raise UsageError(
            Reason.MISUSE, f"the text {name} needs other values than {', '.join(sorted(values)) or 'none'}"
        )
    return text.format(**{key: _render_value(value) for key, value in values.items()})


def user_text(name: str, language_tag: str, /, **values: str | int) -> UserText:
    """Return a text in the language of the user, or in English. Empty if there is no text with this name."""
    if name not in ENGLISH:
        return UserText("", None)
    language = choose_language(language_tag, (name,))
    return UserText(render_text(name, language, **values), language)


@cache
def texts_in(language: str) -> Mapping[str, str]:
    """Return the texts of one language by name. Empty for a language without texts."""
    if language == DEFAULT_LANGUAGE:
        return ENGLISH
    file = files("remit.goals.messages") / "texts" / f"{language}.json"
    return MappingProxyType(json.loads(file.read_bytes()) if file.is_file() else {})


def is_right_to_left(language: str | None) -> bool:
    """Tell whether the texts of a language run from right to left. False if the language is not known."""
    words = load_lexicon().find_words(language) if language is not None else None
    return words is not None and words.direction == "rtl"


def placeholders_of(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def _render_value(value: str | int) -> str:
    return f"{value:,}" if isinstance(value, int) else printable(value)
