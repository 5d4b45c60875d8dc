"""`remit approvals --wait`: questions as they come, at a terminal, each answered by a person."""

import contextlib
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import click

from remit.approvals.errors import STATE_LABELS
from remit.cli.approvals.render import kind_of, render_approval
from remit.cli.common.terminal import (
    SHOW_ALL,
    UNSEEN,
    FullText,
    Screen,
    discard_pending_input,
    explain_invalid_answer,
    find_screen,
    render_choices,
    render_unseen_count,
    show_full_text,
)
from remit.contracts.browser.browser import Approval
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.text import printable
from remit.identity.person import Person
from remit.plans.proposals.previews import PreviewNotStoredError
from remit.workspace.workspace import Workspace

ANSWERS: Final = {"y": True, "yes": True, "approve": True, "n": False, "no": False, "deny": False}
LATER_ANSWERS: Final = frozenset({"s", "skip", "later"})


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
    full_text: Callable[[], FullText] | None = None
    """All of it, where some is left out."""


NO_HIDDEN_LINES: Final = PromptText("")


class ApprovalPrompt(NamedTuple):
    """One question, of whatever kind, and what becomes of an answer."""

    since: str
    key: tuple[str, ...]
    show: Callable[[], "PromptText | None"]
    """What the person sees, made only now; None: the person was told why it is not asked here."""
    question: str
    if_postponed: str
    """How it is answered when it was left for later."""
    decide: Callable[[bool, str | None], str]
    """Yes or no, and why. What is then told."""


def watch(workspace: Workspace, who: Person, more: Callable[[], Iterable[ApprovalPrompt]]) -> None:
    """Until Ctrl-C. A question is asked once; whoever leaves one for later answers it by its id, or starts anew.

    `more`: the goals and proposed plans that wait.
    """
    click.echo(f"Questions come here as they are asked; answers count as {who.signature}. Ctrl-C ends.", err=True)
    prompted: set[tuple[str, ...]] = set()
    without_preview: set[tuple[str, ...]] = set()
    reported: set[tuple[str, ...]] = set()
    with contextlib.suppress(KeyboardInterrupt, click.Abort), workspace.approvals.change_signal.listening() as listener:
        while True:
            found = [_make_request_prompt(workspace, each, who) for each in workspace.approvals.listed("PENDING")]
            fresh = [each for each in (*found, *more()) if each.key not in prompted]
            # The oldest only, and then a new look: while it is answered, another one may be answered elsewhere.
            if fresh:
                first = min(fresh, key=lambda each: each.since)
                prompted.add(first.key)
                try:
                    _ask(first)
                except PreviewNotStoredError as problem:  # it may be computed right now, and is asked about once it is
                    without_preview.add(first.key)
                    if first.key not in reported:
                        click.echo(f"\n{problem}", err=True)
                    reported.add(first.key)
            else:
                listener.wait(float("inf"))
                prompted -= without_preview
                without_preview.clear()


def _make_request_prompt(workspace: Workspace, approval: Approval, who: Person) -> ApprovalPrompt:
    def decide(approved: bool, reason: str | None) -> str:
        return render_decided(
            workspace.approvals.decide(approval.approval_id, approved=approved, who=who, reason=reason)
        )

    return ApprovalPrompt(
        approval.created_at,
        ("request", approval.approval_id),
        lambda: PromptText(render_approval(approval, workspace.approvals.seconds_left(approval))),
        kind_of(approval).question,
        f"open until {approval.expires[:19]}Z: remit approvals show {approval.approval_id}",
        decide,
    )


def _ask(prompt: ApprovalPrompt) -> None:
    try:
        shown = prompt.show()
    except PreviewNotStoredError:
        raise
    except RemitError as problem:
        click.echo(f"\n{problem}", err=True)
        return
    if shown is None:
        return
    click.echo(f"\n{shown.text}")
    discard_pending_input()
    approved = ask_until_clear(prompt.question, shown)
    if approved is None:
        click.echo(f"Left for later. It is not asked here again, and {prompt.if_postponed}", err=True)
        return
    try:
        reason = click.prompt(
            "Why? For the record and the agent; Enter for no reason", default="", show_default=False, err=True
        )
    except click.Abort:
        click.echo(f"\nNothing was answered: the {'yes' if approved else 'no'} does not count.", err=True)
        raise
    try:
        click.echo(prompt.decide(approved, printable(reason.strip()) or None))
    except RemitError as problem:
        click.echo(str(problem), err=True)


def ask_until_clear(what: str, shown: PromptText = NO_HIDDEN_LINES) -> bool | None:
    """Yes, no, or None for later. Anything else is no answer: a no is final, so it is not guessed at either.

    Where lines were left out, a plain yes is no answer: these are seen first, or named by a word.
    """
    hidden, full_text = shown.hidden, shown.full_text
    while True:
        no = "n: no, s: later"
        choices = render_choices(can_show=full_text is not None, no=no) if hidden else "yes (y), no (n) or later (s)"
        prompt = f"{render_unseen_count(hidden)}\n{what} {choices}" if hidden else f"{what} {choices}"
        answer = click.prompt(prompt, default="", show_default=False, err=True).strip().lower()
        if hidden and answer == UNSEEN:
            return True
        if answer in SHOW_ALL and full_text is not None:
            hidden, full_text = show_full_text(Screen(is_stderr=False), full_text), None
            discard_pending_input()
            continue
        if answer in ANSWERS and not (hidden and ANSWERS[answer]):
            return ANSWERS[answer]
        if answer in LATER_ANSWERS:
            return None
        if hidden:
            click.echo(explain_invalid_answer(answer, can_show=full_text is not None, no="n, or s for later"), err=True)
        else:
            click.echo("Please answer with yes (y), no (n) or later (s).", err=True)


def render_decided(decided: Approval) -> str:
    kind = kind_of(decided)
    what = kind.if_approved if decided.state == "APPROVED" else kind.if_denied
    state_label = STATE_LABELS[decided.state].capitalize()
    return f"{state_label}: {kind.subject} of {printable(decided.agent_id)} {what} ({decided.approval_id})"
