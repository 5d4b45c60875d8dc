"""For whom each command is: every command is in the table, and what decides refuses whoever is an agent."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from remit.cli import main
from remit.cli.common.permissions import ANYONE, CHECKED_BY_COMMAND, COMMAND_PERMISSIONS, PERSON
from remit.core.errors import Reason, RefusedError
from remit.services.base.permissions import Right
from tests.cli.test_help import LEAVES

ASKED_FOR: dict[str, list[str]] = {
    "keys rotate": ["kernel"],
    "keys revoke": ["k"],
    "ledger export": ["-o", "exported"],
    "people invite": ["evil", "--role", "admin"],
    "token issue": ["--sub", "evil", "--cap", "plan.apply"],
}
"""Arguments, for commands that would not begin with those that are made up from their signature."""


def bare_groups() -> set[str]:
    """Groups that do something without a command."""
    context = click.Context(main)
    found = {name: main.get_command(context, name) for name in main.list_commands(context)}
    return {name for name, one in found.items() if isinstance(one, click.Group) and one.invoke_without_command}


def test_every_command_is_in_the_table_and_nothing_else() -> None:
    commands = {" ".join(path) for path in LEAVES} | bare_groups()
    assert set(COMMAND_PERMISSIONS) == commands, "say in remit.cli.common.permissions for whom a new command is"
    assert set(COMMAND_PERMISSIONS.values()) <= {PERSON, ANYONE, CHECKED_BY_COMMAND, *Right}


@pytest.mark.parametrize("variable", ["REMIT_AGENT", "REMIT_TOKEN"])
def test_a_command_for_people_is_refused_to_an_agent_before_it_begins(
    tmp_path: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "bot")
    monkeypatch.setenv("REMIT_STATE", str(tmp_path / "state"))
    (tmp_path / "file").write_text("{}")
    decisive = [path for path, whom in COMMAND_PERMISSIONS.items() if whom == PERSON]
    assert {"approve", "run", "task lease", "keys rotate", "prune", "recover", "migrate"} <= set(decisive)
    for path in decisive:
        ran = CliRunner().invoke(main, [*path.split(), *_arguments(path, tmp_path / "file")], standalone_mode=False)
        assert isinstance(ran.exception, RefusedError), (path, ran.output, ran.exception)
        assert (ran.exception.reason, "an agent cannot" in ran.exception.what) == (Reason.PERMISSION_DENIED, True), path
    assert not (tmp_path / "state").exists()


@pytest.mark.req("PV-04")
@pytest.mark.parametrize("variable", ["REMIT_AGENT", "REMIT_TOKEN"])
def test_commands_that_print_ledger_entries_are_refused_to_an_agent_and_verify_is_not(
    tmp_path: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries hold digests of files, of previews, and counts."""
    monkeypatch.setenv("REMIT_STATE", str(tmp_path / "state"))
    (tmp_path / "project").mkdir()
    here = ["-C", str(tmp_path / "project")]
    assert CliRunner().invoke(main, ["init", here[1]]).exit_code == 0
    printing: tuple[list[str], ...] = (
        ["ledger", "show", "--json"],
        ["ledger", "show"],
        ["ledger", "export", "-o", str(tmp_path / "exported")],
        ["ledger", "trace", "x"],
        ["runs"],
        ["runs", "--json"],
    )
    assert "workspace.created" in CliRunner().invoke(main, [*printing[0], *here]).stdout
    monkeypatch.setenv(variable, "bot")
    for words in printing:
        ran = CliRunner().invoke(main, [*words, *here], standalone_mode=False)
        assert isinstance(ran.exception, RefusedError), (words, ran.output)
        assert (ran.exception.reason, ran.stdout) == (Reason.PERMISSION_DENIED, "")
        assert "remit ledger verify" in (ran.exception.next_step or "")
    assert CliRunner().invoke(main, ["ledger", "verify", *here]).exit_code == 0


@pytest.mark.req("PV-04")
@pytest.mark.parametrize("variable", ["REMIT_AGENT", "REMIT_TOKEN"])
def test_commands_that_tell_how_long_the_ledger_is_or_of_others_are_refused_to_an_agent(
    tmp_path: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long the ledger is depends on the content of files and rows: a run has an entry for each action."""
    monkeypatch.setenv("REMIT_STATE", str(tmp_path / "state"))
    (tmp_path / "project").mkdir()
    here = ["-C", str(tmp_path / "project")]
    assert CliRunner().invoke(main, ["init", here[1]]).exit_code == 0
    issued = CliRunner().invoke(main, ["token", "issue", "--sub", "other", "--cap", "plan.propose", *here])
    assert issued.exit_code == 0, issued.output
    (listed,) = json.loads(CliRunner().invoke(main, ["token", "list", "--json", *here]).stdout)["tokens"]
    assert (listed["sub"], listed["entry_seq"] > 0) == ("other", True), "people see it"
    completing = {
        "_REMIT_COMPLETE": "bash_complete",
        "COMP_WORDS": f"remit token revoke -C {here[1]} ",
        "COMP_CWORD": "5",
    }
    assert listed["jti"] in CliRunner().invoke(main, [], prog_name="remit", env=completing).stdout
    monkeypatch.setenv(variable, "bot")
    for words in ("token list", "people list", "intake", "intake list", "intake export"):
        for form in ([], ["--json"]):
            ran = CliRunner().invoke(main, [*words.split(), *form, *here], standalone_mode=False)
            assert isinstance(ran.exception, RefusedError), (words, ran.output)
            assert (ran.exception.reason, ran.stdout) == (Reason.PERMISSION_DENIED, "")
    assert CliRunner().invoke(main, [], prog_name="remit", env=completing).stdout.strip() == ""


def test_a_command_missing_from_the_table_is_for_people_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_AGENT", "bot")
    assert CliRunner().invoke(main, ["schema"], standalone_mode=False).exception is None
    monkeypatch.delitem(COMMAND_PERMISSIONS, "schema")
    assert isinstance(CliRunner().invoke(main, ["schema"], standalone_mode=False).exception, RefusedError)
    monkeypatch.delenv("REMIT_AGENT")
    assert CliRunner().invoke(main, ["schema"], standalone_mode=False).exception is None


def _arguments(path: str, file: Path) -> list[str]:
    if path in ASKED_FOR:
        return ASKED_FOR[path]
    command: Any = LEAVES.get(tuple(path.split()))
    return [str(file) for one in command.params if isinstance(one, click.Argument)] if command is not None else []
