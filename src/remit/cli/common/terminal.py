"""A person at a terminal: what is shown there, and the answer to it.

An approval is of what was on the screen. So the preview and the question go where the person can see them, also when
the command's output goes to a file; what was typed before the question was there is no answer to it; and lines that
were not shown are counted, and need a word of their own.
"""

import contextlib
import sys
import termios
from collections.abc import Callable
from typing import Final, NamedTuple

import click

from remit.core.errors import RefusedError
from remit.core.text import counted, printable

UNSEEN: Final = "unseen"
SHOW_ALL: Final = frozenset({"f", "full"})
_NO: Final = frozenset({"", "n", "no"})


class NoTerminalError(RefusedError):
    """Only a person can go on from here."""

    exit_code = 3


class Whole(NamedTuple):
    """All of a preview, for a person who asks for it."""

    text: str
    hidden: int
    """Lines that are not shown even then."""


class Screen(NamedTuple):
    """Where a person reads. `is_stderr`: the command's output goes elsewhere, and the error stream is on the screen."""

    is_stderr: bool

    def show(self, text: str) -> None:
        click.echo(text, err=self.is_stderr)

    def show_and_print(self, text: str) -> None:
        """On the screen, and on standard output as well, wherever that goes."""
        click.echo(text)
        if self.is_stderr:
            click.echo(text, err=True)

    def page(self, text: str) -> None:
        """A screenful at a time, as far as the terminal and `PAGER` allow."""
        if self.is_stderr:
            click.echo(text, err=True)
        else:
            click.echo_via_pager(f"{text}\n")


def find_screen(*, as_json: bool = False) -> Screen | None:
    """None for a program, and where a person could not read what is shown or could not answer."""
    if as_json or not sys.stdin.isatty():
        return None
    if sys.stdout.isatty():
        return Screen(is_stderr=False)
    return Screen(is_stderr=True) if sys.stderr.isatty() else None


def ask(screen: Screen, question: str, *, hidden: int = 0, whole: Callable[[], Whole] | None = None) -> bool:
    """Whether the person says yes. Ctrl-C and the end of input are no.

    With `hidden` lines a plain yes is no answer: the person types a word which says that these were not seen, or has
    `whole` shown first.
    """
    discard_typed_ahead()
    try:
        while hidden:
            said = _prompt(f"{unseen_sentence(hidden)}\n{question} {unseen_choices(can_show=whole is not None)}")
            if said == UNSEEN:
                return True
            if said in _NO:
                return False
            if said in SHOW_ALL and whole is not None:
                hidden = show_whole(screen, whole)
                discard_typed_ahead()
                whole = None
                continue
            click.echo(no_answer(said, can_show=whole is not None, no="n"), err=_asks_on_stderr())
        return click.confirm(question, default=False, err=_asks_on_stderr())
    except click.Abort:
        return False


def show_whole(screen: Screen, whole: Callable[[], Whole]) -> int:
    """How many lines are still not shown after it."""
    made = whole()
    screen.page(made.text)
    return made.hidden


def unseen_sentence(hidden: int) -> str:
    return f"{counted(hidden, 'line')} of this preview {'was' if hidden == 1 else 'were'} not shown."


def unseen_choices(*, can_show: bool, no: str = "n: no") -> str:
    see = "f: show all of it, and leave the pager with q; " if can_show else ""
    return f"({see}{UNSEEN}: approve without having seen them; {no})"


def no_answer(said: str, *, can_show: bool, no: str) -> str:
    """Why the question is asked once more. `no`: the words that are left besides `f` and `unseen`."""
    see = "f, " if can_show else ""
    return f"{printable(said) or 'Enter'} is no answer while lines are unseen: type {see}{UNSEEN} or {no}."


def discard_typed_ahead() -> None:
    """What was typed before the question was there is no answer to it."""
    with contextlib.suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _prompt(text: str) -> str:
    said: str = click.prompt(text, default="", show_default=False, err=_asks_on_stderr())
    return said.strip().lower()


def _asks_on_stderr() -> bool:
    return sys.stderr.isatty()
