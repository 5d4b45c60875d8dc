"""`remit --help` is quick because it loads nothing; every command has help, `--json` and an exit code."""

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from remit.cli import COMMANDS, main
from tests.cli.conftest import Remit

HEAVY = (
    "cedarpy",
    "sqlalchemy",
    "fastapi",
    "mcp",
    "duckdb",
    "playwright",
    "pydantic",
    "cryptography",
    "psycopg",
    "rich",
    "sqlite3",
)


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from leaves(child, (*path, name))
    else:
        yield path, command


LEAVES = dict(leaves(main))


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    looker = (
        "import sys; from remit.cli import main\n"
        "try: main(sys.argv[1:], prog_name='remit')\n"
        "except SystemExit: pass\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", looker, *arguments], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "click" in loaded
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...], remit: Remit) -> None:
    shown = remit(*path, "--help")
    assert shown.code == 0
    assert "Usage: remit" in shown.out
    assert LEAVES[path].help


WITHOUT_JSON = {
    ("completion",): "it prints a script for a shell",
    ("mcp",): "its standard output has the messages of another protocol",
}
"""Commands without `--json`, and why."""


def default_groups(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Group]]:
    """Groups that do something without a command."""
    if isinstance(command, click.Group):
        if command.invoke_without_command:
            yield path, command
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from default_groups(child, (*path, name))


def test_every_command_takes_json_or_has_a_reason_not_to(subtests: pytest.Subtests) -> None:
    commands: dict[tuple[str, ...], click.Command] = {**LEAVES, **dict(default_groups(main))}
    assert ("approvals",) in commands
    for path, command in commands.items():
        with subtests.test(" ".join(path)):
            options = {option for parameter in command.params for option in parameter.opts}
            assert ("--json" in options) == (path not in WITHOUT_JSON)


def test_the_table_of_commands_says_what_each_command_says_itself() -> None:
    for name, (_, short) in COMMANDS.items():
        command = main.get_command(click.Context(main), name)
        assert command is not None
        assert command.help
        assert command.help.split("\n\n")[0].replace("\n", " ") == short


def test_an_unknown_command_is_refused_with_exit_2(remit: Remit) -> None:
    ran = remit("launch")
    assert ran.code == 2
    assert "No such command" in ran.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_that_knows_remit(shell: str, remit: Remit) -> None:
    ran = remit("completion", shell)
    assert ran.code == 0
    assert "_REMIT_COMPLETE" in ran.out


def test_completion_offers_the_commands(remit: Remit) -> None:
    ran = remit(_REMIT_COMPLETE="bash_complete", COMP_WORDS="remit led", COMP_CWORD="1")
    assert "ledger" in ran.out
