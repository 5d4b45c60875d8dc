"""`remit approvals`."""

import contextlib
import sys
import termios
from pathlib import Path
from typing import Final

import click

from remit.agent.standing import WaitingGoal
from remit.approval.people import Person, person_at_terminal
from remit.approval.refusals import STATE_WORDS
from remit.cli.approval_view import kind_of, render_approval, render_left, render_state
from remit.cli.goal_approvals import (
    all_waiting,
    decide_goal,
    goal_named,
    goal_tree,
    render_goal,
    require_waiting,
    show_goals,
    tell_decided,
)
from remit.cli.offering import complete_question
from remit.cli.shown import json_option, show_json, show_table, workspace_option
from remit.contracts.browser import Approval
from remit.errors import Reason, Refused
from remit.printable import printable
from remit.workspace import Workspace

as_option: Final = click.option("--as", "name", help="Your name, for the record; who you are, the system says.")
reason_option: Final = click.option("--reason", help="Why, for the record and for the agent.")
goal_option: Final = click.option("--tenant", "tenant_id", help="ID is the correlation of a goal of this tenant.")
id_argument: Final = click.argument("approval_id", metavar="ID", shell_complete=complete_question)
ANSWERS: Final = {"y": True, "yes": True, "approve": True, "n": False, "no": False, "deny": False}
LATER: Final = frozenset({"s", "skip", "later"})


@click.group(invoke_without_command=True)
@click.option(
    "--wait", is_flag=True, help="Stay here, show the browser's questions as they come, and ask: yes, no or later."
)
@as_option
@workspace_option
@json_option
@click.pass_context
def approvals(ctx: click.Context, wait: bool, name: str | None, directory: Path, as_json: bool) -> None:
    """Answer what waits for a person: held requests of the browser, and goals that need an approval.

    Without a command: those that wait for an answer. A question of the browser is about one request, exactly as it will
    be sent; after ten minutes without an answer nothing is sent. A goal is answered by its correlation, and not by the
    user who asked. All of this is for people: an agent can neither answer nor look.
    """
    if ctx.invoked_subcommand is not None:
        return
    with Workspace.open(directory) as workspace:
        who = person_at_terminal(workspace.environ, name)
        if wait:
            _require_terminal(as_json=as_json)
            _watch(workspace, who)
        else:
            _list(workspace, everything=False, as_json=as_json)
            if not as_json:
                _list_goals(workspace)


@approvals.command("list")
@click.option("--all", "everything", is_flag=True, help="Also questions that are closed, the last thousand.")
@click.option("--goals", is_flag=True, help="Goals only; with --json the other questions only, unless this is given.")
@workspace_option
@json_option
def list_approvals(everything: bool, goals: bool, directory: Path, as_json: bool) -> None:
    """Those that wait for an answer, the newest first."""
    with Workspace.open(directory) as workspace:
        person_at_terminal(workspace.environ)
        if goals:
            show_goals(all_waiting(workspace), as_json=as_json)
            return
        _list(workspace, everything=everything, as_json=as_json)
        if not as_json:
            _list_goals(workspace)


@approvals.command()
@id_argument
@goal_option
@workspace_option
@json_option
def show(approval_id: str, tenant_id: str | None, directory: Path, as_json: bool) -> None:
    """All of one question: the request as it will be sent, secrets masked. ID may be the beginning of one.

    Of a goal, what it would do and why it needs an approval; ID is its correlation.
    """
    with Workspace.open(directory) as workspace:
        person_at_terminal(workspace.environ)
        tenant = goal_named(workspace, approval_id, tenant_id)
        if tenant is not None:
            goal = require_waiting(workspace, tenant, approval_id)
            _show_goal(goal, directory, as_json=as_json)
            return
        found = workspace.approvals.show(approval_id)
        left = workspace.approvals.seconds_left(found)
    if as_json:
        show_json(found.tree())
    else:
        click.echo(render_approval(found, left))


