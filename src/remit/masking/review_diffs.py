"""Masks for a diff that somebody is to judge: secrets are hidden, and what would be evaluated is not.

Line by line: nobody loses count of what a file would get, nothing that one line opens, a quote or a file's name, hides
another, and each line in which something is hidden can be told, so that whoever approves the diff knows what he did not
see. Limit: of a secret that goes over several lines, and is no private key, the first one is hidden. Logs and records
have `mask_text`.
"""

from functools import partial
from typing import Final

from remit.masking.credentials import mask_jwks, mask_private_keys, mask_shapes
from remit.masking.field_names import Kind
from remit.masking.key_value import mask_pairs
from remit.masking.masks import MASK, named_mask
from remit.masking.numbers import mask_cards, mask_ssns
from remit.masking.prose import mask_spoken
from remit.masking.regex_cache import pattern
from remit.masking.review_key_lines import hide_key, mask_lines
from remit.masking.text import Mask, mask_in_rounds, mask_text
from remit.masking.url_hosts import mask_around_hosts, stands_after_scheme
from remit.masking.urls import AT, mask_emails, mask_passwords_without_scheme

# `$(curl`, `${f(x)}`, `{f(x)}`, and a call that the value begins with, up to a quote (or the mask of what was quoted).
# Not `${NAME:-value}`: such a value may well be the secret. A password that was drawn has none of them.
_EVALUATED = (
    r"\$\([ \t]*+[A-Za-z_./][\w./-]*+(?:[ \t][^\n]*\)|[ \t][^\n]*+|\)|\Z)|"
    r"\$?\{[^{}(\n]*+(?<=[\w\])])\([^{}\n]*+\}|"
    r"\A[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)*+\((?=[\"'`)*])"
)


def mask_diff(text: str) -> str:
    """A unified diff with every secret in it masked. It has as many lines as before."""
    return "\n".join(mask_lines(mask_jwks(text).split("\n"), mask_line))


def mask_line(line: str) -> str:
    return mask_around_hosts(line, partial(mask_in_rounds, masks=_MASKS))


def is_hidden(line: str, masked: str) -> bool:
    """Whether a mask keeps a reader from seeing what a line says.

    A card's number, a social security number and an e-mail address are that and nothing else, unless the address has
    quotes: anything can stand in those.
    """
    if masked == line:
        return False
    return masked != _mask_mailboxes(mask_cards(mask_ssns(line))) or bool(pattern(rf'"{AT}').search(line))


def _hide(kind: Kind, value: str) -> str:
    if stands_after_scheme(value):
        return value
    out, done = [], 0
    for found in pattern(_EVALUATED).finditer(value):
        out += [_literal(value[done : found.start()]), mask_text(found[0])]
        done = found.end()
    return "".join([*out, _literal(value[done:])]) if out else named_mask(kind, value)


def _literal(piece: str) -> str:
    """What stands beside an evaluated piece may be a part of a secret, or no more than the marks around it."""
    return MASK if any(c.isalnum() or c == "*" for c in piece) else piece


_mask_mailboxes: Final[Mask] = partial(mask_emails, only_mailboxes=True)
_MASKS: Final[tuple[Mask, ...]] = (
    partial(mask_private_keys, hide=hide_key),
    mask_passwords_without_scheme,
    partial(mask_pairs, hide=_hide),
    partial(mask_spoken, hide=_hide),
    mask_shapes,
    mask_ssns,
    mask_cards,
    _mask_mailboxes,
)
