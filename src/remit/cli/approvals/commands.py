"""`remit approvals`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from remit.cli.approvals.goals import (
    find_goal_id,
    goal_tree,
    list_goal_prompts,
    print_decided_goal,
    render_goal,
    require_shown,
    show_goals,
)
from remit.cli.approvals.plans import (
    ApprovalArguments,
    approve_plan,
    compute_plan,
    deny_plan,
    find_proposal_id,
    list_plan_prompts,
    list_waiting_plans,
    print_decided_plan,
    show_plan,
    show_plans,
)
from remit.cli.approvals.render import render_approval, render_request, render_state, render_time_left
from remit.cli.approvals.requests import approve_request
from remit.cli.approvals.watch import ApprovalPrompt, render_decided, require_terminal, watch
from remit.cli.common.completion import complete_question
from remit.cli.common.options import json_option, show_json, show_table, workspace_option
from remit.cli.plans.allow_options import Allowance, allow_options
from remit.cli.plans.preview_digest import named_preview, unseen_lines_option
from remit.cli.plans.render import DIFF_LINES
from remit.contracts.browser.browser import Approval
from remit.core.text import counted
from remit.goals.status import WaitingGoal
from remit.identity.person import Person, person_at_terminal
from remit.services.goals.approvals import decide_goal, list_waiting_goals, require_waiting
from remit.workspace.workspace import Workspace

as_option: Final = click.option("--as", "name", help="Your name, for the record; who you are, the system says.")
reason_option: Final = click.option("--reason", help="Why, for the record and for the agent.")
digest_option: Final = click.option(
    "--digest", help="Of the request, call or plan that was shown; without it, it is shown and asked for here."
)
full_option: Final = click.option(
    "--full", is_flag=True, help=f"Diffs in full; else at most {DIFF_LINES} lines a file."
)
goal_option: Final = click.option("--tenant", "tenant_id", help="ID is the correlation of a goal of this tenant.")
id_argument: Final = click.argument("approval_id", metavar="ID", shell_complete=complete_question)


@click.group(invoke_without_command=True)
@click.option("--wait", is_flag=True, help="Stay here, show each question as it comes, and ask: yes, no or later.")
@as_option
@workspace_option
@json_option
@click.pass_context
def approvals(ctx: click.Context, wait: bool, name: str | None, directory: Path, as_json: bool) -> None:
    """List pending requests, and approve or deny them.

    Requests are browser requests, calls of functions, goals and proposed plans. Without a command, it lists the pending
    ones. A question of the browser is about one request, exactly as it will be sent; after ten minutes without an
    answer nothing is sent. A goal is answered by its correlation, and not by the
    user who asked. A proposed plan waits for a day. All of this is for people: an agent can neither answer nor look.
    With --json the list has requests and calls only. `list --goals --json` and `list --plans --json` have the others.
    """
    if ctx.invoked_subcommand is not None:
        return
    with Workspace.open(directory) as workspace:
        who = person_at_terminal(workspace.environ, name)
        if wait:
            require_terminal(as_json=as_json)
            watch(workspace, who, lambda: _list_other_prompts(workspace, who, directory))
        else:
            _list(workspace, who, everything=False, as_json=as_json)


@approvals.command("list")
@click.option("--all", "everything", is_flag=True, help="Also questions that are closed, the last thousand.")
@click.option("--goals", is_flag=True, help="Goals only. Without this or --plans, --json has the other questions.")
@click.option("--plans", is_flag=True, help="Proposed plans only.")
@workspace_option
@json_option
def list_approvals(everything: bool, goals: bool, plans: bool, directory: Path, as_json: bool) -> None:
    """Those that wait for an answer, the newest first.

    With --json, each kind is a list of its own: requests and calls without an option, goals with --goals, proposed
    plans with --plans. If others wait that are not in the list, a line on standard error says so.
    """
    with Workspace.open(directory) as workspace:
        who = person_at_terminal(workspace.environ)
        if goals:
            show_goals(list_waiting_goals(workspace), as_json=as_json)
        elif plans:
            show_plans(workspace, list_waiting_plans(workspace, who), as_json=as_json)
        else:
            _list(workspace, who, everything=everything, as_json=as_json)


@approvals.command()
@id_argument
@goal_option
@full_option
@workspace_option
@json_option
def show(approval_id: str, tenant_id: str | None, full: bool, directory: Path, as_json: bool) -> None:
    """All of one question: the request as it will be sent, secrets masked. ID may be the beginning of one.

    Of a goal, what it would do and why it needs an approval; ID is its correlation. Of a proposed plan, the preview
    that was computed when it was proposed, and which files were changed since. Nothing of the plan is run to show it.
    """
    with Workspace.open(directory) as workspace:
        who = person_at_terminal(workspace.environ)
        tenant = find_goal_id(workspace, approval_id, tenant_id)
        if tenant is not None:
            goal = require_waiting(workspace, tenant, approval_id)
            _show_goal(goal, directory, as_json=as_json)
            return
        if (plan := find_proposal_id(workspace, approval_id)) is not None:
            show_plan(workspace, plan, who, directory, full=full, as_json=as_json)
            return
        found = workspace.approvals.show(approval_id)
        left = workspace.approvals.seconds_left(found)
    if as_json:
        show_json(found.tree())
    else:
        click.echo(render_approval(found, left, directory))


@approvals.command()
@id_argument
@full_option
@as_option
@workspace_option
@json_option
def compute(approval_id: str, full: bool, name: str | None, directory: Path, as_json: bool) -> None:
    """Compute the preview of a proposed plan again, store it, and show it. ID may be the beginning of one.

    For a plan of which no preview is stored, or whose files were changed since it was computed. This runs the plan's
    SQL and pipelines to find out what they would do; nothing of that is kept. It is recorded with your name.
    """
    with Workspace.open(directory) as workspace:
        who = person_at_terminal(workspace.environ, name)
        plan = workspace.proposals.find_by_name(approval_id).proposal_id
        compute_plan(workspace, plan, who, directory, full=full, as_json=as_json)


@approvals.command()
@id_argument
@goal_option
@digest_option
@unseen_lines_option
@full_option
@allow_options
@reason_option
@as_option
@workspace_option
@json_option
def approve(  # noqa: PLR0913, PLR0917 - one for each option
    approval_id: str,
    tenant_id: str | None,
    digest: str | None,
    unseen_lines: int | None,
    full: bool,
    allowed: Allowance,
    reason: str | None,
    name: str | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Say yes: exactly this is sent, typed or done, once. ID may be a beginning that no other question has.

    A request, a call or a plan is shown, and asked about; without a terminal, --digest says what was looked at. A goal
    is named by its whole correlation, and in a terminal shown too; `remit ask --continue` then goes on with it. A
    proposed plan is approved as it was shown, with what it needs by name; `remit apply --proposal` then carries it out.
    Lines that were not shown need a word of their own: in the terminal, or --unseen-lines; or --full, if you saw all.
    """
    with Workspace.open(directory) as workspace:
        who = person_at_terminal(workspace.environ, name)
        tenant = find_goal_id(workspace, approval_id, tenant_id)
        if tenant is None and (plan := find_proposal_id(workspace, approval_id)) is not None:
            arguments = ApprovalArguments(
                who, allowed, named_preview(digest, unseen_lines), reason, directory, as_json, full
            )
            print_decided_plan(approve_plan(workspace, plan, arguments), directory, as_json=as_json)
            return
        _require_no_plan_options(allowed, digest, unseen_lines, is_goal=tenant is not None)
        if tenant is None:
            decided = approve_request(workspace, approval_id, digest, who, reason, as_json=as_json)
            _print_decided_request(decided, as_json=as_json)
        else:
            require_shown(workspace, tenant, approval_id, directory, as_json=as_json)
            _decide_goal(workspace, approval_id, tenant, who, reason, directory, approved=True, as_json=as_json)


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
    with Workspace.open(directory) as workspace:
        who = person_at_terminal(workspace.environ, name)
        tenant = find_goal_id(workspace, approval_id, tenant_id)
        if tenant is None and (plan := find_proposal_id(workspace, approval_id)) is not None:
            print_decided_plan(deny_plan(workspace, plan, who, reason), directory, as_json=as_json)
            return
        if tenant is None:
            decided = workspace.approvals.decide(approval_id, approved=False, who=who, reason=reason)
            _print_decided_request(decided, as_json=as_json)
        else:
            _decide_goal(workspace, approval_id, tenant, who, reason, directory, approved=False, as_json=as_json)


