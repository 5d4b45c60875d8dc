"""The masking table: how each kind of value looks after masking.

Masking a mask does not change it. A mask shows at most the last four characters and, for keys, a prefix that is public
or very short.
"""

from collections.abc import Callable
from typing import Final

from remit.masking.field_names import Kind
from remit.masking.regex_cache import pattern

MASK: Final = "********"

Hide = Callable[[Kind, str], str]
"""A function that returns the replacement of a value beside the name of a secret."""

_SHORTEST_SHOWN_KEY = 20  # four characters would be too large a part of a shorter key
_CARD_DIGITS = range(12, 20)
_SSN_DIGITS = 9

# Prefixes that show the issuer of a key and nothing of its secret part. Of a key without one, at most three letters and
# a separator stay visible.
PUBLIC_PREFIX: Final = (
    r"(?:(?:sk|pk|rk|gh[pousr]|github|hf|npm|whsec|dop|doo|shp(?:at|ca|pa|ss)|gsk|rnd|lin|figd|nvapi|glrt)_|"
    r"(?:sk|pypi|glpat|xox[a-z]|xapp|xai|nvapi|dapi|pat)-|(?:SG|ya29|hv[sb])\.|AIza|AKIA|ASIA|eyJ|eyA|ewo)"
)
_PREFIX = rf"{PUBLIC_PREFIX}|[A-Za-z]{{1,3}}[_-]|"
_MASKED_KEY = rf"(?:{_PREFIX})\.\.\.[A-Za-z0-9_-]{{4}}"
_LONG_KEY = r"[A-Za-z0-9_.~+/=-]*[A-Za-z0-9_-]{4}"
_SCHEME = r"(?i)(bearer|basic|token|apikey|api-key|negotiate|ntlm|dpop)[ \t]+(?=\S)"
_CARD_WRITTEN = r"\s*\d(?:[ \u00a0.-]?\d){11,18}\s*"
_MASKED_CARD = r"\*{4}-\*{4}-\*{4}-\d{4}"
_MASKED_SSN = r"\*{3}-\*{2}-\d{4}"


def card_mask(digits: str) -> str:
    return f"****-****-****-{digits[-4:]}"


def written_card_mask(value: str) -> str | None:
    """Return the mask of a value that is 12 to 19 digits, in one piece or in groups, or None if it is not."""
    if not pattern(_CARD_WRITTEN).fullmatch(value):
        return None
    return card_mask("".join(str(int(digit)) for digit in value if digit.isdecimal()))


def ssn_mask(digits: str) -> str:
    return f"***-**-{digits[-4:]}"


def key_mask(key: str) -> str:
    """Return `sk_...xxxx`: the prefix with its separator, and the last four characters.

    If that would show too much, the result has only stars.
    """
    if pattern(_MASKED_KEY).fullmatch(key):
        return key
    if len(key) < _SHORTEST_SHOWN_KEY or not pattern(_LONG_KEY).fullmatch(key):
        return MASK
    prefix = pattern(_PREFIX).match(key)
    return f"{prefix[0] if prefix else ''}...{key[-4:]}"


def shape_mask(key: str) -> str:
    """Return the mask of a key that was recognised by its shape, like `key_mask`, for any length."""
    prefix = pattern(PUBLIC_PREFIX).match(key)
    return f"{prefix[0] if prefix else ''}...{key[-4:]}"


def authorization_mask(value: str) -> str:
    """Return the scheme with masked credentials."""
    scheme = pattern(_SCHEME).match(value)
    if not scheme:
        return MASK
    credentials = value[scheme.end() :]
    shown = key_mask(credentials) if pattern(PUBLIC_PREFIX).match(credentials) else MASK
    return scheme[0] + shown


def named_mask(kind: Kind, value: str) -> str:
    """Return the mask of a value in a field with a telling name. Only an empty value is unchanged."""
    if not value:
        return value
    digits = "".join(c for c in value if c.isdecimal())
    if kind is Kind.KEY:
        return key_mask(value)
    if kind is Kind.AUTHORIZATION:
        return authorization_mask(value)
    if kind is Kind.CARD and (len(digits) in _CARD_DIGITS or pattern(_MASKED_CARD).fullmatch(value)):
        return card_mask(digits)
    if kind is Kind.SSN and (len(digits) == _SSN_DIGITS or pattern(_MASKED_SSN).fullmatch(value)):
        return ssn_mask(digits)
    return MASK
