"""JSON from strangers: each kind of bad input is refused with its place; whatever else is valid comes through."""

import io
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from remit.contracts.plans.plan import Plan
from remit.contracts.tasks.task import TaskManifest
from remit.core.errors import Reason, RefusedError
from remit.parsing import Bounds, parse_json, read_bounded

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**38), max_value=10**38)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(alphabet=st.characters(exclude_categories=["Cs"])), inner, max_size=5)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize(
    "raw, reason, what, where",
    [
        # the attack catalogue's parse cases 12, 14, 15, 17, 19 and 20
        pytest.param(b"[" * 100_000, Reason.TOO_DEEP, "deeper than 32", "byte 32", id="100,000 deep"),
        pytest.param(b'{"a":NaN}', Reason.MALFORMED, "NaN", "line 1, column 6", id="NaN"),
        pytest.param(b'{"a":\n -Infinity}', Reason.MALFORMED, "Infinity", "line 2, column 2", id="-Infinity"),
        pytest.param(b'{"a":1e400}', Reason.MALFORMED, "IEEE 754", "line 1, column 6", id="1e400"),
        pytest.param(b"9" * 5000, Reason.MALFORMED, "40 digits", "line 1, column 1", id="5000 digits"),
        pytest.param(b'{"a":"\\ud800"}', Reason.MALFORMED, "surrogate", "line 1, column 7", id="high half alone"),
        pytest.param(b'["\\ud83d\\ude00","\\ude00"]', Reason.MALFORMED, "surrogate", "column 18", id="low half alone"),
        pytest.param(b'["\\ud83d\\ud83d\\ude00"]', Reason.MALFORMED, "surrogate", "column 3", id="half before a pair"),
        pytest.param(b'{"\\udfff":1}', Reason.MALFORMED, "surrogate", "column 3", id="half in a key"),
        pytest.param(b'{"a":1} x', Reason.MALFORMED, "not JSON", "line 1, column 9", id="trailing garbage"),
        pytest.param(b'{"a":1}{"a":1}', Reason.MALFORMED, "not JSON", "column 8", id="two documents"),
        # and their kin
        pytest.param(b'{"a":1,"b":{"c":1,\n"c":2}}', Reason.MALFORMED, "'c' twice", "line 2, column 1", id="twice"),
        pytest.param(b'{"a":1,"\\u0061":2}', Reason.MALFORMED, "'a' twice", "column 8", id="twice, escaped"),
        pytest.param(b'{"a":1,"a":{"b":1,"b":2}}', Reason.MALFORMED, "'b'", "column 19", id="twice, inner first"),
        pytest.param(b'{"a":"\xff"}', Reason.MALFORMED, "UTF-8", "byte 6", id="invalid UTF-8"),
        pytest.param(b'"\xed\xa0\x80"', Reason.MALFORMED, "UTF-8", "byte 1", id="surrogate in UTF-8"),
        pytest.param(b'"\xc0\xaf"', Reason.MALFORMED, "UTF-8", "byte 1", id="overlong UTF-8"),
        pytest.param(b"\xef\xbb\xbf{}", Reason.MALFORMED, "BOM", "column 1", id="byte-order mark"),
        pytest.param(b'{"a":"x', Reason.MALFORMED, "closing quote", "byte 5", id="unfinished string"),
        pytest.param(b'["a\\"', Reason.MALFORMED, "closing quote", "byte 1", id="escaped closing quote"),
        pytest.param(b"]" * 1000, Reason.MALFORMED, "no opening", "byte 0", id="closing brackets"),
        pytest.param(b'["a\nb"]', Reason.MALFORMED, "not JSON", "line 1", id="control character"),
        pytest.param(b"[1,]", Reason.MALFORMED, "not JSON", "line 1", id="trailing comma"),
        pytest.param(b"[01]", Reason.MALFORMED, "not JSON", "line 1", id="leading zero"),
        pytest.param(b"{'a':1}", Reason.MALFORMED, "not JSON", "line 1", id="single quotes"),
        pytest.param(b"[1]//c", Reason.MALFORMED, "not JSON", "line 1", id="comment"),
        pytest.param(b"", Reason.MALFORMED, "not JSON", "line 1", id="nothing"),
        pytest.param(b"[" + b"1," * 100_001 + b"1]", Reason.TOO_LARGE, "100,000 values", "byte", id="many values"),
        pytest.param(b'""' * 300_000, Reason.TOO_LARGE, "100,000 values", "byte", id="run of quotes"),
        pytest.param(b"1" + b" " * (1 << 20), Reason.TOO_LARGE, "1,048,576 bytes", "input", id="one byte too many"),
    ],
)
def test_bad_json_is_refused_with_where_and_why(raw: bytes, reason: Reason, what: str, where: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        parse_json(raw)
    assert refusal.value.reason is reason
    assert what in refusal.value.what
    assert where in refusal.value.where


def test_object_with_too_many_members_is_refused_by_its_first_key() -> None:
    raw = json.dumps({"inner": {f"k{n}": n for n in range(5001)}}).encode()
    with pytest.raises(RefusedError) as refusal:
        parse_json(raw)
    assert (refusal.value.reason, "'k0'" in refusal.value.where) == (Reason.TOO_LARGE, True)


@pytest.mark.parametrize(
    "text, value",
    [
        ('{"a":9007199254740993}', {"a": 9007199254740993}),
        ('{\n  "a": 1\n}\n', {"a": 1}),
        ('"\\ud83d\\ude00 \\\\ud800"', "\U0001f600 \\ud800"),
        ('{"":"\\u0000"}', {"": "\0"}),
        ("[" * 32 + "]" * 32, json.loads("[" * 32 + "]" * 32)),
        ("-0.0", -0.0),
        ('["[[[[", "}}}}", "a,b,c"]', ["[[[[", "}}}}", "a,b,c"]),
    ],
)
def test_benign_json_comes_through_unchanged(text: str, value: Any) -> None:
    parsed = parse_json(text.encode())
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize("size, fits", [(10, True), (11, False)])
def test_reading_stops_one_byte_past_the_bound(size: int, *, fits: bool) -> None:
    stream = io.BytesIO(b"x" * size + b"y" * 1000 if not fits else b"x" * size)
    bounds = Bounds(max_bytes=10)
    if fits:
        assert read_bounded(stream, bounds) == b"x" * size
    else:
        with pytest.raises(RefusedError):
            read_bounded(stream, bounds)
        assert stream.tell() == 11


def test_refusal_names_field_and_contract_but_shows_no_value() -> None:
    raw = json.dumps({"task_id": "t", "capability_id": "NO_EFFECT", "inputs": {}, "constraints": "hunter2-hunter2"})
    with pytest.raises(RefusedError) as refusal:
        TaskManifest.parse(raw.encode(), source="manifest.json")
    assert refusal.value.where == "manifest.json, $.constraints"
    assert "hunter2" not in str(refusal.value)


@given(st.binary())
@example(b'{"a":1,"a":{}}')
@example(b'[{"a":1,"a":2}]]')
@example(b'{"a":1,"a":2')
def test_any_bytes_give_a_value_or_a_refusal(raw: bytes) -> None:
    refusal = _refusal(parse_json, raw)
    assert refusal is None or refusal.where


@given(st.text(alphabet='{}[],:"\\u0d8ae1.-+ \nNInfanity', max_size=60))
def test_json_like_text_gives_what_the_standard_library_gives_or_a_refusal(text: str) -> None:
    try:
        value = parse_json(text.encode())
    except RefusedError:
        return
    assert value == json.loads(text)


@given(json_values, st.booleans())
def test_valid_document_reads_as_by_the_standard_library(value: Any, ascii_only: bool) -> None:  # noqa: FBT001 - given by Hypothesis
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert parse_json(text.encode()) == json.loads(text)


@given(json_values)
def test_any_json_given_as_a_contract_is_accepted_or_refused(value: Any) -> None:
    for contract in (TaskManifest, Plan):
        refusal = _refusal(contract.from_tree, value)
        assert refusal is None or refusal.where.startswith(f"{contract.__name__}, $")


def test_numbers_keep_their_kind() -> None:
    parsed = parse_json(b"[1, 1.0, 1e2, -0]")
    assert [type(number) for number in parsed] == [int, float, float, int]
    assert math.copysign(1, parsed[3]) == 1


def _refusal(parse: Callable[[Any], object], given_input: Any) -> RefusedError | None:
    """How the input was refused, or None. Any other exception is a failure of the test."""
    try:
        parse(given_input)
    except RefusedError as refusal:
        return refusal
    return None
