"""Masks for texts that a person approves, such as a diff: values are hidden, and never the text around them.

Masking works line by line. The number of lines never changes. An unclosed quote hides the rest of its own line and no
line after it. An approver can see in which lines a value is hidden. A part that would be evaluated, such as `$(curl
...)`, stays visible.

In a private key, each line is hidden that can belong to a key. So a line that announces a key does not hide lines of
words or code after it. Limit: of any other secret that goes over several lines, only the first line is hidden. Logs and
records use `mask_text`, which hides more in doubt.
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
    """Mask each line by itself. Lines that are the body of a key are hidden."""
    in_key = False
    for number, line in enumerate(lines):
        body = _body_of_key(line, lines[number + 1 : number + 2]) if in_key else None
        yield body if body is not None else mask(line)
        in_key = _is_in_key(line, before=in_key)


def hide_key(value: str) -> str:
    """Return the masked text after the mark of a key on the same line.

    Words and statements have spaces between them, a key has none.
    """
    if not value.strip():
        return value
    return pattern(_PIECE).sub(MASK, value) if " " in value.strip() else MASK


def _is_in_key(line: str, *, before: bool) -> bool:
    """Return whether the text after this line belongs to a key. A key may begin and end on one line."""
    if "PRIVATE KEY" not in line:
        return before
    begin = max((found.start() for found in pattern(PEM_BEGIN).finditer(line)), default=-1)
    ended = max((found.start() for found in pattern(PEM_END).finditer(line)), default=-1)
    return begin > ended


def _body_of_key(line: str, following: Sequence[str]) -> str | None:
    """Return the line with its piece of a key masked, or None if it has none."""
    is_last = bool(following) and pattern(PEM_END).search(following[0]) is not None
    found = pattern(_LAST_KEY_LINE if is_last else _KEY_LINE).fullmatch(line)
    return f"{found[1]}{MASK}{found[3]}" if found else None


# `$(curl`, `${f(x)}`, `{f(x)}`, and a call at the start of the value, up to a quote (or the mask of a quoted text). Not
# `${NAME:-value}`, because such a value may be the secret. A random password has none of these.
_EVALUATED = (
    r"\$\([ \t]*+[A-Za-z_./][\w./-]*+(?:[ \t][^\n]*\)|[ \t][^\n]*+|\)|\Z)|"
    r"\$?\{[^{}(\n]*+(?<=[\w\])])\([^{}\n]*+\}|"
    r"\A[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)*+\((?=[\"'`)*])"
)


def mask_diff(text: str) -> str:
    """Return a unified diff with every secret masked. The number of lines stays the same."""
    return "\n".join(mask_lines(mask_jwks(text).split("\n"), mask_line))


def mask_line(line: str) -> str:
    return mask_around_hosts(line, partial(mask_in_rounds, masks=_MASKS))


def is_hidden(line: str, masked: str) -> bool:
    """Return whether a mask hides the meaning of a line from a reader.

    A masked card number, social security number or e-mail address does not, unless the address has quotes: they can
    contain any text.
    """
    if masked == line:
        return False
    return masked != _mask_mailboxes(mask_cards(mask_ssns(line))) or bool(pattern(rf'"{AT}').search(line))


def hides_value(line: str) -> bool:
    """Return whether the mask of this line hides anything but e-mail addresses. A quoted address can hold any text."""
    masked = mask_line(line)
    return masked != line and (masked != _mask_mailboxes(line) or bool(pattern(rf'"{AT}').search(line)))


def hides_key(text: str) -> bool:
    """Return whether the masks hide a key that goes over several lines."""
    if mask_jwks(text) != text:
        return True
    lines = text.split("\n") if "PRIVATE KEY" in text else []
    return any(one != other for one, other in zip(lines, mask_lines(lines, lambda line: line), strict=True))


def _hide(kind: Kind, value: str) -> str:
    if is_after_scheme(value):
        return value
    out, done = [], 0
    for found in pattern(_EVALUATED).finditer(value):
        out += [_literal(value[done : found.start()]), mask_text(found[0])]
        done = found.end()
    return "".join([*out, _literal(value[done:])]) if out else named_mask(kind, value)


def _literal(piece: str) -> str:
    """Mask the text beside an evaluated piece, which may be a part of a secret. Punctuation alone stays visible."""
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
    """Return the text with every secret masked. It has the same line ends. Idempotent."""
    if "\n" not in text and len(text.splitlines()) <= 1:
        return mask_line(text)
    return "".join(mask_lines(mask_jwks(text).splitlines(keepends=True), _masked_line))


def mask_shaped(text: str) -> str:
    """Mask secrets by their own shape, and ignore the words beside them.

    This is for texts that were masked already, in which a word may now be beside another value.
    """
    return mask_around_hosts(text, _mask_by_shape)


def _mask_by_shape(text: str) -> str:
    masked = mask_cards(mask_ssns(mask_shapes(mask_passwords_without_scheme(text))))
    return mask_emails(masked, only_mailboxes=True)


def _masked_line(line: str) -> str:
    """Mask the line without its line end, so that no mask can hide the line end."""
    bare = line.splitlines()[0]
    return mask_line(bare) + line[len(bare) :]
