"""text_replace without a pattern, and what it shares with every other edit."""

import subprocess
import sys

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.effects.edits.registry_plain import PLAIN_EDITORS
from remit.effects.edits.splice import Splice, apply_splices
from remit.effects.edits.text import MAX_SPLICES
from tests.effects.edits.editing import edit, reason_of, text_after

pytestmark = pytest.mark.req("PX-04")


def test_a_text_is_replaced(subtests: pytest.Subtests) -> None:
    for case, before, pattern, replacement, count, after in [
        ("all", "one two one", "one", "1", None, "1 two 1"),
        ("the first", "one two one", "one", "1", 1, "1 two one"),
        ("more than there are", "one two one", "one", "1", 5, "1 two 1"),
        ("not overlapping", "aaaa", "aa", "b", None, "bb"),
        ("what was put in is not looked at", "aaa", "aa", "aaa", None, "aaaa"),
        ("literal, not a pattern", "a.b", ".", "[", None, "a[b"),
        ("line ends mean themselves", "a\r\nb\nc", "\n", "|", None, "a\r|b|c"),
        ("over lines", "a\r\nb", "a\r\nb", "x\ny", None, "x\ny"),
        ("beyond ASCII", "naïve café", "é", "e", None, "naïve cafe"),
        ("to nothing", "x", "x", "", None, ""),
        ("behind a byte-order mark", "\ufeffabc", "a", "b", None, "\ufeffbbc"),
        ("a backslash is a backslash", "\tx", "x", "\\1", None, "\t\\1"),
    ]:
        with subtests.test(case):
            assert text_after("text_replace", before, pattern=pattern, replacement=replacement, count=count) == after


@pytest.mark.parametrize(
    "before, pattern",
    [
        pytest.param("abc", "x", id="not there"),
        pytest.param("", "x", id="an empty file"),
        pytest.param("abc", "ABC", id="other case"),
        pytest.param("a\r\nb", "a\nb", id="another line end"),
        pytest.param("\ufeffabc", "\ufeff", id="the byte-order mark"),
        pytest.param("cafe\u0301", "é", id="another normal form"),
    ],
)
def test_a_text_that_is_not_there_is_a_failure(before: str, pattern: str) -> None:
    assert reason_of("text_replace", before, pattern=pattern, replacement="y") is Reason.EDIT_NO_MATCH


def test_the_sentence_counts() -> None:
    assert edit("text_replace", "a a", pattern="a", replacement="b").summary == "Replaced 2 occurrences"
    assert edit("text_replace", "a a", pattern="a", replacement="b", count=1).summary == "Replaced 1 occurrence"


@pytest.mark.parametrize("raw", [b"a\0b", b"\xff\xfea\0", b"a\xe9", b"\xed\xa0\x80", b"\xc0\xaf"])
@pytest.mark.parametrize(
    "kind, parameters",
    [
        ("text_replace", {"pattern": "a", "replacement": "b"}),
        ("text_replace", {"pattern": "a", "replacement": "b", "regex": True}),
        ("line_insert", {"line_number": 1, "content": "x"}),
        ("line_delete", {"start_line": 1, "end_line": 1}),
        ("json_update_value", {"path": "$", "value": 1}),
        ("yaml_update", {"path": "$", "value": 1}),
    ],
)
def test_what_is_not_utf8_text_is_refused(kind: str, parameters: dict[str, object], raw: bytes) -> None:
    assert reason_of(kind, raw, **parameters) is Reason.NOT_TEXT


def test_a_replacement_of_very_many_places_is_made_in_one_go() -> None:
    edited = PLAIN_EDITORS["text_replace"](b"a" * (MAX_SPLICES + 1), {"pattern": "a", "replacement": "bc"})
    assert edited.content == b"bc" * (MAX_SPLICES + 1)
    assert edited.splices is None


def test_any_bytes_can_replace_a_whole_content() -> None:
    edited = PLAIN_EDITORS["replace_content"](b"old", {"content_base64": "/wAB"})
    assert (edited.content, edited.splices) == (b"\xff\0\x01", None)
    assert edited.summary == "Content replaced (3 bytes)"
    assert PLAIN_EDITORS["replace_content"](b"old", {"content": "é\n"}).content == "é\n".encode()


def test_the_plain_table_refuses_patterns() -> None:
    with pytest.raises(RefusedError) as refusal:
        PLAIN_EDITORS["text_replace"](b"a", {"pattern": "a", "replacement": "b", "regex": True})
    assert refusal.value.reason is Reason.EDIT_UNSUPPORTED


def test_splices_that_overlap_are_a_bug_and_not_an_edit() -> None:
    with pytest.raises(EnvironmentFailureError) as failure:
        apply_splices(b"abcd", [Splice(0, 3, b"x"), Splice(2, 4, b"y")])
    assert failure.value.reason is Reason.INTERNAL


def test_the_plain_editors_load_no_parser() -> None:
    """Each fork of the sandbox pays for what is loaded before it."""
    heavy = "dataclasses", "inspect", "ruamel", "jsonpath", "re2", "jsonschema_rs", "pydantic", "remit.masking"
    code = f"import sys, remit.effects.edits.registry_plain; print([name for name in {heavy!r} if name in sys.modules])"
    ran = subprocess.run(
        [sys.executable, "-X", "remit-sandbox", "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.strip() == "[]"
