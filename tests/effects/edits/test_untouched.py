"""Whatever is edited in whatever file: every byte outside of the splices is where it was."""

import json
import os
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from remit.core.errors import RefusedError
from remit.effects.edits.registry_full import FULL_EDITORS
from remit.effects.edits.splice import Edited
from remit.effects.plans.diff import diff_edit, diff_whole
from tests.effects.edits.editing import assert_rest_is_untouched

pytestmark = pytest.mark.req("PX-04")

thorough = settings(max_examples=2_000 if os.environ.get("REMIT_LONG") == "1" else 400, deadline=None)

LINE_ENDS = st.sampled_from(["\n", "\r\n", "\n", "\r\n", "\r", "\u2028"])
WORDS = st.sampled_from(["", "a", "ab", "\tx", "é", "😀", "  y ", "a=1", "\\", "\f", '"q"', "ab ab"])
BOMS = st.sampled_from(["", "\ufeff"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """With and without a byte-order mark, with line ends of all kinds and none at the end, with tabs."""
    lines = draw(st.lists(st.tuples(WORDS, LINE_ENDS), max_size=12))
    return draw(BOMS) + "".join(word + end for word, end in lines) + draw(WORDS)


def edited_or_refused(kind: str, text: str, **parameters: Any) -> Edited | None:
    raw = text.encode()
    try:
        edited = FULL_EDITORS[kind](raw, {"type": kind, **parameters})
    except RefusedError:
        return None
    assert_rest_is_untouched(raw, edited)
    assert edited.content.startswith(b"\xef\xbb\xbf") == text.startswith("\ufeff")
    edited.content.decode()
    by_splices, by_contents = diff_edit("f", raw, edited), diff_whole("f", raw, edited.content)
    assert by_splices.added - by_splices.removed == by_contents.added - by_contents.removed
    return edited


@thorough
@given(texts(), WORDS, WORDS, st.integers(1, 3) | st.none())
def test_text_replace(text: str, pattern: str, replacement: str, count: int | None) -> None:
    assume(pattern)
    edited = edited_or_refused("text_replace", text, pattern=pattern, replacement=replacement, count=count)
    body = text.removeprefix("\ufeff")
    if edited is None:
        assert pattern not in body
    else:
        assert edited.content.decode().removeprefix("\ufeff") == body.replace(pattern, replacement, count or -1)


@thorough
@given(texts(), st.sampled_from(["a+", r"\s+", "[^a]", "(a)(b)?", "(?m)^.", ".$", r"\n"]), WORDS)
def test_text_replace_with_a_pattern(text: str, pattern: str, replacement: str) -> None:
    assume("\\" not in replacement)
    edited = edited_or_refused("text_replace", text, pattern=pattern, replacement=replacement, regex=True)
    assert edited is None or edited.splices


@thorough
@given(texts(), st.integers(1, 15), texts().map(lambda text: text.removeprefix("\ufeff")))
def test_line_insert(text: str, number: int, content: str) -> None:
    edited = edited_or_refused("line_insert", text, line_number=number, content=content)
    if edited is not None:
        grown = edited.content.count(b"\n") - text.encode().count(b"\n")
        assert grown == len(content.removesuffix("\n").split("\n"))


@thorough
@given(texts(), st.integers(1, 15), st.integers(0, 3))
def test_line_delete(text: str, first: int, more: int) -> None:
    edited = edited_or_refused("line_delete", text, start_line=first, end_line=first + more)
    if edited is not None:
        lines = text.removeprefix("\ufeff").split("\n")
        kept = [*lines[: first - 1], *lines[first + more :]]
        assert edited.content.decode().removeprefix("\ufeff").split("\n")[: len(kept) - 1] == kept[:-1]


# --- trees -----------------------------------------------------------------------------------------------------------

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
    | st.sampled_from(["no", "1", "a: b", "# c", "it's", "- x", "}{", "\\", "é\n", "<<"])
)
KEYS = st.sampled_from(["a", "b", "c d", "é", "}", '"', "", "1", "no"])
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
INDENTS = st.sampled_from([None, 1, 2, 4, "\t"])


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,  ", " :\t")]))
    tree = draw(TREES)
    text = json.dumps(tree, ensure_ascii=draw(st.booleans()), indent=draw(INDENTS), separators=separators)
    text = text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))
    return draw(BOMS) + draw(st.sampled_from(["", "\n", " "])) + text + draw(st.sampled_from(["", "\n", "\r\n"]))


