"""Splices, the parts of every edit: ranges of the original that new bytes replace. Needs the standard library only."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError

BOM: Final = b"\xef\xbb\xbf"


class Splice(NamedTuple):
    """The bytes from `start` to `end` of the original become `new`."""

    start: int
    end: int
    new: bytes


class Edited(NamedTuple):
    """The result of an edit."""

    content: bytes
    splices: tuple[Splice, ...] | None
    """In the order of the original, not overlapping. None if all of the content is new."""
    summary: str
    """The sentence for the report."""


Editor = Callable[[bytes, Mapping[str, Any]], Edited]
"""A pure function from content and operation to the edited content. Raises `RefusedError`."""


class TextFile(NamedTuple):
    """A file that is UTF-8 text. Edits do not change the byte-order mark."""

    body: bytes
    bom: bytes
    newline: bytes
    """The line end of the first line. A line feed in a text of one line."""


def read_text(raw: bytes) -> TextFile:
    """Return the text of a file. Raises `RefusedError` unless it is UTF-8 without NUL."""
    bom = BOM if raw.startswith(BOM) else b""
    body = raw[len(bom) :]
    if b"\0" in body:
        _refuse_not_text(f"byte {len(bom) + body.index(0)} is NUL")
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as problem:
        _refuse_not_text(f"byte {len(bom) + problem.start} is not the start of a character")
    return TextFile(body, bom, newline_at(body, 0))


def _refuse_not_text(why: str) -> None:
    raise RefusedError(
        Reason.NOT_TEXT,
        f"the file is not UTF-8 text: {why}",
        next_step="Use replace_content, which accepts any bytes.",
    ) from None


def newline_at(body: bytes, place: int) -> bytes:
    """Return the line end of the line at `place`, else of the line before it, else a line feed."""
    end = body.find(b"\n", place)
    if end < 0:
        end = body.rfind(b"\n", 0, place)
    if end < 0:
        return b"\n"
    return b"\r\n" if body[end - 1 : end] == b"\r" else b"\n"


def apply_splices(before: bytes, splices: Sequence[Splice]) -> bytes:
    """Return the original with the splices applied. They must be in order and must not overlap."""
    pieces: list[bytes] = []
    done = 0
    for start, end, new in splices:
        if not done <= start <= end <= len(before):
            raise EnvironmentFailureError(Reason.INTERNAL, "two changes of one edit overlap")
        pieces += (before[done:start], new)
        done = end
    pieces.append(before[done:])
    return b"".join(pieces)


def spliced(before: bytes, splices: Sequence[Splice], summary: str) -> Edited:
    return Edited(apply_splices(before, splices), tuple(splices), summary)


def new_ranges(edited: Edited) -> list[tuple[int, int]]:
    """Return the ranges of the new bytes in the result."""
    if edited.splices is None:
        return [(0, len(edited.content))]
    ranges = []
    shift = 0
    for start, end, new in edited.splices:
        ranges.append((start + shift, start + shift + len(new)))
        shift += len(new) - (end - start)
    return ranges


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 line`, `3 lines`, `1,204 bytes`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
