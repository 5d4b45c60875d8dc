"""line_insert and line_delete."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.errors import Reason
from remit.effects.edits.lines import count_lines, line_start
from tests.effects.edits.editing import edit, reason_of, refusal_of, text_after

pytestmark = pytest.mark.req("PX-04")


def test_lines_are_inserted(subtests: pytest.Subtests) -> None:
    for case, before, number, content, after in [
        ("before the first", "a\nb\n", 1, "x", "x\na\nb\n"),
        ("in the middle", "a\nb\n", 2, "x", "a\nx\nb\n"),
        ("appended", "a\nb\n", 3, "x", "a\nb\nx\n"),
        ("a final line end adds no empty line", "a\nb\n", 3, "x\n", "a\nb\nx\n"),
        ("two lines", "a\nb\n", 2, "x\ny\n", "a\nx\ny\nb\n"),
        ("a line and an empty one", "a\nb\n", 2, "x\n\n", "a\nx\n\nb\n"),
        ("nothing is one empty line", "a\nb\n", 2, "", "a\n\nb\n"),
        ("a line end is one empty line", "a\nb\n", 2, "\n", "a\n\nb\n"),
        ("before a last line without an end", "a\nb", 2, "x", "a\nx\nb"),
        ("behind a last line without an end", "a\nb", 3, "x", "a\nb\nx"),
        ("behind the only line", "a", 2, "x\ny", "a\nx\ny"),
        ("before the only line", "a", 1, "x", "x\na"),
        ("into an empty file", "", 1, "x", "x\n"),
        ("into a file of a byte-order mark", "\ufeff", 1, "x", "\ufeffx\n"),
        ("behind the byte-order mark", "\ufeffa\n", 1, "x", "\ufeffx\na\n"),
        ("Windows' line ends", "a\r\nb\r\n", 2, "x\ny", "a\r\nx\r\ny\r\nb\r\n"),
        ("Windows' line ends, appended", "a\r\nb", 3, "x", "a\r\nb\r\nx"),
        ("mixed: as the line it stands before", "a\nb\r\nc\n", 2, "x", "a\nx\r\nb\r\nc\n"),
        ("mixed: as the last line", "a\r\nb\n", 3, "x", "a\r\nb\nx\n"),
        ("the content's line ends do not count", "a\nb\n", 2, "x\r\ny", "a\nx\ny\nb\n"),
        ("a lone carriage return is text", "a\rb\n", 2, "x\ry", "a\rb\nx\ry\n"),
        ("other separators are text", "a\u2028b\fc\n", 2, "x", "a\u2028b\fc\nx\n"),
        ("tabs", "\ta\n", 1, "\tx", "\tx\n\ta\n"),
    ]:
        with subtests.test(case):
            assert text_after("line_insert", before, line_number=number, content=content) == after


def test_lines_are_deleted(subtests: pytest.Subtests) -> None:
    for case, before, first, last, after in [
        ("the first", "a\nb\nc\n", 1, 1, "b\nc\n"),
        ("the last two", "a\nb\nc\n", 2, 3, "a\n"),
        ("all", "a\nb\nc\n", 1, 3, ""),
        ("a last line without an end", "a\nb", 2, 2, "a\n"),
        ("before a last line without an end", "a\nb", 1, 1, "b"),
        ("mixed line ends", "a\r\nb\nc", 1, 2, "c"),
        ("behind the byte-order mark", "\ufeffa\nb\n", 1, 1, "\ufeffb\n"),
        ("an empty one", "\n\n\n", 2, 2, "\n\n"),
        ("a lone carriage return ends no line", "a\rb\nc\n", 1, 1, "c\n"),
    ]:
        with subtests.test(case):
            assert text_after("line_delete", before, start_line=first, end_line=last) == after


@pytest.mark.parametrize(
    "before, number",
    [("a\nb\n", 4), ("a\nb", 4), ("", 2), ("a", 3), ("a\nb\n", 10_000_000), ("a\n", 0), ("a\n", -1)],
)
def test_a_line_past_the_end_cannot_be_inserted_before(before: str, number: int) -> None:
    refusal = refusal_of("line_insert", before, line_number=number, content="x")
    assert refusal.reason is Reason.EDIT_OUT_OF_RANGE
    assert f"no line {number:,}" in refusal.what


@pytest.mark.parametrize(
    "before, first, last", [("a\nb\n", 3, 3), ("a\nb\n", 1, 3), ("", 1, 1), ("a", 2, 2), ("a\nb\n", 0, 1)]
)
def test_a_line_past_the_end_cannot_be_deleted(before: str, first: int, last: int) -> None:
    assert reason_of("line_delete", before, start_line=first, end_line=last) is Reason.EDIT_OUT_OF_RANGE


def test_the_sentences_say_which_lines() -> None:
    assert edit("line_insert", "a\n", line_number=1, content="x").summary == "Inserted 1 line before line 1"
    assert edit("line_insert", "a\n", line_number=1, content="x\ny\nz").summary == "Inserted 3 lines before line 1"
    assert edit("line_insert", "a\n", line_number=2, content="x\ny").summary == "Appended 2 lines"
    assert edit("line_delete", "a\nb\nc\nd\n", start_line=2, end_line=4).summary == "Deleted lines 2 to 4"
    assert edit("line_delete", "a\nb\n", start_line=2, end_line=2).summary == "Deleted line 2"


@given(st.lists(st.integers(0, 3_000), max_size=30), st.sampled_from([b"", b"rest"]), st.data())
def test_a_line_is_found_by_halves_where_counting_finds_it(sizes: list[int], rest: bytes, data: st.DataObject) -> None:
    body = b"".join(b"x" * size + b"\n" for size in sizes) + rest
    number = data.draw(st.integers(1, count_lines(body) + 1))
    pieces = body.split(b"\n")
    expected = min(sum(len(piece) + 1 for piece in pieces[: number - 1]), len(body))
    assert line_start(body, number) == expected
