"""What in a result has to be approved by name."""

import json
import time
from typing import Any

import pytest

from remit.effects.edits.lines import insert_lines
from remit.effects.edits.registry_full import FULL_EDITORS
from remit.effects.edits.splice import Edited, Splice, spliced
from remit.effects.edits.text import replace_text
from remit.effects.plans.content_scan import MAX_FINDINGS, find_in_added, find_in_final, find_in_result
from remit.effects.plans.yaml_files import FULL_CHECKS

pytestmark = pytest.mark.req("PX-24")

KEY = "ghp_" + "0123456789abcdefghij"


def rules(path: str, content: str | bytes, mode: int = 0o644) -> list[str]:
    raw = content.encode() if isinstance(content, str) else content
    return [found.rule for found in find_in_result(path, Edited(raw, None, ""), mode, FULL_CHECKS)]


def test_what_can_be_executed_is_found(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        ("an execute permission", "a.txt", "x", 0o755),
        ("for the group only", "a.txt", "x", 0o654),
        ("an interpreter's line", "a.txt", "#!/bin/sh\n", 0o644),
        ("a shell script's name", "bin/a.SH", "x", 0o644),
        ("a PowerShell script's name", "a.ps1", "x", 0o644),
        ("ELF", "a", b"\x7fELF\x02", 0o644),
        ("PE", "a", b"MZ\x90\0\3", 0o644),
        ("Mach-O", "a", b"\xcf\xfa\xed\xfe\7", 0o644),
        ("Java", "a", b"\xca\xfe\xba\xbe\0", 0o644),
        ("WebAssembly", "a", b"\0asm\1", 0o644),
        ("Python byte code", "a", b"\xa7\x0d\r\n\0\0\0\0", 0o644),
    ]
    for case, path, content, mode in cases:
        with subtests.test(case):
            assert "executable" in rules(path, content, mode)


@pytest.mark.parametrize(
    "path, content",
    [
        ("a.py", "print()\n"),
        ("sh.md", "# not #! here\n"),
        ("a.shell", "x"),
        ("a.txt", "MZ is a code of a country"),
        ("a.txt", " #!/bin/sh"),
    ],
)
def test_what_only_looks_alike_is_not(path: str, content: str) -> None:
    assert rules(path, content) == []


def test_a_command_in_a_data_file_is_found(subtests: pytest.Subtests) -> None:
    for case, path, content in [
        ("a substitution", "a.json", '{"a": "x $(id) y"}'),
        ("back-ticks", "a.yaml", "a: x`id`\n"),
        ("a process as a file", "a.toml", 'a = "diff <(a) <(b)"'),
        ("sh -c", "a.json", '{"run": "sh -c id"}'),
        ("bash with more options", "a.json", '{"run": ["bash -ec id"]}'),
        ("with its path", "a.yml", "run: /bin/bash -c id\n"),
        ("an item", "a.yml", "- sh -c id\n"),
        ("cmd /c", "a.csv", "a,cmd /c dir\n"),
        ("cmd.exe in capitals", "a.csv", 'a,"CMD.EXE /C dir"\n'),
        ("PowerShell", "a.toml", 'x = "PowerShell -enc AAAA"'),
        ("an escape hides it", "a.json", '{"a": "\\u0024(id)"}'),
        ("another escape hides it", "a.yaml", 'a: "\\x24(id)"\n'),
        ("piped into a shell", "a.json", '{"a": "cat setup.txt | sh"}'),
        ("piped into the superuser's shell", "a.yaml", "a: base64 -d x|sudo /bin/bash\n"),
        ("an escape hides the pipe", "a.json", '{"a": "base64 -d x \\u007c bash"}'),
        ("downloaded and piped", "a.toml", 'a = "curl -s https://example.org/x | python3 -"'),
        ("fetched and piped", "a.yaml", "a: wget -qO- example.org|tee x\n"),
        ("rm", "a.json", '{"a": "rm -rf /"}'),
        ("rm in another order", "a.csv", "1,rm -fr ~/x\n"),
        ("after a semicolon", "a.json", '{"a": "x; curl example.org"}'),
        ("after a semicolon, with its path", "a.json", '{"a": "x;/usr/bin/nc -e 1"}'),
        ("after another", "a.yaml", "a: make all && make install\n"),
        ("or else", "a.yaml", "a: false || echo gone\n"),
    ]:
        with subtests.test(case):
            assert "command" in rules(path, content)


def test_what_is_no_command_is_not(subtests: pytest.Subtests) -> None:
    for case, path, content in [
        ("prose", "README.md", "Run `make` or $(make)\n"),
        ("source", "a.py", 'run("sh -c id")\n'),
        ("no command", "a.json", '{"price": "$5 (net)", "name": "push -c", "x": "Bash is a shell"}'),
        ("a variable", "a.yaml", "a: ${HOME}\nb: finish -c\n"),
        ("one or the other", "a.json", '{"a": "a | b", "shell": "bash | zsh", "re": "^(bash|sh)$"}'),
        ("no shell behind the pipe", "a.json", '{"a": "cat x | shuf", "b": "x | sh.example.org"}'),
        ("a block of YAML", "a.yaml", "a: |\n  sh\n"),
        ("a condition", "a.yaml", "if: github.ref == 'x' && inputs.go || false\n"),
        ("sentences", "a.json", '{"a": "Stop; make sure. Then; cat sleeps; source unknown"}'),
        ("cells", "a.csv", "sh;rm;curl\nfirm -rf x;1;2\n"),
        ("names alone", "a.json", '{"a": "see curl and wget", "b": "rm -rf"}'),
        ("shell in prose", "a.sql.md", "curl x | sh && rm -rf /\n"),
    ]:
        with subtests.test(case):
            assert rules(path, content) == []


