"""Runs the examples in the documentation, so that each of them is true.

In a ```console or ```sh block, a line that starts with `$ ` is a command. Other lines are output, for readers only. A
command may continue after a trailing backslash or in a here-document. It must exit 0, or N if it ends in `# exit: N`.
`# exit: 0 or 1` is for a command whose exit code depends on how busy the machine is. A command that ends in
`# type: TEXT` is run at a terminal. TEXT is typed when the command asks (its output ends in `]: `), and it must ask. A
```python block is a program of its own and must exit 0. All examples of one file run in order, in one fresh directory,
from the folder of the last `cd`. Commands that need the network are not run, but a `make` target that is shown must
exist.
"""

import os
import pty
import re
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
RUN: Final = frozenset(
    {"remit", "cat", "cd", "cp", "echo", "git", "ln", "ls", "mkdir", "mv", "printf", "python", "rm", "sed"}
)
NOT_RUN: Final = frozenset({"make", "pip", "sudo", "apt-get"})
TIMEOUT_SECONDS: Final = 60

_FENCE: Final = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>\w*)")
_ASSIGNMENT: Final = re.compile(r"^[A-Z_]+=")
_EXIT: Final = re.compile(r"\s*#\s*exit:\s*(?P<code>\d+)(?: or (?P<other>\d+))?\s*$")
_TYPED: Final = re.compile(r"\s*#\s*type:\s*(?P<text>\S+)\s*$")
_PROMPT: Final = b"]: "
_HERE_DOCUMENT: Final = re.compile(r"<<-?\s*['\"]?(?P<end>\w+)['\"]?")


class ExampleError(AssertionError):
    """An example whose result is not the one that the page shows."""


@dataclass(frozen=True)
class Command:
    """One command of a page: its text, its first line's number, and the exit code that the page promises."""

    text: str
    line: int
    exit_code: int = 0
    other_exit_code: int | None = None
    python: bool = False
    typed: str | None = None
    """The answer of the person at the terminal that the command needs."""

    def arguments(self, python: str) -> list[str]:
        return [python, "-c", self.text] if self.python else ["sh", "-c", self.text]

    @property
    def program(self) -> str:
        if self.python:
            return "python"
        words = shlex.split(self.text.splitlines()[0], comments=True)
        return next(word for word in words if not _ASSIGNMENT.match(word))


def parse_commands(markdown: str) -> list[Command]:
    found: list[Command] = []
    for language, block in _blocks(markdown):
        if language == "python":
            found.append(Command("\n".join(line for _, line in block), block[0][0], python=True))
        else:
            found += _block_commands(block)
    return found


def _blocks(markdown: str) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    block: list[tuple[int, str]] = []
    opened: re.Match[str] | None = None
    for number, line in enumerate(markdown.splitlines(), start=1):
        fence = _FENCE.match(line)
        if opened is None:
            opened, block = fence, []
        elif fence and fence["fence"] == opened["fence"] and not fence["language"]:
            if block and opened["language"] in {"console", "sh", "python"}:
                yield opened["language"], block
            opened = None
        else:
            block.append((number, line.removeprefix(opened["indent"])))


def _block_commands(block: list[tuple[int, str]]) -> Iterator[Command]:
    lines = iter(block)
    for number, line in lines:
        if not line.startswith("$ "):
            continue
        text = line.removeprefix("$ ")
        while text.endswith("\\"):
            text += "\n" + next(lines)[1].removeprefix("> ")
        typed = _TYPED.search(text)
        text = _TYPED.sub("", text)
        promised = _EXIT.search(text)
        text = _EXIT.sub("", text)
        here = _HERE_DOCUMENT.search(text)
        while here and text.splitlines()[-1] != here["end"]:
            text += "\n" + next(lines)[1].removeprefix("> ")
        code, other = promised.group("code", "other") if promised else (0, None)
        yield Command(text, number, int(code), int(other) if other else None, typed=typed["text"] if typed else None)


def run_commands(
    commands: list[Command], scratch: Path, makefile: str, programs: Path | None = None, python: str = sys.executable
) -> int:
    """Run the commands in order in a fresh workspace below `scratch`, and return how many ran.

    Raise `ExampleError` at the first command whose result is not the promised one.

    `programs` is the folder that is searched first for programs. `python` runs the ```python blocks.
    """
    folder = scratch / "workspace"
    folder.mkdir()
    found = [str(programs)] if programs else []
    environment = {
        "PATH": os.pathsep.join([*found, str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "HOME": str(scratch / "home"),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "REMIT_STATE": str(scratch / "state"),
    }
    ran = 0
    for command in commands:
        if command.program in NOT_RUN:
            _check_make_targets(command, makefile)
        elif command.program == "cd":
            folder = (folder / shlex.split(command.text)[1]).resolve()
        elif command.program in RUN:
            _run(command, python, folder, environment)
            ran += 1
        else:
            raise ExampleError(f"line {command.line}: `{command.program}` is neither in RUN nor in NOT_RUN")
    return ran


def _run(command: Command, python: str, folder: Path, environment: dict[str, str]) -> None:
    if command.typed is None:
        done = subprocess.run(
            command.arguments(python),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        code, output = done.returncode, done.stdout
    else:
        code, output = _run_at_terminal(command, command.typed, folder, environment)
    if code not in {command.exit_code, command.other_exit_code}:
        shown = output.decode("utf-8", errors="replace")
        raise ExampleError(f"line {command.line}: `{command.text}` exited {code}, not {command.exit_code}:\n{shown}")


def _run_at_terminal(command: Command, typed: str, folder: Path, environment: dict[str, str]) -> tuple[int, bytes]:
    """Return exit code and output of a command that asks a person. Raise if it never asks."""
    terminal, child_side = pty.openpty()
    child = subprocess.Popen(
        command.arguments(sys.executable),
        cwd=folder,
        env={**environment, "TERM": "xterm", "PAGER": "cat"},
        stdin=child_side,
        stdout=child_side,
        stderr=child_side,
        start_new_session=True,
    )
    os.close(child_side)
    screen, asked, deadline = b"", False, time.monotonic() + TIMEOUT_SECONDS
    try:
        while select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                screen += os.read(terminal, 65_536)
            except OSError:  # the command has closed its side of the terminal
                break
            if not asked and screen.endswith(_PROMPT):
                os.write(terminal, f"{typed}\n".encode())
                asked = True
        else:
            child.kill()
        code = child.wait(TIMEOUT_SECONDS)
    finally:
        os.close(terminal)
    if not asked:
        shown = screen.decode("utf-8", errors="replace")
        raise ExampleError(f"line {command.line}: `{command.text}` never asked for {typed!r}:\n{shown}")
    return code, screen


def _check_make_targets(command: Command, makefile: str) -> None:
    if command.program == "make":
        targets = [word for word in shlex.split(command.text, comments=True)[1:] if "=" not in word]
        for target in targets:
            if not re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE):
                raise ExampleError(f"line {command.line}: there is no `make {target}`")
