"""Masks for what a person says yes or no to: values are hidden, and never what stands around them.

Line by line: a quote that somebody opened and did not close hides what is left of its own line, and no line after it.
Of a private key each line is hidden that can be one of it. Limit: of a secret that goes over several lines, and is no
such key, the first line is hidden. Logs and records have `mask_text`, which takes more in doubt.
"""

from collections.abc import Iterator
from typing import Final

from remit.masking.addresses import mask_emails, mask_passwords_in_addresses
from remit.masking.diffs import mask_diff
from remit.masking.numbers import mask_cards, mask_ssns
from remit.masking.patterns import pattern
from remit.masking.shapes import PEM_BEGIN, PEM_END, mask_shapes
from remit.masking.table import MASK

_KEY_LINE: Final = r"([ \t\"'`+>|#*-]*+)([A-Za-z0-9+/=]{16,}+)([\s\"'`,;+\\]*+)"
_LAST_KEY_LINE: Final = r"([ \t\"'`+>|#*-]*+)([A-Za-z0-9+/=]{4,}+)([\s\"'`,;+\\]*+)"


def mask_shown(text: str) -> str:
    """The text with every secret in it masked. It has the same line ends. Idempotent."""
    if "\n" not in text and len(text.splitlines()) <= 1:
        return mask_diff(text)
    return "".join(_masked_lines(text.splitlines(keepends=True)))


def mask_shaped(text: str) -> str:
    """What is a secret by its own looks, and nothing for the word beside it: for texts that were masked already, where
    that word may have come to stand beside something else.
    """
    return mask_emails(mask_cards(mask_ssns(mask_shapes(mask_passwords_in_addresses(text)))))


def _masked_lines(lines: list[str]) -> Iterator[str]:
    in_key = False
    for number, line in enumerate(lines):
        body = _body_of_key(line, lines[number + 1 : number + 2]) if in_key else None
        yield body if body is not None else _masked_line(line)
        in_key = _is_in_key(line, before=in_key)


def _masked_line(line: str) -> str:
    """Without its end, so that no mask can take that along."""
    bare = line.splitlines()[0]
    return mask_diff(bare) + line[len(bare) :]


def _is_in_key(line: str, *, before: bool) -> bool:
    """After this line. What goes on after both marks, on one line, is no key any more."""
    if "PRIVATE KEY" not in line:
        return before
    begun = max((found.start() for found in pattern(PEM_BEGIN).finditer(line)), default=-1)
    ended = max((found.start() for found in pattern(PEM_END).finditer(line)), default=-1)
    return begun > ended


def _body_of_key(line: str, following: list[str]) -> str | None:
    """The line with its piece of a key masked; None if it holds none. Words and statements have gaps between them."""
    is_last = bool(following) and pattern(PEM_END).search(following[0]) is not None
    found = pattern(_LAST_KEY_LINE if is_last else _KEY_LINE).fullmatch(line)
    return f"{found[1]}{MASK}{found[3]}" if found else None