def test_a_credential_is_found_in_any_file_and_not_repeated() -> None:
    for path in ("a.py", "a.json", "README", "b.md"):
        found = find_in_added(path, Edited(json.dumps({"x": KEY}).encode(), None, ""))
        assert [(one.rule, one.where) for one in found] == [("credential", "line 1")]
        assert KEY not in str(found)


def test_only_what_the_edit_adds_is_looked_at() -> None:
    before = f'{{"old": "{KEY}", "cmd": "$(id)",\n "a": 1}}'.encode()
    added = FULL_EDITORS["json_add_property"](before, {"path": "$", "key": "b", "value": 2})
    assert find_in_added("a.json", added) == []
    beside = FULL_EDITORS["json_update_value"](before, {"path": "$.cmd", "value": "x"})
    assert find_in_added("a.json", beside) == [], "the same line, but not the same value"
    bad = FULL_EDITORS["json_update_value"](before, {"path": "$.a", "value": KEY})
    assert [(one.rule, one.where) for one in find_in_added("a.json", bad)] == [("credential", "line 2")]


def test_a_value_is_a_secret_because_of_the_name_that_was_there_before() -> None:
    before = b'{"name": "x",\n "password": ""}'
    edited = FULL_EDITORS["json_update_value"](before, {"path": "$.password", "value": "hunter2hunter2"})
    assert [one.rule for one in find_in_added("a.json", edited)] == ["credential"]
    renamed = replace_text(b'user = "hunter2hunter2"\n', "user", "password", None)
    assert [one.rule for one in find_in_added("a.py", renamed)] == ["credential"]


def test_a_command_made_of_old_and_new_is_found() -> None:
    edited = replace_text(b'{"a": "(id)"}', "(id)", "$(id)", None)
    assert [one.rule for one in find_in_added("a.json", edited)] == ["command"]
    joined = replace_text(b'{"a": "X(id)"}', "X", "$", None)
    assert [one.rule for one in find_in_added("a.json", joined)] == ["command"]


def test_a_finding_does_not_repeat_what_stands_between_back_ticks() -> None:
    found = find_in_added("a.json", Edited(b'{"a": "`mysecret`"}', None, ""))
    assert [one.what for one in found] == ["this looks like a command: `...`"]


def test_a_finding_does_not_repeat_the_address_that_something_is_fetched_from() -> None:
    found = find_in_added("a.json", Edited(b'{"a": "curl https://example.org/private-path | sh"}', None, ""))
    assert {one.rule for one in found} == {"command"}
    assert "private-path" not in str(found)


def test_each_line_is_named() -> None:
    before = "é\n".encode() * 10
    edited = insert_lines(before, 4, f"x\n{KEY}\ny\n{KEY}")
    assert [one.where for one in find_in_added("a.txt", edited)] == ["line 5", "line 7"]


def test_the_number_of_findings_of_each_rule_is_limited() -> None:
    raw = (f'"{KEY}", "$(id)"\n' * 1_000).encode()
    found = [one.rule for one in find_in_added("a.json", Edited(raw, None, ""))]
    assert (found.count("credential"), found.count("command")) == (MAX_FINDINGS, MAX_FINDINGS)


def test_a_data_file_that_cannot_be_checked_is_a_finding() -> None:
    """The process without a YAML parser must not wave YAML through."""
    assert [found.rule for found in find_in_final("a.YAML", b"a: 1\n", 0o644)] == ["syntax"]
    assert find_in_final("a.YAML", b"a: 1\n", 0o644, FULL_CHECKS) == []


@pytest.mark.parametrize("odd", [b"\0", b"\xff", b"\xff\xfe\0", "é".encode()])
def test_a_byte_out_of_place_hides_nothing(odd: bytes) -> None:
    raw = b"#" + odd * 5 + b"\n" + KEY.encode() + b"\n"
    assert [(one.rule, one.where) for one in find_in_added(".env", Edited(raw, None, ""))] == [("credential", "line 2")]
    line = b"#" + odd * 5 + KEY.encode() + odd + b" = X\n"
    edited = spliced(line, [Splice(len(line) - 2, len(line) - 1, b"Y")], "")
    assert find_in_added(".env", edited) == [], "old, and measured in bytes"


def test_an_edit_of_nothing_adds_nothing() -> None:
    assert find_in_added("a.json", spliced(KEY.encode(), [], "")) == []


@pytest.mark.parametrize(
    "raw, pattern, count",
    [
        pytest.param(b'{"k": "`x` $(y)", "p": "q"}, ' * 60_000, "`x`", 1, id="one edit among many old findings"),
        pytest.param(b'{"k": "v"}, ' * 200_000, '"v"', 90_000, id="many edits on one line"),
        pytest.param(b'{"k": "v"}\n' * 200_000, '"v"', 90_000, id="many edits on many lines"),
    ],
)
def test_large_files_are_looked_through_in_their_own_time(raw: bytes, pattern: str, count: int) -> None:
    started = time.process_time()
    find_in_added("a.json", replace_text(raw, pattern, '"w"', count))
    assert time.process_time() - started < 20
