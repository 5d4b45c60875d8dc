"""The edits line_insert and line_delete.

A line ends at a line feed. A carriage return before it belongs to the line end. A lone carriage return, a form feed and
U+2028 are text. The last line may have no line end.
"""

from collections.abc import Mapping
from typing import Any, Final

from remit.core.errors import Reason, RefusedError
from remit.effects.edits.splice import Edited, Splice, TextFile, counted, newline_at, read_text, spliced

_NEAR: Final = 4 << 10


def insert_lines(raw: bytes, line_number: int, content: str) -> Edited:
    """Insert the lines before the line with this number. The number after the last line appends them.

    The new lines have the line end of that line.
    """
    text = read_text(raw)
    total = count_lines(text.body)
    if not 1 <= line_number <= total + 1:
        raise _out_of_range(line_number, total, total + 1)
    new = _split(content)
    if line_number == total + 1:
        return _append(raw, text, new)
    start = line_start(text.body, line_number)
    newline = newline_at(text.body, start)
    splice = Splice(len(text.bom) + start, len(text.bom) + start, b"".join(line + newline for line in new))
    return spliced(raw, [splice], f"Inserted {counted(len(new), 'line')} before line {line_number}")


def _append(raw: bytes, text: TextFile, new: list[bytes]) -> Edited:
    newline = newline_at(text.body, len(text.body))
    joined = newline.join(new)
    # A file without a final line end has none afterwards either.
    added = newline + joined if _is_unfinished(text.body) else joined + newline
    return spliced(raw, [Splice(len(raw), len(raw), added)], f"Appended {counted(len(new), 'line')}")


def delete_lines(raw: bytes, start_line: int, end_line: int) -> Edited:
    """Delete these lines with their line ends. All other lines stay unchanged, also the line end of a new last line."""
    text = read_text(raw)
    total = count_lines(text.body)
    if not 1 <= start_line <= end_line <= total:
        raise _out_of_range(end_line, total, total)
    shift = len(text.bom)
    start, end = line_start(text.body, start_line), line_start(text.body, end_line + 1)
    which = f"line {start_line}" if start_line == end_line else f"lines {start_line} to {end_line}"
    return spliced(raw, [Splice(shift + start, shift + end, b"")], f"Deleted {which}")


def count_lines(body: bytes) -> int:
    return body.count(b"\n") + _is_unfinished(body)


def line_start(body: bytes, number: int) -> int:
    """Return where the line with this number begins. The number after the last line gives the end of the text.

    A binary search, because counting is quick and a list of all lines would be large.
    """
    before, low, high = number - 1, 0, len(body)
    while high - low > _NEAR:
        middle = (low + high) // 2
        here = body.count(b"\n", low, middle)
        if here >= before:
            high = middle
        else:
            before -= here
            low = middle
    place = low
    for _ in range(before):
        end = body.find(b"\n", place)
        if end < 0:
            return len(body)
        place = end + 1
    return place


def _is_unfinished(body: bytes) -> bool:
    return bool(body) and not body.endswith(b"\n")


def _split(content: str) -> list[bytes]:
    """Return the lines without their line ends. A final line end begins no further line. Empty content is one empty
    line.
    """
    lines = content.encode().split(b"\n")
    last = lines.pop()
    return [line.removesuffix(b"\r") for line in lines] + ([last] if last or not lines else [])


def _out_of_range(number: int, total: int, last: int) -> RefusedError:
    return RefusedError(
        Reason.EDIT_OUT_OF_RANGE,
        f"there is no line {number:,}: the file has {counted(total, 'line')}",
        next_step=f"Use a number from 1 to {last:,}." if last else "The file is empty.",
    )


def line_insert(raw: bytes, operation: Mapping[str, Any]) -> Edited:
    return insert_lines(raw, operation["line_number"], operation["content"])


def line_delete(raw: bytes, operation: Mapping[str, Any]) -> Edited:
    return delete_lines(raw, operation["start_line"], operation["end_line"])
