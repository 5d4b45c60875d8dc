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
_NO_ANSWERS: Final = frozenset({"", "n", "no"})


class NoTerminalError(RefusedError):
    """Only a person can go on from here."""

    exit_code = 3


class FullText(NamedTuple):
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


def ask(screen: Screen, question: str, *, hidden: int = 0, full_text: Callable[[], FullText] | None = None) -> bool:
    """Whether the person says yes. Ctrl-C and the end of input are no.

    With `hidden` lines a plain yes is no answer: the person types a word which says that these were not seen, or has
    `full_text` shown first.
    """
    discard_pending_input()
    try:
        while hidden:
            answer = _prompt(
                f"{render_unseen_count(hidden)}\n{question} {render_choices(can_show=full_text is not None)}"
            )
            if answer == UNSEEN:
                return True
            if answer in _NO_ANSWERS:
                return False
            if answer in SHOW_ALL and full_text is not None:
                hidden = show_full_text(screen, full_text)
                discard_pending_input()
                full_text = None
                continue
            click.echo(explain_invalid_answer(answer, can_show=full_text is not None, no="n"), err=_prompts_on_stderr())
        return click.confirm(question, default=False, err=_prompts_on_stderr())
    except click.Abort:
        return False


def show_full_text(screen: Screen, full_text: Callable[[], FullText]) -> int:
    """How many lines are still not shown after it."""
    made = full_text()
    screen.page(made.text)
    return made.hidden


def render_unseen_count(hidden: int) -> str:
    return f"{counted(hidden, 'line')} of this preview {'was' if hidden == 1 else 'were'} not shown."


def render_choices(*, can_show: bool, no: str = "n: no") -> str:
    see = "f: show all of it, and leave the pager with q; " if can_show else ""
    return f"({see}{UNSEEN}: approve without having seen them; {no})"


def explain_invalid_answer(answer: str, *, can_show: bool, no: str) -> str:
    """Why the question is asked once more. `no`: the words that are left besides `f` and `unseen`."""
    see = "f, " if can_show else ""
    return f"{printable(answer) or 'Enter'} is no answer while lines are unseen: type {see}{UNSEEN} or {no}."


def discard_pending_input() -> None:
    """What was typed before the question was there is no answer to it."""
    with contextlib.suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _prompt(text: str) -> str:
    answer: str = click.prompt(text, default="", show_default=False, err=_prompts_on_stderr())
    return answer.strip().lower()


def _prompts_on_stderr() -> bool:
    return sys.stderr.isatty()
