"""line_insert and line_delete."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.errors import Reason
from remit.effects.edits.lines import count_lines, line_start
from tests.effects.edits.editing import edit, reason_of, refusal_of, text_after

pytestmark = pytest.mark.req("PX-04")


@pytest.mark.parametrize(
    "before, number, content, after",
    [
        pytest.param("a\nb\n", 1, "x", "x\na\nb\n", id="before the first"),
        pytest.param("a\nb\n", 2, "x", "a\nx\nb\n", id="in the middle"),
        pytest.param("a\nb\n", 3, "x", "a\nb\nx\n", id="appended"),
        pytest.param("a\nb\n", 3, "x\n", "a\nb\nx\n", id="a final line end adds no empty line"),
        pytest.param("a\nb\n", 2, "x\ny\n", "a\nx\ny\nb\n", id="two lines"),
        pytest.param("a\nb\n", 2, "x\n\n", "a\nx\n\nb\n", id="a line and an empty one"),
        pytest.param("a\nb\n", 2, "", "a\n\nb\n", id="nothing is one empty line"),
        pytest.param("a\nb\n", 2, "\n", "a\n\nb\n", id="a line end is one empty line"),
        pytest.param("a\nb", 2, "x", "a\nx\nb", id="before a last line without an end"),
        pytest.param("a\nb", 3, "x", "a\nb\nx", id="behind a last line without an end"),
        pytest.param("a", 2, "x\ny", "a\nx\ny", id="behind the only line"),
        pytest.param("a", 1, "x", "x\na", id="before the only line"),
        pytest.param("", 1, "x", "x\n", id="into an empty file"),
        pytest.param("\ufeff", 1, "x", "\ufeffx\n", id="into a file of a byte-order mark"),
        pytest.param("\ufeffa\n", 1, "x", "\ufeffx\na\n", id="behind the byte-order mark"),
        pytest.param("a\r\nb\r\n", 2, "x\ny", "a\r\nx\r\ny\r\nb\r\n", id="Windows' line ends"),
        pytest.param("a\r\nb", 3, "x", "a\r\nb\r\nx", id="Windows' line ends, appended"),
        pytest.param("a\nb\r\nc\n", 2, "x", "a\nx\r\nb\r\nc\n", id="mixed: as the line it stands before"),
        pytest.param("a\r\nb\n", 3, "x", "a\r\nb\nx\n", id="mixed: as the last line"),
        pytest.param("a\nb\n", 2, "x\r\ny", "a\nx\ny\nb\n", id="the content's line ends do not count"),
        pytest.param("a\rb\n", 2, "x\ry", "a\rb\nx\ry\n", id="a lone carriage return is text"),
        pytest.param("a\u2028b\fc\n", 2, "x", "a\u2028b\fc\nx\n", id="other separators are text"),
        pytest.param("\ta\n", 1, "\tx", "\tx\n\ta\n", id="tabs"),
    ],
)
def test_lines_are_inserted(before: str, number: int, content: str, after: str) -> None:
    assert text_after("line_insert", before, line_number=number, content=content) == after


@pytest.mark.parametrize(
    "before, first, last, after",
    [
        pytest.param("a\nb\nc\n", 1, 1, "b\nc\n", id="the first"),
        pytest.param("a\nb\nc\n", 2, 3, "a\n", id="the last two"),
        pytest.param("a\nb\nc\n", 1, 3, "", id="all"),
        pytest.param("a\nb", 2, 2, "a\n", id="a last line without an end"),
        pytest.param("a\nb", 1, 1, "b", id="before a last line without an end"),
        pytest.param("a\r\nb\nc", 1, 2, "c", id="mixed line ends"),
        pytest.param("\ufeffa\nb\n", 1, 1, "\ufeffb\n", id="behind the byte-order mark"),
        pytest.param("\n\n\n", 2, 2, "\n\n", id="an empty one"),
        pytest.param("a\rb\nc\n", 1, 1, "c\n", id="a lone carriage return ends no line"),
    ],
)
def test_lines_are_deleted(before: str, first: int, last: int, after: str) -> None:
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
    assert edit("line_insert", "a\n", line_number=1, content="x").said == "Inserted 1 line before line 1"
    assert edit("line_insert", "a\n", line_number=1, content="x\ny\nz").said == "Inserted 3 lines before line 1"
    assert edit("line_insert", "a\n", line_number=2, content="x\ny").said == "Appended 2 lines"
    assert edit("line_delete", "a\nb\nc\nd\n", start_line=2, end_line=4).said == "Deleted lines 2 to 4"
    assert edit("line_delete", "a\nb\n", start_line=2, end_line=2).said == "Deleted line 2"


@given(st.lists(st.integers(0, 3_000), max_size=30), st.sampled_from([b"", b"rest"]), st.data())
def test_a_line_is_found_by_halves_where_counting_finds_it(sizes: list[int], rest: bytes, data: st.DataObject) -> None:
    body = b"".join(b"x" * size + b"\n" for size in sizes) + rest
    number = data.draw(st.integers(1, count_lines(body) + 1))
    pieces = body.split(b"\n")
    expected = min(sum(len(piece) + 1 for piece in pieces[: number - 1]), len(body))
    assert line_start(body, number) == expected
