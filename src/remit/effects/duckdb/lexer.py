"""The words of a statement, as the engine itself takes the text apart: a keyword in a comment or a string is none."""

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
    """In bytes."""
    is_string: bool
    is_quoted: bool
    """A name in double quotes, which is never a keyword."""

    @property
    def word(self) -> str:
        """In upper case if it can be a keyword; else nothing."""
        return "" if self.is_string or self.is_quoted else self.text.upper()

    @property
    def name(self) -> str:
        """As the engine compares names. What one may be padded with, such as spaces of no width, is left out."""
        if self.is_string:
            return ""
        if self.is_quoted:
            return self.text[1:-1].replace('""', '"').lower()
        return _NOT_OF_A_NAME.sub("", self.text.lower()) or self.text


def tokens_of(text: str) -> tuple[DuckdbToken, ...]:
    """Without comments. The engine counts in bytes."""
    return tuple(_tokens(text.encode()))


def _tokens(raw: bytes) -> Iterator[DuckdbToken]:
    found = duckdb.tokenize(raw.decode())
    ends = [*(start for start, _ in found[1:]), len(raw)]
    for (start, kind), end in zip(found, ends, strict=True):
        text = raw[start:end].decode(errors="replace").strip()
        if text and kind != _COMMENT:
            is_string = kind == _STRING
            yield DuckdbToken(text, start, is_string, not is_string and text.startswith('"') and text.endswith('"'))
