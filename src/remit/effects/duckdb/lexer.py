"""Splits a statement into tokens with the engine's own lexer, so that comments and strings hide no keyword."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import duckdb

_COMMENT: Final = duckdb.token_type.comment
_STRING: Final = duckdb.token_type.string_const
_NOT_OF_A_NAME: Final = re.compile(r"[^a-z0-9_$]")


class DuckdbToken(NamedTuple):
    text: str
    start: int
    """The offset in bytes."""
    is_string: bool
    is_quoted: bool
    """A name in double quotes, which is never a keyword."""

    @property
    def word(self) -> str:
        """The text in upper case if it can be a keyword; otherwise an empty text."""
        return "" if self.is_string or self.is_quoted else self.text.upper()

    @property
    def name(self) -> str:
        """The name as the engine compares it, without padding such as zero-width spaces; empty for a string."""
        if self.is_string:
            return ""
        if self.is_quoted:
            return self.text[1:-1].replace('""', '"').lower()
        return _NOT_OF_A_NAME.sub("", self.text.lower()) or self.text


def tokens_of(text: str) -> tuple[DuckdbToken, ...]:
    """Return the tokens of the text, without comments."""
    return tuple(_tokens(text.encode()))


def _tokens(raw: bytes) -> Iterator[DuckdbToken]:
    found = duckdb.tokenize(raw.decode())  # its offsets are in bytes
    ends = [*(start for start, _ in found[1:]), len(raw)]
    for (start, kind), end in zip(found, ends, strict=True):
        text = raw[start:end].decode(errors="replace").strip()
        if text and kind != _COMMENT:
            is_string = kind == _STRING
            yield DuckdbToken(text, start, is_string, not is_string and text.startswith('"') and text.endswith('"'))
