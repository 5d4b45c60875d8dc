"""Masks for a statement of SQL that a person says yes or no to: of its strings, numbers and comments.

Key words, names and marks are what the statement does, and stay, whatever a comment or a string pretends to open. The
text is taken apart by the lexical rules that PostgreSQL and DuckDB share. From where these two do not read it alike, or
it ends in the middle, only what has the shape of a key is masked: in doubt it is shown.

Values of SQL that their place says to be secrets: a column's in an INSERT, one that is called so, a default.

    INSERT INTO users (name, password) VALUES ('ada', '...')
    INSERT INTO users (name, password) SELECT 'ada', '...'
    UPDATE users SET (name, password) = ('ada', '...')
    SELECT '...' AS password
    ALTER TABLE users ALTER COLUMN password SET DEFAULT '...'

Only a literal that stands alone in its place: what is part of an expression stays, and so does all in doubt.
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
"""A colon begins its type."""
_BETWEEN_ROWS: Final = frozenset({"(", ","})
_BEFORE_ROWS: Final = frozenset({"values", "select", "="})
_AFTER_A_SELECT: Final = frozenset(
    {"except", "from", "group", "having", "intersect", "limit", "on", "order", "returning", "union", "where"}
    | {";", "*", "columns"}
)
_BEFORE_A_COLUMN: Final = frozenset({"(", ",", ";", "add", "alter", "column", "exists"})
_WITHIN_A_COLUMN: Final = 40
"""Tokens, at most, from the name of a column to its default."""


class _PlacedToken(NamedTuple):
    """A token that is no space and no comment, and its place in the statement."""

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
    """The places, among the tokens, of the literals that are secrets."""
    code_tokens = [
        _PlacedToken(place, token.kind, token.text)
        for place, token in enumerate(tokens)
        if token.kind not in REMARKS and not token.text.isspace()
    ]
    code_tokens = [_END, *code_tokens, _END, _END]
    return frozenset((*_in_rows(code_tokens), *_aliased(code_tokens), *_defaults(code_tokens)))


# --- in rows ---------------------------------------------------------------------------------------------------------


def _in_rows(code_tokens: Sequence[_PlacedToken]) -> Iterator[int]:
    done = 0  # rows within rows are not looked into: each token is read once, whatever is opened and not closed
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
    """Whether each column is a secret, in the list of names that ends here; none, if it is no such list."""
    names: list[bool] = []
    at = _after_list(code_tokens, at)
    if code_tokens[at].text != ")":
        return []
    while at >= 2 and code_tokens[at].text in {")", ","} and code_tokens[at - 1].kind in _NAMES:
        names.append(code_tokens[at - 1].is_secret)
        at -= 2
    return names[::-1] if code_tokens[at].text == "(" and any(names) else []


def _after_list(code_tokens: Sequence[_PlacedToken], at: int) -> int:
    """Back over what may stand between a list of columns and their values: `OVERRIDING USER VALUE`, `AS (`."""
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
    """Of the rows from here on, or of the one that begins here."""
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
    """Up to a star: how many columns that stands for nobody can tell here."""
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
    """`'...' AS password`"""
    for before, one, word, name in zip(code_tokens, code_tokens[1:], code_tokens[2:], code_tokens[3:], strict=False):
        if one.kind in _LITERALS and before.word in _BEFORE_A_VALUE and word.word == "as" and name.is_secret:
            yield one.place


def _defaults(code_tokens: Sequence[_PlacedToken]) -> Iterator[int]:
    """`password SET DEFAULT '...'`; and `password VARCHAR(20) NOT NULL DEFAULT '...'`, of a new column."""
    for at, one in enumerate(code_tokens[:-1]):
        if one.word == "default" and code_tokens[at + 1].kind in _LITERALS and _column_of(code_tokens, at).is_secret:
            yield code_tokens[at + 1].place


def _column_of(code_tokens: Sequence[_PlacedToken], at: int) -> _PlacedToken:
    """The first name of the part that this stands in."""
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
# A backtick quotes a name for the one, and is an operator for the other.
_OPENED: Final = frozenset("'\"`")
_MASK_MARGIN: Final = 4
"""Masks are shorter than what they hide, and what follows a value says what it is of."""
_STRINGS: Final = frozenset({"string", "escaped", "dollar"})
_LINE_END: Final = r"[\n\r]"
_A_LINE: Final = r"[^\n\r]+"
_LAYOUT: Final = r"\s+|'"
_REACH: Final = 200
"""Characters before a value that say what it is of."""
_NEXT_VALUE: Final = frozenset({",", ";", ")", "and", "or", "where"})
"""What stands before one of these says nothing of what comes after it."""
_OF_ITS_FIRST: Final = frozenset(
    {"cast", "concat", "crypt", "digest", "encode", "encrypt", "hmac", "lower", "md5", "pgp_sym_encrypt", "sha1"}
    | {"sha224", "sha256", "sha384", "sha512", "trim", "upper"}
)
"""Functions of which a secret is made of their first argument. The string that another one takes may be code."""


def mask_sql(text: str, most: int | None = None) -> str:
    """The statement with the secrets in it masked. It has the same line ends, names, key words and marks.

    `most`: no more is wanted than so many characters, and about as many are masked and given.
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
    """None where something is opened and not closed, or not read alike: how it goes on is a doubt."""
    if found.lastgroup == "block":
        return _after_block(found.string, found.start())
    if found.lastgroup == "dollar":
        end = found.string.find(found[0], found.end())
        return end + len(found[0]) if end >= 0 else None
    if found.lastgroup == "escaped" and pattern(_CONTINUATION).match(found.string, found.end()):
        return None  # on another line: to the one with escapes as before, to the other without
    is_doubtful = found[0] in _OPENED or (found.lastgroup == "word" and not _is_of_letters(found[0]))
    return None if is_doubtful else found.end()


def _is_of_letters(word: str) -> bool:
    """To one of the two every character beyond ASCII is a letter; to the other some are spaces."""
    return word.isascii() or all(c.isascii() or c.isalnum() for c in word)


def _after_block(text: str, at: int) -> int | None:
    """A comment in a comment must be closed as well."""
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
    """A string, as its marks and what is between them."""
    if token.kind == "dollar":
        quote = token.text[: token.text.index("$", 1) + 1]
        return quote, token.text[len(quote) : -len(quote)], quote
    opening = "'" if token.kind == "string" else token.text[:2]
    return opening, token.text[len(opening) : -1], "'"


def _hide_token(token: SqlToken) -> str:
    """Its place says that it is a secret."""
    if token.kind not in _STRINGS:
        return MASK
    opening, value, closing = _split_string(token)
    return opening + pattern(_A_LINE).sub(MASK, value) + closing


def _mask_string(value: str, before: str) -> str:
    """Of a string: all of it, if what stands before it says that it is a secret; else what is one in it."""
    masked_value = mask_shown(value)
    quoted = f"'{pattern(_LAYOUT).sub(' ', masked_value[:_REACH])}'"
    return pattern(_A_LINE).sub(MASK, value) if value and _mask_in_context(before, quoted) != quoted else masked_value


def _mask_in_context(before: str, value: str) -> str:
    """What a mask makes of a value for what stands before it. That this would be masked itself says nothing of it."""
    masked = mask_line(before + value)
    return masked[len(before) :] if masked.startswith(before) else value


def _mask_number(digits: str, before: str) -> str:
    return _mask_in_context(before, digits)