def _list_other_prompts(workspace: Workspace, who: Person, directory: Path) -> Iterator[ApprovalPrompt]:
    yield from list_goal_prompts(workspace, who, directory)
    yield from list_plan_prompts(workspace, who, directory)


def _decide_goal(  # noqa: PLR0913 - what two commands were given
    workspace: Workspace,
    approval_id: str,
    tenant: str,
    who: Person,
    reason: str | None,
    directory: Path,
    *,
    approved: bool,
    as_json: bool,
) -> None:
    goal = decide_goal(workspace, tenant, approval_id, approved=approved, who=who, reason=reason)
    print_decided_goal(goal, who, directory, approved=approved, as_json=as_json)


def _print_decided_request(decided: Approval, *, as_json: bool) -> None:
    if as_json:
        show_json(decided.tree())
    else:
        click.echo(render_decided(decided))


def _require_no_plan_options(
    allowed: Allowance, digest: str | None, unseen_lines: int | None, *, is_goal: bool
) -> None:
    """A request is approved whole, as it is shown, or not at all."""
    if unseen_lines is not None:
        raise click.UsageError("--unseen-lines is for proposed plans: all else is shown whole.")
    if allowed.even_if_it_fails or any(allowed.names.values()):
        raise click.UsageError("--allow-... and --even-if-it-fails are for proposed plans.")
    if digest is not None and is_goal:
        raise click.UsageError("--digest is for requests, calls and proposed plans.")


