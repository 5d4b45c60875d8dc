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
    list_plans,
    list_waiting_plans,
    print_decided_plan,
    show_plan,
    show_plans,
)
from remit.cli.approvals.render import render_approval, render_request, render_state, render_time_left
from remit.cli.approvals.requests import approve_request
from remit.cli.approvals.watch import ApprovalPrompt, render_decided, require_terminal, watch
from remit.cli.common.completion import complete_question
from remit.cli.common.errors import about_plan
from remit.cli.common.identity import as_admin, recording_refusals
from remit.cli.common.options import json_option, show_json, show_table, workspace_option
from remit.cli.plans.allow_options import Allowance, allow_options
from remit.cli.plans.preview_digest import named_preview, unseen_lines_option
from remit.cli.plans.render import DIFF_LINES
from remit.contracts.browser.browser import Approval
from remit.core.text import counted
from remit.goals.status import WaitingGoal
from remit.identity.person import Person, person_at_terminal
from remit.services.goals.approvals import decide_goal, list_waiting_goals, require_waiting
from remit.services.plans.refusal_records import about_proposal
from remit.workspace.workspace import Workspace

as_option: Final = click.option("--as", "name", help="Your name for the ledger, beside the name of your account.")
reason_option: Final = click.option("--reason", help="The reason, for the ledger and for the agent.")
digest_option: Final = click.option(
    "--digest", help="The digest of the request, goal or plan that you read. Without it, the command shows it and asks."
)
full_option: Final = click.option(
    "--full", is_flag=True, help=f"Show every line of the diffs. The default is {DIFF_LINES} lines a file."
)
goal_option: Final = click.option("--tenant", "tenant_id", help="ID is the correlation id of a goal of this tenant.")
id_argument: Final = click.argument("approval_id", metavar="ID", shell_complete=complete_question)


@click.group(invoke_without_command=True)
@click.option("--wait", is_flag=True, help="Stay here, show each request when it comes, and ask: yes, no or later.")
@as_option
@workspace_option
@json_option
@click.pass_context
def approvals(ctx: click.Context, wait: bool, name: str | None, directory: Path, as_json: bool) -> None:
    """List pending requests, and approve or deny them.

    There are approval requests for browser requests, calls of functions, goals and proposed plans. Without a command,
    the pending ones are listed.

    A browser request is shown exactly as it will be sent. If it is not approved within ten minutes, it is not sent. A
    goal needs another person than the user who asked for it; its id is the correlation id of the goal. A proposed plan
    is pending for a day. These commands are for people only: an agent can neither read nor decide approval requests.

    With --json, the list has browser requests and calls only. The others: `list --goals --json`, `list --plans --json`.
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
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also list decided and expired requests and plans, the last thousand of each. Goals are listed only while they"
    " are pending.",
)
@click.option(
    "--goals", is_flag=True, help="List goals only. Without this and --plans, --json lists requests and calls."
)
@click.option("--plans", is_flag=True, help="List proposed plans only.")
@workspace_option
@json_option
def list_approvals(everything: bool, goals: bool, plans: bool, directory: Path, as_json: bool) -> None:
    """List the pending approval requests, the newest first.

    With --json, each kind is a separate list: browser requests and calls without an option, goals with --goals,
    proposed plans with --plans. If others are pending that are not in the list, a line on standard error says so.
    """
    with Workspace.open(directory) as workspace:
        who = person_at_terminal(workspace.environ)
        if goals:
            show_goals(list_waiting_goals(workspace), as_json=as_json)
        elif plans:
            show_plans(
                workspace, list_plans(workspace, who, everything=everything), as_json=as_json, everything=everything
            )
        else:
            _list(workspace, who, everything=everything, as_json=as_json)


@approvals.command()
@id_argument
@goal_option
@full_option
@workspace_option
@json_option
def show(approval_id: str, tenant_id: str | None, full: bool, directory: Path, as_json: bool) -> None:
    """Show one approval request in full.

    ID may be the beginning of an id. A browser request is shown as it will be sent, with its secrets masked. For a
    goal, ID is its correlation id; the output says what the goal would do and why it needs an approval. For a proposed
    plan, the output is the preview that was computed for it, and the files that have changed since. Nothing of the plan
    runs to show it.
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
    """Compute the preview of a proposed plan again, store it, and show it.

    ID may be the beginning of an id. Use it for a plan without a stored preview, or if files have changed since the
    preview was computed. It runs the SQL and the pipelines of the plan on copies, or in a transaction that is rolled
    back. The results on copies are kept, and applied after an approval. The ledger records it with your name.
    """
    with (
        Workspace.open(directory) as workspace,
        recording_refusals(workspace, "compute", about_proposal(workspace, approval_id)),
    ):
        who = person_at_terminal(workspace.environ, name)
        with about_plan():
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
    """Approve a request: exactly what was shown is sent, typed or done, once.

    ID may be the beginning of an id, if it is unique. In a terminal, the command shows the request, the call, the goal
    or the plan, and asks you. Without a terminal, --digest names what you read.

    For a goal, ID is its whole correlation id. Afterwards, `remit ask --continue` continues the goal.

    A proposed plan is approved as it was shown, with the approvals by name that it needs. Afterwards, `remit apply
    --proposal` applies it. If the preview left out lines, confirm that in the terminal or with --unseen-lines, or give
    --full if you read all lines.
    """
    with (
        Workspace.open(directory) as workspace,
        recording_refusals(workspace, "approve", about_proposal(workspace, approval_id)),
    ):
        who = person_at_terminal(workspace.environ, name)
        tenant = find_goal_id(workspace, approval_id, tenant_id)
        if tenant is None and (plan := find_proposal_id(workspace, approval_id)) is not None:
            arguments = ApprovalArguments(
                who, allowed, named_preview(digest, unseen_lines), reason, directory, as_json, full
            )
            print_decided_plan(approve_plan(workspace, plan, arguments), directory, as_json=as_json)
            return
        _require_no_plan_options(allowed, unseen_lines)
        if tenant is None:
            decided = approve_request(workspace, approval_id, digest, who, reason, as_json=as_json)
            _print_decided_request(decided, as_json=as_json)
        else:
            shown = require_shown(workspace, tenant, approval_id, digest, directory, as_json=as_json)
            _decide_goal(workspace, shown, who, reason, directory, approved=True, as_json=as_json)


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
    """Deny a request: nothing is sent, typed or done.

    ID may be the beginning of an id, if no other pending request has it.
    """
    with (
        Workspace.open(directory) as workspace,
        recording_refusals(workspace, "deny", about_proposal(workspace, approval_id)),
    ):
        who = person_at_terminal(workspace.environ, name)
        tenant = find_goal_id(workspace, approval_id, tenant_id)
        if tenant is None and (plan := find_proposal_id(workspace, approval_id)) is not None:
            print_decided_plan(deny_plan(workspace, plan, who, reason), directory, as_json=as_json)
            return
        if tenant is None:
            decided = workspace.approvals.decide(approval_id, approved=False, who=who, reason=reason)
            _print_decided_request(decided, as_json=as_json)
        else:
            waiting = require_waiting(workspace, tenant, approval_id)
            _decide_goal(workspace, waiting, who, reason, directory, approved=False, as_json=as_json)


