"""text_replace with a pattern."""

import time

import pytest

from remit.core.errors import Reason
from tests.effects.edits.editing import edit, reason_of, refusal_of, text_after

pytestmark = pytest.mark.req("PX-04")


def replaced(before: str, pattern: str, replacement: str, count: int | None = None) -> str:
    return text_after("text_replace", before, pattern=pattern, replacement=replacement, regex=True, count=count)


@pytest.mark.parametrize(
    "before, pattern, replacement, count, after",
    [
        pytest.param("v1 v22", r"v(\d+)", r"<\1>", None, "<1> <22>", id="a group"),
        pytest.param("v1 v22", r"v\d+", r"[\0]", None, "[v1] [v22]", id="the whole match"),
        pytest.param("v1 v2", r"v\d", "x", 1, "x v2", id="the first"),
        pytest.param("a=b", r"(\w)=(\w)", r"\2=\1", None, "b=a", id="two groups"),
        pytest.param("ac", r"a(b)?c", r"[\1]", None, "[]", id="a group that took no part"),
        pytest.param("ab", "a", r"\\1", None, r"\1b", id="an escaped backslash"),
        pytest.param("a\nb\n", "^b", "x", None, None, id="ends of the text only"),
        pytest.param("a\nb\n", "(?m)^b$", "x", None, "a\nx\n", id="ends of lines if asked for"),
        pytest.param("a\r\nb", r"a\s+b", "c", None, "c", id="over lines"),
        pytest.param("é é", ".", "x", 1, "x é", id="a character, not a byte"),
        pytest.param("\ufeffab", "^a", "x", None, "\ufeffxb", id="behind a byte-order mark"),
        pytest.param("aé", "a", "ö$1", None, "ö$1é", id="other marks for groups mean themselves"),
    ],
)
def test_what_a_pattern_matches_is_replaced(
    before: str, pattern: str, replacement: str, count: int | None, after: str | None
) -> None:
    if after is None:
        refusal = reason_of("text_replace", before, pattern=pattern, replacement=replacement, regex=True)
        assert refusal is Reason.EDIT_NO_MATCH
    else:
        assert replaced(before, pattern, replacement, count) == after


@pytest.mark.parametrize(
    "pattern, replacement",
    [
        pytest.param("(", "", id="broken"),
        pytest.param("a(?=b)", "", id="look-ahead"),
        pytest.param("(?<=a)b", "", id="look-behind"),
        pytest.param(r"(a)\1", "", id="back-reference"),
        pytest.param("((a{1,100}){1,100}){1,100}", "", id="larger than its memory"),
        pytest.param("x*", "", id="matches the empty text"),
        pytest.param("^", "", id="a place, not a text"),
        pytest.param(r"\b", "", id="a place between words"),
        pytest.param("a", r"\1", id="a group that the pattern has not"),
        pytest.param("(a)", r"\g<1>", id="another way to name a group"),
        pytest.param("a", r"\n", id="an escape without a meaning"),
        pytest.param("a", "x\\", id="a backslash at the end"),
        pytest.param(r"\C", "", id="half a character"),
        pytest.param(r"(\C)\C", r"\1", id="half a character in a group"),
    ],
)
def test_an_unclear_pattern_or_replacement_is_refused(pattern: str, replacement: str) -> None:
    refusal = refusal_of("text_replace", "é ab aab", pattern=pattern, replacement=replacement, regex=True)
    assert refusal.reason is Reason.EDIT_UNSUPPORTED
    assert refusal.next_step


def test_a_pattern_that_would_backtrack_for_ever_costs_linear_time() -> None:
    started = time.process_time()
    assert (
        reason_of("text_replace", "a" * 200_000, pattern="(a+)+$x", replacement="", regex=True) is Reason.EDIT_NO_MATCH
    )
    assert time.process_time() - started < 10


def test_more_matches_than_anybody_reads_are_refused() -> None:
    body = "a" * 100_001
    assert reason_of("text_replace", body, pattern="a", replacement="b", regex=True) is Reason.LIMIT_EXCEEDED
    assert text_after("text_replace", body, pattern="a", replacement="b", regex=True, count=1) == "b" + body[1:]


def test_a_broken_pattern_says_nothing_past_the_masks(capfd: pytest.CaptureFixture[str]) -> None:
    reason_of("text_replace", "a", pattern="(secret", replacement="", regex=True)
    assert capfd.readouterr() == ("", "")


def test_the_sentence_counts() -> None:
    edited = edit("text_replace", "aa", pattern="a", replacement="b", regex=True)
    assert edited.said == "Replaced 2 occurrences"
