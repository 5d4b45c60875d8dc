"""`remit approvals --wait`: shows approval requests at a terminal as they come, and a person decides each."""

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
            Reason.ARGUMENT_INVALID,
            "--wait asks a person, so it needs a terminal",
            next_step="A program can list the requests, and a person decides: remit approvals list --json",
        )


class PromptText(NamedTuple):
    """The text of one approval request."""

    text: str
    hidden: int = 0
    """The number of lines that the text leaves out."""
    full_text: Callable[[], FullText] | None = None
    """The full text, if some lines are left out."""


NO_HIDDEN_LINES: Final = PromptText("")


class ApprovalPrompt(NamedTuple):
    """One approval request of any kind, and the action that decides it."""

    since: str
    key: tuple[str, ...]
    show: Callable[[], "PromptText | None"]
    """Makes the text for the person. None means that a printed message says why it cannot be decided here."""
    question: str
    if_postponed: str
    """How to decide it later."""
    decide: Callable[[bool, str | None], str]
    """Records the decision and its reason, and returns the message to print."""


def watch(workspace: Workspace, who: Person, more: Callable[[], Iterable[ApprovalPrompt]]) -> None:
    """Ask about each pending request once, until Ctrl-C. A request that is left for later is decided by its id.

    `more` returns the pending goals and proposed plans.
    """
    click.echo(f"Approval requests appear here. Your decisions are recorded as {who.signature}. Ctrl-C ends.", err=True)
    prompted: set[tuple[str, ...]] = set()
    without_preview: set[tuple[str, ...]] = set()
    reported: set[tuple[str, ...]] = set()
    with contextlib.suppress(KeyboardInterrupt, click.Abort), workspace.approvals.change_signal.listening() as listener:
        while True:
            found = [_make_request_prompt(workspace, each, who) for each in workspace.approvals.listed("PENDING")]
            fresh = [each for each in (*found, *more()) if each.key not in prompted]
            # Only the oldest, and then the list again: meanwhile another person may have decided other requests.
            if fresh:
                first = min(fresh, key=lambda each: each.since)
                prompted.add(first.key)
                try:
                    _ask(first)
                except PreviewNotStoredError as problem:  # it may be computed right now; then it is asked later
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
        click.echo(f"Left for later. It is not shown here again. It is {prompt.if_postponed}", err=True)
        return
    try:
        reason = click.prompt(
            "The reason, for the ledger and the agent (Enter for none)", default="", show_default=False, err=True
        )
    except click.Abort:
        click.echo(f"\nNothing was decided; your {'approval' if approved else 'denial'} was not recorded.", err=True)
        raise
    try:
        click.echo(prompt.decide(approved, printable(reason.strip()) or None))
    except RemitError as problem:
        click.echo(str(problem), err=True)


def ask_until_clear(what: str, shown: PromptText = NO_HIDDEN_LINES) -> bool | None:
    """Return True for yes, False for no, None for later. Asks again after any other answer, because both are final.

    If lines were left out, "yes" is not accepted. The person shows all lines first, or types the word `unseen`.
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
