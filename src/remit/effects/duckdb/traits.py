"""Facts about a statement that its keywords show. May report one by mistake if a column has the name of a keyword."""

from collections.abc import Sequence
from typing import Final

from remit.effects.duckdb.denylist import is_call
from remit.effects.duckdb.lexer import DuckdbToken, tokens_of

_BY_TIME: Final = frozenset(
    (
        "now", "today", "current_timestamp", "current_date", "current_time", "localtime", "localtimestamp",
        "get_current_timestamp", "get_current_time", "current_localtime", "current_localtimestamp",
        "transaction_timestamp", "statement_timestamp", "clock_timestamp", "txid_current",
    )
)  # fmt: skip
_BY_CHANCE: Final = frozenset(("random", "uuid", "uuidv4", "uuidv7", "gen_random_uuid", "setseed"))
_WITHOUT_PARENTHESES: Final = frozenset(
    ("current_timestamp", "current_date", "current_time", "localtime", "localtimestamp")
)
_SAMPLES: Final = frozenset(("SAMPLE", "TABLESAMPLE"))
_PIVOTS: Final = frozenset(("PIVOT", "PIVOT_WIDER"))


def upserts(tokens: Sequence[DuckdbToken]) -> bool:
    """Return whether it is INSERT ... ON CONFLICT DO UPDATE or INSERT OR REPLACE.

    The engine counts inserted and updated rows together.
    """
    words = [token.word for token in tokens]
    return any(_contains_sequence(words, these) for these in (("DO", "UPDATE"), ("INSERT", "OR", "REPLACE")))


def pivots(tokens: Sequence[DuckdbToken]) -> bool:
    """Return whether values of rows may become names of columns."""
    return any(token.word in _PIVOTS for token in tokens)


def names_in_text(text: str, column: str) -> bool:
    """Return whether the name of a column is in the text: as a name or a string, or as one with an aggregate, such as
    `open_total` of PIVOT ... IN ('open') USING sum(amount) AS total.
    """
    written = {
        token.text.strip("'\"") if token.is_string or token.is_quoted else token.text for token in tokens_of(text)
    }
    return any(
        column == word or (column.startswith(f"{word}_") and column[len(word) + 1 :].lower() in text.lower())
        for word in written
    )


def nondeterministic_calls(tokens: Sequence[DuckdbToken]) -> tuple[str, ...]:
    """Return the names that depend on the time or on chance, each once. Limit: a default or a macro may hide one."""
    found: dict[str, None] = {}
    for place, token in enumerate(tokens):
        name = token.name
        if token.word in _SAMPLES and place:
            found[token.word] = None
        elif name in _WITHOUT_PARENTHESES and token.word:
            found[name] = None
        elif name in _BY_TIME | _BY_CHANCE and is_call(tokens, place):
            found[f"{name}()"] = None
    return tuple(found)


def _contains_sequence(words: Sequence[str], wanted: Sequence[str]) -> bool:
    length = len(wanted)
    return any(tuple(words[at : at + length]) == tuple(wanted) for at in range(len(words) - length + 1))
