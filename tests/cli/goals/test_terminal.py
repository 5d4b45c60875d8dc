"""At a terminal the user is asked there; only a clear answer is one, and whoever goes away has said nothing."""

import os
import pty
import select
import sys

import pytest

from remit.cli.common.bidi import display_sentence, display_text, isolated
from remit.goals.messages.catalogue import render_text
from tests.cli.goals.conftest import Shell


def on_a_terminal(shell: Shell, *arguments: str, answers: tuple[bytes, ...]) -> tuple[int, str]:
    """Each answer is typed once its question stands there."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(shell.office.root)
        os.execve(sys.executable, [sys.executable, "-m", "remit", *arguments], shell.environ())  # noqa: S606 - no shell
    shown = b""
    try:
        for answer in answers:
            begun = len(shown)
            while b"Your answer" not in shown[begun:]:
                shown += os.read(terminal, 4096)
            os.write(terminal, answer)
        while True:  # Python looks for signals before it reads, not in between: an early Ctrl-C may need a second one
            if not select.select([terminal], [], [], 3)[0] and answers[-1] == b"\x03":
                os.write(terminal, answers[-1])
            else:
                shown += os.read(terminal, 4096)
    except OSError:  # nobody is on the other side any more
        pass
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown.decode()


GOAL = ("--user", "mia", "--tenant", "acme", "--correlation", "g-1")


@pytest.mark.req("AC-05", "AC-20")
def test_a_user_at_a_terminal_is_asked_until_the_answer_is_clear(shell: Shell) -> None:
    code, shown = on_a_terminal(shell, "ask", "archive the note", *GOAL, answers=(b"two\n", b"okay\n", b"\n", b"yes\n"))
    assert code == 0, shown
    assert "Which note?" in shown
    assert shown.count("Archive a note (archive-note 1): note = two.") == 2
    assert "neither a clear “yes” nor a clear “no”" in shown
    assert "Done." in shown
    assert shell.office.archived() == ["two"]


def test_a_user_who_leaves_the_terminal_has_neither_confirmed_nor_declined(shell: Shell) -> None:
    code, shown = on_a_terminal(shell, "ask", "archive the note one", *GOAL, answers=(b"\x03",))
    assert code == 3, shown
    assert "remit ask --tenant acme --continue g-1 --confirm ANSWER" in shown
    assert shell.office.events("g-1") == ["PLANNED", "CONFIRMATION_REQUESTED"]


class Terminal:
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_right_to_left_words_are_isolated_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Answer “نعم” to go on, “לא בטוח” to stop; \u202eyes"
    assert "\u2068" not in display_text(text)
    assert "\\u202e" in display_text(text)  # what would turn the line round is spelled out, never obeyed
    monkeypatch.setattr(sys, "stdout", Terminal())
    shown = display_text(text)
    assert "“\u2068نعم\u2069”" in shown
    assert "“\u2068לא בטוח\u2069”" in shown
    assert "\\u202e" in shown
    assert isolated("plain, и это") == "plain, и это"
    assert shown.count("\u2068") == shown.count("\u2069") == 2


@pytest.mark.req("AC-05")
def test_a_sentence_that_runs_from_right_to_left_is_whole_and_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"yes": "כן", "no": "לא"}
    text = f"Copy the form (copy-form 1): name = x, to = \u202eלא. {render_text('PROMPT_ANSWER', 'he', **values)}"
    assert display_sentence(text, right_to_left=True) == display_text(text)  # for another program: no marks
    monkeypatch.setattr(sys, "stdout", Terminal())
    shown = display_sentence(text, right_to_left=True)
    assert (shown[0], shown[-1]) == ("\u2067", "\u2069")
    assert "(\u2068copy-form 1\u2069)" in shown  # a bracket stays with its partner
    assert "\u202e" not in shown
    assert shown.count("\u2068") + 1 == shown.count("\u2069")
    marks = dict.fromkeys(map(ord, "\u2067\u2068\u2069"))
    assert shown.translate(marks) == display_text(text).translate(marks)
    assert display_sentence(text, right_to_left=False) == display_text(text)


def test_right_to_left_words_are_never_isolated_in_json(shell: Shell) -> None:
    asked = shell.ask_goal("أرشف", "g-1", "--lang", "ar")
    assert "\u2068" not in str(asked)
    assert shell("intake", "--tenant", "acme", "--json").document["items"][0]["utterances"] == ["أرشف"]
