"""Masks for an SQL statement that a person approves: of secrets in its strings, numbers and comments.

Keywords, names and operators are never masked, because they are what the statement does. The text is split into tokens
by the lexical rules that PostgreSQL and DuckDB share. From a point where the two would read it differently, or if a
string or comment is not closed, only keys of a known shape are masked: in doubt the text is shown.

A literal is also a secret because of its position: the value of such a column in an INSERT, an alias, or a default.

    INSERT INTO users (name, password) VALUES ('ada', '...')
    INSERT INTO users (name, password) SELECT 'ada', '...'
    UPDATE users SET (name, password) = ('ada', '...')
    SELECT '...' AS password
    ALTER TABLE users ALTER COLUMN password SET DEFAULT '...'

This is so only for a literal that is alone in its position. A part of an expression stays visible, and so does a
literal in doubt.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from remit.masking.credentials import mask_shapes
from remit.masking.field_names import kind_of_name
from remit.masking.masks import MASK
from remit.masking.regex_cache import pattern
from remit.masking.review import mask_line, mask_shown


class SqlToken(NamedTuple):
    kind: str
    text: str


REMARKS: Final = frozenset({"remark", "block"})
_LITERALS: Final = frozenset({"string", "escaped", "dollar", "number"})
_NAMES: Final = frozenset({"word", "name"})
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_BEFORE_A_VALUE: Final = frozenset({"(", ",", "select", "all", "distinct"})
_AFTER_A_VALUE: Final = frozenset({",", ")", ";", ":", "from"})
"""A colon begins a type cast."""
_BETWEEN_ROWS: Final = frozenset({"(", ","})
_BEFORE_ROWS: Final = frozenset({"values", "select", "="})
_AFTER_A_SELECT: Final = frozenset(
    {"except", "from", "group", "having", "intersect", "limit", "on", "order", "returning", "union", "where"}
    | {";", "*", "columns"}
)
_BEFORE_A_COLUMN: Final = frozenset({"(", ",", ";", "add", "alter", "column", "exists"})
_WITHIN_A_COLUMN: Final = 40
"""The most tokens from the name of a column to its default."""


class _PlacedToken(NamedTuple):
    """A token that is neither space nor comment, and its position in the statement."""

    place: int
    kind: str
    text: str

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind != "name" else ""

    @property
    def is_secret(self) -> bool:
        name = self.text[1:-1] if self.kind == "name" else self.text
        return self.kind in _NAMES and kind_of_name(name) is not None


_END: Final = _PlacedToken(-1, "mark", ";")


def find_secret_positions(tokens: Sequence[SqlToken]) -> frozenset[int]:
    """Return the positions of the tokens that are literals with a secret."""
    code_tokens = [
        _PlacedToken(place, token.kind, token.text)
        for place, token in enumerate(tokens)
        if token.kind not in REMARKS and not token.text.isspace()
    ]
    code_tokens = [_END, *code_tokens, _END, _END]
    return frozenset((*_in_rows(code_tokens), *_aliased(code_tokens), *_defaults(code_tokens)))


# --- in rows ---------------------------------------------------------------------------------------------------------


def _in_rows(code_tokens: Sequence[_PlacedToken]) -> Iterator[int]:
    done = 0  # rows within rows are skipped, so that each token is read once, even if brackets are not closed
    for at, one in enumerate(code_tokens):
        if at < done or one.word not in _BEFORE_ROWS or not (columns := _columns_before(code_tokens, at)):
            continue
        if one.word == "select":
            cells = _selected(code_tokens, at + 1, columns)
        else:
            first = at + 2 if code_tokens[at + 1].word == "row" else at + 1
            cells = _secret_cells(code_tokens, first, columns, rows=one.word == "values")
        yield from cells.secret
        done = cells.end


def _columns_before(code_tokens: Sequence[_PlacedToken], at: int) -> list[bool]:
    """Return whether each column of the list that ends here is a secret. Empty if it is not a list of columns."""
    names: list[bool] = []
    at = _after_list(code_tokens, at)
    if code_tokens[at].text != ")":
        return []
    while at >= 2 and code_tokens[at].text in {")", ","} and code_tokens[at - 1].kind in _NAMES:
        names.append(code_tokens[at - 1].is_secret)
        at -= 2
    return names[::-1] if code_tokens[at].text == "(" and any(names) else []


def _after_list(code_tokens: Sequence[_PlacedToken], at: int) -> int:
    """Return the position before words between a list of columns and its values: `OVERRIDING USER VALUE`, `AS (`."""
    words = [one.word for one in code_tokens[max(at - 4, 0) : at]]
    if words[-3:-2] == ["overriding"]:
        return at - 4
    if words[-1:] == ["("]:
        used = 1 + next((n for n in (2, 1) if words[-1 - n : -1] in (["not", "materialized"], ["materialized"])), 0)
        if words[-1 - used : len(words) - used] == ["as"]:
            return at - 2 - used
    return at - 1


class _Cells(NamedTuple):
    secret: list[int]
    end: int


def _secret_cells(code_tokens: Sequence[_PlacedToken], at: int, columns: Sequence[bool], *, rows: bool) -> _Cells:
    """Return the secret literals of the rows from here on, or of the one row that begins here."""
    secret: list[int] = []
    depth = column = 0
    while at < len(code_tokens) and (depth > 0 or code_tokens[at].text in _BETWEEN_ROWS):
        one = code_tokens[at]
        if one.text in _OPENING:
            depth, column = depth + 1, 0 if depth == 0 else column
        elif one.text in _CLOSING:
            depth -= 1
            if depth == 0 and not rows:
                break
        elif one.text == "," and depth == 1:
            column += 1
        elif depth == 1 and column < len(columns) and columns[column] and _is_alone(code_tokens, at):
            secret.append(one.place)
        at += 1
    return _Cells(secret, at)


def _selected(code_tokens: Sequence[_PlacedToken], at: int, columns: Sequence[bool]) -> _Cells:
    """Return the secret literals of a SELECT, up to a star: its number of columns is not known here."""
    secret: list[int] = []
    depth = column = 0
    while at < len(code_tokens) and depth >= 0 and not (depth == 0 and code_tokens[at].word in _AFTER_A_SELECT):
        one = code_tokens[at]
        if one.text in _OPENING:
            depth += 1
        elif one.text in _CLOSING:
            depth -= 1
        elif one.text == "," and depth == 0:
            column += 1
        elif depth == 0 and column < len(columns) and columns[column] and _is_alone(code_tokens, at):
            secret.append(one.place)
        at += 1
    return _Cells(secret, at)


def _is_alone(code_tokens: Sequence[_PlacedToken], at: int) -> bool:
    one, before, after = code_tokens[at], code_tokens[at - 1], code_tokens[at + 1]
    return one.kind in _LITERALS and before.word in _BEFORE_A_VALUE and after.word in _AFTER_A_VALUE


# --- by a name after it, or before its default -----------------------------------------------------------------------


def _aliased(code_tokens: Sequence[_PlacedToken]) -> Iterator[int]:
    """Yield literals with an alias: `'...' AS password`."""
    for before, one, word, name in zip(code_tokens, code_tokens[1:], code_tokens[2:], code_tokens[3:], strict=False):
        if one.kind in _LITERALS and before.word in _BEFORE_A_VALUE and word.word == "as" and name.is_secret:
            yield one.place


def _defaults(code_tokens: Sequence[_PlacedToken]) -> Iterator[int]:
    """Yield defaults: `password SET DEFAULT '...'`, and `password VARCHAR NOT NULL DEFAULT '...'` of a new column."""
    for at, one in enumerate(code_tokens[:-1]):
        if one.word == "default" and code_tokens[at + 1].kind in _LITERALS and _column_of(code_tokens, at).is_secret:
            yield code_tokens[at + 1].place


def _column_of(code_tokens: Sequence[_PlacedToken], at: int) -> _PlacedToken:
    """Return the column that this default belongs to: the first name of its part of the statement."""
    depth = 0
    for place in range(at - 1, max(at - _WITHIN_A_COLUMN, 0), -1):
        one = code_tokens[place]
        if depth == 0 and code_tokens[place - 1].word in _BEFORE_A_COLUMN and one.word not in _BEFORE_A_COLUMN:
            return one
        depth += 1 if one.text in _CLOSING else -1 if one.text in _OPENING else 0
    return _END


_LETTER: Final = r"A-Za-z_\x80-\U0010ffff"
_CONTINUATION: Final = r"[ \t\f\v]*+(?:--[^\n\r]*+)?[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*+[\n\r])*+'"
_ESCAPED: Final = r"'(?:[^'\\]|''|\\.)*+'"
_TOKEN: Final = (
    r"(?s)(?P<remark>--[^\n\r]*+)|(?P<block>/\*)|"
    rf"(?P<escaped>[eE]{_ESCAPED})|"
    r"(?P<string>'(?:[^']|'')*+')|"
    rf"(?P<dollar>\$(?:[{_LETTER}][{_LETTER}0-9]*+)?\$)|"
    r"(?P<name>\"(?:[^\"]|\"\")*+\")|"
    rf"(?P<word>[{_LETTER}][{_LETTER}0-9$]*+)|"
    r"(?P<number>\d[\d_.]*+)|(?P<mark>.)"
)
# A backtick quotes a name in one of the two dialects, and is an operator in the other.
_OPENED: Final = frozenset("'\"`")
_MASK_MARGIN: Final = 4
"""How much more is read than is needed, because masks are shorter than the text and an alias follows its value."""
_STRINGS: Final = frozenset({"string", "escaped", "dollar"})
_LINE_END: Final = r"[\n\r]"
_A_LINE: Final = r"[^\n\r]+"
_LAYOUT: Final = r"\s+|'"
_REACH: Final = 200
"""The number of characters before a value that are read for its name."""
_NEXT_VALUE: Final = frozenset({",", ";", ")", "and", "or", "where"})
"""Tokens that end the context of a value. The text before them is not the name of the next value."""
_OF_ITS_FIRST: Final = frozenset(
    {"cast", "concat", "crypt", "digest", "encode", "encrypt", "hmac", "lower", "md5", "pgp_sym_encrypt", "sha1"}
    | {"sha224", "sha256", "sha384", "sha512", "trim", "upper"}
)
"""Functions whose first argument is a secret if their result is one. The argument of another function may be code."""


def mask_sql(text: str, most: int | None = None) -> str:
    """Return the statement with its secrets masked. It has the same line ends, names, keywords and operators.

    With `most`, only about that many characters are masked and returned.
    """
    out: list[str] = []
    before, last, size = "", "", 0
    tokens = list(tokens_of(text, most))
    named = find_secret_positions(tokens)
    for at, token in enumerate(tokens):
        out.append(_hide_token(token) if at in named else _mask_token(token, before))
        size += len(out[-1])
        if most is not None and size > most:
            break
        if token.kind in REMARKS:
            continue
        word = token.text.lower()
        is_next = word in _NEXT_VALUE or (word == "(" and last not in _OF_ITS_FIRST)
        before = "" if is_next else (before + pattern(_LINE_END).sub(" ", out[-1]))[-_REACH:]
        last = last if word.isspace() else word
    return "".join(out)


def tokens_of(text: str, most: int | None = None) -> Iterator[SqlToken]:
    at, last = 0, len(text) if most is None else _MASK_MARGIN * most
    while at <= last and (found := pattern(_TOKEN).match(text, at)):
        end = _end_of(found)
        if end is None:
            yield SqlToken("doubt", text[at:])
            return
        yield SqlToken(found.lastgroup or "mark", text[at:end])
        at = end


def _end_of(found: re.Match[str]) -> int | None:
    """Return the end of the token, or None if it is not closed or the two dialects read it differently."""
    if found.lastgroup == "block":
        return _after_block(found.string, found.start())
    if found.lastgroup == "dollar":
        end = found.string.find(found[0], found.end())
        return end + len(found[0]) if end >= 0 else None
    if found.lastgroup == "escaped" and pattern(_CONTINUATION).match(found.string, found.end()):
        return None  # a continuation on another line: one dialect reads escapes in it, the other does not
    is_doubtful = found[0] in _OPENED or (found.lastgroup == "word" and not _is_of_letters(found[0]))
    return None if is_doubtful else found.end()


def _is_of_letters(word: str) -> bool:
    """Return whether both dialects read this as a word. In one of them, some characters beyond ASCII are spaces."""
    return word.isascii() or all(c.isascii() or c.isalnum() for c in word)


def _after_block(text: str, at: int) -> int | None:
    """Return the end of a block comment, or None. A comment inside a comment must be closed as well."""
    depth = 0
    for found in pattern(r"/\*|\*/").finditer(text, at):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return None


def _mask_token(token: SqlToken, before: str) -> str:
    kind, text = token
    if kind == "remark":
        return "--" + mask_shown(text[2:])
    if kind == "block":
        return f"/*{mask_shown(text[2:-2])}*/"
    if kind in {"word", "name", "doubt"}:
        return mask_shapes(text)
    if kind == "number":
        return _mask_number(text, before)
    if kind in _STRINGS:
        opening, value, closing = _split_string(token)
        return opening + _mask_string(value, before) + closing
    return text


def _split_string(token: SqlToken) -> tuple[str, str, str]:
    """Return the opening mark, the content and the closing mark of a string."""
    if token.kind == "dollar":
        quote = token.text[: token.text.index("$", 1) + 1]
        return quote, token.text[len(quote) : -len(quote)], quote
    opening = "'" if token.kind == "string" else token.text[:2]
    return opening, token.text[len(opening) : -1], "'"


def _hide_token(token: SqlToken) -> str:
    """Return the mask of a literal that is a secret because of its position."""
    if token.kind not in _STRINGS:
        return MASK
    opening, value, closing = _split_string(token)
    return opening + pattern(_A_LINE).sub(MASK, value) + closing


def _mask_string(value: str, before: str) -> str:
    """Mask the whole string if the text before it shows that it is a secret, otherwise the secrets in it."""
    masked_value = mask_shown(value)
    quoted = f"'{pattern(_LAYOUT).sub(' ', masked_value[:_REACH])}'"
    return pattern(_A_LINE).sub(MASK, value) if value and _mask_in_context(before, quoted) != quoted else masked_value


def _mask_in_context(before: str, value: str) -> str:
    """Return the value as masked because of the text before it. It is unchanged if that text itself would be masked."""
    masked = mask_line(before + value)
    return masked[len(before) :] if masked.startswith(before) else value


def _mask_number(digits: str, before: str) -> str:
    return _mask_in_context(before, digits)
