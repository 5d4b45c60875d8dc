"""What goes wrong is said clearly: what, where, next; masked; with the right exit code; with nothing touched."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Remit

SECRET = "hunter2-correct-horse"


def test_outside_a_workspace_every_command_says_what_to_do(remit: Remit) -> None:
    for command in (["ledger", "verify"], ["ledger", "show"], ["keys", "list"], ["migrate"], ["ledger", "rebuild"]):
        ran = remit(*command)
        assert ran.code == 2, command
        assert "remit init" in ran.err


def test_an_error_in_json_is_one_document_on_standard_output(remit: Remit) -> None:
    ran = remit("keys", "list", "--json")
    assert ran.code == 2
    assert ran.document["error"]["reason"] == "state_missing"
    assert ran.err == ""


WHOLE = '"capability_id":"NO_EFFECT","inputs":{},"constraints":{"reversible":true}'
BAD = {
    "unknown field": f'{{"task_id":"t",{WHOLE},"x":1}}'.encode(),
    "wrong type": f'{{"task_id":7,{WHOLE}}}'.encode(),
    "duplicate key": b'{"task_id":"t","task_id":"t"}',
    "NaN": b'{"task_id":NaN}',
    "deep": b"[" * 1_000_000,
    "not utf-8": b'{"task_id":"\xff"}',
    "lone surrogate": b'{"task_id":"\\ud800"}',
    "empty": b"",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_manifest_is_refused_with_where_and_why(remit: Remit, name: str) -> None:
    remit("init")
    ran = remit("task", "lease", "-", "--json", stdin=BAD[name])
    assert ran.code == 2, name
    error = ran.document["error"]
    assert error["where"]
    assert error["what"]
    assert len(remit("ledger", "show", "--json").document) == 1


def test_a_huge_manifest_is_refused_without_reading_it_all(remit: Remit, tmp_path: Path) -> None:
    remit("init")
    with (tmp_path / "huge.json").open("wb") as out:
        out.truncate(100 << 20)
    ran = remit("task", "lease", str(tmp_path / "huge.json"), "--json")
    assert ran.code == 2
    assert ran.document["error"]["reason"] == "too_large"


def test_no_secret_of_the_database_address_reaches_an_error(remit: Remit) -> None:
    url = f"postgresql://remit:{SECRET}@127.0.0.1:1/nowhere"
    ran = remit("init", "--database-variable", "LEDGER_URL", LEDGER_URL=url)
    assert ran.code == 1
    assert SECRET not in ran.out + ran.err
    garbled = remit("init", "--database-variable", "LEDGER_URL", LEDGER_URL=f"postgresql//remit:{SECRET}@x")
    assert garbled.code == 1
    assert SECRET not in garbled.out + garbled.err


def test_a_workspace_on_postgresql_says_when_its_variable_is_missing(remit: Remit, postgres_url: str) -> None:
    assert remit("init", "--database-variable", "LEDGER_URL", LEDGER_URL=postgres_url).code == 0
    assert remit("ledger", "verify", LEDGER_URL=postgres_url).code == 0
    ran = remit("ledger", "verify")
    assert ran.code == 1
    assert "LEDGER_URL" in ran.err


def test_a_state_directory_inside_the_workspace_is_refused(remit: Remit, tmp_path: Path) -> None:
    ran = remit("init", REMIT_STATE=str(tmp_path / "project" / ".state"))
    assert ran.code == 2
    assert "REMIT_STATE" in ran.err
    assert list((tmp_path / "project").iterdir()) == []


def test_keys_that_others_can_read_are_not_used(remit: Remit, tmp_path: Path) -> None:
    remit("init")
    (private,) = (tmp_path / "state").rglob("audit/*.pem")
    private.chmod(0o644)
    ran = remit("keys", "rotate", "kernel")
    assert ran.code == 1
    assert "open to others" in ran.err
    assert "chmod" in ran.err


def test_an_unreadable_config_and_a_damaged_database_are_named(remit: Remit, tmp_path: Path) -> None:
    remit("init")
    (database,) = (tmp_path / "state").rglob("ledger.sqlite3")
    database.write_bytes(b"not a database" * 100)
    ran = remit("ledger", "show")
    assert ran.code == 1
    assert "damaged" in ran.err


def test_a_state_directory_that_cannot_be_made_is_a_clear_failure(remit: Remit, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a folder is due")
    ran = remit("init")
    assert ran.code == 1
    assert "where:" in ran.err
    assert "next:" in ran.err
    assert list((tmp_path / "project").iterdir()) == []


def test_an_internal_error_is_masked_and_asks_for_a_report(remit: Remit, tmp_path: Path) -> None:
    remit("init")
    (settings,) = (tmp_path / "state").rglob("workspace.json")
    settings.write_text(json.dumps({"version": 1, "password": SECRET}))
    ran = remit("ledger", "show")
    assert ran.code == 2
    assert SECRET not in ran.err


def test_no_terminal_escape_reaches_the_terminal_as_text_or_json(remit: Remit, tmp_path: Path) -> None:
    hostile = tmp_path / "project" / "\u009b31m\x1b[2J\u202e"
    shown, document = remit("init", str(hostile)), remit("init", str(hostile), "--json")
    for ran in (shown, document):
        assert ran.code == 0, ran
        assert ran.out.replace("\n", "").isprintable()
    assert document.document["root"] == str(hostile)