@approvals.command()
@id_argument
@goal_option
@reason_option
@as_option
@workspace_option
@json_option
def approve(
    approval_id: str, tenant_id: str | None, reason: str | None, name: str | None, directory: Path, as_json: bool
) -> None:
    """Say yes: exactly this is sent, typed or done, once. ID may be a beginning that no other question has.

    A goal is named by its whole correlation; `remit ask --continue` then goes on with it.
    """
    _decide(approval_id, tenant_id, approved=True, reason=reason, name=name, directory=directory, as_json=as_json)


@approvals.command()
@id_argument
@goal_option
@reason_option
@as_option
@workspace_option
@json_option
def deny(
    approval_id: str, tenant_id: str | None, reason: str | None, name: str | None, directory: Path, as_json: bool
) -> None:
    """Say no: nothing is sent, typed or done. ID may be a beginning that no other waiting question has."""
    _decide(approval_id, tenant_id, approved=False, reason=reason, name=name, directory=directory, as_json=as_json)


def _decide(
    approval_id: str,
    tenant_id: str | None,
    *,
    approved: bool,
    reason: str | None,
    name: str | None,
    directory: Path,
    as_json: bool,
) -> None:
    with Workspace.open(directory) as workspace:
        who = person_at_terminal(workspace.environ, name)
        tenant = goal_named(workspace, approval_id, tenant_id)
        if tenant is not None:
            goal = decide_goal(workspace, tenant, approval_id, approved=approved, who=who, reason=reason)
            tell_decided(goal, who, directory, approved=approved, as_json=as_json)
            return
        decided = workspace.approvals.decide(approval_id, approved=approved, who=who, reason=reason)
    if as_json:
        show_json(decided.tree())
    else:
        click.echo(_told(decided))


def _list(workspace: Workspace, *, everything: bool, as_json: bool) -> None:
    found = workspace.approvals.listed() if everything else workspace.approvals.listed("PENDING")
    if as_json:
        show_json([approval.tree() for approval in found])
        return
    if not found:
        nothing = "There is no question." if everything else "No question waits for an answer."
        click.echo("No request of a browser waits for an answer; goals do:" if all_waiting(workspace) else nothing)
        return
    rows = [
        (
            approval.approval_id,
            approval.agent_id,
            _state(workspace, approval),
            f"{kind_of(approval).label} {approval.preview.url}",
            approval.preview.estimated_effect,
        )
        for approval in found
    ]
    show_table(("id", "agent", "state", "request", "effect"), rows, prose={"request", "effect"})


def _list_goals(workspace: Workspace) -> None:
    """Beside the questions, for people; where there are none, there is nothing to say of them."""
    found = all_waiting(workspace)
    if found:
        click.echo()
        show_goals(found, as_json=False)


def _show_goal(goal: WaitingGoal, directory: Path, *, as_json: bool) -> None:
    if as_json:
        show_json(goal_tree(goal))
    else:
        click.echo("\n".join(render_goal(goal, directory)))


def _state(workspace: Workspace, approval: Approval) -> str:
    if approval.state == "PENDING":
        return f"waits, {render_left(workspace.approvals.seconds_left(approval))} left"
    return render_state(approval)


def _require_terminal(*, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise Refused(
            Reason.MISUSE,
            "--wait asks a person, so it needs a terminal",
            next_step="Programs list the questions, and people answer: remit approvals list --json",
        )


def _watch(workspace: Workspace, who: Person) -> None:
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
        click.echo(_told(decided))


def ask_until_clear(what: str) -> bool | None:
    """Yes, no, or None for later. Anything else is no answer: a no is final, so it is not guessed at either."""
    while True:
        answer = click.prompt(f"{what} yes, no or later", default="", show_default=False, err=True).strip().lower()
        if answer in ANSWERS:
            return ANSWERS[answer]
        if answer in LATER:
            return None
        click.echo("Please answer with yes (y), no (n) or later (s).", err=True)


def _told(decided: Approval) -> str:
    kind = kind_of(decided)
    what = kind.goes_on if decided.state == "APPROVED" else kind.does_not
    word = STATE_WORDS[decided.state].capitalize()
    return f"{word}: {kind.thing} of {printable(decided.agent_id)} {what} ({decided.approval_id})"
