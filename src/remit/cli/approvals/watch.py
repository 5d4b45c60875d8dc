"""`remit approvals --wait`: questions as they come, at a terminal, each answered by a person."""

import contextlib
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import click

from remit.approvals.errors import STATE_WORDS
from remit.cli.approvals.render import kind_of, render_approval
from remit.cli.common.terminal import (
    SHOW_ALL,
    UNSEEN,
    Screen,
    Whole,
    discard_typed_ahead,
    find_screen,
    no_answer,
    show_whole,
    unseen_choices,
    unseen_sentence,
)
from remit.contracts.browser.browser import Approval
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.text import printable
from remit.identity.person import Person
from remit.plans.proposals.previews import PreviewNotStoredError
from remit.workspace.workspace import Workspace

ANSWERS: Final = {"y": True, "yes": True, "approve": True, "n": False, "no": False, "deny": False}
LATER: Final = frozenset({"s", "skip", "later"})


def require_terminal(*, as_json: bool) -> None:
    screen = find_screen(as_json=as_json)
    if screen is None or screen.is_stderr:
        raise RefusedError(
            Reason.MISUSE,
            "--wait asks a person, so it needs a terminal",
            next_step="Programs list the questions, and people answer: remit approvals list --json",
        )


class PromptText(NamedTuple):
    """What the person sees of one question."""

    text: str
    hidden: int = 0
    """Lines that the text leaves out."""
    whole: Callable[[], Whole] | None = None
    """All of it, where some is left out."""


NOTHING_LEFT_OUT: Final = PromptText("")


class ApprovalPrompt(NamedTuple):
    """One question, of whatever kind, and what becomes of an answer."""

    since: str
    key: tuple[str, ...]
    show: Callable[[], "PromptText | None"]
    """What the person sees, made only now; None: the person was told why it is not asked here."""
    asks: str
    later: str
    """How it is answered when it was left for later."""
    decide: Callable[[bool, str | None], str]
    """Yes or no, and why. What is then told."""


def watch(workspace: Workspace, who: Person, more: Callable[[], Iterable[ApprovalPrompt]]) -> None:
    """Until Ctrl-C. A question is asked once; whoever leaves one for later answers it by its id, or starts anew.

    `more`: the goals and proposed plans that wait.
    """
    click.echo(f"Questions come here as they are asked; answers count as {who.signature}. Ctrl-C ends.", err=True)
    seen: set[tuple[str, ...]] = set()
    unready: set[tuple[str, ...]] = set()
    told_of: set[tuple[str, ...]] = set()
    with contextlib.suppress(KeyboardInterrupt, click.Abort), workspace.approvals.bell.listening() as listener:
        while True:
            found = [_of_request(workspace, each, who) for each in workspace.approvals.listed("PENDING")]
            fresh = [each for each in (*found, *more()) if each.key not in seen]
            # The oldest only, and then a new look: while it is answered, another one may be answered elsewhere.
            if fresh:
                first = min(fresh, key=lambda each: each.since)
                seen.add(first.key)
                try:
                    _ask(first)
                except PreviewNotStoredError as problem:  # it may be computed right now, and is asked about once it is
                    unready.add(first.key)
                    if first.key not in told_of:
                        click.echo(f"\n{problem}", err=True)
                    told_of.add(first.key)
            else:
                listener.wait(float("inf"))
                seen -= unready
                unready.clear()


def _of_request(workspace: Workspace, approval: Approval, who: Person) -> ApprovalPrompt:
    def decide(approved: bool, reason: str | None) -> str:
        return told(workspace.approvals.decide(approval.approval_id, approved=approved, who=who, reason=reason))

    return ApprovalPrompt(
        approval.created_at,
        ("request", approval.approval_id),
        lambda: PromptText(render_approval(approval, workspace.approvals.seconds_left(approval))),
        kind_of(approval).asked,
        f"open until {approval.expires[:19]}Z: remit approvals show {approval.approval_id}",
        decide,
    )


def _ask(asked: ApprovalPrompt) -> None:
    try:
        shown = asked.show()
    except PreviewNotStoredError:
        raise
    except RemitError as problem:
        click.echo(f"\n{problem}", err=True)
        return
    if shown is None:
        return
    click.echo(f"\n{shown.text}")
    discard_typed_ahead()
    approved = ask_until_clear(asked.asks, shown)
    if approved is None:
        click.echo(f"Left for later. It is not asked here again, and {asked.later}", err=True)
        return
    try:
        reason = click.prompt(
            "Why? For the record and the agent; Enter for no reason", default="", show_default=False, err=True
        )
    except click.Abort:
        click.echo(f"\nNothing was answered: the {'yes' if approved else 'no'} does not count.", err=True)
        raise
    try:
        click.echo(asked.decide(approved, printable(reason.strip()) or None))
    except RemitError as problem:
        click.echo(str(problem), err=True)


def ask_until_clear(what: str, shown: PromptText = NOTHING_LEFT_OUT) -> bool | None:
    """Yes, no, or None for later. Anything else is no answer: a no is final, so it is not guessed at either.

    Where lines were left out, a plain yes is no answer: these are seen first, or named by a word.
    """
    hidden, whole = shown.hidden, shown.whole
    while True:
        no = "n: no, s: later"
        choices = unseen_choices(can_show=whole is not None, no=no) if hidden else "yes (y), no (n) or later (s)"
        asked = f"{unseen_sentence(hidden)}\n{what} {choices}" if hidden else f"{what} {choices}"
        answer = click.prompt(asked, default="", show_default=False, err=True).strip().lower()
        if hidden and answer == UNSEEN:
            return True
        if answer in SHOW_ALL and whole is not None:
            hidden, whole = show_whole(Screen(is_stderr=False), whole), None
            discard_typed_ahead()
            continue
        if answer in ANSWERS and not (hidden and ANSWERS[answer]):
            return ANSWERS[answer]
        if answer in LATER:
            return None
        if hidden:
            click.echo(no_answer(answer, can_show=whole is not None, no="n, or s for later"), err=True)
        else:
            click.echo("Please answer with yes (y), no (n) or later (s).", err=True)


def told(decided: Approval) -> str:
    kind = kind_of(decided)
    what = kind.goes_on if decided.state == "APPROVED" else kind.does_not
    word = STATE_WORDS[decided.state].capitalize()
    return f"{word}: {kind.thing} of {printable(decided.agent_id)} {what} ({decided.approval_id})"
