"""A person at a terminal: the screen, the question and the answer.

A person approves what was on the screen. So the preview and the question go where the person can see them, even if the
output of the command goes to a file. Text that was typed before the question appeared is not an answer. Lines that were
not shown are counted, and approving them needs a special word.
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
_YES_ANSWERS: Final = frozenset({"y", "yes"})
_NO_ANSWERS: Final = frozenset({"", "n", "no"})


class NoTerminalError(RefusedError):
    """The command needs a person at a terminal to continue."""

    exit_code = 3


class FullText(NamedTuple):
    """The full preview, for a person who asks for it."""

    text: str
    hidden: int
    """The number of lines that even this text does not show."""


class Screen(NamedTuple):
    """The screen that a person reads. `is_stderr`: only standard error is on the screen, the output is redirected."""

    is_stderr: bool

    def show(self, text: str) -> None:
        click.echo(text, err=self.is_stderr)

    def show_and_print(self, text: str) -> None:
        """Print the text to standard output, and also to the screen if that is standard error."""
        click.echo(text)
        if self.is_stderr:
            click.echo(text, err=True)

    def page(self, text: str) -> None:
        """Show the text page by page, as far as the terminal and `PAGER` allow."""
        if self.is_stderr:
            click.echo(text, err=True)
        else:
            click.echo_via_pager(f"{text}\n")


def find_screen(*, as_json: bool = False) -> Screen | None:
    """Return the screen, or None for a program or if a person could not read the text or answer."""
    if as_json or not sys.stdin.isatty():
        return None
    if sys.stdout.isatty():
        return Screen(is_stderr=False)
    return Screen(is_stderr=True) if sys.stderr.isatty() else None


def ask(screen: Screen, question: str, *, hidden: int = 0, full_text: Callable[[], FullText] | None = None) -> bool:
    """Ask the question, and return whether the person approves. Ctrl-C and the end of input mean no.

    If there are `hidden` lines, "yes" is not accepted. The person types a word which confirms that these lines were not
    seen, or looks at `full_text` first.
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
        return confirm(question, err=_prompts_on_stderr())
    except click.Abort:
        return False


def confirm(question: str, *, err: bool) -> bool:
    """Ask until the answer is yes or no. Enter means no. Raises `click.Abort` at Ctrl-C and at the end of input."""
    while True:
        answer = click.prompt(f"{question} [y/N]", default="", show_default=False, err=err).strip().lower()
        if answer in _YES_ANSWERS or answer in _NO_ANSWERS:
            return answer in _YES_ANSWERS
        click.echo("Type y or n.", err=err)


def show_full_text(screen: Screen, full_text: Callable[[], FullText]) -> int:
    """Show the full text, and return the number of lines that it still does not show."""
    made = full_text()
    screen.page(made.text)
    return made.hidden


def render_unseen_count(hidden: int) -> str:
    return f"{counted(hidden, 'line')} of this preview {'was' if hidden == 1 else 'were'} not shown."


def render_choices(*, can_show: bool, no: str = "n: no") -> str:
    see = "f: show all lines, and leave the pager with q; " if can_show else ""
    return f"({see}{UNSEEN}: approve without having seen these lines; {no})"


def explain_invalid_answer(answer: str, *, can_show: bool, no: str) -> str:
    """Explain why the question is asked again. `no` lists the possible words besides `f` and `unseen`."""
    see = "f, " if can_show else ""
    return f"{printable(answer) or 'Enter'} is not accepted while lines are unseen. Type {see}{UNSEEN} or {no}."


def discard_pending_input() -> None:
    """Discard the text that was typed before the question appeared."""
    with contextlib.suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _prompt(text: str) -> str:
    answer: str = click.prompt(text, default="", show_default=False, err=_prompts_on_stderr())
    return answer.strip().lower()


def _prompts_on_stderr() -> bool:
    return sys.stderr.isatty()
