"""Unified diffs of edits. The cost is linear in the sizes of the two contents. Needs the standard library only.

The diff is not masked. The host masks it. Lines end at a line feed, as in all edits.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from remit.core.text import printable
from remit.effects.edits.splice import Edited, Splice

MAX_TEXT: Final = 512 << 10
"""Characters of one file's diff. A line that does not fit is only counted."""
MAX_PREVIEW: Final = 4_000
"""More characters than are shown, because the host masks first and truncates afterwards."""

_CONTEXT: Final = 3
_MAX_SPLICES: Final = 10_000
_MAX_COMPARED: Final = 2_000
_CONTROLS: Final = bytes({*range(32), 127} - set(b"\t\n\r\f\v\b\x1b"))
_FOREIGN: Final = re.compile(rb"[\x80-\xff]+")
_FEW: Final = 8
_MOST_CONTROLS: Final = 0.05
_MOST_FOREIGN: Final = 0.3
BINARY: Final = "Binary file, "
"""The beginning of the sentence that replaces the diff of a binary file."""
_REGULAR_FILE: Final = 0o100000

Modes = tuple[int | None, int | None]
"""Permission bits before and after; None where there is no file."""


class Diff(NamedTuple):
    """The counts of all changed lines, and as much of the text as the caller asked for."""

    added: int
    """The number of added lines."""
    removed: int
    preview: str
    """The beginning of the diff, or a sentence."""
    text: str = ""
    left_out: int = 0
    """The number of lines of the diff that are not in `text`."""


class _Change(NamedTuple):
    """Whole lines of the original, from the byte `start` to `end`, become other whole lines."""

    start: int
    end: int
    new: bytes


def diff_edit(path: str, before: bytes, edited: Edited, *, full: bool = True, modes: Modes | None = None) -> Diff:
    """Return the diff of an edit, computed from its splices. Content outside the splices is not compared."""
    splices = edited.splices
    if splices is None or len(splices) > _MAX_SPLICES:
        return diff_whole(path, before, edited.content, full=full, modes=modes)
    names = (f"a/{path}", f"b/{path}")
    return _diff(names, before, _changes(before, _whole_lines(before, splices)), full=full, modes=modes)


def diff_whole(
    path: str, before: bytes | None, after: bytes | None, *, full: bool = True, modes: Modes | None = None
) -> Diff:
    """Return the diff of two contents. None means that there is no file."""
    old, new = before or b"", after or b""
    if _is_binary(old) or _is_binary(new):
        sentence = f"{BINARY}{len(old):,} -> {len(new):,} bytes"
        return Diff(0, 0, sentence, sentence if full else "")
    names = ("/dev/null" if before is None else f"a/{path}", "/dev/null" if after is None else f"b/{path}")
    return _diff(names, old, _changes(old, [_Change(0, len(old), new)]), full=full, modes=modes)


def diff_rename(path: str, new_path: str, *, full: bool = True) -> Diff:
    text = f"rename from {printable(path)}\nrename to {printable(new_path)}\n"
    return Diff(0, 0, text, text if full else "")


def _is_binary(content: bytes) -> bool:
    """Whether the content is not readable text. A few bytes that are not text do not make a file binary."""
    if len(content) - len(content.translate(None, _CONTROLS)) > max(_FEW, _MOST_CONTROLS * len(content)):
        return True
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        foreign = sum(map(len, _FOREIGN.findall(content)))
        return foreign > max(_FEW, _MOST_FOREIGN * len(content))
    return False


# --- from splices to lines -------------------------------------------------------------------------------------------


