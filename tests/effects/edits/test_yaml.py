"""yaml_update: one value, in its own style; everything else stays."""

from typing import Any

import pytest

from remit.core.errors import Reason
from remit.effects.edits import yaml as yaml_edit
from tests.effects.edits.editing import edit, reason_of, refusal_of, text_after

pytestmark = pytest.mark.req("PX-04")


def updated(before: str | bytes, path: str, value: Any) -> str:
    return text_after("yaml_update", before, path=path, value=value)


@pytest.mark.parametrize(
    "before, path, value, after",
    [
        pytest.param("a: 1 # c\nb: 2\n", "$.a", 5, "a: 5 # c\nb: 2\n", id="a number, with a comment"),
        pytest.param("a: 1", "$.a", 5, "a: 5", id="no final line end"),
        pytest.param("a: x\n", "$.a", "some text, it's", "a: some text, it's\n", id="plain stays plain"),
        pytest.param("a: x\n", "$.a", "k: v", 'a: "k: v"\n', id="plain would be a mapping"),
        pytest.param("a: x\n", "$.a", "v # c", 'a: "v # c"\n', id="plain would be a comment"),
        pytest.param("a: x\n", "$.a", "5", 'a: "5"\n', id="plain would be a number"),
        pytest.param("a: x\n", "$.a", "no", 'a: "no"\n', id="plain would be false for old readers"),
        pytest.param("a: x\n", "$.a", "2020-01-01", 'a: "2020-01-01"\n', id="plain would be a date for old readers"),
        pytest.param("a: x\n", "$.a", "", 'a: ""\n', id="plain would be nothing"),
        pytest.param("a: x\n", "$.a", " x", 'a: " x"\n', id="plain would lose a space"),
        pytest.param("a: x\n", "$.a", "x\ny", 'a: "x\\ny"\n', id="two lines"),
        pytest.param("a: x\n", "$.a", "*b", 'a: "*b"\n', id="plain would be an alias"),
        pytest.param("a: x\n", "$.a", "\x85\u2028\x7f", 'a: "\\u0085\\u2028\\u007f"\n', id="not printable"),
        pytest.param("a: x\n", "$.a", "é😀", "a: é😀\n", id="beyond ASCII"),
        pytest.param("[x, y]\n", "$[0]", "a, b", '["a, b", y]\n', id="plain would be two items"),
        pytest.param("a: 'x'\n", "$.a", "it's", "a: 'it''s'\n", id="single quotes stay"),
        pytest.param("a: 'x'\n", "$.a", "5", "a: '5'\n", id="single quotes stay around digits"),
        pytest.param("a: 'x'\n", "$.a", "x\ny", 'a: "x\\ny"\n', id="single quotes cannot hold it"),
        pytest.param('a: "x"\n', "$.a", 'q"', 'a: "q\\""\n', id="double quotes stay"),
        pytest.param('a: "8080"\n', "$.a", 8080, "a: 8080\n", id="a number is not quoted"),
        pytest.param("a: 1\n", "$.a", None, "a: null\n", id="null"),
        pytest.param("a: 1\n", "$.a", True, "a: true\n", id="true"),
        pytest.param("a: 1\n", "$.a", 1e16, "a: 1e+16\n", id="a float"),
        pytest.param("a:\nb: 1\n", "$.a", 5, "a: 5\nb: 1\n", id="nothing becomes something"),
        pytest.param("a: # c\nb: 1\n", "$.a", 5, "a: 5 # c\nb: 1\n", id="nothing with a comment"),
        pytest.param("- a\n-\n", "$[1]", 5, "- a\n- 5\n", id="an empty item"),
        pytest.param("{a: , b: 1}\n", "$.a", 5, "{a: 5 , b: 1}\n", id="nothing, in brackets"),
        pytest.param("a: |\n  x\n  y\n\n# c\nb: 1\n", "$.a", "z", 'a: "z"\n\n# c\nb: 1\n', id="a block text"),
        pytest.param("a: >-  # h\n  x\n", "$.a", "z\n", 'a: "z\\n"\n', id="a folded text"),
        pytest.param("a: x\n  y\nb: 1\n", "$.a", "z", "a: z\nb: 1\n", id="a plain text over lines"),
        pytest.param("a:\r\n  - x # c\r\n", "$.a[0]", "z", "a:\r\n  - z # c\r\n", id="Windows' line ends"),
        pytest.param("\ufeffa: 1\n", "$.a", 2, "\ufeffa: 2\n", id="behind a byte-order mark"),
        pytest.param("# c\n---\na: 1\n...\n", "$.a", 2, "# c\n---\na: 2\n...\n", id="marks of a document"),
        pytest.param("404: x\n", "$['404']", "z", "404: z\n", id="a key that is a number"),
        pytest.param("? a\n: 1\n", "$.a", 2, "? a\n: 2\n", id="an explicit key"),
        pytest.param('"k\\u0041": 1\n', "$.kA", 2, '"k\\u0041": 2\n', id="a quoted key"),
        pytest.param("x\n", "$", "z", "z\n", id="a document of one scalar"),
    ],
)
def test_a_scalar_is_written_as_the_one_before(before: str, path: str, value: Any, after: str) -> None:
    assert updated(before, path, value) == after


