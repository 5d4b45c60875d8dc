"""The commands in the documentation work, and its links lead to files. The runner of the commands finds errors."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from scripts import reference_architecture as architecture
from tests.support import preloaded
from tests.support.docs_examples import ROOT, Command, ExampleError, parse_commands, run_commands

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("examples/*.md"), *(ROOT / "docs").rglob("*.md")])
MAKEFILE = (ROOT / "Makefile").read_text()
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")

SAMPLE = """
Text with a `$ remit nowhere` in a line.

```console
$ printf 'hello' > greeting
$ cat greeting
hello
$ cat missing  # exit: 1
$ cat other_or_not  # exit: 0 or 1
$ printf '%s' \\
>     joined > other
$ cat > plan.json <<'END'
{"not": "a command"}
$ neither is this
END
```

```python
total = 1
print(total)
```

```text
$ not a shell
```

1. A list:

   ```sh
   $ cd sub
   $ ls
   ```
"""


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.timeout(600)  # a page has many commands, and each is a process
@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_command_on_the_page_does_what_the_page_says(page: Path, tmp_path: Path) -> None:
    commands = parse_commands(page.read_text(encoding="utf-8"))
    run_commands(commands, tmp_path, MAKEFILE, Path(preloaded.remit()).parent, preloaded.python())


def test_every_relative_link_on_the_page_leads_to_a_file(subtests: pytest.Subtests) -> None:
    for page in PAGES:
        with subtests.test(page=page):
            targets = [found["target"].partition("#")[0] for found in LINK.finditer(page.read_text(encoding="utf-8"))]
            broken = [t for t in targets if t and "://" not in t and not (page.parent / t).exists()]
            assert broken == []


def _variables(text: str) -> set[str]:
    return set(re.findall(r"\bREMIT_[A-Z_]*[A-Z]\b", text))


def test_the_code_reads_exactly_the_environment_variables_that_are_documented() -> None:
    documented = _variables((ROOT / "docs/reference/settings.md").read_text())
    code = [*(ROOT / "src").rglob("*.py"), ROOT / "tests/conftest.py"]
    assert _variables("\n".join(path.read_text(encoding="utf-8") for path in code)) == documented


@pytest.mark.parametrize("about", architecture.CONTRACTS)
def test_architecture_page_lists_the_layers_that_the_import_check_enforces(about: str) -> None:
    enforced = [", ".join(layer) for layer in architecture.layers(about)]
    assert "\n".join(["```text", *enforced, "```"]) in ARCHITECTURE


def test_architecture_page_names_every_package_once() -> None:
    table = ARCHITECTURE.partition("| package | what it holds |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    there = {path.stem for path in (ROOT / "src/remit").iterdir() if path.suffix in {"", ".py"}}
    assert sorted(named) == sorted(there - {"__init__", "__main__", "__pycache__"})


def test_every_step_has_its_function_in_the_engine_and_its_places_for_a_plan() -> None:
    engine = architecture.engine_functions()
    assert [engine[number][0] for number in range(1, 12)] == [step.name for step in architecture.STEPS]
    places = [place for step in architecture.STEPS for place in (*step.places, *step.other_places)]
    methods = [method for step in architecture.STEPS for method in step.methods]
    places += [f"{architecture.ENGINE}:{function}" for _, function in engine.values()]
    places += [f"{architecture.ENGINE}:Operation.{method}" for method in methods]
    missing = [place for place in (*architecture.ENTRY_PLACES, *places) if not architecture.exists(place)]
    assert missing == []
    assert not architecture.exists("plans/operation.py:PlanOperation.fly")


def test_every_file_and_test_that_the_architecture_page_names_exists() -> None:
    named = set(re.findall(r"`((?:[\w.]+/)+\w+\.\w+)(?:::(\w+))?`", ARCHITECTURE))
    assert ("tests/effects/plans/test_handlers.py", "test_every_edit_of_the_contract_has_an_editor") in named
    for path, test in named:
        [file] = [place for place in (ROOT / path, ROOT / "src" / path, ROOT / "src/remit" / path) if place.is_file()]
        assert f"def {test}(" in file.read_text(encoding="utf-8") or not test, (path, test)


def test_commands_are_read_with_line_numbers_exit_codes_and_continuations() -> None:
    assert parse_commands(SAMPLE) == [
        Command("printf 'hello' > greeting", 5),
        Command("cat greeting", 6),
        Command("cat missing", 8, exit_code=1),
        Command("cat other_or_not", 9, exit_code=0, other_exit_code=1),
        Command("printf '%s' \\\n    joined > other", 10),
        Command('cat > plan.json <<\'END\'\n{"not": "a command"}\n$ neither is this\nEND', 12),
        Command("total = 1\nprint(total)", 19, python=True),
        Command("cd sub", 30),
        Command("ls", 31),
    ]


def test_commands_of_one_page_share_a_workspace_and_run_in_order(tmp_path: Path) -> None:
    page = "```console\n$ mkdir sub\n$ printf one > sub/file\n$ cd sub\n$ cat file\n```\n"
    assert run_commands(parse_commands(page), tmp_path, "") == 3
    assert (tmp_path / "workspace/sub/file").read_text() == "one"


def test_an_answer_is_typed_at_the_terminal_when_the_command_asks(tmp_path: Path) -> None:
    program = "import sys; answer = input('Go on? [y/N]: '); sys.exit(0 if answer == 'y' and sys.stdin.isatty() else 1)"
    page = f'```console\n$ python -c "{program}"  # type: y\n$ python -c "{program}"  # exit: 1  # type: n\n```\n'
    assert [(command.typed, command.exit_code) for command in parse_commands(page)] == [("y", 0), ("n", 1)]
    assert run_commands(parse_commands(page), tmp_path, "") == 2


def test_a_command_that_never_asks_for_the_answer_is_found(tmp_path: Path) -> None:
    with pytest.raises(ExampleError, match="never asked for 'y'"):
        run_commands(parse_commands("```console\n$ echo done  # type: y\n```\n"), tmp_path, "")


def test_a_python_block_runs_in_the_folder_of_the_commands_before_it(tmp_path: Path) -> None:
    page = "```console\n$ mkdir sub\n$ cd sub\n```\n\n```python\nopen('file', 'w').write('two')\n```\n"
    assert run_commands(parse_commands(page), tmp_path, "") == 2
    assert (tmp_path / "workspace/sub/file").read_text() == "two"


def test_state_and_home_are_beside_the_workspace_and_not_in_it(tmp_path: Path) -> None:
    run_commands([Command('printf "%s %s" "$REMIT_STATE" "$HOME" > seen', 1)], tmp_path, "")
    assert (tmp_path / "workspace/seen").read_text() == f"{tmp_path}/state {tmp_path}/home"


@pytest.mark.parametrize(
    "command, why",
    [
        (Command("cat nothing-here", 1), "exited 1, not 0"),
        (Command("echo fine", 1, exit_code=2), "exited 0, not 2"),
        (Command("python -c 'raise SystemExit(3)'", 1, exit_code=0, other_exit_code=1), "exited 3, not 0"),
        (Command("make no-such-target", 1), "there is no `make no-such-target`"),
        (Command("curl somewhere", 1), "`curl` is neither in RUN nor in NOT_RUN"),
        (Command("remit no-such-command", 1), "exited"),
        (Command("raise SystemExit(3)", 1, python=True), "exited 3, not 0"),
    ],
)
def test_a_false_example_is_found(command: Command, why: str, tmp_path: Path) -> None:
    with pytest.raises(ExampleError, match=re.escape(why)):
        run_commands([command], tmp_path, MAKEFILE)


def test_a_make_target_that_exists_is_accepted_and_not_run(tmp_path: Path) -> None:
    assert run_commands([Command("make test WORKERS=1", 1)], tmp_path, MAKEFILE) == 0


def test_the_log_page_shows_what_running_tasks_writes_and_names_every_message(tmp_path: Path) -> None:
    page = (ROOT / "docs/reference/logs.md").read_text(encoding="utf-8")
    sample = [json.loads(line) for line in page.splitlines() if line.startswith('{"ts"')]
    messages = re.findall(
        r"^\| `([a-z ]+)` \|", page.partition("| message | when |")[2].partition("\n\n")[0], re.MULTILINE
    )
    commands = []
    for command in parse_commands((ROOT / "docs/how-to/move-copy-and-delete-files.md").read_text(encoding="utf-8")):
        # Each task runs twice: the second run gets the stored outcome.
        runs = command.text.startswith("remit task run") and "--dry-run" not in command.text
        commands += [replace(command, text=f"REMIT_LOG=debug {command.text} 2>> log")] * 2 if runs else [command]
    last = max(at for at, command in enumerate(commands) if "REMIT_LOG" in command.text)
    run_commands(commands[: last + 1], tmp_path, MAKEFILE, Path(preloaded.remit()).parent)
    lines = (tmp_path / "workspace/project/log").read_text().splitlines()
    written = [json.loads(line) for line in lines if line.startswith("{")]  # the rest is messages for people
    assert all(record.pop("ts").endswith("Z") for record in [*sample, *written])
    assert written[:2] == sample
    assert {record["message"] for record in written} == set(messages)


def test_a_second_machine_can_use_a_postgresql_ledger_only_with_the_same_keys(
    tmp_path: Path, postgres_url: str
) -> None:
    project, here, there = tmp_path / "project", tmp_path / "here", tmp_path / "there"

    def remit(state: Path, *arguments: str) -> int:
        environ = {**os.environ, "REMIT_STATE": str(state), "LEDGER_URL": postgres_url}
        done = subprocess.run([preloaded.remit(), *arguments], cwd=project, env=environ, check=False)
        return done.returncode

    project.mkdir()
    assert remit(here, "init", "--database-variable", "LEDGER_URL") == 0
    assert remit(there, "init", "--database-variable", "LEDGER_URL") != 0
    [state] = here.iterdir()
    copy = there / state.name
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True, mode=0o700)
    shutil.copytree(state / "keys", copy / "keys")
    shutil.copy2(state / "workspace.json", copy)
    assert remit(there, "keys", "rotate", "kernel") == 0
    assert remit(there, "ledger", "verify") == 0
    assert remit(here, "ledger", "verify") == 0
