"""A person at a real terminal: reads until something is asked, and types."""

import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

PATIENCE_SECONDS = 60
"""Only a guard: a command that asks nothing would be waited for without end."""
CTRL_C = b"\x03"
CTRL_C_SECONDS = 1.0
ERASED = re.compile(r"\r[^\r\n]*\x1b\[K")


class TypedAnswer(NamedTuple):
    """Once this is on the screen, something happens elsewhere, and then this is typed."""

    after: str
    text: str
    meanwhile: Callable[[], object] = lambda: None


class TerminalResult(NamedTuple):
    code: int
    shown: str
    """All that was on the screen, without the lines of progress: they were erased."""
    answered: bool
    """Whether everything that was to be waited for was there."""


def run_in_terminal(
    project: Path,
    *arguments: str,
    answers: tuple[TypedAnswer, ...],
    environ: Mapping[str, str] | None = None,
    out: str = "",
) -> TerminalResult:
    """`remit` with these arguments. `out`: a file for its standard output; the rest of it stays on the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(project)
        os.environ.update({"REMIT_STATE": str(project.parent / "state"), "PAGER": "cat", **(environ or {})})
        if out:
            os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
        os.execv(sys.executable, [sys.executable, "-m", "remit", *arguments])  # noqa: S606 - no shell is wanted
    shown, left, start, typed, used = b"", list(answers), 0, b"", ""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        if not select.select([terminal], [], [], CTRL_C_SECONDS)[0]:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                break
            used, before = _processor_time(pid), used
            # Python looks for signals before it reads, not in between: an early one is lost. A process that did
            # nothing for all that time still reads. One that works has heard it: a second one would end it too soon.
            if typed == CTRL_C and used == before:
                os.write(terminal, typed)
            continue
        try:
            shown += os.read(terminal, 65_536)
        except OSError:  # the other side is closed
            break
        while left and (found := shown.find(left[0].after.encode(), start)) >= 0:
            start = found + len(left[0].after)
            answer = left.pop(0)
            answer.meanwhile()
            typed = answer.text.encode()
            os.write(terminal, typed)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    text = ERASED.sub("", shown.decode(errors="replace"))
    return TerminalResult(os.waitstatus_to_exitcode(status), text, not left)


def _processor_time(pid: int) -> str:
    """Of all its threads, or something new for a process that waits for a processor."""
    state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return " ".join(fields[10:12]) if state == "S" else str(time.monotonic())
