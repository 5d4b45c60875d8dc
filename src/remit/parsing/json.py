"""A strict parser for untrusted JSON: RFC 8259 and no more, one value for each key, the same for every other parser.

The bytes are scanned once for their shape (depth, item count, unfinished strings) before a parser builds anything. So
a million brackets cost as much as the first thirty-three. A document within the bounds needs at most some nine times
its size in memory, plus some 200 bytes an item. The nine times are possible because one character past U+FFFF makes
Python hold every character of a text in four bytes, once in the decoded document and once in the value.
"""

import functools
import json
import re
from typing import IO, Any, Final, NoReturn

from remit.core.errors import Reason, RefusedError
from remit.parsing.limits import Bounds

# Possessive quantifiers: an unfinished string fails once, in linear time, and its quote then matches alone.
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["\[\]{},]', re.DOTALL)
_COLON: Final = re.compile(rb"[ \t\r\n]*:")
_STRING_OR_NUMBER: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|NaN|-?Infinity|-?[0-9][0-9.eE+-]*+', re.DOTALL)
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
# Matches up to the first lone surrogate, in a text that is known to be valid JSON.
_WHOLE_CHARACTERS: Final = re.compile(
    rb"(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F])|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)*+", re.DOTALL
)
_DEFAULT: Final = Bounds()
FIX_ADVICE: Final = (
    "Fix the JSON there. Keys and strings need double quotes. JSON has no comments and no trailing commas."
)
_MESSAGES: Final = {
    "Expecting value": "a value is expected here",
    "Expecting ',' delimiter": "a comma or a closing bracket is expected here",
    "Expecting ':' delimiter": "a colon is expected after the key",
    "Expecting property name enclosed in double quotes": "a key in double quotes is expected here",
    "Illegal trailing comma before end of object": "there is a comma before the closing bracket",
    "Illegal trailing comma before end of array": "there is a comma before the closing bracket",
    "Extra data": "there is more text after the end of the document",
    "Invalid control character at": "a string contains a line break or another control character",
    "Invalid \\escape": "a backslash is followed by a character that cannot be escaped",
    "Invalid \\uXXXX escape": "a \\u is not followed by four hex digits",
}


def read_bounded(stream: IO[bytes], bounds: Bounds = _DEFAULT, *, source: str = "input") -> bytes:
    """Return all bytes of a stream. Reads at most one byte more than the bound, and refuses a stream that has more."""
    raw = stream.read(bounds.max_bytes + 1)
    _refuse_oversize(raw, bounds, source)
    return raw


def parse_json(raw: bytes, bounds: Bounds = _DEFAULT, *, source: str = "input") -> Any:
    """Return the value: a dict, list, str, int, float, bool or None.

    Refuses more bytes, depth or items than the bounds; invalid UTF-8; a byte-order mark; duplicate keys; NaN and
    infinities; numbers too large for their kind; lone surrogates; and any text after the value.
    """
    _refuse_oversize(raw, bounds, source)
    if not _is_too_small_to_harm(raw, bounds):
        _scan_shape(raw, bounds, source)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        _refuse("this is not UTF-8", f"{source}, byte {problem.start}", "Save the file as UTF-8.")
    if text.startswith("\ufeff"):
        _refuse("this is not JSON: it begins with a BOM", f"{source}, line 1, column 1", "Save it without a BOM.")
    try:
        value = _decoder(bounds).decode(text)
    except _TooManyMembersError as problem:
        raise RefusedError(
            Reason.TOO_LARGE,
            f"an object has more than {bounds.max_members:,} members",
            where=f"{source}, the object that begins with the key {problem.first[:100]!r}",
            next_step="Split the object.",
        ) from None
    except _DuplicateKeyError as duplicate:
        _refuse(
            f"one object has the key {duplicate.key!r} twice",
            f"{source}, {_locate_duplicate(raw)}",
            "Remove one of the two: JSON parsers disagree on which value to use.",
        )
    except _BadNumberError as number:
        place = _locate_number(raw, number.text)
        _refuse(number.why, f"{source}, {place}", "Use a finite number; send very large integers as strings.")
    except json.JSONDecodeError as problem:
        _scan_shape(raw, bounds, source)  # its message about a bracket or a quote is more exact
        place = f"{source}, line {problem.lineno}, column {problem.colno}"
        _refuse(f"this is not JSON: {_describe_error(problem.msg, text)}", place, FIX_ADVICE)
    except RecursionError:  # only if the caller's bound on the depth is larger than the interpreter's own
        raise RefusedError(Reason.TOO_DEEP, "the nesting is too deep", where=source) from None
    if _SURROGATE_ESCAPE.search(raw):
        _refuse_lone_surrogates(raw, source)
    return value


@functools.lru_cache(maxsize=32)
def _decoder(bounds: Bounds) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=functools.partial(_object_without_duplicates, bounds.max_members),
        parse_constant=_no_constant,
        parse_int=functools.partial(_integer, bounds.max_number_digits),
        parse_float=_finite_float,
    )


