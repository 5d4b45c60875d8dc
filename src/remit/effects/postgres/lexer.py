"""Splits a text of SQL by PostgreSQL's lexical rules into tokens and statements.

Pure. Text in quotes or comments never becomes a word. Limits: the lexer does not support bodies of SQL functions (BEGIN
ATOMIC), nor texts that need `standard_conforming_strings` to be off.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from remit.core.errors import Reason, RefusedError

_SPACE: Final = re.compile(r"[ \t\n\r\f\v]+|--[^\n\r]*")
_WORD: Final = re.compile(r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*")
_NUMBER: Final = re.compile(r"0[xXoObB][0-9a-fA-F_]+|(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][+-]?\d+)?")
_DOLLAR_QUOTE: Final = re.compile(r"\$([A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?\$")
_PARAMETER: Final = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*|[0-9]+)")
_COMMENT: Final = re.compile(r"/\*|\*/")
_PLAIN_STRING: Final = re.compile(r"'(?:[^']|'')*'")
# A string may continue after a line break, with the same escapes: E'a'<new line>'it\'s'.
_ESCAPED_STRING: Final = re.compile(
    r"'(?:[^'\\]|''|\\.)*'(?:[ \t\f\v]*(?:--[^\n\r]*)?[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*[\n\r])*'(?:[^'\\]|''|\\.)*')*",
    re.DOTALL,
)
_QUOTED_NAME: Final = re.compile(r'"(?:[^"]|"")+"')
_PREFIXES: Final = frozenset({"E", "B", "X", "N"})


class PostgresToken(NamedTuple):
    """One token, with its place in the text."""

    kind: str
    """One of word, name (in double quotes), string, number, parameter, and mark (a single character)."""
    text: str
    start: int

    @property
    def word(self) -> str:
        """The text in capitals, like a key word. Empty if the token cannot be a key word."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def name(self) -> str:
        """The name as the server would look it up. Empty if the token cannot be a name."""
        if self.kind == "word":
            return self.text.lower()
        return self.text[1:-1].replace('""', '"') if self.kind == "name" else ""

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def split(text: str) -> Iterator[Sequence[PostgresToken]]:
    """Yield the tokens of each statement, without the semicolon. Empty statements are omitted."""
    tokens: list[PostgresToken] = []
    for token in tokens_of(text):
        if token.kind == "mark" and token.text == ";":
            if tokens:
                yield tokens
            tokens = []
        else:
            tokens.append(token)
    if tokens:
        yield tokens


def tokens_of(text: str) -> Iterator[PostgresToken]:
    """Yield all tokens, without white space and comments.

    Raises:
        RefusedError: SQL_REFUSED. A quote or a comment is not closed, or a name is written with U&"".
    """
    at = 0
    while at < len(text):
        if (space := _SPACE.match(text, at)) is not None:
            at = space.end()
        elif text.startswith("/*", at):
            at = _after_comment(text, at)
        else:
            token = _token(text, at)
            yield token
            at = token.end


def _token(text: str, at: int) -> PostgresToken:
    first = text[at]
    if first == "'":
        return _match(_PLAIN_STRING, "string", text, at)
    if first == '"':
        return _match(_QUOTED_NAME, "name", text, at)
    if first == "$":
        return _dollar(text, at)
    if first.isascii() and (first.isdigit() or (first == "." and text[at + 1 : at + 2].isdigit())):
        return _match(_NUMBER, "number", text, at)
    if (word := _WORD.match(text, at)) is not None:
        return _word_or_string(text, at, word)
    return PostgresToken("mark", first, at)


def _word_or_string(text: str, at: int, word: re.Match[str]) -> PostgresToken:
    """Return a word, or the string that follows it. A letter before a string selects its escapes."""
    follows = text[word.end() : word.end() + 2]
    if follows[:1] == "'" and word[0].upper() in _PREFIXES:
        pattern = _ESCAPED_STRING if word[0].upper() == "E" else _PLAIN_STRING
        inner = _match(pattern, "string", text, word.end())
        return PostgresToken("string", text[at : inner.end], at)
    if word[0].upper() == "U" and follows[:1] == "&" and follows[1:] in ("'", '"'):
        if follows[1:] == '"':
            raise _refusal('a name is written with U&"", which is not supported', "Write the name itself.")
        inner = _match(_PLAIN_STRING, "string", text, word.end() + 1)
        return PostgresToken("string", text[at : inner.end], at)
    return PostgresToken("word", word[0], at)


def _dollar(text: str, at: int) -> PostgresToken:
    if (quote := _DOLLAR_QUOTE.match(text, at)) is not None:
        end = text.find(quote[0], quote.end())
        if end < 0:
            raise _not_closed()
        return PostgresToken("string", text[at : end + len(quote[0])], at)
    if (parameter := _PARAMETER.match(text, at)) is not None:
        return PostgresToken("parameter", parameter[0], at)
    return PostgresToken("mark", "$", at)


def _match(pattern: re.Pattern[str], kind: str, text: str, at: int) -> PostgresToken:
    found = pattern.match(text, at)
    if found is None:
        raise _not_closed()
    return PostgresToken(kind, found[0], at)


def _after_comment(text: str, at: int) -> int:
    """Return the end of a comment. Comments can be nested."""
    depth = 0
    for found in _COMMENT.finditer(text, at):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    raise _not_closed()


def _not_closed() -> RefusedError:
    return _refusal("a quote or a comment is opened and not closed", "Close it.")


def _refusal(what: str, next_step: str) -> RefusedError:
    return RefusedError(Reason.SQL_REFUSED, what, where="the SQL text", next_step=next_step)