@pytest.mark.parametrize(
    "before, path, value, after",
    [
        pytest.param("a: 1 # c\n", "$.a", {"x": [1, "no"]}, 'a: {x: [1, "no"]} # c\n', id="for a scalar"),
        pytest.param("a: {x: 1} # c\n", "$.a", {"w": 2}, "a: {w: 2} # c\n", id="brackets stay"),
        pytest.param("a: [1, 2]\n", "$.a", [], "a: []\n", id="empty brackets"),
        pytest.param(
            "a:\n  x: 1\nb: 2\n", "$.a", {"w": {"z": [1]}}, "a:\n  w:\n    z:\n      - 1\nb: 2\n", id="a block"
        ),
        pytest.param("a:\n    x: 1\n", "$.a", {"w": {"z": 1}}, "a:\n    w:\n        z: 1\n", id="indent of the file"),
        pytest.param(
            "a:\n- 1\n- 2\nb: 1\n", "$.a", [3, {"x": 1, "w": 2}], "a:\n- 3\n- x: 1\n  w: 2\nb: 1\n", id="a list"
        ),
        pytest.param("a:\n- 1\nb: 1\n", "$.a", {"x": 1}, "a:\n  x: 1\nb: 1\n", id="a mapping where a list was"),
        pytest.param("- x: 1\n  y: 2\n- 3\n", "$[0]", {"z": 1, "w": 2}, "- z: 1\n  w: 2\n- 3\n", id="in a list"),
        pytest.param("- x: 1\n  y: 2\n- 3\n", "$[0]", 5, "- 5\n- 3\n", id="in a list, by a scalar"),
        pytest.param("a:\n  x: 1\n  y: 2\nb: 1\n", "$.a", 5, "a: 5\nb: 1\n", id="a block by a scalar"),
        pytest.param("a: # c\n  x: 1\nb: 1\n", "$.a", 5, "a: 5 # c\nb: 1\n", id="a block by a scalar, with a comment"),
        pytest.param("a:\n- 1\nb: 1\n", "$.a", [], "a: []\nb: 1\n", id="a list by an empty one"),
        pytest.param(
            "a:\n  x: 1\n\n# of b\nb: 1\n", "$.a", {"w": 1}, "a:\n  w: 1\n\n# of b\nb: 1\n", id="comments behind"
        ),
        pytest.param("a:\n  # of x\n  x: 1\n", "$.a", {"w": 1}, "a:\n  # of x\n  w: 1\n", id="comments before"),
        pytest.param(
            "a:\r\n  x: 1\r\n", "$.a", {"w": 1, "z": 2}, "a:\r\n  w: 1\r\n  z: 2\r\n", id="Windows' line ends"
        ),
        pytest.param("a: 1\nb: 2\n", "$", {"x": 1}, "x: 1\n", id="the whole document"),
        pytest.param("{a: {b: 1}}\n", "$.a", {"c": [1]}, "{a: {c: [1]}}\n", id="inside of brackets"),
        pytest.param(
            "a: 1\n", "$.a", ["y", "on", "1:30"], 'a: ["y", "on", "1:30"]\n', id="texts that old readers misread"
        ),
        pytest.param("a: 1\n", "$.a", {"k: v": "x", "": 1}, 'a: {"k: v": x, "": 1}\n', id="keys that need quotes"),
    ],
)
def test_a_collection_is_written_in_the_place_of_the_old_value(before: str, path: str, value: Any, after: str) -> None:
    assert updated(before, path, value) == after


def test_the_sentence_names_the_path() -> None:
    assert edit("yaml_update", "a: 1\n", path="$.a", value=2).summary == "Value at $.a updated successfully"


