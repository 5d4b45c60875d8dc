"""Canonical bytes: the vectors of RFC 8785, and the fast encoder that gives the same bytes as the full one."""

import json
import struct
from enum import StrEnum
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from remit.core.canonical import MAX_DEPTH, MAX_SAFE_INTEGER, canonical_bytes, digest, digest_bytes
from remit.core.errors import Reason, RefusedError
from remit.parsing import parse_json

# RFC 8785, appendix B: the bits of an IEEE 754 double, and its text.
NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]
NOT_NUMBERS = ["7fffffffffffffff", "7ff0000000000000", "fff0000000000000"]

# RFC 8785, section 3.2.2, and its bytes in section 3.2.4.
EXAMPLE = r"""{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}"""
EXAMPLE_BYTES = bytes.fromhex(
    "7b 22 6c 69 74 65 72 61 6c 73 22 3a 5b 6e 75 6c 6c 2c 74 72 75 65 2c 66 61 6c 73 65 5d 2c 22 6e 75 6d 62 65 72 73"
    "22 3a 5b 33 33 33 33 33 33 33 33 33 2e 33 33 33 33 33 33 33 2c 31 65 2b 33 30 2c 34 2e 35 2c 30 2e 30 30 32 2c 31"
    "65 2d 32 37 5d 2c 22 73 74 72 69 6e 67 22 3a 22 e2 82 ac 24 5c 75 30 30 30 66 5c 6e 41 27 42 5c 22 5c 5c 5c 5c 5c"
    "22 2f 22 7d"
)

# RFC 8785, section 3.2.3: sorted by UTF-16 units, not by code points.
SORTED_KEYS = [
    ("\r", "Carriage Return"),
    ("1", "One"),
    ("\u0080", "Control"),
    ("\u00f6", "Latin Small Letter O With Diaeresis"),
    ("\u20ac", "Euro Sign"),
    ("\U0001f600", "Emoji: Grinning Face"),
    ("\ufb33", "Hebrew Letter Dalet With Dagesh"),
]

safe_integers = st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
texts = st.text(st.characters(exclude_categories=["Cs"]))


def json_values(numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | texts | numbers,
        lambda inner: st.lists(inner, max_size=6) | st.dictionaries(texts, inner, max_size=6),
        max_leaves=30,
    )


def ieee_double(bits: str) -> float:
    value: float = struct.unpack(">d", bytes.fromhex(bits))[0]
    return value


def reads_back_unsafe(number: float) -> bool:
    """Return whether the canonical text of the float is an integer that a reader may not keep exactly."""
    return number.is_integer() and MAX_SAFE_INTEGER < abs(number) < 1e21


def test_numbers_of_the_rfc_get_their_text(subtests: pytest.Subtests) -> None:
    for bits, text in NUMBERS:
        with subtests.test(bits):
            assert canonical_bytes(ieee_double(bits)) == text.encode()
            assert canonical_bytes([{"n": ieee_double(bits)}]) == b'[{"n":' + text.encode() + b"}]"


@pytest.mark.parametrize("bits", NOT_NUMBERS)
def test_a_value_that_is_not_a_number_is_refused(bits: str) -> None:
    with pytest.raises(RefusedError, match="not finite"):
        canonical_bytes({"n": ieee_double(bits)})


def test_example_of_the_rfc_gets_its_bytes() -> None:
    assert canonical_bytes(json.loads(EXAMPLE)) == EXAMPLE_BYTES
    assert canonical_bytes(parse_json(EXAMPLE.encode())) == EXAMPLE_BYTES


def test_keys_are_sorted_by_utf16_units() -> None:
    canonical = canonical_bytes(dict(reversed(SORTED_KEYS)))
    assert list(json.loads(canonical).items()) == SORTED_KEYS
    assert sorted(key for key, _ in SORTED_KEYS) != [key for key, _ in SORTED_KEYS]


@pytest.mark.parametrize(
    "text, written",
    [
        ("\b\t\n\f\r", rb"\b\t\n\f\r"),
        ("\x00\x01\x1f", rb"\u0000\u0001\u001f"),
        ('"\\', rb"\"\\"),
        ("/", b"/"),
        ("\x7f\u0080\u2028\u2029", "\x7f\u0080\u2028\u2029".encode()),
        ("\U0001f600", "\U0001f600".encode()),
    ],
)
def test_only_characters_that_need_it_are_escaped(text: str, written: bytes) -> None:
    assert canonical_bytes(text) == b'"' + written + b'"'
    assert canonical_bytes([text, 1e30]) == b'["' + written + b'",1e+30]', "the same from the slower encoder"


@given(json_values(safe_integers | st.floats(allow_nan=False, allow_infinity=False)))
@example({"\ufb33": 1, "\U0001f600": 2})
@example({"a": (1, 2), "b": []})
def test_both_encoders_give_the_same_bytes(value: Any) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)


