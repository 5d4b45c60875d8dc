"""The command that runs: its name and parameters for messages, and its end by Ctrl-C or SIGTERM.

A command that changes something ends with a message that says how to see what it did. Ctrl-C and SIGTERM both unwind
it, so that its temporary files are removed. The exit code is 1 after Ctrl-C. After SIGTERM the process ends by that
signal, as it would without this module.
"""

import contextlib
import functools
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import click

OWN_SIGTERM: Final = frozenset({"approvals", "browse", "mcp", "serve"})
"""Commands that are left to the default of SIGTERM, or handle it themselves."""


class RunningCommand(NamedTuple):
    path: str
    """Its name and that of its group, such as `keys rotate`."""
    parameters: Mapping[str, Any]

    def how_to_see(self) -> str:
        """Return the next step that shows what it did, or an empty text if it only reads."""
        text: str = importlib.import_module("remit.cli.common.next_steps").how_to_see(self.path, self.parameters)
        return text


class TerminatedInterrupt(KeyboardInterrupt):
    """SIGTERM has arrived. It unwinds a command as Ctrl-C does."""


class _Process:
    """The state of this process: it runs one command."""

    command: RunningCommand | None = None
    """The command whose function was called. None while the arguments are still read."""
    is_terminated = False


def start_process() -> None:
    """Forget an earlier command of this process."""
    _Process.command, _Process.is_terminated = None, False


def running_command() -> RunningCommand | None:
    return _Process.command


def end_if_terminated() -> None:
    """End this process by SIGTERM if that has arrived."""
    if _Process.is_terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


def follow(command: click.Command, path: str) -> None:
    """Note this command, or its subcommand, when it runs, and report an interruption of it."""
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            follow(child, f"{path} {name}")
    callback = command.callback
    known = (callback, getattr(callback, "__wrapped__", None))
    if callback is not None and not any(isinstance(each, _FollowedCallback) for each in known):
        command.callback = _FollowedCallback(callback, path)


class _FollowedCallback:
    """The function of a command, which is noted before it is called."""

    def __init__(self, callback: Callable[..., Any], path: str) -> None:
        functools.update_wrapper(self, callback)
        self._callback = callback
        self._path = path

    def __call__(self, *arguments: Any, **parameters: Any) -> Any:
        command = _Process.command = RunningCommand(self._path, parameters)
        with contextlib.nullcontext() if self._path in OWN_SIGTERM else _unwinding_on_sigterm():
            try:
                return self._callback(*arguments, **parameters)
            except (KeyboardInterrupt, click.Abort):
                if not command.how_to_see():
                    raise
                if sys.stderr.isatty():
                    click.echo(err=True)  # the terminal shows ^C on this line
                raise interrupted_error() from None


def interrupted_error() -> Exception:
    """Return the error of the running command after Ctrl-C or SIGTERM."""
    errors = importlib.import_module("remit.core.errors")
    command = _Process.command
    see = command.how_to_see() if command is not None else ""
    error: Exception = errors.EnvironmentFailureError(
        errors.Reason.CANCELLED,
        "interrupted; it is not known whether the command did its work",
        where=f"remit {command.path}" if command is not None else "",
        next_step=see or "Finish or undo what was left: remit recover",
    )
    return error


@contextlib.contextmanager
def _unwinding_on_sigterm() -> Iterator[None]:
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _on_sigterm)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _on_sigterm(_number: int, _frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends the process at once
    _Process.is_terminated = True
    raise TerminatedInterrupt