def _list_other_prompts(workspace: Workspace, who: Person, directory: Path) -> Iterator[ApprovalPrompt]:
    yield from list_goal_prompts(workspace, who, directory)
    yield from list_plan_prompts(workspace, who, directory)


def _decide_goal(
    workspace: Workspace,
    shown: WaitingGoal,
    who: Person,
    reason: str | None,
    directory: Path,
    *,
    approved: bool,
    as_json: bool,
) -> None:
    goal = decide_goal(
        workspace,
        shown.tenant_id,
        shown.correlation_id,
        approved=approved,
        caller=as_admin(who),
        reason=reason,
        step=shown.step_id or None,
    )
    print_decided_goal(goal, who, directory, approved=approved, as_json=as_json)


def _print_decided_request(decided: Approval, *, as_json: bool) -> None:
    if as_json:
        show_json(decided.tree())
    else:
        click.echo(render_decided(decided))


def _require_no_plan_options(allowed: Allowance, unseen_lines: int | None) -> None:
    """Refuse options that are for plans only. A request is shown and approved as a whole."""
    if unseen_lines is not None:
        raise click.UsageError("--unseen-lines is for proposed plans only. Other requests are always shown in full.")
    if allowed.even_if_it_fails or any(allowed.names.values()):
        raise click.UsageError("--allow-... and --even-if-it-fails are for proposed plans only.")


def _list(workspace: Workspace, who: Person, *, everything: bool, as_json: bool) -> None:
    """List browser requests and calls, then pending goals and proposed plans. With `--json`, only the first kind."""
    found = workspace.approvals.listed() if everything else workspace.approvals.listed("PENDING")
    if as_json:
        show_json([approval.tree() for approval in found])
    goals = list_waiting_goals(workspace)
    if as_json:
        _print_other_counts(len(goals), len(list_waiting_plans(workspace, who)))
        return
    plans = list_plans(workspace, who, everything=everything)
    if found:
        _list_requests(workspace, found)
    elif not goals and not plans:
        click.echo("There are no approval requests." if everything else "No approval request is pending.")
    if goals:
        if found:
            click.echo()
        show_goals(goals, as_json=False)
    if plans:
        if found or goals:
            click.echo()
        show_plans(workspace, plans, as_json=False)


def _print_other_counts(goals: int, plans: int) -> None:
    """Tell a person on standard error what the JSON list does not contain."""
    waiting = [(goals, "goal", "--goals"), (plans, "proposed plan", "--plans")]
    for number, what, option in waiting:
        if number:
            verb = "is" if number == 1 else "are"
            click.echo(
                f"{counted(number, what)} {verb} pending too, not in this list: remit approvals list {option} --json",
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
        return f"pending, {render_time_left(workspace.approvals.seconds_left(approval))} left"
    return render_state(approval)