@given(st.floats(-1e16, 1e16) | st.floats(-1e-3, 1e-3))
@example(1e-4)
@example(0.00009999999999999999)
@example(999999999999999.9)
@example(-0.0)
def test_both_encoders_write_a_fraction_in_the_same_way(number: float) -> None:
    assert canonical_bytes({"n": number}) == rfc8785.dumps({"n": number})


@given(
    json_values(
        safe_integers | st.floats(allow_nan=False, allow_infinity=False).filter(lambda n: not reads_back_unsafe(n))
    )
)
def test_canonical_bytes_survive_a_round_trip(value: Any) -> None:
    once = canonical_bytes(value)
    assert canonical_bytes(parse_json(once)) == once


@given(st.floats(MAX_SAFE_INTEGER + 1, 1e21, exclude_max=True).filter(float.is_integer))
def test_a_float_that_reads_back_as_an_unsafe_integer_is_refused(number: float) -> None:
    once = canonical_bytes(number)
    with pytest.raises(RefusedError, match=r"past 2\^53-1"):
        canonical_bytes(parse_json(once))


@given(json_values(safe_integers))
def test_key_order_of_the_input_does_not_matter(value: Any) -> None:
    assert canonical_bytes({"a": value, "b": 1, "é": 2}) == canonical_bytes({"é": 2, "b": 1, "a": value})


def nested(levels: int, core: Any = None) -> Any:
    value = core
    for _ in range(levels):
        value = [value]
    return value


def circle() -> list[Any]:
    around: list[Any] = []
    around.append(around)
    return around


class Foreign:
    pass


def test_a_value_without_a_canonical_form_is_refused(subtests: pytest.Subtests) -> None:
    for case, value, why in [
        ("nan", float("nan"), "not finite"),
        ("infinity", float("inf"), "not finite"),
        ("minus infinity", -float("inf"), "not finite"),
        ("2^53", 2**53, r"past 2\^53-1"),
        ("-2^53", -(2**53), r"past 2\^53-1"),
        ("an integer too long to print", 10**5000, r"past 2\^53-1"),
        ("a lone surrogate", "\ud800", "lone surrogate"),
        ("a lone surrogate beside a float", ["\udfff", 0.5], "lone surrogate"),
        ("a lone surrogate in a key", {"\ud800": 1}, "lone surrogate"),
        ("integer key", {1: "a"}, "keys must be strings"),
        ("null key", {None: "a"}, "keys must be strings"),
        ("bytes key", {b"k": "a"}, "keys must be strings"),
        ("bytes", b"bytes", "unsupported type"),
        ("set", {"a": {1, 2}}, "unsupported type"),
        ("foreign object", Foreign(), "unsupported type"),
        ("deep", nested(MAX_DEPTH + 1), "nested more than"),
        ("deep after a float", [0.5, nested(MAX_DEPTH + 1)], "nested more than"),
        ("deep below a foreign key", {"é": nested(MAX_DEPTH)}, "nested more than"),
        ("very deep", nested(100_000), "nested more than"),
        ("a circle", circle(), "nested more than"),
        ("a circle beside a float", [1.5, circle()], "nested more than"),
    ]:
        with subtests.test(case):
            with pytest.raises(RefusedError, match=why) as refused:
                canonical_bytes(value)
            assert refused.value.reason is Reason.MALFORMED


def test_both_encoders_accept_the_deepest_allowed_nesting() -> None:
    assert canonical_bytes(nested(MAX_DEPTH, 1)) == b"[" * MAX_DEPTH + b"1" + b"]" * MAX_DEPTH
    assert canonical_bytes(nested(MAX_DEPTH, 0.5)) == b"[" * MAX_DEPTH + b"0.5" + b"]" * MAX_DEPTH


def test_a_refusal_never_quotes_the_value() -> None:
    secret = 4111_1111_1111_1111
    with pytest.raises(RefusedError) as refused:
        canonical_bytes({"card": secret * 100})
    assert str(secret) not in str(refused.value)
    assert refused.value.__context__ is None, "the encoder's own error would quote it"


def test_booleans_and_integers_are_not_confused() -> None:
    assert canonical_bytes([True, 1, False, 0]) == b"[true,1,false,0]"


def test_enumerations_are_written_as_their_text() -> None:
    class Colour(StrEnum):
        RED = "red"

    assert canonical_bytes({"c": Colour.RED}) == b'{"c":"red"}'


def test_a_digest_names_its_algorithm() -> None:
    # FIPS 180-2, appendix B.1
    assert digest_bytes(b"abc") == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest({"b": 1, "a": 2}) == digest_bytes(b'{"a":2,"b":1}')
