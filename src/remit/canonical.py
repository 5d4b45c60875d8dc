"""RFC 8785 bytes and digests: the only bytes Remit ever signs or hashes.

Two ways to the same bytes. Nearly everything Remit signs is plain (ASCII keys, no floating point), and for that the
C encoder of the standard library already writes RFC 8785; anything else goes to the `rfc8785` package, some ten times
slower. Code-point order is not RFC 8785 order (that is UTF-16), hence the ASCII rule.
"""

import hashlib
import json
from typing import Any, Final

import rfc8785

from remit.errors import Reason, Refused

MAX_SAFE_INTEGER: Final = 2**53 - 1
MAX_DEPTH: Final = 200

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
    """Whether the fast encoder may be used. Walks everything, so that the depth is checked on either way."""
    if depth > MAX_DEPTH:
        raise RecursionError
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is int:
        return bool(-MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER)
    plain = True
    if isinstance(value, dict):
        plain = kind is dict
        for key, item in value.items():
            plain = _is_plain(item, depth + 1) and type(key) is str and key.isascii() and plain
        return plain
    if isinstance(value, list | tuple):
        plain = kind is list or kind is tuple
        for item in value:
            plain = _is_plain(item, depth + 1) and plain
        return plain
    return False


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
