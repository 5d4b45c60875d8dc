"""A strict parser for YAML files: the part of YAML 1.2 that JSON can express, one document, one value for each key.

It is built on the parser's events, so that nothing is constructed before it is checked. The parser is pure Python and
needs some 5 ms a KiB, so keep `max_bytes` small. The package does not import this module: only configuration is YAML.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StringMark, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from remit.core.errors import Reason, RefusedError
from remit.parsing.limits import Bounds

YAML_BOUNDS: Final = Bounds(max_bytes=64 << 10, max_items=10_000)

FIX_ADVICE: Final = "Fix the YAML there. Indent with spaces, and put a text in quotes if it contains `: ` or ` #`."
_MESSAGES: Final = {
    "mapping values are not allowed here": "a key with its value is not allowed here",
    "could not find expected ':'": "a colon is missing after the key",
    "while scanning for the next token": "a character that cannot begin a value",
    "found character '\\t' that cannot start any token": "there is a tab where spaces are expected",
    "expected <block end>": "the indentation does not match the lines above",
    "found unexpected end of stream": "the text ends inside of quotes",
}

# YAML 1.2.2, 10.3.2: the core schema.
_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset({"true", "True", "TRUE"})
_FALSE: Final = frozenset({"false", "False", "FALSE"})
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_OCTAL: Final = re.compile(r"0o[0-7]+")
_HEXADECIMAL: Final = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")  # from an escape: UTF-8 cannot carry one
_DIRECTIVE: Final = re.compile(r"^%", re.MULTILINE)


def parse_yaml(raw: bytes, bounds: Bounds = YAML_BOUNDS, *, source: str = "input") -> Any:
    """Return the value: a dict, list, str, int, float, bool or None. A date stays a string.

    Refuses more bytes, depth or items than the bounds; invalid UTF-8; a byte-order mark; duplicate keys and keys that
    are not strings; anchors, aliases, tags and directives; no document or several; NaN, infinities and numbers too
    large for their kind; and invalid YAML, including tabs as indentation.
    """
    text = _decode(raw, bounds, source)
    reading = _Reading(text, bounds, source)
    for event in _events(text, source):
        reading.feed(event)
    return reading.result()


def _events(text: str, source: str) -> Iterator[Event]:
    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except MarkedYAMLError as problem:
        reported = str(problem.problem or problem.context)
        description = next((words for start, words in _MESSAGES.items() if reported.startswith(start)), reported)
        _refuse(f"this is not YAML: {description}", _place(source, problem.problem_mark), FIX_ADVICE)
    except ReaderError as problem:
        before = text[: problem.position]
        place = f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"
        _refuse("this is not YAML: a control character is not allowed", f"{source}, {place}", "Remove the character.")
    except YAMLError as problem:
        _refuse(f"this is not YAML: {problem}", source, FIX_ADVICE)
    except (ValueError, OverflowError):  # the scanner does not check that a \\U escape is a character
        _refuse("this is not YAML: an escape names no character", source, "Write the character itself.")


class _Open:
    """A collection that the parser has not finished yet."""

    def __init__(self, value: dict[str, Any] | list[Any]) -> None:
        self.value = value
        self.key: str | None = None


class _Reading:
    def __init__(self, text: str, bounds: Bounds, source: str) -> None:
        self._text = text
        self._bounds = bounds
        self._source = source
        self._open: list[_Open] = []
        self._items = 0
        self._documents: list[Any] = []

    def result(self) -> Any:
        if not self._documents:
            _refuse("the document is empty", self._source, "Write at least one setting.")
        return self._documents[0]

    def feed(self, event: Event) -> None:
        if isinstance(event, DocumentStartEvent):
            self._start_document(event)
        elif isinstance(event, NodeEvent):
            self._refuse_clever_nodes(event)
            self._count(event)
            self._add_node(event)
        elif isinstance(event, (MappingEndEvent, SequenceEndEvent)):
            self._open.pop()

    def _start_document(self, event: DocumentStartEvent) -> None:
        if self._documents:
            self._refuse_at(event, "there is a second document", "Keep one document in the file.")
        if _DIRECTIVE.search(self._text, 0, event.end_mark.index):
            self._refuse_at(event, "directives are not allowed", "Remove the lines that begin with %.")

    def _refuse_clever_nodes(self, event: NodeEvent) -> None:
        if isinstance(event, AliasEvent):
            self._refuse_at(event, "aliases are not allowed", "Write the value itself.")
        if event.anchor is not None:
            self._refuse_at(event, "anchors are not allowed", "Write the value at each place that uses it.")
        if isinstance(event, ScalarEvent | CollectionStartEvent) and event.tag is not None:
            self._refuse_at(event, "tags are not allowed", "Remove the tag, and put a string in quotes.")

    def _count(self, event: NodeEvent) -> None:
        self._items += 1
        if self._items > 2 * self._bounds.max_items:  # a mapping's entry is two nodes
            raise RefusedError(
                Reason.TOO_LARGE,
                f"there are more than {self._bounds.max_items:,} values",
                where=_place(self._source, event.start_mark),
                next_step="Split the document.",
            )
        starts_collection = isinstance(event, (MappingStartEvent, SequenceStartEvent))
        if starts_collection and len(self._open) >= self._bounds.max_depth:
            raise RefusedError(
                Reason.TOO_DEEP,
                f"the nesting is deeper than {self._bounds.max_depth} levels",
                where=_place(self._source, event.start_mark),
                next_step="Flatten the document.",
            )

    def _add_node(self, event: NodeEvent) -> None:
        parent = self._open[-1] if self._open else None
        if parent is not None and isinstance(parent.value, dict) and parent.key is None:
            parent.key = self._key(event, parent.value)
            return
        value: Any
        if isinstance(event, ScalarEvent):
            value = self._scalar(event)
        else:
            value = {} if isinstance(event, MappingStartEvent) else []
            self._open.append(_Open(value))
        if parent is None:
            self._documents.append(value)
        elif isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is not None:
            parent.value[parent.key] = value
            parent.key = None

    def _key(self, event: NodeEvent, mapping: dict[str, Any]) -> str:
        key = self._scalar(event) if isinstance(event, ScalarEvent) else None
        if not isinstance(key, str):
            self._refuse_at(event, "a key is not a string", "Put the key in quotes.")
        if key in mapping:
            self._refuse_at(event, f"one mapping has the key {key!r} twice", "Keep one of the two.")
        return key

    def _scalar(self, event: ScalarEvent) -> Any:
        text = str(event.value)
        if _SURROGATE.search(text):
            self._refuse_at(event, "a string contains half a surrogate pair", "Write the whole character.")
        if event.style is not None:  # quoted or a block: always a string
            return text
        if text in _NULL:
            return None
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        if _NOT_FINITE.fullmatch(text):
            self._refuse_at(event, f"{text} is not a finite number", "Use a finite number, or put the text in quotes.")
        return self._number(event, text)

    def _number(self, event: ScalarEvent, text: str) -> int | float | str:
        for pattern, base in ((_INTEGER, 10), (_OCTAL, 8), (_HEXADECIMAL, 16)):
            if pattern.fullmatch(text):
                digits = self._bounds.max_number_digits
                if len(text) > digits:
                    self._refuse_at(event, f"an integer has more than {digits} digits", "Put it in quotes.")
                return int(text if base == 10 else text[2:], base)
        if not _FLOAT.fullmatch(text):
            return text
        number = float(text)
        if not math.isfinite(number):
            self._refuse_at(event, "a number is too large for IEEE 754", "Use a smaller one, or put it in quotes.")
        return number

    def _refuse_at(self, event: Event, what: str, next_step: str) -> NoReturn:
        _refuse(what, _place(self._source, event.start_mark), next_step)


def _decode(raw: bytes, bounds: Bounds, source: str) -> str:
    if len(raw) > bounds.max_bytes:
        raise RefusedError(
            Reason.TOO_LARGE,
            f"the input is larger than {bounds.max_bytes:,} bytes",
            where=source,
            next_step="Split it, or send less.",
        )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        _refuse("this is not UTF-8", f"{source}, byte {problem.start}", "Save the file as UTF-8.")
    if text.startswith("\ufeff"):
        _refuse("there is a byte-order mark", f"{source}, byte 0", "Save the file as UTF-8 without one.")
    return text


def _refuse(what: str, where: str, next_step: str = "") -> NoReturn:
    raise RefusedError(Reason.MALFORMED, what, where=where, next_step=next_step) from None


def _place(source: str, mark: StringMark | None) -> str:
    return f"{source}, line {mark.line + 1}, column {mark.column + 1}" if mark is not None else source
