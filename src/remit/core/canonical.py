"""RFC 8785 bytes and digests: the only bytes Remit ever signs or hashes.

Two encoders give the same bytes. Nearly everything that Remit signs is plain (ASCII keys, ordinary numbers), and for
that the C encoder of the standard library already writes RFC 8785. Anything else goes to the `rfc8785` package, which
is about ten times slower. Code-point order is not the order of RFC 8785 (that is UTF-16), hence the ASCII rule. Both
write a fraction with the same digits, as long as neither needs an exponent.
"""

import hashlib
import json
import json.encoder
from collections.abc import Callable, Iterable
from typing import Any, Final

import rfc8785

from remit.core.errors import Reason, RefusedError

MAX_SAFE_INTEGER: Final = 2**53 - 1
MAX_DEPTH: Final = 200
_PLAIN_TYPES: Final = frozenset({str, bool, type(None)})
# Fractions between these: there Python's shortest digits and JavaScript's are the same text.
_LEAST_FRACTION: Final = 1e-4
_MOST_FRACTION: Final = 1e15


def _make_encoder() -> Callable[[Any], str]:
    """Make the C encoder once.

    `JSONEncoder.encode` makes one for each call, which costs as much as a small document.
    """
    settings = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, check_circular=False, sort_keys=True, separators=(",", ":")
    )
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # an interpreter without the C encoder
        return settings.encode
    chunks: Any = make(None, settings.default, json.encoder.encode_basestring, None, ":", ",", True, False, False)
    return lambda value: "".join(chunks(value, 0))


_encode: Final = _make_encoder()


def canonical_bytes(value: Any) -> bytes:
    """Return the RFC 8785 form of a JSON value.

    Refuses NaN, integers past 2^53-1 and lone surrogates: they have none.
    """
    try:
        if not _is_plain(value, 0):
            value = _whole(value)
            if not _is_plain(value, 0):
                return rfc8785.dumps(value)
        return _encode(value).encode("utf-8")
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, ValueError, RecursionError) as problem:
        why = _why(problem)
    # Raised out here, so that no traceback leads back to a text that quotes the value.
    raise RefusedError(
        Reason.MALFORMED,
        f"this value has no canonical JSON form: {why}",
        next_step="Send integers past 2^53-1 as strings, and text as valid Unicode.",
    )


def digest_bytes(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """Return `sha256:<hex>` of the canonical bytes."""
    return digest_bytes(canonical_bytes(value))


def _is_plain(value: Any, depth: int) -> bool:
    """Return whether the fast encoder may be used. Walks the whole value, so the depth is checked with either encoder.

    Simple values are checked inline, without a call: this runs several times for each ledger entry.
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
        return type(value) in _PLAIN_TYPES or _is_plain_number(value)
    for item in items:
        if type(item) not in _PLAIN_TYPES and not _is_plain(item, depth + 1):
            plain = False
    return plain


def _whole(value: Any) -> Any:
    """Return the value with each float that is a whole number as an integer: RFC 8785 writes it as one."""
    if type(value) is float and value.is_integer() and abs(value) <= MAX_SAFE_INTEGER:
        return int(value)
    if type(value) is dict:
        return {key: _whole(each) for key, each in value.items()}
    return [_whole(each) for each in value] if type(value) is list else value


def _is_plain_number(value: Any) -> bool:
    if type(value) is int:
        return abs(value) <= MAX_SAFE_INTEGER
    return type(value) is float and _LEAST_FRACTION <= abs(value) < _MOST_FRACTION and not value.is_integer()


def _why(problem: Exception) -> str:
    """Describe the problem without quoting the value, which may be a secret."""
    if isinstance(problem, RecursionError):
        return f"it is nested more than {MAX_DEPTH} deep"
    if isinstance(problem, rfc8785.IntegerDomainError):
        return "an integer is past 2^53-1"
    if isinstance(problem, rfc8785.FloatDomainError):
        return "a number is not finite"
    if isinstance(problem, rfc8785.CanonicalizationError) and not isinstance(problem.__cause__, UnicodeEncodeError):
        return str(problem)
    return "it holds a lone surrogate"
