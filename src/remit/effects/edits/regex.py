"""The edit text_replace with a pattern. RE2 does not backtrack, so the cost of a pattern is linear in the text."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import re2  # type: ignore[import-untyped]

from remit.core.errors import Reason, RefusedError
from remit.effects.edits.splice import Edited, Splice, counted, read_text, spliced
from remit.effects.edits.text import no_match, replace_text

_MAX_MATCHES: Final = 100_000
_MAX_MEMORY: Final = 8 << 20

_PIECE: Final = re.compile(rb"\\(.)|[^\\]+|\\", re.DOTALL)

_Expand = Callable[[Any], bytes]


def replace_pattern(raw: bytes, pattern: str, replacement: str, count: int | None) -> Edited:
    r"""Replace the matches from left to right, all or the first `count`. The byte-order mark is not a part of the text.

    `replacement` may contain `\0` to `\9` for the text of a group, and `\\` for a backslash. Without `(?m)`, `^` and
    `$` match the start and the end of the text.
    """
    text = read_text(raw)
    compiled = _compile(pattern)
    expand = _template(replacement.encode(), compiled.groups)
    splices: list[Splice] = []
    shift = len(text.bom)
    for found in compiled.finditer(text.body):
        start, end = found.span()
        if start == end:
            raise _unclear()
        if _is_inside_character(text.body, start) or _is_inside_character(text.body, end):
            raise _cuts_characters()
        if len(splices) == _MAX_MATCHES:
            raise RefusedError(
                Reason.LIMIT_EXCEEDED,
                f"the pattern matches more than {_MAX_MATCHES:,} times",
                next_step="Write a narrower pattern, or give a count.",
            )
        splices.append(Splice(shift + start, shift + end, expand(found)))
        if len(splices) == count:
            break
    if not splices:
        raise no_match("a text that the pattern matches")
    edited = spliced(raw, splices, f"Replaced {counted(len(splices), 'occurrence')}")
    try:
        edited.content.decode("utf-8")  # a group may contain half a character where the match does not
    except UnicodeDecodeError:
        raise _cuts_characters() from None
    return edited


def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False  # the log would go to standard error unmasked
    options.max_mem = _MAX_MEMORY
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as problem:
        message = problem.args[0] if problem.args else ""
        why = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
        next_step = "Use the syntax of RE2, which has no look-around and no back-references."
        raise _unsupported(f"the pattern cannot be used: {why}", next_step) from None
    if compiled.match(b"") is not None:
        raise _unclear()
    return compiled


def _template(replacement: bytes, groups: int) -> _Expand:
    """Return the function that expands the replacement for a match.

    A backslash before any character but a digit or a backslash is refused, because it has no agreed meaning.
    """
    pieces: list[bytes | int] = []
    for found in _PIECE.finditer(replacement):
        escaped = found[1]
        if escaped is None and found[0] != b"\\":
            pieces.append(found[0])
        elif escaped == b"\\":
            pieces.append(b"\\")
        elif escaped is not None and escaped.isdigit() and int(escaped) <= groups:
            pieces.append(int(escaped))
        else:
            shown = found[0].decode("utf-8", "replace")
            raise _unsupported(
                f"the replacement contains {shown!r}, which has no meaning",
                f"Use \\0 to \\{min(groups, 9)} for groups of the pattern, and \\\\ for a backslash.",
            )

    def expand(found: Any) -> bytes:
        # A group that took no part in the match becomes the empty text.
        return b"".join((found.group(piece) or b"") if isinstance(piece, int) else piece for piece in pieces)

    return expand


def _is_inside_character(body: bytes, place: int) -> bool:
    return place < len(body) and body[place] & 0xC0 == 0x80


def _cuts_characters() -> RefusedError:
    return _unsupported("the pattern splits a character", "Do not use \\C.")


def _unclear() -> RefusedError:
    return _unsupported("the pattern matches the empty text", "Each match must have at least one character.")


def _unsupported(what: str, next_step: str) -> RefusedError:
    return RefusedError(Reason.EDIT_UNSUPPORTED, what, next_step=next_step)


def text_replace(raw: bytes, operation: Mapping[str, Any]) -> Edited:
    """The editor of text_replace, for literal texts and for patterns."""
    replace = replace_pattern if operation.get("regex") else replace_text
    return replace(raw, operation["pattern"], operation["replacement"], operation.get("count"))