def _whole_lines(before: bytes, splices: Sequence[Splice]) -> list[_Change]:
    """Return the changed lines of each splice. Splices that touch the same line become one change."""
    regions: list[tuple[int, int]] = []
    inside: list[list[Splice]] = []
    end, is_line_open = 0, False
    for splice in splices:
        is_together = bool(regions) and (splice.start < end or is_line_open)
        start = regions[-1][0] if is_together else before.rfind(b"\n", end, splice.start) + 1 or end
        if not is_together or splice.end >= end:  # one search per line, however many splices are on it
            newline = before.find(b"\n", splice.end)
            end, is_line_open = (len(before), True) if newline < 0 else (newline + 1, False)
        if is_together:
            regions[-1] = (start, end)
            inside[-1].append(splice)
        else:
            regions.append((start, end))
            inside.append([splice])
    return [
        _Change(start, end, _new_lines(before, start, end, inner))
        for (start, end), inner in zip(regions, inside, strict=True)
    ]


def _new_lines(before: bytes, start: int, end: int, splices: Sequence[Splice]) -> bytes:
    pieces: list[bytes] = []
    done = start
    for splice in splices:
        pieces += (before[done : splice.start], splice.new)
        done = splice.end
    return b"".join([*pieces, before[done:end]])


def _changes(before: bytes, regions: Sequence[_Change]) -> list[_Change]:
    return [change for region in regions for change in _narrowed(before, region)]


def _narrowed(before: bytes, region: _Change) -> Iterator[_Change]:
    """Yield the change without the equal lines at both ends and, where that is cheap, in the middle."""
    old, new = before[region.start : region.end], region.new
    first = _common_beginning(old, new)
    old, new = old[first:], new[first:]
    last = _common_end(old, new)
    old, new = old[: len(old) - last], new[: len(new) - last]
    start = region.start + first
    if not old and not new:
        return
    old_lines, new_lines = _few_lines(old), _few_lines(new)
    if not old_lines or not new_lines or len(old_lines) * len(new_lines) == 1:
        yield _Change(start, start + len(old), new)
        return
    yield from _compared(start, old_lines, new_lines)


def _few_lines(content: bytes) -> list[bytes]:
    """Return the lines, or an empty list if there are too many lines to compare."""
    if content.count(b"\n") >= _MAX_COMPARED:
        return []
    *lines, last = content.split(b"\n")  # not splitlines: that ends lines at a lone carriage return too
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _compared(start: int, old: list[bytes], new: list[bytes]) -> Iterator[_Change]:
    places = [start]
    for line in old:
        places.append(places[-1] + len(line))
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old, new).get_opcodes():
        if kind != "equal":
            yield _Change(places[i], places[j], b"".join(new[k:m]))


def _common_beginning(one: bytes, other: bytes) -> int:
    """Return how many bytes of whole lines both begin with. A binary search, because comparing slices is quick."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        low = high
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    if low == len(one) == len(other):
        return low
    return one.rfind(b"\n", 0, low) + 1


def _common_end(one: bytes, other: bytes) -> int:
    """Return how many bytes of whole lines both end with. Both begin at the start of a line."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    start = len(one) - low
    # If all of the shorter one is equal, its first byte begins a line. The same must be true in the other one.
    if _begins_line(one, start) and _begins_line(other, len(other) - low):
        return low
    newline = one.find(b"\n", start)
    return 0 if newline < 0 else len(one) - newline - 1


def _begins_line(content: bytes, place: int) -> bool:
    return place == 0 or content[place - 1] == 0x0A


# --- from lines to text ----------------------------------------------------------------------------------------------


def _diff(
    names: tuple[str, str], before: bytes, changes: Sequence[_Change], *, full: bool, modes: Modes | None
) -> Diff:
    added = sum(_count(change.new) for change in changes)
    removed = sum(_count(before[change.start : change.end]) for change in changes)
    budget = MAX_TEXT if full else MAX_PREVIEW
    shown, left_out = _Shown(budget), 0
    for line in _header(names, changes, modes):
        shown.add(line)
    for hunk in _hunks(before, changes):
        for line in hunk:
            left_out += not shown.add(line)
        if shown.is_full and not full:
            break
    text = shown.text()
    return Diff(added, removed, _beginning(text), text if full else "", left_out if full else 0)


