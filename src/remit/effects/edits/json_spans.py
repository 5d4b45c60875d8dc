"""Byte offsets of the values in a JSON text. Only for a text that is known to be valid.

Walks the tokens that lead to one value and skips all others by counting brackets. It builds no tree of the whole text.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from remit.core.errors import EnvironmentFailureError, Reason

_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_STRING_OR_BRACKET: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)
_WORD: Final = re.compile(rb"[^ \t\r\n,\]}]++")

Kind = Literal["object", "array", "other"]
_KINDS: Final[dict[int, Kind]] = {0x7B: "object", 0x5B: "array"}


class Member(NamedTuple):
    """One member of an object, or one element of an array, which has no key."""

    key: str | int
    key_start: int
    """For an element of an array: where its value begins."""
    key_end: int
    value_start: int
    value_end: int


class JsonSpan(NamedTuple):
    kind: Kind
    start: int
    end: int


def locate(body: bytes, value_path: Sequence[str | int]) -> JsonSpan:
    """Return the span of the value that the keys and indexes (from 0) lead to."""
    start = _skip_space(body, 0)
    for step in value_path:
        start = _child(body, start, step)
    return JsonSpan(_KINDS.get(body[start], "other"), start, _end(body, start))


def members(body: bytes, node: JsonSpan) -> list[Member]:
    return [
        Member(key, key_start, key_end, value_start, _end(body, value_start))
        for key, key_start, key_end, value_start in _entries(body, node.start)
    ]


def _child(body: bytes, start: int, step: str | int) -> int:
    for key, _, _, value_start in _entries(body, start):
        if key == step and isinstance(key, str) == isinstance(step, str):
            return value_start
    raise _lost()


def _entries(body: bytes, start: int) -> Iterator[tuple[str | int, int, int, int]]:
    """Yield each key, its start and end, and where its value begins. Skips the content of each value."""
    has_keys = body[start] == 0x7B
    index = 0
    place = _skip_space(body, start + 1)
    while body[place] not in b"]}":
        key: str | int = index
        key_start = key_end = value_start = place
        if has_keys:
            key_end = _string_end(body, place)
            key = json.loads(body[place:key_end])
            value_start = _skip_space(body, _skip_space(body, key_end) + 1)  # the colon
        yield key, key_start, key_end, value_start
        place = _skip_space(body, _end(body, value_start))
        if body[place] == 0x2C:
            place = _skip_space(body, place + 1)
        index += 1


def _end(body: bytes, start: int) -> int:
    first = body[start]
    if first == 0x22:
        return _string_end(body, start)
    if first not in _KINDS:
        word = _WORD.match(body, start)
        return word.end() if word else start
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(body, start):
        token = found[0]
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return found.end()
    raise _lost()


def _string_end(body: bytes, start: int) -> int:
    found = _STRING.match(body, start)
    if found is None:
        raise _lost()
    return found.end()


def _skip_space(body: bytes, place: int) -> int:
    found = _SPACE.match(body, place)
    return found.end() if found else place


def _lost() -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.INTERNAL, "two readings of one JSON text found the place of an edit differently"
    )
