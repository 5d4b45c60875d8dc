"""Masks for a diff that somebody is to judge: secrets are hidden, and what would be evaluated is not.

Line by line: nobody loses count of what a file would get, nothing that one line opens, a quote or a file's name, hides
another, and each line in which something is hidden can be told, so that whoever approves the diff knows what he did not
see. Limit: of a secret that goes over several lines, and is no private key, the first one is hidden. Logs and records
have `mask_text`.

Private keys in a text that somebody is to judge, line by line: what can be a piece of a key is hidden, and no more.

Whoever writes that a key begins hides no line of words or code with it.

Masks for what a person says yes or no to: values are hidden, and never what stands around them.

Line by line: a quote that somebody opened and did not close hides what is left of its own line, and no line after it.
Of a private key each line is hidden that can be one of it. Limit: of a secret that goes over several lines, and is no
such key, the first line is hidden. Logs and records have `mask_text`, which takes more in doubt.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from remit.masking.credentials import PEM_BEGIN, PEM_END, mask_jwks, mask_private_keys, mask_shapes
from remit.masking.field_names import Kind
from remit.masking.key_value import mask_pairs
from remit.masking.masks import MASK, named_mask
from remit.masking.numbers import mask_cards, mask_ssns
from remit.masking.prose import mask_prose_secrets
from remit.masking.regex_cache import pattern
from remit.masking.text import Mask, mask_in_rounds, mask_text
from remit.masking.url_hosts import is_after_scheme, mask_around_hosts
from remit.masking.urls import AT, mask_emails, mask_passwords_without_scheme

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
    begin = max((found.start() for found in pattern(PEM_BEGIN).finditer(line)), default=-1)
    ended = max((found.start() for found in pattern(PEM_END).finditer(line)), default=-1)
    return begin > ended


def _body_of_key(line: str, following: Sequence[str]) -> str | None:
    """The line with its piece of a key masked; None if it holds none."""
    is_last = bool(following) and pattern(PEM_END).search(following[0]) is not None
    found = pattern(_LAST_KEY_LINE if is_last else _KEY_LINE).fullmatch(line)
    return f"{found[1]}{MASK}{found[3]}" if found else None


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
    if is_after_scheme(value):
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
    partial(mask_prose_secrets, hide=_hide),
    mask_shapes,
    mask_ssns,
    mask_cards,
    _mask_mailboxes,
)


def mask_shown(text: str) -> str:
    """The text with every secret in it masked. It has the same line ends. Idempotent."""
    if "\n" not in text and len(text.splitlines()) <= 1:
        return mask_line(text)
    return "".join(mask_lines(mask_jwks(text).splitlines(keepends=True), _masked_line))


def mask_shaped(text: str) -> str:
    """What is a secret by its own looks, and nothing for the word beside it: for texts that were masked already, where
    that word may have come to stand beside something else.
    """
    return mask_around_hosts(text, _mask_by_shape)


def _mask_by_shape(text: str) -> str:
    masked = mask_cards(mask_ssns(mask_shapes(mask_passwords_without_scheme(text))))
    return mask_emails(masked, only_mailboxes=True)


def _masked_line(line: str) -> str:
    """Without its end, so that no mask can take that along."""
    bare = line.splitlines()[0]
    return mask_line(bare) + line[len(bare) :]
