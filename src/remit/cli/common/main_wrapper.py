"""The outer frame of every command: checks of its arguments, failures of its output streams, and its exit code.

A command always ends with an exit code and at most one message. It prints a traceback only if REMIT_DEBUG asks for one.
This module loads click and nothing heavier.
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
"""When this process started. The waiting time that a command reports begins here."""

READER_GONE: Final = 141
"""The exit code if a reader such as `head` closes the pipe. Shells show it for programs that SIGPIPE ended."""


OUTPUT_FAULTS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF})


class ReaderGoneError(Exception):
    """A broken pipe under another name, because click would turn a `BrokenPipeError` into exit code 1."""


@contextlib.contextmanager
def renaming_broken_pipes() -> Iterator[None]:
    """Raise `ReaderGoneError` for a broken pipe of our own streams, and `ConnectionAbortedError` for any other."""
    try:
        yield
    except BrokenPipeError as problem:
        if is_reader_gone():
            raise ReaderGoneError from None
        # The peer of another connection is gone, which must be reported. Click would swallow the original exception.
        raise ConnectionAbortedError(errno.ECONNABORTED, "a connection was closed by its other end") from problem


def is_reader_gone() -> bool:
    """Return whether the reader of standard output or standard error is gone, so that the broken pipe is our own."""
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a stream without a descriptor has no reader
            poll.register(stream.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


class UnicodeText(click.types.StringParamType):
    """Text that is valid UTF-8, for databases, documents and terminals. File names may be any bytes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = super().convert(value, param, ctx)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail(f"{text!a} is not valid UTF-8 text.", param, ctx)
        return text


UNICODE_TEXT: Final = UnicodeText()


def require_unicode_text(command: click.Command) -> None:
    """Make every text parameter of this command and of its subcommands refuse text that is not valid UTF-8."""
    for parameter in command.params:
        if parameter.type is click.STRING:
            parameter.type = UNICODE_TEXT
    if isinstance(command, click.Group):
        for child in command.commands.values():
            require_unicode_text(child)


def suggest(name: str, names: Iterable[str]) -> str:
    """Return a hint with the most similar name, or an empty text if no name is similar."""
    close = importlib.import_module("difflib").get_close_matches(name, list(names), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def run_command(start: Callable[[], Any], arguments: Sequence[str]) -> int:
    """Run a command, report its error if there is one, and return the exit code."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    if sys.stdout is None:
        # Refused before the command starts: the next file that it opens would get the descriptor of standard output.
        return _report_output_failure("standard output is closed", "Redirect it to a file, or to /dev/null.")
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
        advice = "The command did its work, but its output is lost. Free some disk space, or redirect the output."
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
            raise  # errors of files have a file name, and databases have their own errors: this was one of our streams
        failing = importlib.import_module("remit.cli.common.errors")
        code = failing.report(problem, as_json="--json" in arguments, arguments=arguments)
    return code if isinstance(code, int) else 0


def _report_output_failure(what: str, next_step: str) -> int:
    with contextlib.suppress(OSError):
        click.echo(f"{click.style('failed', fg='red', bold=True)}: {what}\n  next:  {next_step}", err=True)
    return 1


def _discard_output() -> None:
    """Discard the rest of the output buffers. Otherwise Python reports an error when it exits."""
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