@pytest.mark.parametrize(
    "before, path, reason",
    [
        pytest.param("a: 1\n", "$.b", Reason.EDIT_NO_MATCH, id="not there"),
        pytest.param("a: [1, 2]\n", "$.a[*]", Reason.EDIT_AMBIGUOUS, id="several"),
        pytest.param("a: &x 1\nb: *x\n", "$.a", Reason.EDIT_AMBIGUOUS, id="an anchor in use"),
        pytest.param("a: &x 1\nb: *x\n", "$.b", Reason.EDIT_AMBIGUOUS, id="an alias"),
        pytest.param("a: &x {c: 1}\nb: *x\n", "$.a.c", Reason.EDIT_AMBIGUOUS, id="inside of an anchor in use"),
        pytest.param("a: &x {c: 1}\nb: *x\n", "$.b.c", Reason.EDIT_AMBIGUOUS, id="by way of an alias"),
        pytest.param("a: {c: &x 1}\nb: *x\n", "$.a", Reason.EDIT_AMBIGUOUS, id="around an anchor in use"),
        pytest.param("a: !!str 1\n", "$.a", Reason.EDIT_UNSUPPORTED, id="a tag"),
        pytest.param("d: &d {x: 1}\na:\n  <<: *d\n  b: 1\n", "$.a.b", Reason.EDIT_UNSUPPORTED, id="a merge"),
        pytest.param("%YAML 1.1\n---\na: 1\n", "$.a", Reason.EDIT_UNSUPPORTED, id="a directive"),
        pytest.param("? [x]\n: 1\na: 1\n", "$.a", Reason.EDIT_UNSUPPORTED, id="a list as a key"),
        pytest.param('1: a\n"1": b\n', "$['1']", Reason.EDIT_UNSUPPORTED, id="keys that a path cannot tell apart"),
        pytest.param("{a, b: 1}\n", "$.a", Reason.EDIT_UNSUPPORTED, id="a key without a colon"),
        pytest.param("# nothing\n", "$", Reason.EDIT_UNSUPPORTED, id="no document"),
        pytest.param("a: 1\n", "a", Reason.MALFORMED, id="not a path"),
        pytest.param("a: [1\n", "$.a", Reason.SYNTAX_BROKEN, id="not YAML"),
        pytest.param("a: *x\n", "$.a", Reason.SYNTAX_BROKEN, id="an alias of nothing"),
        pytest.param('a: "\\ud800"\n', "$.a", Reason.SYNTAX_BROKEN, id="half a pair"),
        pytest.param("a: x\x01\n", "$.a", Reason.SYNTAX_BROKEN, id="a control character"),
        pytest.param('a: "\\U99999999"\n', "$.a", Reason.SYNTAX_BROKEN, id="no character"),
        # the attack catalogue's parse cases 3, 5, 7, 8 and 11
        pytest.param("&a [*a]", "$[0]", Reason.SYNTAX_BROKEN, id="parse-003, self reference"),
        pytest.param("a: 1\na: 2", "$.a", Reason.SYNTAX_BROKEN, id="parse-005, a key twice"),
        pytest.param("a:\n\t- b", "$.a", Reason.SYNTAX_BROKEN, id="parse-007, a tab as indent"),
        pytest.param("a: 1\n---\nb: 2", "$.a", Reason.EDIT_UNSUPPORTED, id="parse-008, two documents"),
        pytest.param("[" * 100_000, "$", Reason.LIMIT_EXCEEDED, id="parse-011, 100,000 deep"),
        pytest.param("a: " + "x" * (1 << 20), "$.a", Reason.LIMIT_EXCEEDED, id="more than a MiB"),
    ],
)
def test_an_edit_that_does_not_fit_the_file_is_refused(before: str, path: str, reason: Reason) -> None:
    refusal = refusal_of("yaml_update", before, path=path, value=9)
    assert refusal.reason is reason
    assert refusal.next_step


def test_parse_006_what_is_not_edited_keeps_its_bytes() -> None:
    assert updated("no: 010\nb: 0x1F\nc: 1_000\nd: 1\n", "$.d", 2) == "no: 010\nb: 0x1F\nc: 1_000\nd: 2\n"


def test_parse_009_comments_and_order_survive() -> None:
    assert updated("# c\nb: 1 # d\na: 2", "$.a", 3) == "# c\nb: 1 # d\na: 3"


def test_parse_010_anchors_survive_an_edit_beside_them() -> None:
    assert updated("a: &x 1\nb: *x\nc: &y 2\nd: 3\n", "$.d", 4) == "a: &x 1\nb: *x\nc: &y 2\nd: 4\n"


def test_many_aliases_of_aliases_are_not_written_out() -> None:
    laughs = "a: &a [x, x]\n" + "".join(
        f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}]\n"
        for a, b in zip("abcdefghijklmno", "bcdefghijklmnop", strict=True)
    )
    assert updated(laughs + "z: 1\n", "$.z", 2) == laughs + "z: 2\n"


def test_an_edit_that_would_change_more_than_it_should_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second look is taken: no way of writing passes it, so none is used."""
    monkeypatch.setattr(yaml_edit, "_candidate_pieces", lambda place, _: [[(0, place.node.end, "b: 9\na: 2")]])
    assert reason_of("yaml_update", "b: 1\na: 1\n", path="$.a", value=2) is Reason.EDIT_UNSUPPORTED


def test_a_value_of_another_type_does_not_pass_the_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [(3, 4, "2")]
    right = [(3, 4, '"2"')]
    monkeypatch.setattr(yaml_edit, "_candidate_pieces", lambda *_: [wrong, right])
    assert updated("a: 1\n", "$.a", "2") == 'a: "2"\n'
