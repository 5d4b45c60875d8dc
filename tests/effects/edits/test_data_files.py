"""Files of data that are broken, or that ask their reader for more than data."""

import pytest

from remit.effects.edits.data_files import check_csv, check_json, check_toml, remarks
from remit.effects.edits.splice import Edited
from remit.effects.edits.text import replace_text
from remit.effects.plans.content_scan import find_in_final
from remit.effects.plans.yaml_files import FULL_CHECKS, check_yaml

pytestmark = pytest.mark.req("PX-24")


def test_what_is_right_is_not_found(subtests: pytest.Subtests) -> None:
    for path, content in [
        ("a.json", '{"a": [1, 2.5, "x", null]}'),
        ("a.json", '\ufeff{"a": 9007199254740993}\r\n'),
        ("a.json", "[" * 200 + "]" * 200),
        ("a.yaml", "a: &x 1\nb: *x\n---\nc: !!str 2\n"),
        ("a.yml", "\ufeff? [a]\n: <<\n"),
        ("a.yaml", ""),
        ("a.toml", "a = 1\n[b]\nc = 2020-01-01\n"),
        ("a.csv", 'a,"b ""c"""\r\n1;2\n'),
        ("a.txt", "{"),
        ("json", "{"),
    ]:
        with subtests.test(path):
            assert find_in_final(path, content.encode(), 0o644, FULL_CHECKS) == []


@pytest.mark.parametrize(
    "path, content, where",
    [
        pytest.param("a.json", '{"a": 1', "line 1", id="unfinished"),
        pytest.param("a.json", '{"a": 1,\n "a": 2}', "line 2", id="a key twice"),
        pytest.param("a.JSON", "{", "line 1", id="a name in capitals"),
        pytest.param("d/.json", "{", "line 1", id="nothing but an ending"),
        # the attack catalogue's parse cases, where the plan writes the file
        pytest.param("a.yaml", "&a [*a]", "line 1", id="parse-003"),
        pytest.param("a.yaml", "a: 1\na: 2", "line 2", id="parse-005"),
        pytest.param("a.yaml", "a:\n\t- b", "line 2", id="parse-007"),
        pytest.param("a.yaml", "[" * 100_000, "line 1", id="parse-011"),
        pytest.param("a.json", "[" * 100_000, "byte 200", id="parse-012"),
        pytest.param("a.json", '{"a":NaN}', "line 1", id="parse-014"),
        pytest.param("a.json", '{"a":1e400}', "line 1", id="parse-015"),
        pytest.param("a.json", "9" * 5_000, "line 1", id="parse-017"),
        pytest.param("a.json", '{"a":"\\ud800"}', "line 1", id="parse-019"),
        pytest.param("a.json", '{"a":1} x', "line 1", id="parse-020"),
        pytest.param("a.csv", 'a,"b\0', "line 1", id="parse-045, NUL"),
        pytest.param("a.csv", 'a\nb,"c\n', "line 2", id="parse-045, odd quotes"),
        pytest.param("a.yaml", "a: 'x", "line 1", id="an unfinished text"),
        pytest.param("a.yaml", "a: " + "x" * (1 << 20), "", id="YAML too large"),
        pytest.param("a.toml", "a = ", "", id="no value"),
        pytest.param("a.toml", "a = 1\na = 2\n", "", id="a TOML key twice"),
        pytest.param("a.toml", "a = " + "[" * 100_000, "", id="TOML, 100,000 deep"),
        pytest.param("a.toml", "a = 1\n" + "#" * (1 << 20), "", id="TOML too large"),
        pytest.param("a.toml", "a = " + "9" * 5_000, "", id="5,000 digits"),
    ],
)
def test_broken_syntax_is_found_with_where_and_why(path: str, content: str, where: str) -> None:
    found = find_in_final(path, content.encode(), 0o644, FULL_CHECKS)
    assert [one.rule for one in found] == ["syntax"]
    assert found[0].where.startswith(where)
    assert found[0].what


@pytest.mark.parametrize("check", [check_json, check_toml, check_yaml])
def test_bytes_that_are_no_text_are_found(check: object) -> None:
    assert callable(check)
    assert [one.rule for one in check(b'a = "\xff"')] == ["syntax"]


@pytest.mark.parametrize(
    "content, tag",
    [
        ("a: !!python/object/apply:os.system [id]\n", "tag:yaml.org,2002:python/object/apply:os.system"),
        ("a:\n- b\n- !Ref x\n", "!Ref"),
        ("--- !!java.net.URL\nx: 1\n", "tag:yaml.org,2002:java.net.URL"),
        ("? !k a\n: 1\n", "!k"),
    ],
)
def test_a_tag_that_asks_for_an_object_is_found(content: str, tag: str) -> None:
    found = check_yaml(content.encode())
    assert [one.rule for one in found] == ["object_tag"]
    assert tag in found[0].what


def test_parse_044_a_formula_in_a_new_cell_is_remarked_on_and_not_refused() -> None:
    content = b"a,b\n-5,+1.5\n=cmd|' /C calc'!A0,x\n\"@SUM(1)\",-x\n"
    said = remarks("a.csv", Edited(content, None, ""))
    assert [remark.partition(":")[0] for remark in said] == ["line 3", "line 4", "line 4"]
    assert check_csv(content) == []
    assert remarks("a.txt", Edited(content, None, "")) == []
    assert remarks("a.csv", replace_text(content, "a,b", "c,d", None)) == [], "old cells are not the plan's"


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_rows_of_another_width_are_remarked_on(separator: str) -> None:
    content = 'a,"b ""x"", y",c\n1,2,3\n\n4,5\n6,7,8,9\n'.replace(",", separator).encode()
    (said,) = remarks("a.csv", Edited(content, None, ""))
    assert said.startswith("line 4: 2 cells, but the first line has 3")
    assert "1 more" in said
    assert find_in_final("a.csv", content, 0o644) == [], "no approval is needed for it"


def test_old_rows_of_another_width_are_not_the_plans() -> None:
    content = b"a,b\n1,2\n3\n"
    assert remarks("a.csv", replace_text(content, "1,2", "5,6", None)) == []
    assert len(remarks("a.csv", replace_text(content, "1,2", "5,6,7", None))) == 1
    assert len(remarks("a.csv", replace_text(content, "a,b", "a,c", None))) == 1, "the heading counts for all rows"
