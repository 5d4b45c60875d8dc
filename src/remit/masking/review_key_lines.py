"""Private keys in a text that somebody is to judge, line by line: what can be a piece of a key is hidden, and no more.

Whoever writes that a key begins hides no line of words or code with it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from remit.masking.credentials import PEM_BEGIN, PEM_END
from remit.masking.masks import MASK
from remit.masking.regex_cache import pattern
from remit.masking.text import Mask

_KEY_LINE: Final = r"([ \t\"'`+>|#*-]*+)([A-Za-z0-9+/=]{16,}+)([\s\"'`,;+\\]*+)"
_LAST_KEY_LINE: Final = r"([ \t\"'`+>|#*-]*+)([A-Za-z0-9+/=]{4,}+)([\s\"'`,;+\\]*+)"
_PIECE: Final = r"[A-Za-z0-9+/=\\]{16,}+"


def mask_lines(lines: Sequence[str], mask: Mask) -> Iterator[str]:
    """Each line by itself, but for those that are the body of a key."""
    in_key = False
    for number, line in enumerate(lines):
        body = _body_of_key(line, lines[number + 1 : number + 2]) if in_key else None
        yield body if body is not None else mask(line)
        in_key = _is_in_key(line, before=in_key)


def hide_key(value: str) -> str:
    """What follows the mark of a key on its own line: words and statements have gaps between them, a key has none."""
    if not value.strip():
        return value
    return pattern(_PIECE).sub(MASK, value) if " " in value.strip() else MASK


def _is_in_key(line: str, *, before: bool) -> bool:
    """After this line. What goes on after both marks, on one line, is no key any more."""
    if "PRIVATE KEY" not in line:
        return before
    begun = max((found.start() for found in pattern(PEM_BEGIN).finditer(line)), default=-1)
    ended = max((found.start() for found in pattern(PEM_END).finditer(line)), default=-1)
    return begun > ended


def _body_of_key(line: str, following: Sequence[str]) -> str | None:
    """The line with its piece of a key masked; None if it holds none."""
    is_last = bool(following) and pattern(PEM_END).search(following[0]) is not None
    found = pattern(_LAST_KEY_LINE if is_last else _KEY_LINE).fullmatch(line)
    return f"{found[1]}{MASK}{found[3]}" if found else None
