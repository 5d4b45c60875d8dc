"""`remit propose`: a plan that a person is to look at and approve."""

import sys
from pathlib import Path
from typing import IO, Final

import click

from remit.cli.common.bidi import display_name
from remit.cli.common.identity import resolve_caller, token_option
from remit.cli.common.options import json_option, show_json, workspace_option
from remit.contracts.plans.plan import Plan
from remit.contracts.services.plans import ProposalView
from remit.identity.callers import PersonCaller
from remit.parsing import read_bounded
from remit.services.base.permissions import Right, require
from remit.services.base.server_lock import find_console_url
from remit.services.plans.service import PlanService
from remit.workspace.workspace import Workspace

FINISH_SECONDS: Final = 600.0
"""The preview for people is computed here, unless that takes longer."""


@click.command()
@click.argument("plan", type=click.File("rb"))
@click.option("--note", help="What a person should know of it. Nothing is decided by it.")
@click.option("--key", help="A name of your own for it: the same plan under the same key is proposed once.")
@token_option
@workspace_option
@json_option
def propose(
    plan: IO[bytes], note: str | None, key: str | None, token: str | None, directory: Path, as_json: bool
) -> None:
    """Propose a plan, and have a person look at it and answer.

    PLAN is a JSON file, or - for standard input. An agent proposes by its token, with the capability plan.propose. The
    answer is given in the console, or with `remit approvals approve`; then `remit apply --proposal` carries it out. A
    person's plan is refused if it would fail on the files as they are now. An agent's is not: that would tell the
    agent what is in them.
    """
    raw = read_bounded(plan, Plan.bounds, source=plan.name)
    Plan.parse(raw, source=plan.name)
    with Workspace.open(directory) as workspace:
        service = PlanService(workspace, console_url=lambda: find_console_url(workspace))
        made = service.propose(resolve_caller(workspace, token), raw, note=note, key=key)
        _print_proposal(made, as_json=as_json)
        sys.stdout.flush()  # an agent's answer does not wait for the preview: how long that takes is not for it
        service.finish_previews(FINISH_SECONDS)


def _print_proposal(made: ProposalView, *, as_json: bool) -> None:
    if as_json:
        show_json(made.tree())
        return
    click.echo(f"Proposal {made.proposal_id}: {display_name(made.title)}")
    if made.state != "PENDING":
        click.echo(f"  Proposed before; it is {made.state}.")
        return
    click.echo(f"  A person must answer until {made.expires_at[:19]}Z: remit approvals show {made.proposal_id}")
    if made.link:
        click.echo(f"  In the console: {made.link}")
    click.echo(f"  Then: remit apply --proposal {made.proposal_id}")


def read_proposal_envelope(workspace: Workspace, proposal: str, token: str | None) -> bytes:
    """What was signed for a proposal, for whoever may apply it. ID may be a beginning that is no other's."""
    caller = resolve_caller(workspace, token)
    if isinstance(caller, PersonCaller):
        proposal = workspace.proposals.find_by_name(proposal).proposal_id
    plans = PlanService(workspace)
    if isinstance(caller, PersonCaller):
        return plans.read_envelope(caller, proposal)
    require(caller, Right.APPLY)  # it stays in this process: what it holds of files is for people
    proposed = plans.get(caller, proposal)
    return workspace.proposals.envelope_of(workspace.proposals.find_by_name(proposed.proposal_id))
