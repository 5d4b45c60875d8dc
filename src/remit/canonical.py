"""RFC 8785 bytes and digests: the only bytes Remit ever signs or hashes.

Two ways to the same bytes. Nearly everything Remit signs is plain (ASCII keys, no floating point), and for that the
C encoder of the standard library already writes RFC 8785; anything else goes to the `rfc8785` package, some ten times
slower. Code-point order is not RFC 8785 order (that is UTF-16), hence the ASCII rule.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any, Final

import rfc8785

from remit.errors import Reason, Refused

MAX_SAFE_INTEGER: Final = 2**53 - 1
MAX_DEPTH: Final = 200
_PLAIN_TYPES: Final = frozenset({str, bool, type(None)})

_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, sort_keys=True, separators=(",", ":")
).encode


def canonical_bytes(value: Any) -> bytes:
    """The RFC 8785 form of a JSON value. Refuses what has none: NaN, integers past 2^53-1, lone surrogates."""
    try:
        if _is_plain(value, 0):
            return _encode(value).encode("utf-8")
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, ValueError, RecursionError) as problem:
        why = _why(problem)
    # Raised out here, so that no traceback leads back to a text that quotes the value.
    raise Refused(
        Reason.MALFORMED,
        f"this value has no canonical JSON form: {why}",
        next_step="Send integers past 2^53-1 as strings, and text as valid Unicode.",
    )


def digest_bytes(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """`sha256:<hex>` of the canonical bytes."""
    return digest_bytes(canonical_bytes(value))


def _is_plain(value: Any, depth: int) -> bool:
    """Whether the fast encoder may be used. Walks everything, so that the depth is checked on either way.

    Texts and the like are judged where they stand, without a call: this runs several times for each ledger entry.
    """
    if depth >= MAX_DEPTH and isinstance(value, dict | list | tuple):
        raise RecursionError
    if isinstance(value, dict):
        plain = type(value) is dict
        for key in value:
            if type(key) is not str or not key.isascii():
                plain = False
        items: Iterable[Any] = value.values()
    elif isinstance(value, list | tuple):
        plain = type(value) is list or type(value) is tuple
        items = value
    else:
        return type(value) in _PLAIN_TYPES or (type(value) is int and abs(value) <= MAX_SAFE_INTEGER)
    for item in items:
        if type(item) not in _PLAIN_TYPES and not _is_plain(item, depth + 1):
            plain = False
    return plain


def _why(problem: Exception) -> str:
    """Never quotes the value: it may be a secret."""
    if isinstance(problem, RecursionError):
        return f"it is nested more than {MAX_DEPTH} deep"
    if isinstance(problem, rfc8785.IntegerDomainError):
        return "an integer is past 2^53-1"
    if isinstance(problem, rfc8785.FloatDomainError):
        return "a number is not finite"
    if isinstance(problem, rfc8785.CanonicalizationError) and not isinstance(problem.__cause__, UnicodeEncodeError):
        return str(problem)
    return "it holds a lone surrogate"