class _TooManyMembersError(Exception):
    def __init__(self, first: str) -> None:
        self.first = first


class _DuplicateKeyError(Exception):
    def __init__(self, key: str) -> None:
        self.key = key


class _BadNumberError(Exception):
    def __init__(self, why: str, text: str) -> None:
        self.why = why
        self.text = text


def _describe_error(reported: str, text: str) -> str:
    if not text.strip():
        return "the document is empty"
    return next((words for start, words in _MESSAGES.items() if reported.startswith(start)), reported)


def _refuse(what: str, where: str, next_step: str = "") -> NoReturn:
    raise RefusedError(Reason.MALFORMED, what, where=where, next_step=next_step) from None


def _refuse_oversize(raw: bytes, bounds: Bounds, source: str) -> None:
    if len(raw) > bounds.max_bytes:
        raise RefusedError(
            Reason.TOO_LARGE,
            f"the input is larger than {bounds.max_bytes:,} bytes",
            where=source,
            next_step="Split it, or send less.",
        )


def _is_too_small_to_harm(raw: bytes, bounds: Bounds) -> bool:
    """Return whether the document has so few brackets and commas that it is within the bounds in any arrangement.

    The count is made in C and includes those inside of strings.
    """
    containers = raw.count(b"[") + raw.count(b"{")
    return containers <= bounds.max_depth and containers + raw.count(b",") <= bounds.max_items


def _scan_shape(raw: bytes, bounds: Bounds, source: str) -> None:
    depth = items = strings = 0
    for match in _TOKEN.finditer(raw):
        first = raw[match.start()]
        if first in b"[{":
            depth += 1
            items += 1
            if depth > bounds.max_depth:
                raise RefusedError(
                    Reason.TOO_DEEP,
                    f"the nesting is deeper than {bounds.max_depth} levels",
                    where=f"{source}, byte {match.start()}",
                    next_step="Flatten the document.",
                )
        elif first in b"]}":
            depth -= 1
            if depth < 0:
                _refuse("a closing bracket has no opening one", f"{source}, byte {match.start()}", FIX_ADVICE)
        elif first == 0x2C:  # a comma
            items += 1
        elif match.end() == match.start() + 1:
            _refuse("a string has no closing quote", f"{source}, byte {match.start()}", FIX_ADVICE)
        else:
            strings += 1
        # A valid document has at most two strings an item. Without this limit, a long run of quotes would be scanned
        # to its end.
        if items > bounds.max_items or strings > 2 * bounds.max_items + 1:
            raise RefusedError(
                Reason.TOO_LARGE,
                f"there are more than {bounds.max_items:,} values",
                where=f"{source}, byte {match.start()}",
                next_step="Split the document.",
            )


def _object_without_duplicates(most: int, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > most:
        raise _TooManyMembersError(pairs[0][0])
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKeyError(key)
            seen.add(key)
    return result


def _no_constant(name: str) -> NoReturn:
    raise _BadNumberError(f"{name} is not JSON", name)


def _integer(most: int, digits: str) -> int:
    if len(digits) > most:
        raise _BadNumberError(f"an integer has more than {most} digits", digits)
    return int(digits)


def _finite_float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise _BadNumberError("a number is too large for IEEE 754", text)
    return number


def _refuse_lone_surrogates(raw: bytes, source: str) -> None:
    whole = _WHOLE_CHARACTERS.match(raw)
    end = whole.end() if whole else 0
    if end < len(raw):
        place = _line_and_column(raw, end)
        _refuse("a string contains half a surrogate pair", f"{source}, {place}", "Send the whole character.")


def _locate_duplicate(raw: bytes) -> str:
    """Return the line and column of the second of two equal keys. Called only after the parser has met a duplicate.

    The parser reports the first object that ends with a duplicate, so this function does the same. Up to that place the
    text is valid JSON.
    """
    open_objects: list[tuple[set[str], list[int]]] = []
    for match in _TOKEN.finditer(raw):
        first = raw[match.start()]
        if first in b"[{":
            open_objects.append((set(), []))
        elif first in b"]}":
            _, repeated = open_objects.pop()
            if repeated:
                return _line_and_column(raw, repeated[0])
        elif first == 0x22 and _COLON.match(raw, match.end()):
            keys, repeated = open_objects[-1]
            key = json.loads(match.group())
            if key in keys:
                repeated.append(match.start())
            keys.add(key)
    return "an object"


def _locate_number(raw: bytes, text: str) -> str:
    wanted = text.encode()
    place = next((m.start() for m in _STRING_OR_NUMBER.finditer(raw) if m.group() == wanted), 0)
    return _line_and_column(raw, place)


def _line_and_column(raw: bytes, place: int) -> str:
    newline = b"\n"
    return f"line {raw.count(newline, 0, place) + 1}, column {place - raw.rfind(newline, 0, place)}"
