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

from remit.cli.common.running_command import end_if_terminated, running_command, start_process

STARTED: Final = time.monotonic()
"""When this process started. The waiting time that a command reports begins here."""

READER_GONE: Final = 141
"""The exit code if a reader such as `head` closes the pipe. Shells show it for programs that SIGPIPE ended."""


class OutputError(OSError):
    """A write to standard output or standard error has failed. No error of another file has this class."""


class _OutputFile(io.FileIO):
    """The file of standard output or standard error. Its errors have a class of their own."""

    def write(self, data: Any, /) -> int | None:  # type: ignore[override] # as io.FileIO
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise OutputError(problem.errno, problem.strerror) from problem


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
    sys.stdout, sys.stderr = _mark_errors(sys.stdout), _mark_errors(sys.stderr)
    start_process()
    try:
        code = _run(start, arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        end_if_terminated()
    except (BrokenPipeError, ReaderGoneError):
        _discard_output()
        return READER_GONE
    except OutputError as problem:
        _discard_output()
        command = running_command()
        see = command.how_to_see() if command is not None else ""
        unknown = f" It is not known whether the command did its work. {see}" if see else ""
        advice = f"Free some disk space, or redirect the output.{unknown}"
        return _report_output_failure(f"the output could not be written: {problem.strerror}", advice)
    return code


def _mark_errors(stream: Any) -> Any:
    """Return a stream to the same file that raises `OutputError`. A stream that is not a file is returned as it is."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    raw = getattr(stream.buffer, "raw", stream.buffer)  # with PYTHONUNBUFFERED there is no buffer
    if type(raw) is not io.FileIO:
        stream.reconfigure(errors="backslashreplace")
        return stream
    stream.flush()
    _replaced.append(stream)
    file = _OutputFile(raw.fileno(), "wb", closefd=False)
    buffer: Any = file if raw is stream.buffer else io.BufferedWriter(file)
    return io.TextIOWrapper(
        buffer,
        encoding=stream.encoding,
        errors="backslashreplace",
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


_replaced: Final[list[io.TextIOWrapper]] = []
"""The earlier streams. They would close their files if nothing referred to them."""


def _run(start: Callable[[], Any], arguments: Sequence[str]) -> int:
    try:
        code = start()
    except (BrokenPipeError, ReaderGoneError, OutputError):
        raise
    except click.Abort:
        click.echo("Aborted!", err=True)
        return 1
    except Exception as problem:  # noqa: BLE001 - each error is reported
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
