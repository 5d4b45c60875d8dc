"""Masks for a statement of SQL that a person says yes or no to: of its strings, numbers and comments.

Key words, names and marks are what the statement does, and stay, whatever a comment or a string pretends to open. The
text is taken apart by the lexical rules that PostgreSQL and DuckDB share. From where these two do not read it alike, or
it ends in the middle, only what has the shape of a key is masked: in doubt it is shown.
"""

import re
from collections.abc import Iterator
from typing import Final

from remit.masking.credentials import mask_shapes
from remit.masking.masks import MASK
from remit.masking.regex_cache import pattern
from remit.masking.review_diffs import mask_line
from remit.masking.review_shown import mask_shown
from remit.masking.sql_sql_places import REMARKS, Token, named_by_place

_LETTER: Final = r"A-Za-z_\x80-\U0010ffff"
_GOES_ON: Final = r"[ \t\f\v]*+(?:--[^\n\r]*+)?[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*+[\n\r])*+'"
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
_ROOM: Final = 4
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
    named = named_by_place(tokens)
    for at, token in enumerate(tokens):
        out.append(_hidden(token) if at in named else _masked(token, before))
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


def tokens_of(text: str, most: int | None = None) -> Iterator[Token]:
    at, last = 0, len(text) if most is None else _ROOM * most
    while at <= last and (found := pattern(_TOKEN).match(text, at)):
        end = _end_of(found)
        if end is None:
            yield Token("doubt", text[at:])
            return
        yield Token(found.lastgroup or "mark", text[at:end])
        at = end


def _end_of(found: re.Match[str]) -> int | None:
    """None where something is opened and not closed, or not read alike: how it goes on is a doubt."""
    if found.lastgroup == "block":
        return _after_block(found.string, found.start())
    if found.lastgroup == "dollar":
        end = found.string.find(found[0], found.end())
        return end + len(found[0]) if end >= 0 else None
    if found.lastgroup == "escaped" and pattern(_GOES_ON).match(found.string, found.end()):
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


def _masked(token: Token, before: str) -> str:
    kind, text = token
    if kind == "remark":
        return "--" + mask_shown(text[2:])
    if kind == "block":
        return f"/*{mask_shown(text[2:-2])}*/"
    if kind in {"word", "name", "doubt"}:
        return mask_shapes(text)
    if kind == "number":
        return _number(text, before)
    if kind in _STRINGS:
        opening, value, closing = _opened(token)
        return opening + _content(value, before) + closing
    return text


def _opened(token: Token) -> tuple[str, str, str]:
    """A string, as its marks and what is between them."""
    if token.kind == "dollar":
        quote = token.text[: token.text.index("$", 1) + 1]
        return quote, token.text[len(quote) : -len(quote)], quote
    opening = "'" if token.kind == "string" else token.text[:2]
    return opening, token.text[len(opening) : -1], "'"


def _hidden(token: Token) -> str:
    """Its place says that it is a secret."""
    if token.kind not in _STRINGS:
        return MASK
    opening, value, closing = _opened(token)
    return opening + pattern(_A_LINE).sub(MASK, value) + closing


def _content(value: str, before: str) -> str:
    """Of a string: all of it, if what stands before it says that it is a secret; else what is one in it."""
    own = mask_shown(value)
    quoted = f"'{pattern(_LAYOUT).sub(' ', own[:_REACH])}'"
    return pattern(_A_LINE).sub(MASK, value) if value and _after(before, quoted) != quoted else own


def _after(before: str, value: str) -> str:
    """What a mask makes of a value for what stands before it. That this would be masked itself says nothing of it."""
    masked = mask_line(before + value)
    return masked[len(before) :] if masked.startswith(before) else value


def _number(digits: str, before: str) -> str:
    return _after(before, digits)
