"""Equality of JSON values. Needs the standard library only, so every sandboxed process may load it."""

from typing import Any


def is_equal(one: Any, other: Any) -> bool:
    """Return whether two values are equal as JSON: 1 and 1.0 are the same number, and no number equals true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_equal(one[key], other[key]) for key in one)
    return bool(one == other)
