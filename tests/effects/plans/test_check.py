"""The rules of a plan: each kind holds where it should and not where it should not."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from remit.core.errors import Reason, RefusedError, UsageError
from remit.effects.context import Effect
from remit.effects.json_equal import is_equal
from remit.effects.plans import entry_full as rich
from remit.effects.plans import entry_plain as plain
from remit.effects.plans.steps import StepPlan
from tests.effects.plans.plan_project import PREFIX, PlanPlace, state, tree


@pytest.fixture
def place(tmp_path: Path) -> Iterator[PlanPlace]:
    root = tmp_path / "project"
    root.mkdir()
    with ExitStack() as stack:
        place = PlanPlace(root, stack)
        place.file("a.json", '{"n": 1, "list": [{"x": "1"}, {"x": "2"}], "yes": true}\n')
        place.file("a.yaml", "n: 1\nlist:\n- x: '1'\n")
        place.file("broken.json", "{")
        place.file("schema.json", '{"type": "object", "required": ["n"], "properties": {"n": {"minimum": 1}}}')
        place.file("strict.yaml", "required: [missing]\n")
        place.file("far.json", '{"$ref": "https://example.com/schema.json"}')
        place.file("slow.json", '{"properties": {"n": {"type": "string", "pattern": "^(a+)+$"}}}')
        (root / "link").symlink_to("a.json")
        yield place


def check(place: PlanPlace, *rules: Mapping[str, Any], effect: Effect = rich.CHECK) -> None:
    named = (rule.get(name) for rule in rules for name in ("path", "schema_file"))
    paths = tuple(dict.fromkeys(path for path in named if path is not None))
    plan = StepPlan(prefix=PREFIX, paths=paths, steps=(), waves=(), rules=tuple(rules))
    before = tree(place.root)
    try:
        assert effect.run(place.work(plan)) == {}
    finally:
        assert tree(place.root) == before


def rule(kind: str, path: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "path": path, **more}


HOLDS = [
    rule("file_exists", "a.json"),
    rule("file_absent", "no"),
    rule("file_absent", "no/folder/file"),
    rule("hash", "broken.json", digest=state("{").sha256),
    rule("json_schema", "a.json", schema_file="schema.json"),
    rule("json_schema", "a.yaml", schema_file="schema.json"),
    rule("json_schema", "a.json", schema={"properties": {"n": {"type": "integer"}}}),
    rule("json_schema", "a.json", schema=True),
    rule("json_path", "a.json", expression="$.n", expected=1),
    rule("json_path", "a.json", expression="$.n", expected=1.0),
    rule("json_path", "a.json", expression="$.list[?@.x=='2'].x", expected="2"),
    rule("json_path", "a.yaml", expression="$.list[0]", expected={"x": "1"}),
]
HOLDS_NOT = [
    (rule("file_exists", "no"), "does not exist"),
    (rule("file_exists", "no/folder"), "does not exist"),
    (rule("file_exists", "link"), "symbolic link"),
    (rule("file_absent", "a.json"), "the path exists"),
    (rule("file_absent", "link"), "the path exists"),
    (rule("hash", "a.json", digest="sha256:" + "0" * 64), "the file has sha256:"),
    (rule("hash", "no", digest="sha256:" + "0" * 64), "does not exist"),
    (
        rule("json_schema", "a.json", schema_file="strict.yaml"),
        "at the top it breaks the keyword required of its schema",
    ),
    (rule("json_schema", "a.json", schema=False), "at the top"),
    (rule("json_schema", "a.json", schema_file="no"), "no does not exist"),
    (rule("json_schema", "broken.json", schema=True), "JSON"),
    (rule("json_schema", "a.json", schema_file="far.json"), "the schema cannot be used"),
    (rule("json_schema", "a.json", schema={"type": "no such type"}), "the schema cannot be used"),
    (
        rule("json_schema", "a.json", schema={"properties": {"n": {"minimum": 2}}}),
        "at /n it breaks the keyword minimum",
    ),
    (rule("json_path", "a.json", expression="$.n", expected="1"), "the value at $.n is not as expected"),
    (rule("json_path", "a.json", expression="$.yes", expected=1), "the value at $.yes is not as expected"),
    (rule("json_path", "a.json", expression="$.list[*].x", expected="1"), "more than one"),
    (rule("json_path", "a.json", expression="$.no", expected=None), "selects nothing"),
    (rule("json_path", "no", expression="$.no", expected=None), "does not exist"),
]


@pytest.mark.req("PX-11")
@pytest.mark.parametrize("one", HOLDS, ids=lambda one: f"{one['type']}-{one['path']}")
def test_rules_that_hold(place: PlanPlace, one: Mapping[str, Any]) -> None:
    check(place, one)


@pytest.mark.req("PX-11")
@pytest.mark.parametrize("one, why", HOLDS_NOT, ids=lambda one: one["type"] if isinstance(one, dict) else "")
def test_rules_that_do_not(place: PlanPlace, one: Mapping[str, Any], why: str) -> None:
    with pytest.raises(RefusedError) as problem:
        check(place, rule("file_exists", "a.json"), one)
    assert problem.value.reason is Reason.RULE_FAILED
    assert f"rule 2 of 2 ({one['type']})" in problem.value.what
    assert why in problem.value.what
    assert problem.value.where == one["path"]


SECRET = "hunter2"
TELLING = [
    ("s.json", f'{{"a/b": {{"k~": "{SECRET}"}}}}', {"properties": {"a/b": {"properties": {"k~": {"type": "null"}}}}}),
    ("s.json", f'["{SECRET}"]', {"items": {"enum": [1]}}),
    ("s.json", f'["{SECRET}"]', {"items": False}),
    ("s.json", f'{{"a": "{SECRET}"}}', {"additionalProperties": False}),
    ("s.json", f'["{SECRET}"]', {"contains": {"const": 1}}),
    ("s.json", f'["{SECRET}", "{SECRET}"]', {"uniqueItems": True}),
    ("s.json", f'"{SECRET}"', {"anyOf": [{"maxLength": 1}, {"pattern": "^x"}]}),
    ("s.json", f'{{"a": {SECRET}}}', True),
    ("s.yaml", f"a: *{SECRET}\n", True),
    ("s.yaml", f"a: !{SECRET}!x y\n", True),
    ("s.yaml", f"a: [{SECRET}\n", True),
]


@pytest.mark.req("PX-06")
@pytest.mark.parametrize("name, content, schema", TELLING)
def test_a_rule_that_fails_quotes_nothing_of_the_document(
    place: PlanPlace, name: str, content: str, schema: Any
) -> None:
    place.file(name, content)
    with pytest.raises(RefusedError) as problem:
        check(place, rule("json_schema", name, schema=schema))
    assert problem.value.reason is Reason.RULE_FAILED
    assert SECRET not in repr(problem.value.as_json())
    if "k~" in content:
        assert "at /a~1b/k~0 it breaks the keyword type of its schema" in problem.value.what


@pytest.mark.req("PX-06")
@pytest.mark.parametrize(
    "schema", [{"type": SECRET}, {"$ref": f"https://x/{SECRET}"}, {"pattern": f"({SECRET}"}, SECRET]
)
def test_nor_of_a_file_that_was_named_as_the_schema(place: PlanPlace, schema: Any) -> None:
    place.file("s.json", json.dumps(schema))
    with pytest.raises(RefusedError, match="schema") as problem:
        check(place, rule("json_schema", "a.json", schema_file="s.json"))
    assert SECRET not in repr(problem.value.as_json())


@pytest.mark.req("PX-06")
def test_nor_does_a_path_that_finds_another_value(place: PlanPlace) -> None:
    place.file("s.json", f'{{"a": "{SECRET}"}}')
    with pytest.raises(RefusedError, match=r"the value at \$\.a is not as expected") as problem:
        check(place, rule("json_path", "s.json", expression="$.a", expected="guess"))
    assert SECRET not in repr(problem.value.as_json())


def test_a_pattern_in_a_schema_does_not_backtrack(place: PlanPlace) -> None:
    place.file("a.json", f'{{"n": "{"a" * 50}!"}}')
    with pytest.raises(RefusedError, match="does not hold"):
        check(place, rule("json_schema", "a.json", schema_file="slow.json"))


def test_the_small_process_judges_what_needs_no_parser_and_refuses_the_rest(place: PlanPlace) -> None:
    check(place, rule("file_exists", "a.json"), effect=plain.CHECK)
    with pytest.raises(UsageError):
        check(place, rule("json_path", "a.json", expression="$.n", expected=1), effect=plain.CHECK)


def test_a_rule_for_a_path_that_was_not_opened_is_a_bug_of_the_host(place: PlanPlace) -> None:
    plan = StepPlan(prefix=PREFIX, paths=(), steps=(), waves=(), rules=(rule("file_absent", "a.json"),))
    with pytest.raises(UsageError):
        plain.CHECK.run(place.work(plan))


def test_equality_is_that_of_json(subtests: pytest.Subtests) -> None:
    for one, other, equal in [
        (1, 1.0, True),
        (True, 1, False),
        (False, 0, False),
        (None, None, True),
        ([1, [2]], [1.0, [2.0]], True),
        ([1], [1, 2], False),
        ({"a": True}, {"a": 1}, False),
        ({"a": 1}, {"b": 1}, False),
        ("1", 1, False),
    ]:
        with subtests.test(one=one, other=other):
            assert is_equal(one, other) is equal
