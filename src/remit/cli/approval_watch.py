"""`remit approvals --wait`: questions as they come, at a terminal, each answered by a person."""

import contextlib
import sys
import termios
from typing import Final

import click

from remit.approval.people import Person
from remit.approval.refusals import STATE_WORDS
from remit.cli.approval_view import kind_of, render_approval
from remit.contracts.browser import Approval
from remit.errors import Reason, Refused
from remit.printable import printable
from remit.workspace import Workspace

ANSWERS: Final = {"y": True, "yes": True, "approve": True, "n": False, "no": False, "deny": False}
LATER: Final = frozenset({"s", "skip", "later"})


def require_terminal(*, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise Refused(
            Reason.MISUSE,
            "--wait asks a person, so it needs a terminal",
            next_step="Programs list the questions, and people answer: remit approvals list --json",
        )


def watch(workspace: Workspace, who: Person) -> None:
    """Until Ctrl-C. A question is asked once; whoever leaves one for later answers it by its id, or starts anew."""
    click.echo(f"Questions come here as they are asked; answers count as {who.signature}. Ctrl-C ends.", err=True)
    seen: set[str] = set()
    with contextlib.suppress(KeyboardInterrupt, click.Abort), workspace.approvals.bell.listening() as listener:
        while True:
            for approval in reversed(workspace.approvals.listed("PENDING")):
                if approval.approval_id not in seen:
                    seen.add(approval.approval_id)
                    _ask(workspace, approval, who)
            listener.wait(float("inf"))


def _ask(workspace: Workspace, approval: Approval, who: Person) -> None:
    click.echo("\n" + render_approval(approval, workspace.approvals.seconds_left(approval)))
    with contextlib.suppress(termios.error):  # what was typed before the question was there is no answer to it
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    approved = ask_until_clear(kind_of(approval).asked)
    if approved is None:
        until = f"It is not asked here again, and open until {approval.expires[:19]}Z"
        click.echo(f"Left for later. {until}: remit approvals show {approval.approval_id}", err=True)
        return
    reason = click.prompt(
        "Why? For the record and the agent; Enter for no reason", default="", show_default=False, err=True
    )
    try:
        decided = workspace.approvals.decide(
            approval.approval_id, approved=approved, who=who, reason=printable(reason.strip()) or None
        )
    except Refused as problem:
        click.echo(str(problem), err=True)
    else:
        click.echo(told(decided))


def ask_until_clear(what: str) -> bool | None:
    """Yes, no, or None for later. Anything else is no answer: a no is final, so it is not guessed at either."""
    while True:
        answer = click.prompt(f"{what} yes, no or later", default="", show_default=False, err=True).strip().lower()
        if answer in ANSWERS:
            return ANSWERS[answer]
        if answer in LATER:
            return None
        click.echo("Please answer with yes (y), no (n) or later (s).", err=True)


def told(decided: Approval) -> str:
    kind = kind_of(decided)
    what = kind.goes_on if decided.state == "APPROVED" else kind.does_not
    word = STATE_WORDS[decided.state].capitalize()
    return f"{word}: {kind.thing} of {printable(decided.agent_id)} {what} ({decided.approval_id})"
