"""text_replace with a pattern."""

import time

import pytest

from remit.core.errors import Reason
from tests.effects.edits.editing import edit, reason_of, refusal_of, text_after

pytestmark = pytest.mark.req("PX-04")


def replaced(before: str, pattern: str, replacement: str, count: int | None = None) -> str:
    return text_after("text_replace", before, pattern=pattern, replacement=replacement, regex=True, count=count)


def test_what_a_pattern_matches_is_replaced(subtests: pytest.Subtests) -> None:
    for case, before, pattern, replacement, count, after in [
        ("a group", "v1 v22", r"v(\d+)", r"<\1>", None, "<1> <22>"),
        ("the whole match", "v1 v22", r"v\d+", r"[\0]", None, "[v1] [v22]"),
        ("the first", "v1 v2", r"v\d", "x", 1, "x v2"),
        ("two groups", "a=b", r"(\w)=(\w)", r"\2=\1", None, "b=a"),
        ("a group that took no part", "ac", r"a(b)?c", r"[\1]", None, "[]"),
        ("an escaped backslash", "ab", "a", r"\\1", None, r"\1b"),
        ("ends of the text only", "a\nb\n", "^b", "x", None, None),
        ("ends of lines if asked for", "a\nb\n", "(?m)^b$", "x", None, "a\nx\n"),
        ("over lines", "a\r\nb", r"a\s+b", "c", None, "c"),
        ("a character, not a byte", "é é", ".", "x", 1, "x é"),
        ("behind a byte-order mark", "\ufeffab", "^a", "x", None, "\ufeffxb"),
        ("other marks for groups mean themselves", "aé", "a", "ö$1", None, "ö$1é"),
    ]:
        with subtests.test(case):
            if after is None:
                refusal = reason_of("text_replace", before, pattern=pattern, replacement=replacement, regex=True)
                assert refusal is Reason.EDIT_NO_MATCH
            else:
                assert replaced(before, pattern, replacement, count) == after


def test_an_unclear_pattern_or_replacement_is_refused(subtests: pytest.Subtests) -> None:
    for case, pattern, replacement in [
        ("broken", "(", ""),
        ("look-ahead", "a(?=b)", ""),
        ("look-behind", "(?<=a)b", ""),
        ("back-reference", r"(a)\1", ""),
        ("larger than its memory", "((a{1,100}){1,100}){1,100}", ""),
        ("matches the empty text", "x*", ""),
        ("a place, not a text", "^", ""),
        ("a place between words", r"\b", ""),
        ("a group that the pattern has not", "a", r"\1"),
        ("another way to name a group", "(a)", r"\g<1>"),
        ("an escape without a meaning", "a", r"\n"),
        ("a backslash at the end", "a", "x\\"),
        ("half a character", r"\C", ""),
        ("half a character in a group", r"(\C)\C", r"\1"),
    ]:
        with subtests.test(case):
            refusal = refusal_of("text_replace", "é ab aab", pattern=pattern, replacement=replacement, regex=True)
            assert refusal.reason is Reason.EDIT_UNSUPPORTED
            assert refusal.next_step


def test_a_pattern_that_would_backtrack_without_end_costs_linear_time() -> None:
    started = time.process_time()
    assert (
        reason_of("text_replace", "a" * 200_000, pattern="(a+)+$x", replacement="", regex=True) is Reason.EDIT_NO_MATCH
    )
    assert time.process_time() - started < 10


def test_more_matches_than_the_limit_are_refused() -> None:
    body = "a" * 100_001
    assert reason_of("text_replace", body, pattern="a", replacement="b", regex=True) is Reason.LIMIT_EXCEEDED
    assert text_after("text_replace", body, pattern="a", replacement="b", regex=True, count=1) == "b" + body[1:]


def test_a_broken_pattern_says_nothing_past_the_masks(capfd: pytest.CaptureFixture[str]) -> None:
    reason_of("text_replace", "a", pattern="(secret", replacement="", regex=True)
    assert capfd.readouterr() == ("", "")


def test_the_sentence_counts() -> None:
    edited = edit("text_replace", "aa", pattern="a", replacement="b", regex=True)
    assert edited.summary == "Replaced 2 occurrences"
