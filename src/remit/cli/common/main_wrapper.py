"""Where the command line meets the world: arguments that are no text, streams that take nothing, ways to end.

Whatever happens inside, a command ends with an exit code and at most one message; no traceback, unless REMIT_DEBUG asks
for one. Loads click and nothing heavier.
"""

import contextlib
import errno
import importlib
import io
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import click

STARTED: Final = time.monotonic()
"""When this process came to us: what a person waits for began then."""

READER_GONE: Final = 141
"""A reader such as `head` saw enough: what a shell shows for any program that SIGPIPE ended. No failure of ours."""


OUTPUT_FAULTS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF})


class ReaderGoneError(Exception):
    """A broken pipe under another name: click would make exit code 1 of it."""


@contextlib.contextmanager
def renaming_broken_pipes() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as problem:
        if is_reader_gone():
            raise ReaderGoneError from None
        # Another connection's other end: no reason to be silent. Not under its own name, which click would swallow.
        raise ConnectionAbortedError(errno.ECONNABORTED, "a connection was closed by its other end") from problem


def is_reader_gone() -> bool:
    """Whether nobody reads what we write: then a broken pipe is one of our own streams."""
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # one without a descriptor has no reader to lose
            poll.register(stream.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


class UnicodeText(click.types.StringParamType):
    """Text that every database, document and terminal can hold. File names may be any bytes: they are no text."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = super().convert(value, param, ctx)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail(f"{text!a} is not valid UTF-8 text.", param, ctx)
        return text


UNICODE_TEXT: Final = UnicodeText()


def require_unicode_text(command: click.Command) -> None:
    """Every text parameter, of this command and those below it, takes real text only."""
    for parameter in command.params:
        if parameter.type is click.STRING:
            parameter.type = UNICODE_TEXT
    if isinstance(command, click.Group):
        for child in command.commands.values():
            require_unicode_text(child)


def suggest(name: str, names: Iterable[str]) -> str:
    """What a mistyped name was meant to be, as far as that can be guessed."""
    close = importlib.import_module("difflib").get_close_matches(name, list(names), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def run_command(start: Callable[[], Any], arguments: Sequence[str]) -> int:
    """Run a command and tell how it ended, in words and as an exit code."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    if sys.stdout is None:
        # Before anything is done: the next file that is opened would take the place of standard output.
        return _report_output_failure("standard output is closed", "Send it to a file, or to /dev/null.")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(start, arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    except (BrokenPipeError, ReaderGoneError):
        _discard_output()
        return READER_GONE
    except OSError as problem:
        _discard_output()
        advice = "What the command did stays done; what it had to say is lost. Make room, or send it elsewhere."
        return _report_output_failure(f"the output could not be written: {problem.strerror}", advice)
    return code


def _run(start: Callable[[], Any], arguments: Sequence[str]) -> int:
    try:
        code = start()
    except (BrokenPipeError, ReaderGoneError):
        raise
    except click.Abort:
        click.echo("Aborted!", err=True)
        return 1
    except Exception as problem:
        if isinstance(problem, OSError) and problem.filename is None and problem.errno in OUTPUT_FAULTS:
            raise  # files have names, and databases errors of their own: this was a stream
        command = next(iter(arguments), "")
        failing = importlib.import_module("remit.cli.common.errors")
        code = failing.report(problem, as_json="--json" in arguments, command=command)
    return code if isinstance(code, int) else 0


def _report_output_failure(what: str, next_step: str) -> int:
    with contextlib.suppress(OSError):
        click.echo(f"{click.style('failed', fg='red', bold=True)}: {what}\n  next:  {next_step}", err=True)
    return 1


def _discard_output() -> None:
    """What is still in the buffers goes nowhere: else Python complains about it as it ends."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            if not _can_flush(stream):
                os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _can_flush(stream: Any) -> bool:
    try:
        stream.flush()
    except OSError:
        return False
    return True