class _Shown:
    """Lines up to a limit. The first line that does not fit ends the text, so that the text has no gap."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._lines: list[bytes] = []
        self.is_full = False

    def add(self, line: bytes) -> bool:
        self._budget -= len(line)
        self.is_full = self.is_full or self._budget < 0
        if not self.is_full:
            self._lines.append(line)
        return not self.is_full

    def text(self) -> str:
        return b"".join(self._lines).decode("utf-8", "backslashreplace")


def _beginning(text: str) -> str:
    if len(text) <= MAX_PREVIEW:
        return text
    return text[: text.rfind("\n", 0, MAX_PREVIEW) + 1]


def _header(names: tuple[str, str], changes: Sequence[_Change], modes: Modes | None) -> Iterator[bytes]:
    old, new = modes or (None, None)
    if old is not None and new is not None and old != new:
        yield b"old mode %06o\n" % (_REGULAR_FILE | old)
        yield b"new mode %06o\n" % (_REGULAR_FILE | new)
    if changes:
        # A name may contain a line end, and the text after it would look like a line of the diff.
        yield f"--- {printable(names[0])}\n".encode()
        yield f"+++ {printable(names[1])}\n".encode()


class _Hunk(NamedTuple):
    line: int
    """The line of the original, from 0, where the context begins."""
    start: int
    """The byte where the context begins."""
    end: int
    """The byte where the context ends."""
    changes: list[_Change]


def _hunks(before: bytes, changes: Sequence[_Change]) -> Iterator[Iterator[bytes]]:
    """Yield the hunks: the changes with their context. Changes close to each other are in one hunk."""
    shift = line = place = 0
    for hunk in _grouped(before, changes):
        line += before.count(b"\n", place, hunk.start)
        place = hunk.start
        yield _render(before, hunk._replace(line=line), shift)
        shift += sum(_count(change.new) - _count(before[change.start : change.end]) for change in hunk.changes)


def _grouped(before: bytes, changes: Sequence[_Change]) -> Iterator[_Hunk]:
    open_hunk: _Hunk | None = None
    for change in changes:
        start, end = _lines_before(before, change.start), _lines_after(before, change.end)
        if open_hunk is not None and start <= open_hunk.end:
            open_hunk.changes.append(change)
            open_hunk = open_hunk._replace(end=end)
            continue
        if open_hunk is not None:
            yield open_hunk
        open_hunk = _Hunk(0, start, end, [change])
    if open_hunk is not None:
        yield open_hunk


def _lines_before(before: bytes, place: int) -> int:
    for _ in range(_CONTEXT):
        if place > 0:
            place = before.rfind(b"\n", 0, place - 1) + 1
    return place


def _lines_after(before: bytes, place: int) -> int:
    for _ in range(_CONTEXT):
        newline = before.find(b"\n", place)
        place = len(before) if newline < 0 else newline + 1
    return place


def _render(before: bytes, hunk: _Hunk, shift: int) -> Iterator[bytes]:
    old = _count(before[hunk.start : hunk.end])
    new = old + sum(_count(change.new) - _count(before[change.start : change.end]) for change in hunk.changes)
    yield f"@@ -{_range(hunk.line, old)} +{_range(hunk.line + shift, new)} @@\n".encode()
    place = hunk.start
    for change in hunk.changes:
        yield from _marked(b" ", before[place : change.start])
        yield from _marked(b"-", before[change.start : change.end])
        yield from _marked(b"+", change.new)
        place = change.end
    yield from _marked(b" ", before[place : hunk.end])


def _range(line: int, count: int) -> str:
    """Return a range as `diff -u` writes it: counted from 1, the line before an empty range, no count if it is 1."""
    first = line + 1 if count else line
    return f"{first}" if count == 1 else f"{first},{count}"


def _marked(mark: bytes, lines: bytes) -> Iterator[bytes]:
    place = 0
    while place < len(lines):
        newline = lines.find(b"\n", place)
        if newline < 0:
            yield mark + lines[place:] + b"\n"
            yield b"\\ No newline at end of file\n"
            return
        yield mark + lines[place : newline + 1]
        place = newline + 1


def _count(lines: bytes) -> int:
    return lines.count(b"\n") + (not lines.endswith(b"\n") and bool(lines))
