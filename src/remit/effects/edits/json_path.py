"""JSONPath (RFC 9535) for edits: a path that selects exactly one value.

This module reads a path of names and indexes itself. It gives any other path to python-jsonpath, and the patterns in it
to RE2, because Python's own patterns backtrack.
"""

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import re2  # type: ignore[import-untyped]
from jsonpath import JSONPathEnvironment, JSONPathError
from jsonpath.function_extensions import ExpressionType, FilterFunction

from remit.core.errors import Reason, RefusedError

ValuePath = tuple[str | int, ...]

_MAX_INDEX: Final = (1 << 53) - 1
_MAX_DEPTH: Final = 300

_SEGMENT: Final = re.compile(
    r"\.(?P<name>[A-Za-z_\u0080-\ud7ff\ue000-\U0010ffff][A-Za-z0-9_\u0080-\ud7ff\ue000-\U0010ffff]*+)"
    r"|\[(?:'(?P<single>[^'\\\x00-\x1f]*+)'|\"(?P<double>[^\"\\\x00-\x1f]*+)\"|(?P<index>0|-?[1-9][0-9]*+))\]"
)


def select_one(document: Any, path: str) -> ValuePath:
    """Return the keys and indexes (from 0) that lead to the one value that the path selects.

    Raises `RefusedError` if the path selects no value or several.
    """
    value_path = _read_singular(path)
    if value_path is None:
        return _select(document, path)
    found = _follow(document, value_path)
    if found is None:
        raise _no_match(path)
    return found


def _read_singular(path: str) -> ValuePath | None:
    """Return the names and indexes of the path. None if it has other parts than these."""
    if not path.startswith("$"):
        return None
    value_path: list[str | int] = []
    place = 1
    while place < len(path):
        segment = _SEGMENT.match(path, place)
        if segment is None:
            return None
        value_path.append(_index(segment["index"], path) if segment["index"] else str(segment[segment.lastgroup or 0]))
        place = segment.end()
    return tuple(value_path)


def _index(digits: str, path: str) -> int:
    if len(digits) > 17 or abs(int(digits)) > _MAX_INDEX:
        raise _malformed(path, "an index is out of range")
    return int(digits)


def _follow(document: Any, value_path: ValuePath) -> ValuePath | None:
    here = document
    real: list[str | int] = []
    for step in value_path:
        if isinstance(step, str) and isinstance(here, Mapping) and step in here:
            real.append(step)
            here = here[step]
        elif isinstance(step, int) and isinstance(here, list) and -len(here) <= step < len(here):
            real.append(step % len(here))
            here = here[step]
        else:
            return None
    return tuple(real)


def _select(document: Any, path: str) -> ValuePath:
    try:
        compiled = _ENVIRONMENT.compile(path)
    except JSONPathError as problem:
        raise _malformed(path, _place_of(problem)) from None
    except RecursionError:
        raise _malformed(path, "it is nested too deeply") from None
    try:
        found = list(islice(compiled.finditer(document), 2))
    except (JSONPathError, RecursionError):
        raise RefusedError(
            Reason.LIMIT_EXCEEDED,
            f"the file is nested too deeply for the path {path!r}",
            next_step="Name the value by its keys and indexes.",
        ) from None
    if not found:
        raise _no_match(path)
    if len(found) > 1:
        raise RefusedError(
            Reason.EDIT_AMBIGUOUS,
            f"{path!r} selects more than one value",
            next_step="Write a path that selects exactly one value.",
        )
    return tuple(found[0].parts)


class _Pattern(FilterFunction):
    """The functions `match` and `search`, with RE2. A pattern that RE2 does not accept matches nothing, as RFC 9535
    requires.
    """

    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012 - declared like this in the base class
    return_type = ExpressionType.LOGICAL

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole

    def __call__(self, value: object, pattern: object) -> bool:
        if not isinstance(value, str) or not isinstance(pattern, str):
            return False
        options = re2.Options()
        options.log_errors = False
        try:
            compiled = re2.compile(_as_re2(pattern), options)
        except re2.error:
            return False
        return bool(compiled.fullmatch(value) if self._whole else compiled.search(value))


def _as_re2(pattern: str) -> str:
    """Translate an I-Regexp for RE2. In I-Regexp a dot matches neither LF nor CR (RFC 9485, section 5.4). In RE2 it
    matches CR.
    """
    made: list[str] = []
    within_class, escaped = False, False
    for character in pattern:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif within_class:
            within_class = character != "]"
        elif character == "[":
            within_class = True
        elif character == ".":
            character = r"[^\n\r]"  # noqa: PLW2901 - replaced on purpose
        made.append(character)
    return "".join(made)


class _Environment(JSONPathEnvironment):
    max_recursion_depth = _MAX_DEPTH

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        self.function_extensions["match"] = _Pattern(whole=True)
        self.function_extensions["search"] = _Pattern(whole=False)


_ENVIRONMENT: Final = _Environment(strict=True)


def _no_match(path: str) -> RefusedError:
    return RefusedError(
        Reason.EDIT_NO_MATCH,
        f"{path!r} selects nothing in the file",
        next_step="Write the path for the current content of the file.",
    )


def _place_of(problem: JSONPathError) -> str:
    """Say where the parser stopped. Its own message names its tokens, and building that message can fail."""
    at = getattr(problem.token, "index", -1)
    return f"the error is at character {at + 1}" if at >= 0 else "it ends too early"


def _malformed(path: str, why: str) -> RefusedError:
    return RefusedError(
        Reason.MALFORMED,
        f"{path!r} is not a JSONPath: {why}",
        next_step="Write it in the syntax of RFC 9535, such as $.a[0].",
    )