def some_way(data: st.DataObject, tree: Any) -> tuple[str | int, ...]:
    way: list[str | int] = []
    while isinstance(tree, (dict, list)) and tree and data.draw(st.booleans()):
        step = data.draw(st.sampled_from(list(tree) if isinstance(tree, dict) else list(range(len(tree)))))
        way.append(step)
        tree = tree[step]
    return tuple(way)


def as_path(way: tuple[str | int, ...]) -> str:
    return "$" + "".join(f"[{json.dumps(step, ensure_ascii=False)}]" for step in way)


def at(tree: Any, way: tuple[str | int, ...]) -> Any:
    for step in way:
        tree = tree[step]
    return tree


def changed(tree: Any, way: tuple[str | int, ...], value: Any) -> Any:
    if not way:
        return value
    at(tree, way[:-1])[way[-1]] = value
    return tree


def read(content: bytes) -> Any:
    return json.loads(content.decode().removeprefix("\ufeff"))


@thorough
@given(json_texts(), st.data(), TREES)
def test_json_update_value(text: str, data: st.DataObject, value: Any) -> None:
    tree = read(text.encode())
    way = some_way(data, tree)
    edited = edited_or_refused("json_update_value", text, path=as_path(way), value=value)
    assert edited is not None
    assert json.dumps(read(edited.content)) == json.dumps(changed(tree, way, value))


@thorough
@given(json_texts(), st.data(), KEYS, TREES)
def test_json_add_and_remove_property(text: str, data: st.DataObject, key: str, value: Any) -> None:
    tree = read(text.encode())
    way = some_way(data, tree)
    parent = at(tree, way)
    edited = edited_or_refused("json_add_property", text, path=as_path(way), key=key, value=value)
    if not isinstance(parent, dict) or key in parent:
        assert edited is None
        return
    assert edited is not None
    before = json.dumps(tree)
    assert json.dumps(read(edited.content)) == json.dumps(changed(tree, (*way, key), value))
    back = edited_or_refused("json_remove_property", edited.content.decode(), path=as_path(way), key=key)
    assert back is not None
    assert json.dumps(read(back.content)) == before


YAML_TEXTS = st.sampled_from(
    [
        "# top\na: 1 # one\nb: 'x' # two\nc: \"y\"\n\n# end\n",
        "a: |\n  text\n  more\n\n# of b\nb: >-\n  fold\n  ed\nc:\n",
        "a:\n  # in a\n  b: 1 # b\n  c: [1, {d: 2}] # c\n# after\nd:\n- e\n- f: 1\n  g: 2 # g\n-\n",
        "{a: 1, b: [x, 'y', \"z\"], c: {d: , e: ~}}",
        "- - 1\n  - 2\n-\n  a: 1\n- plain\n  over lines\n",
        "---\na: &x 1\nb: *x\nc: {d: &y 2} # d\n1: z\nno: 010\n...\n",
        "a:\n\n    b:\n        - c   # c\n\n        - d\n    e: f\n",
    ]
)


@thorough
@given(YAML_TEXTS, st.sampled_from(["\n", "\r\n"]), BOMS, st.data(), TREES)
def test_yaml_update(text: str, newline: str, bom: str, data: st.DataObject, value: Any) -> None:
    paths = ["$", "$.a", "$.b", "$.c", "$.d", "$.a.b", "$.a.c[1]", "$.b[0]", "$[0]", "$[1]", "$[2]", "$.d[1]", "$['1']"]
    path = data.draw(st.sampled_from(paths))
    edited_or_refused("yaml_update", bom + text.replace("\n", newline), path=path, value=value)
