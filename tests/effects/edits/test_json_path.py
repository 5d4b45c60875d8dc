"""Paths that select one value."""

import time
from typing import Any

import pytest

from remit.core.errors import Reason, RefusedError
from remit.effects.edits.json_path import select_one

DOCUMENT: dict[str, Any] = {
    "store": {"books": [{"t": "a", "n": 1}, {"t": "b", "n": 2}], "open": True},
    "a.b": {"$": 1},
    "'": [0],
}


def test_a_path_is_followed(subtests: pytest.Subtests) -> None:
    for path, way in [
        ("$", ()),
        ("$.store", ("store",)),
        ("$.store.books[0].t", ("store", "books", 0, "t")),
        ("$.store.books[-1]['t']", ("store", "books", 1, "t")),
        ('$["a.b"]["$"]', ("a.b", "$")),
        (r"$['\''][0]", ("'", 0)),
        ("$.store.books[?@.n > 1].t", ("store", "books", 1, "t")),
        ("$.store.books[1:].t", ("store", "books", 1, "t")),
        ("$..open", ("store", "open")),
        ("$.store.books[?match(@.t, '[b-z]')].n", ("store", "books", 1, "n")),
        ("$.store.books[?search(@.t, 'a')].n", ("store", "books", 0, "n")),
        ("$.store.books[?length(@.t) == 1 && @.n == 2].n", ("store", "books", 1, "n")),
    ]:
        with subtests.test(path):
            assert select_one(DOCUMENT, path) == way


def test_a_path_that_does_not_select_one_value_is_refused(subtests: pytest.Subtests) -> None:
    for path, reason in [
        ("$.nothing", Reason.EDIT_NO_MATCH),
        ("$.store.books[2]", Reason.EDIT_NO_MATCH),
        ("$.store.books[-3]", Reason.EDIT_NO_MATCH),
        ("$.store[0]", Reason.EDIT_NO_MATCH),
        ("$.store.books.t", Reason.EDIT_NO_MATCH),
        ("$.store.books[?@.n > 9]", Reason.EDIT_NO_MATCH),
        ("$.store.books[?match(@.t, '(')]", Reason.EDIT_NO_MATCH),
        ("$.store.books[*]", Reason.EDIT_AMBIGUOUS),
        ("$..t", Reason.EDIT_AMBIGUOUS),
        ("$.store.books[0, 0]", Reason.EDIT_AMBIGUOUS),
        ("store", Reason.MALFORMED),
        ("$.", Reason.MALFORMED),
        ("$.store ", Reason.MALFORMED),
        ("$[01]", Reason.MALFORMED),
        ("$[-0]", Reason.MALFORMED),
        ("$.store | $.open", Reason.MALFORMED),
        ("$[?nosuch(@)]", Reason.MALFORMED),
        ("$" + "[?(" * 330, Reason.MALFORMED),
        # the attack catalogue's parse case 30
        ("$[9007199254740992]", Reason.MALFORMED),
        ("$[-9007199254740992]", Reason.MALFORMED),
        ("$[99999999999999999999999999]", Reason.MALFORMED),
    ]:
        with subtests.test(path):
            with pytest.raises(RefusedError) as refusal:
                select_one(DOCUMENT, path)
            assert refusal.value.reason is reason


def test_parse_026_a_pattern_that_would_backtrack_without_end_does_not() -> None:
    started = time.process_time()
    with pytest.raises(RefusedError) as refusal:
        select_one([{"a": "a" * 50_000 + "!"}], "$[?match(@.a, '(a+)+$')]")
    assert refusal.value.reason is Reason.EDIT_NO_MATCH
    assert time.process_time() - started < 10


def test_parse_027_descendants_of_descendants_end_at_the_second_match() -> None:
    document: Any = 0
    for _ in range(60):
        document = [document, document]
    started = time.process_time()
    with pytest.raises(RefusedError) as refusal:
        select_one(document, "$..*..*..*..*")
    assert refusal.value.reason is Reason.EDIT_AMBIGUOUS
    assert time.process_time() - started < 10


def test_a_document_deeper_than_is_followed_is_refused_and_not_a_crash() -> None:
    document: Any = 0
    for _ in range(500):
        document = [document]
    with pytest.raises(RefusedError) as refusal:
        select_one(document, "$..x")
    assert refusal.value.reason is Reason.LIMIT_EXCEEDED


def test_a_dot_of_a_pattern_matches_neither_line_feed_nor_carriage_return(subtests: pytest.Subtests) -> None:
    """RFC 9485, section 5.4."""
    for text, path, is_found in [
        ("a\rb", "$[?match(@.a, 'a.b')].a", False),
        ("a\nb", "$[?match(@.a, 'a.b')].a", False),
        ("a\u2028b", "$[?match(@.a, 'a.b')].a", True),
        ("a\rb", "$[?search(@.a, 'a.')].a", False),
        ("a.b", "$[?match(@.a, 'a\\\\.b')].a", True),
        ("axb", "$[?match(@.a, 'a\\\\.b')].a", False),
        ("a.b", "$[?match(@.a, 'a[.]b')].a", True),
        ("a\rb", "$[?match(@.a, 'a[^x]b')].a", True),
    ]:
        with subtests.test(text):
            if is_found:
                assert select_one([{"a": text}], path) == (0, "a")
            else:
                with pytest.raises(RefusedError):
                    select_one([{"a": text}], path)
