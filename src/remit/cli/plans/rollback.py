"""`remit rollback`, `remit cancel` and `remit prune`: what comes after a plan, or instead of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from remit.cli.common.bidi import display_name
from remit.cli.common.errors import OperationRefusedError
from remit.cli.common.identity import find_agent, resolve_actor
from remit.cli.common.options import counted, json_option, show_json, show_table, workspace_option
from remit.cli.common.signals import interrupting
from remit.cli.plans.recovered import RecoveryReports
from remit.cli.plans.render import render_outcome
from remit.cli.plans.render_for_agent import print_agent_undo
from remit.cli.plans.render_rollback import advise_on_later_run, render_rollback
from remit.cli.plans.runs import complete_envelope, complete_run, find_run
from remit.cli.plans.text import render_size, row
from remit.contracts.plans.outcome import RollbackOutcome
from remit.core.errors import Reason, RefusedError
from remit.plans.storage.drift import changed_nothing
from remit.services.base.drift import DriftReport, detect_drift, find_later_run, find_set_aside_copies
from remit.services.base.run_list import resolve_run_id
from remit.workspace.workspace import Workspace

if TYPE_CHECKING:
    from remit.services.plans.service import PlanService


@click.command()
@click.argument("report", metavar="REPORT", shell_complete=complete_run)
@click.option(
    "--checkpoint",
    "checkpoints",
    multiple=True,
    metavar="ID",
    help="Restore this checkpoint of the manifest only. May be repeated.",
)
@click.option("--force", is_flag=True, help="Also where a file was changed since; what stands there is kept aside.")
@workspace_option
@json_option
@click.pass_context
def rollback(
    ctx: click.Context, report: str, checkpoints: tuple[str, ...], force: bool, directory: Path, as_json: bool
) -> None:
    """Take back what a plan did, whole or in part.

    REPORT is `last`, a name that `remit runs` shows, a report folder, an envelope id or a report id. All backups are
    checked before the first file is restored; a file that somebody changed since is left alone, and named, unless
    --force. An agent takes back what it proposed itself, by the id of the proposal or the envelope, if the token in
    REMIT_TOKEN has the capability plan.undo; never with --force. Exit code 0 when all of it is restored, now or before;
    1 when it failed, or some of it stays, and why; 2 when it was refused and nothing was touched. Ctrl-C and SIGTERM
    undo what it had restored.
    """
    stored: list[bool] = []
    refusals: list[RefusedError] = []
    recovered = RecoveryReports(quiet=as_json)
    with Workspace.open(directory) as workspace:
        agent = find_agent(workspace)
        if agent is not None:
            with interrupting():
                answer = _plans(workspace).undo(agent, report, force=force, checkpoints=checkpoints)
            ctx.exit(print_agent_undo(answer, as_json=as_json))
        name = find_run(workspace, report)
        drift = detect_drift(workspace, name, checkpoints)
        if drift.is_empty and name != "last":
            ctx.exit(_print_empty(drift, recovered, as_json=as_json))
        before = set(find_set_aside_copies(workspace)) if force else set()
        try:
            with interrupting():
                outcome = workspace.rollback(
                    name,
                    checkpoints=checkpoints,
                    force=force,
                    drift=drift.order_digest if force and drift.target is not None and not drift.has_rows else None,
                    on_refusal=refusals.append,
                    on_stored=lambda: stored.append(True),
                    on_settled=recovered,
                    actor=resolve_actor(workspace),
                )
        except RefusedError as problem:  # by the papers of the run; nothing was ordered
            raise OperationRefusedError(problem, (), recovered.tree()) from None
        if changed_nothing(outcome.manifest):  # `last`, or it was given by another process meanwhile
            ctx.exit(_print_empty(detect_drift(workspace, name, checkpoints), recovered, as_json=as_json))
        copies = _name_copies(
            [each for each in find_set_aside_copies(workspace) if each not in before] if force else [], drift
        )
        if outcome.status == "REFUSED" and refusals:
            drift = detect_drift(workspace, name, checkpoints)
            if drift.is_empty:
                ctx.exit(_print_empty(drift, recovered, as_json=as_json))
            advised = _with_later_run(refusals[0], workspace, drift)
            raise OperationRefusedError(advised, [error.tree() for error in outcome.errors], recovered.tree())
    if as_json:
        set_aside = [{"path": path, "kept_as": copy} for copy, path in copies.items()]
        show_json({**outcome.tree(), "stored": bool(stored), "set_aside": set_aside, "settled": recovered.tree()})
    else:
        _print_outcome(outcome, drift, copies, stored=bool(stored))
    ctx.exit(0 if outcome.status == "EXECUTED" else 2 if outcome.status == "REFUSED" else 1)


def _print_outcome(outcome: RollbackOutcome, drift: DriftReport, copies: Mapping[str, str], *, stored: bool) -> None:
    if stored and outcome.status == "EXECUTED":
        click.echo("Already taken back before; there is nothing left to restore. The stored outcome:", err=True)
    elif stored:
        click.echo("Tried before, and nothing has changed since. The stored outcome:", err=True)
    for line in render_rollback(outcome, () if stored else drift.already_restored):
        click.echo(line)
    for copy, path in copies.items():
        what = f"{display_name(path)} as it stood" if path else "what stood there"
        click.echo(row("kept", f"{what}, as {display_name(copy)}"))


def _print_empty(drift: DriftReport, recovered: RecoveryReports, *, as_json: bool) -> int:
    """Nothing was changed, so everything is as before: what was asked for holds already."""
    status = drift.target.outcome.status if drift.target else None
    if as_json:
        name = status.envelope_id if status else None
        show_json(
            {"status": "NOTHING", "envelope_id": name, "restored": [], "stored": False, "settled": recovered.tree()}
        )
    else:
        click.echo(
            f"There is nothing to take back: plan {display_name(status.plan_id) if status else ''} changed nothing."
        )
    return 0


def _name_copies(copies: Sequence[str], drift: DriftReport) -> dict[str, str]:
    """Each copy with the path of what it is a copy of, where that is certain: they are numbered in its order."""
    paths = [path for path, state in drift.drifted.items() if state is not None]
    return dict(zip(copies, paths if len(paths) == len(copies) else [""] * len(copies), strict=True))


def _with_later_run(problem: RefusedError, workspace: Workspace, drift: DriftReport) -> RefusedError:
    run = find_later_run(workspace, drift) if problem.reason is Reason.DRIFTED else None
    if run is None:
        return problem
    return RefusedError(problem.reason, problem.what, where=problem.where, next_step=advise_on_later_run(run))


@click.command()
@click.argument("envelope_id", metavar="ENVELOPE_ID", shell_complete=complete_envelope)
@workspace_option
@json_option
@click.pass_context
def cancel(ctx: click.Context, envelope_id: str, directory: Path, as_json: bool) -> None:
    """Stop a plan that is running, and have it taken back; or make an unused envelope void.

    An agent does so with what it proposed itself, by the id of the proposal, and the token in REMIT_TOKEN. Waits up to
    a minute for the end. Exit code 0 when it was cancelled; 1 when it was too late: the outcome is shown; 2 when there
    is no such envelope.
    """
    with Workspace.open(directory) as workspace:
        agent = find_agent(workspace)
        if agent is not None:
            view = _plans(workspace).cancel(agent, envelope_id)
            show_json(view.tree()) if as_json else click.echo(f"Proposal {view.proposal_id} is {view.state}.")
            return
        envelope_id = resolve_run_id(workspace, envelope_id)
        try:
            outcome = workspace.cancel(envelope_id, actor=resolve_actor(workspace))
        except RefusedError as problem:
            advice = "`remit runs` lists the plans that run or ran; `remit ledger show`, unused envelopes too."
            raise RefusedError(problem.reason, problem.what, where=problem.where, next_step=advice) from None
    if as_json:
        show_json({"envelope_id": envelope_id, "outcome": outcome.status.tree() if outcome else None})
    elif outcome is None:
        click.echo(f"Envelope {envelope_id} was not used, and is void from now on.")
    else:
        if outcome.status.status != "CANCELLED":
            click.echo(
                "Too late to cancel: the plan had ended already, and nothing was done now. It ended as:", err=True
            )
        for line in render_outcome(outcome, diffs=False, is_last=False):
            click.echo(line)
    ctx.exit(0 if outcome is None or outcome.status.status == "CANCELLED" else 1)


def _plans(workspace: Workspace) -> "PlanService":
    from remit.services.plans.service import PlanService  # noqa: PLC0415 - for agents, by whose rules it goes

    return PlanService(workspace)


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@workspace_option
@json_option
def prune(dry_run: bool, directory: Path, as_json: bool) -> None:
    """Remove backups that nobody can need any more: of plans taken back, or past their retention.

    Reports, change logs and manifests stay. What can still be taken back is never removed.
    """
    with Workspace.open(directory) as workspace:
        pruned = workspace.prune(dry_run=dry_run)
    if as_json:
        show_json([{"folder": each.folder, "why": each.why, "bytes": each.size} for each in pruned])
        return
    verb = "Would remove" if dry_run else "Removed"
    if not pruned:
        click.echo("There is nothing to remove.")
        return
    show_table(("folder", "why", "size"), [(each.folder, each.why, render_size(each.size)) for each in pruned])
    total = render_size(sum(each.size for each in pruned))
    click.echo(f"{verb} the backups of {counted(len(pruned), 'run')}: {total}")
