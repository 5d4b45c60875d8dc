"""Arguments that are no text, streams that take nothing, mistyped settings: one clear message, and an exit code."""

import errno
import json
import os
import subprocess
import sys

import click
import pytest

from remit.cli import COMMANDS, main
from remit.cli.common.main_wrapper import renaming_broken_pipes, run_command
from tests.cli.conftest import Remit
from tests.cli.test_help import LEAVES
from tests.support import preloaded

BYTES = os.fsdecode(b"\xff")


@pytest.fixture
def shell(remit: Remit) -> "Shell":
    return Shell(remit)


class Shell:
    """Runs a line of shell in the workspace, with `$REMIT` for the command."""

    def __init__(self, remit: Remit) -> None:
        state = remit("init", "--json").document
        self.root = state["root"]
        self.home = os.path.dirname(state["state"])

    def __call__(self, line: str, **environ: str) -> subprocess.CompletedProcess[str]:
        command = preloaded.remit()
        return subprocess.run(
            ["bash", "-c", line],
            cwd=self.root,
            env={**os.environ, "REMIT_STATE": self.home, "REMIT": command, "COLUMNS": "120", **environ},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.mark.parametrize(
    "arguments",
    [
        ("ledger", "show", "--task", BYTES),
        ("ledger", "show", "--correlation", BYTES),
        ("ledger", "show", "--tenant", BYTES),
        ("ledger", "verify", "--tenant", BYTES),
        ("ledger", "head", "--tenant", BYTES),
        ("ledger", "export", "-o", "x", "--correlation", BYTES),
        ("migrate", "--grant-to", BYTES),
        ("init", "--database-variable", BYTES),
    ],
    ids=lambda arguments: " ".join(arguments[:-1]),
)
def test_an_argument_that_is_not_valid_utf8_is_refused(remit: Remit, arguments: tuple[str, ...]) -> None:
    remit("init")
    ran = remit(*arguments)
    assert ran.code == 2
    assert "not valid UTF-8" in ran.err
    assert "Traceback" not in ran.err
    assert "UTF-8" in remit(*arguments, "--json").document["error"]["what"]


def test_no_text_parameter_of_any_command_takes_bytes() -> None:
    for path, command in LEAVES.items():
        assert main.get_command(click.Context(main), path[0]) is not None
        for parameter in command.params:
            assert parameter.type is not click.STRING, (path, parameter.name)


@pytest.mark.parametrize(
    "arguments",
    [("taks",), ("ledger", "shwo"), ("ledger", "show", "--limit", "x"), ("task", "lease"), ("keys", "list", "--nope")],
    ids=" ".join,
)
def test_a_usage_error_is_one_json_document_for_programs(remit: Remit, arguments: tuple[str, ...]) -> None:
    ran = remit(*arguments, "--json")
    assert ran.code == 2
    assert ran.err == ""
    error = ran.document["error"]
    assert error["reason"] == "argument_invalid"
    assert error["what"]
    assert error["next_step"].endswith("--help")


def test_a_mistyped_command_is_guessed(remit: Remit) -> None:
    ran = remit("taks")
    assert ran.code == 2
    assert "Did you mean 'task'?" in ran.err
    assert "Did you mean" not in remit("launch").err


@pytest.mark.parametrize("command", ["ledger show --json", "ledger show", "doctor", "keys list", "schema", "--help"])
def test_an_output_that_takes_nothing_is_one_clear_failure(shell: Shell, command: str) -> None:
    ran = shell(f"$REMIT {command} > /dev/full")
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[0] == "failed: the output could not be written: No space left on device"
    assert len(ran.stderr.splitlines()) == 2


@pytest.mark.parametrize("command", ["doctor", "ledger show --json", "keys rotate kernel"])
def test_a_closed_output_stops_a_command_before_it_begins(shell: Shell, command: str) -> None:
    ran = shell(f"$REMIT {command} >&-")
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[0] == "failed: standard output is closed"
    assert "Traceback" not in ran.stderr
    assert len(json.loads(shell("$REMIT ledger show --json").stdout)) == 1


def test_a_closed_standard_error_breaks_no_command(shell: Shell) -> None:
    assert len(json.loads(shell("$REMIT ledger show --json 2>&-").stdout)) == 1
    assert shell("$REMIT ledger shwo 2>&-").returncode == 2


@pytest.mark.parametrize("command", ["doctor", "ledger show", "ledger show --json", "--help"])
def test_a_reader_that_closes_the_pipe_early_is_no_failure(shell: Shell, command: str) -> None:
    # The reader is gone before the first line: whatever is written then breaks the pipe.
    ran = shell(f"{{ sleep 0.2; $REMIT {command}; echo $? >&2; }} | exec 0<&-")
    assert ran.stderr == "141\n"


def test_a_broken_connection_is_not_taken_for_a_reader_that_closed_the_pipe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @click.command()
    def command() -> None:
        with renaming_broken_pipes():
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    assert run_command(lambda: command.main([]), []) == 1
    assert "a connection was closed by its other end" in capsys.readouterr().err


def test_an_id_that_the_locale_cannot_spell_is_shown(shell: Shell) -> None:
    manifest = json.dumps(
        {"task_id": "t-é-火", "capability_id": "NO_EFFECT", "inputs": {}, "constraints": {"reversible": True}}
    )
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert shell(f"echo '{manifest}' | $REMIT task lease - -o lease.json").returncode == 0
    for command in ("ledger show", "ledger show --json", "doctor"):
        ran = shell(f"{sys.executable} -X utf8=0 -m remit {command}", **plain)
        assert ran.stderr == "", command
        assert ran.stdout, command
    shown = shell(f"{sys.executable} -X utf8=0 -m remit ledger show --json", **plain).stdout
    assert shown.isascii()
    assert json.loads(shown)[1]["task_id"] == "t-é-火"


@pytest.mark.parametrize("setting", ["x", "append.begun:0", "append.begun:x", "append.begun:1:die"])
def test_a_malformed_fault_setting_is_refused_with_its_variable(shell: Shell, setting: str) -> None:
    ran = shell("$REMIT ledger show", REMIT_FAULT=setting)
    assert ran.returncode == 2
    assert "REMIT_FAULT" in ran.stderr.splitlines()[0]
    assert "unset REMIT_FAULT" in ran.stderr
    assert "bug" not in ran.stderr


def test_an_unknown_fault_is_refused_by_every_command(shell: Shell) -> None:
    for command in COMMANDS:
        if command != "doctor":
            ran = shell(f"$REMIT {command} {'bash' if command == 'completion' else ''} < /dev/null", REMIT_FAULT="x")
            assert ran.returncode == 2, command
    ran = shell("$REMIT doctor --json", REMIT_FAULT="x")
    (check,) = [check for check in json.loads(ran.stdout)["machine"] if check["name"] == "environment"]
    assert (ran.returncode, check["status"], check["next_step"]) == (1, "fail", "unset REMIT_FAULT")
    assert "names no fault point: 'x'" in check["found"]
    assert shell("$REMIT --help", REMIT_FAULT="x").returncode == 0
