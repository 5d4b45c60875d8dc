"""YAML from people: what JSON can say, and nothing that two readers could read differently."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from remit.core.errors import Reason, RefusedError
from remit.parsing import Bounds
from remit.parsing.yaml import parse_yaml

BILLION_LAUGHS = "a: &a [x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text, reason, what, where",
    [
        # the attack catalogue's parse cases 3, 5, 7 and 11
        pytest.param("&a [*a]", Reason.MALFORMED, "anchors", "line 1, column 1", id="self reference"),
        pytest.param("a: 1\na: 2", Reason.MALFORMED, "'a' twice", "line 2, column 1", id="duplicate key"),
        pytest.param("a:\n\t- b", Reason.MALFORMED, "not YAML", "line 2, column 1", id="tab as indentation"),
        pytest.param("[" * 50_000, Reason.TOO_DEEP, "32 levels", "line 1, column 33", id="deep brackets"),
        pytest.param("[" * 100_000, Reason.TOO_LARGE, "65,536 bytes", "input", id="100,000 deep"),
        # and their kin
        pytest.param("- " * 30_000, Reason.TOO_DEEP, "32 levels", "line 1, column 65", id="deep dashes"),
        pytest.param(BILLION_LAUGHS, Reason.MALFORMED, "anchors", "line 1, column 4", id="billion laughs"),
        pytest.param("a: *b", Reason.MALFORMED, "aliases", "line 1, column 4", id="alias"),
        pytest.param("a: !!python/object:os.system x", Reason.MALFORMED, "tags", "column 4", id="object tag"),
        pytest.param("a: !!str 1", Reason.MALFORMED, "tags", "column 4", id="core tag"),
        pytest.param("!t {a: 1}", Reason.MALFORMED, "tags", "column 1", id="tagged mapping"),
        pytest.param("a: 1\n---\nb: 2", Reason.MALFORMED, "second document", "line 2, column 1", id="two documents"),
        pytest.param("%YAML 1.1\n---\na: 1", Reason.MALFORMED, "directives", "line 2", id="version directive"),
        pytest.param("%TAG ! !x\n---\na: 1", Reason.MALFORMED, "directives", "line 2", id="tag directive"),
        pytest.param("{a: 1, 'a': 2}", Reason.MALFORMED, "'a' twice", "column 8", id="twice in flow style"),
        pytest.param("1: a", Reason.MALFORMED, "not a string", "column 1", id="number as key"),
        pytest.param("? [a]\n: b", Reason.MALFORMED, "not a string", "column 3", id="list as key"),
        pytest.param("a: .nan", Reason.MALFORMED, "finite", "column 4", id="NaN"),
        pytest.param("a: -.INF", Reason.MALFORMED, "finite", "column 4", id="infinity"),
        pytest.param("a: 1e400", Reason.MALFORMED, "IEEE 754", "column 4", id="1e400"),
        pytest.param("a: " + "9" * 5000, Reason.MALFORMED, "40 digits", "column 4", id="5000 digits"),
        pytest.param('a: "\\ud800"', Reason.MALFORMED, "surrogate", "column 4", id="lone surrogate"),
        pytest.param("a: b\x00", Reason.MALFORMED, "control character", "line 1, column 5", id="NUL"),
        pytest.param("a: [1", Reason.MALFORMED, "not YAML", "line 1", id="unfinished list"),
        pytest.param('a: "x', Reason.MALFORMED, "not YAML", "line 1", id="unfinished string"),
        pytest.param('a: "\\U99999999"', Reason.MALFORMED, "not YAML", "input", id="escape past Unicode"),
        pytest.param("", Reason.MALFORMED, "empty", "input", id="nothing"),
        pytest.param("# only a comment\n", Reason.MALFORMED, "empty", "input", id="only a comment"),
        pytest.param("\ufeffa: 1", Reason.MALFORMED, "byte-order mark", "byte 0", id="byte-order mark"),
        pytest.param("- 1\n" * 10_001 + "- 1\n" * 6_000, Reason.TOO_LARGE, "", "", id="many values"),
    ],
)
def test_bad_yaml_is_refused_with_where_and_why(text: str, reason: Reason, what: str, where: str) -> None:
    bounds = Bounds(max_bytes=64 << 10, max_items=5_000)
    with pytest.raises(RefusedError) as refusal:
        parse_yaml(text.encode(), bounds)
    assert refusal.value.reason is reason
    assert what in refusal.value.what
    assert where in refusal.value.where


def test_yaml_that_is_not_utf8_is_refused_at_its_byte() -> None:
    with pytest.raises(RefusedError) as refusal:
        parse_yaml(b"a: \xff", source="remit.yaml")
    assert refusal.value.where == "remit.yaml, byte 3"


def test_benign_yaml_reads_by_the_core_schema(subtests: pytest.Subtests) -> None:
    for text, value in [
        ("no: 010", {"no": 10}),
        ("a: yes\nb: off\nc: 2026-01-01\nd: 12:30:45", {"a": "yes", "b": "off", "c": "2026-01-01", "d": "12:30:45"}),
        ("a: ~\nb:\nc: null\nd: 'null'\ne: ''", {"a": None, "b": None, "c": None, "d": "null", "e": ""}),
        ("a: true\nb: False\nc: 'true'", {"a": True, "b": False, "c": "true"}),
        ("[0x1F, 0o17, -7, +7, 1.5e3, .5, 1., 1_000]", [31, 15, -7, 7, 1500.0, 0.5, 1.0, "1_000"]),
        ("- - 1\n  - {}\n- []\n- |\n  a\n  b\n", [[1, {}], [], "a\nb\n"]),
        ("a: {b: [c, {d: e}]}\nf: 'it''s'", {"a": {"b": ["c", {"d": "e"}]}, "f": "it's"}),
        ("---\na: 1\n...\n", {"a": 1}),
        ("<<: {a: 1}", {"<<": {"a": 1}}),
        ("# c\nb: 1 # d\n'1': 2", {"b": 1, "1": 2}),
        ("just text", "just text"),
    ]:
        with subtests.test(text):
            parsed = parse_yaml(text.encode())
            assert parsed == value
            assert json.dumps(parsed) == json.dumps(value)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_a_refusal(raw: bytes) -> None:
    _value_or_refusal(raw)


@given(st.text(alphabet=" \n\t-:?[]{},#&*!|>'\"%@`ab01.~<=\\xuU", max_size=60))
@example('"\\x')
@example("%YAML")
@example("%")
@example("|9\n x")
@example("? |\n")
@example("!<")
@example("a: !<tag:")
@example("&")
@example('"\\uD8')
def test_yaml_like_text_gives_plain_json_values_or_a_refusal(text: str) -> None:
    _value_or_refusal(text.encode())


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(alphabet=st.characters(codec="ascii")),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc"), inner, max_size=4),
        max_leaves=10,
    )
)
def test_json_reads_as_yaml_to_the_same_value(value: Any) -> None:
    raw = json.dumps(value).encode()
    assert parse_yaml(raw) == value


def _value_or_refusal(raw: bytes) -> None:
    try:
        value = parse_yaml(raw)
    except RefusedError:
        return
    assert json.loads(json.dumps(value, allow_nan=False).encode("utf-8")) == value
