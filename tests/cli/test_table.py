"""Tables, lists and advice for people: what is to be copied stays whole."""

import pytest

from remit.cli.common.table import render_advice, show_table
from remit.core.text import counted
from remit.ledger.entry import Entry
from remit.services.base.entry_text import render_meaning

COMMAND = "chmod go-rwx /srv/keeper/.local/state/remit/a-project-of-mine-0123456789abcdef/keys"


def test_numbers_have_their_noun() -> None:
    assert [counted(number, "entry", "entries") for number in (0, 1, 2)] == ["0 entries", "1 entry", "2 entries"]
    assert counted(1_234_567, "head") == "1,234,567 heads"


def test_advice_wraps_between_words_and_leaves_a_command_whole() -> None:
    shown = render_advice(f"Find out who has changed the rights of this folder, then take them back: {COMMAND}", 40)
    *prose, command = shown.splitlines()
    assert command.strip() == COMMAND
    assert all(len(line) <= 40 and line.startswith("    ") for line in prose)
    assert " ".join(line.strip() for line in prose).endswith("then take them back:")


@pytest.mark.parametrize(
    "text",
    [
        "Run `remit keys rotate kernel --revoke` and then look again, for the key may have been read.",
        "Find out who changed it, then: chmod go-rwx '/a folder/with spaces' and chown it to yourself.",
        "timedatectl set-ntp true (or: apt-get install chrony). The host of a virtual machine may do this.",
    ],
)
@pytest.mark.parametrize("width", [20, 45, 70])
def test_advice_loses_and_breaks_nothing(text: str, width: int) -> None:
    lines = render_advice(text, width).splitlines()
    assert " ".join(line.strip() for line in lines) == text
    for whole in ("`remit keys rotate kernel --revoke`", "'/a folder/with spaces'"):
        assert whole not in text or any(whole in line for line in lines)


def test_a_short_advice_is_one_line() -> None:
    assert render_advice("umask 022", 80) == "    umask 022"


def test_prose_wraps_in_its_column_and_the_rest_stays_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    show_table(("id", "what"), [("0123456789", "several words that take more than a line")], prose=("what",))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("0123456789  several words")
    assert lines[2].startswith("            ")
    show_table(("id", "what"), [("0123456789" * 3, "several words that take more than a line")], prose=("what",))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"id    {'0123456789' * 3}"
    assert " ".join(lines[1:]).split() == ["what", "several", "words", "that", "take", "more", "than", "a", "line"]


def entry(kind: str, payload: str) -> Entry:
    return Entry("default", 1, "e", "2026-01-01T00:00:00Z", kind, "c", None, None, None, payload, "p", "h")


@pytest.mark.parametrize(
    "kind", ["task.intent", "task.outcome", "task.refused", "lease.issued", "key.rotated", "workspace.created", "x"]
)
@pytest.mark.parametrize(
    "payload",
    [
        "",
        "no json",
        "[1]",
        "7",
        "{}",
        '{"outcome": 7}',
        '{"keys": [1]}',
        '{"consent": {}}',
        '{"reason": ["x"]}',
        '{"outcome": {"error": "x", "status": {}}}',
        '{"expires_at": 1, "role": 7}',
        "[" * 100_000,
    ],
    ids=lambda text: text[:20],
)
def test_an_edited_entry_is_still_shown(kind: str, payload: str) -> None:
    assert len(render_meaning(entry(kind, payload))) <= 120


def test_an_unknown_kind_shows_its_payload_cut() -> None:
    shown = render_meaning(entry("other.kind", '{"a":"' + "x" * 500 + '"}'))
    assert shown.startswith('{"a": "xxx')
    assert len(shown) == 120
