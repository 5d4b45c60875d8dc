"""Masks for a diff that somebody is to judge: secrets are hidden, and what would be evaluated is not.

A line stays a line, so that nobody loses count of what a file would get; and each line in which something is hidden can
be told, so that whoever approves the diff knows what he did not see. Logs and records have `mask_text`.
"""

from functools import partial
from typing import Final

from remit.masking.addresses import AT, mask_emails, mask_passwords_in_addresses
from remit.masking.names import Kind
from remit.masking.numbers import mask_cards, mask_ssns
from remit.masking.pairs import mask_pairs
from remit.masking.patterns import pattern
from remit.masking.prose import mask_spoken
from remit.masking.shapes import mask_private_keys, mask_shapes
from remit.masking.table import MASK, named_mask
from remit.masking.text import Mask, mask_in_rounds, mask_text

# `$(curl`, `${f(x)}`, `{f(x)}`, and a call that the value begins with, up to a quote (or the mask of what was quoted).
# Not `${NAME:-value}`: such a value may well be the secret. A password that was drawn has none of them.
_EVALUATED = (
    r"\$\([ \t]*+[A-Za-z_./][\w./-]*+(?:[ \t][^\n]*\)|[ \t][^\n]*+|\)|\Z)|"
    r"\$?\{[^{}(\n]*+(?<=[\w\])])\([^{}\n]*+\}|"
    r"\A[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)*+\((?=[\"'`)*])"
)
_SIGNS: Final = ("+", "-", " ")


def mask_diff(text: str) -> str:
    """A unified diff with every secret in it masked. It has as many lines as before."""
    return mask_in_rounds(text, _MASKS)


def is_hidden(line: str, masked: str) -> bool:
    """Whether a mask keeps a reader from seeing what a line says.

    A card's number, a social security number and an e-mail address are that and nothing else, unless the address has
    quotes: anything can stand in those.
    """
    if masked == line:
        return False
    return masked != mask_emails(mask_cards(mask_ssns(line))) or bool(pattern(rf'"{AT}').search(line))


def _hide(kind: Kind, value: str) -> str:
    return _hide_lines(value) if "\n" in value else _hide_line(kind, value)


def _hide_line(kind: Kind, value: str) -> str:
    out, done = [], 0
    for found in pattern(_EVALUATED).finditer(value):
        out += [_literal(value[done : found.start()]), mask_text(found[0])]
        done = found.end()
    return "".join([*out, _literal(value[done:])]) if out else named_mask(kind, value)


def _literal(piece: str) -> str:
    """What stands beside an evaluated piece may be a part of a secret, or no more than the marks around it."""
    return MASK if any(c.isalnum() or c == "*" for c in piece) else piece


def _hide_lines(value: str) -> str:
    """Of several lines of a diff each stays one, with its sign; a hunk's header is no line of a file."""
    first, *rest = value.split("\n")
    hidden = (MASK if first.strip() else first, *(_signed(line) for line in rest))
    return "\n".join(hidden)


def _signed(line: str) -> str:
    is_of_a_file = line.startswith(_SIGNS)
    return line[0] + MASK if is_of_a_file and line[1:].strip() else line


_MASKS: Final[tuple[Mask, ...]] = (
    partial(mask_private_keys, hide=_hide_lines),
    mask_passwords_in_addresses,
    partial(mask_pairs, hide=_hide),
    partial(mask_spoken, hide=_hide),
    mask_shapes,
    mask_ssns,
    mask_cards,
    mask_emails,
)