def _list(workspace: Workspace, who: Person, *, everything: bool, as_json: bool) -> None:
    """Questions, then the goals and proposed plans that wait; for programs, each kind by itself."""
    found = workspace.approvals.listed() if everything else workspace.approvals.listed("PENDING")
    if as_json:
        show_json([approval.tree() for approval in found])
    goals, plans = list_waiting_goals(workspace), list_waiting_plans(workspace, who)
    if as_json:
        _print_other_counts(len(goals), len(plans))
        return
    if found:
        _list_requests(workspace, found)
    elif not goals and not plans:
        click.echo("There is no question." if everything else "No question waits for an answer.")
    if goals:
        if found:
            click.echo()
        show_goals(goals, as_json=False)
    if plans:
        if found or goals:
            click.echo()
        show_plans(workspace, plans, as_json=False)


def _print_other_counts(goals: int, plans: int) -> None:
    """For the person who reads a list that is for programs."""
    waiting = [(goals, "goal", "--goals"), (plans, "proposed plan", "--plans")]
    for number, what, option in waiting:
        if number:
            verbs = "waits too, and is" if number == 1 else "wait too, and are"
            click.echo(
                f"{counted(number, what)} {verbs} not in this list: remit approvals list {option} --json",
                err=True,
            )


def _list_requests(workspace: Workspace, found: Sequence[Approval]) -> None:
    rows = [
        (
            approval.approval_id,
            approval.agent_id,
            _state(workspace, approval),
            render_request(approval),
            approval.preview.estimated_effect,
        )
        for approval in found
    ]
    show_table(("id", "agent", "state", "request", "effect"), rows, prose={"request", "effect"})


def _show_goal(goal: WaitingGoal, directory: Path, *, as_json: bool) -> None:
    if as_json:
        show_json(goal_tree(goal))
    else:
        click.echo("\n".join(render_goal(goal, directory)))


def _state(workspace: Workspace, approval: Approval) -> str:
    if approval.state == "PENDING":
        return f"waits, {render_time_left(workspace.approvals.seconds_left(approval))} left"
    return render_state(approval)
