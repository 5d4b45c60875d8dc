"""`remit propose`."""

import sys
from pathlib import Path
from typing import IO, Final

import click

from remit.cli.common.bidi import display_name
from remit.cli.common.identity import recording_refusals, resolve_caller, token_option
from remit.cli.common.options import json_option, show_json, workspace_option
from remit.cli.common.suggest import LocationOptions, joined
from remit.contracts.plans.plan import Plan
from remit.contracts.services.plans import ProposalView
from remit.core.errors import Reason
from remit.execution.refusals import about_plan_text
from remit.identity.callers import PersonCaller
from remit.parsing import read_bounded
from remit.services.base.permissions import Right, require
from remit.services.base.server_lock import find_console_url
from remit.services.plans.service import PlanService
from remit.workspace.workspace import Workspace

_CLOSED: Final = frozenset({"DENIED", "EXPIRED", "VOID"})
FINISH_SECONDS: Final = 600.0
"""How long this command goes on computing the preview for people. It is left to the approver after that."""


@click.command()
@click.argument("plan", type=click.File("rb"))
@click.option("--note", help="A note for the person who decides. Remit itself does not use it.")
@click.option("--key", help="A name of your own. The same plan with the same key is proposed only once.")
@token_option
@workspace_option
@json_option
@click.pass_context
def propose(
    ctx: click.Context,
    plan: IO[bytes],
    note: str | None,
    key: str | None,
    token: str | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Propose a plan for a person to approve.

    PLAN is a JSON file, or - for standard input. An agent needs a token with the capability plan.propose. A person
    decides in the console or with `remit approvals approve`. Then `remit apply --proposal` applies the plan.

    If the plan of a person would fail on the files as they are now, it is refused. The plan of an agent is not refused
    for that, because the refusal would tell the agent what the files contain.
    """
    raw = read_bounded(plan, Plan.bounds, source=plan.name)
    Plan.parse(raw, source=plan.name)
    with Workspace.open(directory) as workspace:
        service = PlanService(workspace, console_url=lambda: find_console_url(workspace))
        with recording_refusals(workspace, "propose", about_plan_text(raw), token):
            made = service.propose(resolve_caller(workspace, token), raw, note=note, key=key)
        _print_proposal(made, as_json=as_json)
        sys.stdout.flush()  # the agent gets its answer first, so that it cannot measure the preview
        try:
            service.finish_previews(FINISH_SECONDS)
        except KeyboardInterrupt:
            _print_stopped(made, directory)
            ctx.exit(1)


def _print_stopped(made: ProposalView, directory: Path) -> None:
    """Report that the preview for people may be missing. Only on standard error, because the proposal is printed."""
    name, where = made.proposal_id, LocationOptions(directory).directory_arguments
    show = joined(("remit", "approvals", "show", *where, name))
    compute = joined(("remit", "approvals", "compute", *where, name))
    click.echo(
        f"\nThe plan is proposed. The computation of its preview was interrupted.\n"
        f"  code:  {Reason.CANCELLED.value}\n"
        f"  next:  A person sees whether a preview is stored: {show}. To compute it: {compute}",
        err=True,
    )


def _print_proposal(made: ProposalView, *, as_json: bool) -> None:
    if made.state in _CLOSED:
        click.echo(
            f"Proposed before with this --key, and the proposal is {made.state}. To propose the plan again, give"
            " another --key.",
            err=True,
        )
    if as_json:
        show_json(made.tree())
        return
    click.echo(f"Proposal {made.proposal_id}: {display_name(made.title)}")
    if made.state != "PENDING":
        click.echo(f"  Proposed before; its state is {made.state}.")
        return
    click.echo(f"  A person must decide before {made.expires_at[:19]}Z: remit approvals show {made.proposal_id}")
    if made.preview_note:
        click.echo(f"  {made.preview_note}")
    if made.link:
        click.echo(f"  In the console: {made.link}")
    click.echo(f"  Then: remit apply --proposal {made.proposal_id}")


def read_proposal_envelope(workspace: Workspace, proposal: str, token: str | None) -> bytes:
    """Return the envelope of an approved proposal to a caller that may apply it. A person may shorten the id."""
    caller = resolve_caller(workspace, token)
    if isinstance(caller, PersonCaller):
        proposal = workspace.proposals.find_by_name(proposal).proposal_id
    plans = PlanService(workspace)
    if isinstance(caller, PersonCaller):
        return plans.read_envelope(caller, proposal)
    require(caller, Right.APPLY)  # the envelope stays in this process; its facts about files are for people only
    proposed = plans.get(caller, proposal)
    return workspace.proposals.envelope_of(workspace.proposals.find_by_name(proposed.proposal_id))
