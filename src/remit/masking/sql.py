"""Masks for a statement of SQL that a person says yes or no to: of its strings, numbers and comments.

Key words, names and marks are what the statement does, and stay, whatever a comment or a string pretends to open. The
text is taken apart by the lexical rules that PostgreSQL and DuckDB share. From where these two do not read it alike, or
it ends in the middle, only what has the shape of a key is masked: in doubt it is shown.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from remit.masking.diffs import mask_diff
from remit.masking.patterns import pattern
from remit.masking.shapes import mask_shapes
from remit.masking.shown import mask_shown
from remit.masking.table import MASK

_LETTER: Final = r"A-Za-z_\x80-\U0010ffff"
_GAP: Final = r"[ \t\f\v]*+(?:--[^\n\r]*+)?[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*+[\n\r])*+"
_ESCAPED: Final = r"'(?:[^'\\]|''|\\.)*+'"
_TOKEN: Final = (
    r"(?s)(?P<remark>--[^\n\r]*+)|(?P<block>/\*)|"
    rf"(?P<escaped>[eE]{_ESCAPED}(?:{_GAP}{_ESCAPED})*+)|"
    r"(?P<string>'(?:[^']|'')*+')|"
    rf"(?P<dollar>\$(?:[{_LETTER}][{_LETTER}0-9]*+)?\$)|"
    r"(?P<name>\"(?:[^\"]|\"\")*+\")|"
    rf"(?P<word>[{_LETTER}][{_LETTER}0-9$]*+)|"
    r"(?P<number>\d[\d_.]*+)|(?P<mark>.)"
)
_OPENED: Final = frozenset("'\"")
_REMARKS: Final = frozenset({"remark", "block"})
_LINE_END: Final = r"[\n\r]"
_A_LINE: Final = r"[^\n\r]+"
_LAYOUT: Final = r"\s+|'"
_REACH: Final = 200
"""Characters before a value that say what it is of."""


class _Token(NamedTuple):
    kind: str
    text: str


def mask_sql(text: str, most: int | None = None) -> str:
    """The statement with the secrets in it masked. It has the same line ends, names, key words and marks.

    `most`: no more is wanted than so many characters, and about as many are masked and given.
    """
    out: list[str] = []
    before, size = "", 0
    for token in _tokens(text):
        out.append(_masked(token, before))
        size += len(out[-1])
        if most is not None and size > most:
            break
        if token.kind not in _REMARKS:
            before = pattern(_LINE_END).split((before + out[-1])[-_REACH:])[-1]
    return "".join(out)


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while found := pattern(_TOKEN).match(text, at):
        end = _end_of(found)
        if end is None:
            yield _Token("doubt", text[at:])
            return
        yield _Token(found.lastgroup or "mark", text[at:end])
        at = end


def _end_of(found: re.Match[str]) -> int | None:
    """None where something is opened and not closed, or not read alike: how it goes on is a doubt."""
    if found.lastgroup == "block":
        return _after_block(found.string, found.start())
    if found.lastgroup == "dollar":
        end = found.string.find(found[0], found.end())
        return end + len(found[0]) if end >= 0 else None
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


def _masked(token: _Token, before: str) -> str:
    kind, text = token
    if kind == "remark":
        return "--" + mask_shown(text[2:])
    if kind == "block":
        return f"/*{mask_shown(text[2:-2])}*/"
    if kind in {"word", "name", "doubt"}:
        return mask_shapes(text)
    if kind == "number":
        return _number(text, before)
    if kind in {"string", "escaped"}:
        opening = "'" if kind == "string" else text[:2]
        return opening + _content(text[len(opening) : -1], before) + "'"
    if kind == "dollar":
        quote = text[: text.index("$", 1) + 1]
        return quote + _content(text[len(quote) : -len(quote)], before) + quote
    return text


def _content(value: str, before: str) -> str:
    """Of a string: all of it, if what stands before it says that it is a secret; else what is one in it."""
    own = mask_shown(value)
    quoted = f"{before}'{pattern(_LAYOUT).sub(' ', own[:_REACH])}'"
    return own if not value or mask_diff(quoted) == quoted else pattern(_A_LINE).sub(MASK, value)


def _number(digits: str, before: str) -> str:
    masked = mask_diff(before + digits)
    if masked == before + digits:
        return digits
    return masked[len(before) :] if masked.startswith(before) else MASK
