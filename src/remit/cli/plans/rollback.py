"""`remit rollback`, `remit cancel` and `remit prune`."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from remit.cli.common.bidi import display_name
from remit.cli.common.errors import OperationRefusedError
from remit.cli.common.identity import as_admin, find_agent, recording_refusals, resolve_actor
from remit.cli.common.options import counted, json_option, show_json, show_table, workspace_option
from remit.cli.common.signals import interrupting
from remit.cli.plans.recovered import RecoveryReports
from remit.cli.plans.render import render_outcome
from remit.cli.plans.render_for_agent import print_agent_undo
from remit.cli.plans.render_rollback import advise_on_later_run, render_rollback
from remit.cli.plans.runs import complete_envelope, complete_run, find_run
from remit.cli.plans.text import row
from remit.contracts.plans.outcome import RollbackOutcome
from remit.core.errors import Reason, RefusedError
from remit.core.text import render_size
from remit.execution.refusals import about_name
from remit.identity.person import person_at_terminal
from remit.plans.storage.drift import changed_nothing
from remit.services.base.drift import DriftReport, detect_drift, find_later_run, find_set_aside_copies
from remit.services.base.run_list import list_runs, resolve_run_id, shorten_run_id
from remit.workspace.workspace import Workspace

if TYPE_CHECKING:
    from remit.services.plans.service import PlanService
    from remit.store.proposals import ProposalRow


@click.command()
@click.argument("report", metavar="REPORT", shell_complete=complete_run)
@click.option(
    "--checkpoint",
    "checkpoints",
    multiple=True,
    metavar="PATH",
    help="Restore only this file or folder, named by its path in the plan or by the id of its checkpoint in"
    " agent_outputs/reports/RUN/rollback_manifest.json. May be repeated.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Also restore files that changed since. Their current versions are kept among the backups.",
)
@workspace_option
@json_option
@click.pass_context
def rollback(
    ctx: click.Context, report: str, checkpoints: tuple[str, ...], force: bool, directory: Path, as_json: bool
) -> None:
    """Roll back a plan, fully or partially.

    REPORT is `last`, a name that `remit runs` or the console shows, a report folder, or the id of an envelope, a report
    or a proposal. All backups are
    checked before the first file is restored. If a file changed since, nothing is restored without --force, and the
    output names the file.

    `last` is the newest run that ended as SUCCESS or PARTIAL, also if it has been rolled back since. So a second
    `remit rollback last` changes nothing. It names the next run that can be rolled back.

    An agent can roll back a plan that it proposed, by the id of the proposal or the envelope. The token in REMIT_TOKEN
    needs the capability plan.undo. An agent cannot use --force.

    The exit code is 0 if everything is restored, now or before, 1 if the rollback failed or something could not be
    restored, and 2 if it was refused and nothing was changed.

    Ctrl-C and SIGTERM interrupt the rollback. Then run `remit recover`, which finishes it or undoes it. `remit runs`
    shows which of the two happened.
    """
    stored: list[bool] = []
    refusals: list[RefusedError] = []
    recovered = RecoveryReports(quiet=as_json)
    with Workspace.open(directory) as workspace, ExitStack() as ordering:
        with recording_refusals(workspace, "rollback", about_name(report)):
            agent = find_agent(workspace)
        if agent is not None:
            with interrupting():
                answer = _plans(workspace).undo(agent, report, force=force, checkpoints=checkpoints)
            ctx.exit(print_agent_undo(answer, as_json=as_json))
        ordering.enter_context(recording_refusals(workspace, "rollback", about_name(report)))
        name = find_run(workspace, report)
        drift = detect_drift(workspace, name, checkpoints)
        if drift.is_empty and name != "last":
            ctx.exit(_print_empty(workspace, name, drift, recovered, as_json=as_json))
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
        except RefusedError as problem:  # because of the reports of the run, before the rollback was ordered
            raise OperationRefusedError(problem, (), recovered.tree()) from None
        if changed_nothing(outcome.manifest):  # for `last`, or if another process rolled it back meanwhile
            found = detect_drift(workspace, name, checkpoints)
            ctx.exit(_print_empty(workspace, name, found, recovered, as_json=as_json))
        copies = _name_copies(
            [each for each in find_set_aside_copies(workspace) if each not in before] if force else [], drift
        )
        if outcome.status == "REFUSED" and refusals:
            drift = detect_drift(workspace, name, checkpoints)
            if drift.is_empty:
                ctx.exit(_print_empty(workspace, name, drift, recovered, as_json=as_json))
            advised = _with_later_run(refusals[0], workspace, drift)
            raise OperationRefusedError(advised, [error.tree() for error in outcome.errors], recovered.tree())
        next_run = _next_candidate(workspace, name) if stored and not as_json else ""
    if as_json:
        set_aside = [{"path": path, "kept_as": copy} for copy, path in copies.items()]
        show_json({**outcome.tree(), "stored": bool(stored), "set_aside": set_aside, "settled": recovered.tree()})
    else:
        _print_outcome(outcome, drift, copies, stored=bool(stored))
        if next_run:
            click.echo(row("next", next_run))
    ctx.exit(0 if outcome.status == "EXECUTED" else 2 if outcome.status == "REFUSED" else 1)


def _print_outcome(outcome: RollbackOutcome, drift: DriftReport, copies: Mapping[str, str], *, stored: bool) -> None:
    if stored:
        done = "Already rolled back" if outcome.status == "EXECUTED" else "Already tried"
        at = f"{outcome.executed_at[:19]}Z"
        click.echo(f"{done} at {at}; nothing was changed now. The stored outcome of that rollback:", err=True)
    for line in render_rollback(outcome, () if stored else drift.already_restored):
        click.echo(line)
    for copy, path in copies.items():
        what = f"{display_name(path)} as it was" if path else "the file as it was"
        click.echo(row("kept", f"{what}, as {display_name(copy)}"))


def _next_candidate(workspace: Workspace, name: str) -> str:
    """Return which run can be rolled back next, if the user gave `last` and meant an older run. Otherwise nothing."""
    if name != "last":
        return ""
    found = next((run for run in list_runs(workspace) if run.what == "plan" and run.can_be_undone), None)
    if found is None:
        return ""
    run = f"plan {display_name(found.plan_id)} of {found.at[:16].replace('T', ' ')}"
    return f"`last` is the newest run. To roll back {run}: remit rollback {shorten_run_id(found.envelope_id)}"


def _print_empty(
    workspace: Workspace, name: str, drift: DriftReport, recovered: RecoveryReports, *, as_json: bool
) -> int:
    """Report that the run changed nothing, so that there is nothing to roll back."""
    status = drift.target.outcome.status if drift.target else None
    if as_json:
        envelope_id = status.envelope_id if status else None
        show_json(
            {
                "status": "NOTHING",
                "envelope_id": envelope_id,
                "restored": [],
                "stored": False,
                "settled": recovered.tree(),
            }
        )
    else:
        click.echo(
            f"There is nothing to roll back: plan {display_name(status.plan_id) if status else ''} changed nothing."
        )
        if next_run := _next_candidate(workspace, name):
            click.echo(row("next", next_run))
    return 0


def _name_copies(copies: Sequence[str], drift: DriftReport) -> dict[str, str]:
    """Return each copy with the path of its original; empty where that is not certain.

    The copies are numbered in the order of the paths.
    """
    paths = [path for path, state in drift.drifted.items() if state is not None]
    return dict(zip(copies, paths if len(paths) == len(copies) else [""] * len(copies), strict=True))


def _with_later_run(problem: RefusedError, workspace: Workspace, drift: DriftReport) -> RefusedError:
    run = find_later_run(workspace, drift) if problem.reason is Reason.DRIFTED else None
    if run is None:
        return problem
    advised = RefusedError(problem.reason, problem.what, where=problem.where, next_step=advise_on_later_run(run))
    advised.is_recorded = problem.is_recorded
    return advised


@click.command()
@click.argument("envelope_id", metavar="ENVELOPE_ID", shell_complete=complete_envelope)
@workspace_option
@json_option
@click.pass_context
def cancel(ctx: click.Context, envelope_id: str, directory: Path, as_json: bool) -> None:
    """Cancel a running plan, void an unused envelope, or withdraw a proposal.

    ENVELOPE_ID is the id of an envelope or of a proposal. The beginning of the id of a proposal is enough.

    A running plan is stopped and its changes are undone. The command waits up to a minute for that. An agent can cancel
    a plan that it proposed, by the id of the proposal, with the token in REMIT_TOKEN.

    The exit code is 0 if the plan was cancelled, 1 if it was too late (the output shows the outcome), and 2 if there is
    no such envelope.
    """
    with (
        Workspace.open(directory) as workspace,
        recording_refusals(workspace, "cancel", about_name(envelope_id)),
    ):
        agent = find_agent(workspace)
        if agent is not None:
            view = _plans(workspace).cancel(agent, envelope_id)
            show_json(view.tree()) if as_json else click.echo(f"Proposal {view.proposal_id} is {view.state}.")
            return
        proposal = _find_proposal(workspace, envelope_id)
        if proposal is not None and proposal.state == "PENDING":
            who = as_admin(person_at_terminal(workspace.environ))
            withdrawn = _plans(workspace).cancel(who, proposal.proposal_id)
            show_json(withdrawn.tree()) if as_json else click.echo(f"Proposal {proposal.proposal_id} is withdrawn.")
            return
        if proposal is not None and proposal.envelope_id is not None:
            envelope_id = proposal.envelope_id
        envelope_id = resolve_run_id(workspace, envelope_id)
        try:
            outcome = workspace.cancel(envelope_id, actor=resolve_actor(workspace))
        except RefusedError as problem:
            advice = "`remit runs` lists the plans that run or ran; `remit ledger show` also shows unused envelopes."
            raise RefusedError(problem.reason, problem.what, where=problem.where, next_step=advice) from None
    if as_json:
        show_json({"envelope_id": envelope_id, "outcome": outcome.status.tree() if outcome else None})
    elif outcome is None:
        click.echo(f"Envelope {envelope_id} was not used. It is void now.")
    else:
        if outcome.status.status != "CANCELLED":
            click.echo(
                "Too late to cancel: the plan had ended already, and nothing was changed now. Its outcome:", err=True
            )
        for line in render_outcome(outcome, diffs=False, is_last=False):
            click.echo(line)
    ctx.exit(0 if outcome is None or outcome.status.status == "CANCELLED" else 1)


def _find_proposal(workspace: Workspace, name: str) -> "ProposalRow | None":
    """Return the proposal with this id or beginning of an id, or None."""
    try:
        return workspace.proposals.find_by_name(name)
    except RefusedError:
        return None


def _plans(workspace: Workspace) -> "PlanService":
    from remit.services.plans.service import PlanService  # noqa: PLC0415 - only for proposals

    return PlanService(workspace)


@click.command()
@click.option("--dry-run", is_flag=True, help="Only list the backups that would be deleted.")
@workspace_option
@json_option
def prune(dry_run: bool, directory: Path, as_json: bool) -> None:
    """Delete backups of rolled-back plans, expired backups, and kept files of previews.

    A backup expires after `retention.rollback_days` of remit.yaml. Reports, change logs and manifests stay. The backups
    of a plan that can still be rolled back are never deleted. The files that SQL and pipelines made for a preview are
    deleted if no proposal and no approval needs them any more.
    """
    with Workspace.open(directory) as workspace:
        pruned = workspace.prune(dry_run=dry_run)
    if as_json:
        show_json([{"folder": each.folder, "why": each.why, "bytes": each.size} for each in pruned])
        return
    verb = "Would delete" if dry_run else "Deleted"
    if not pruned:
        click.echo("There is nothing to delete.")
        return
    show_table(("folder", "why", "size"), [(each.folder, each.why, render_size(each.size)) for each in pruned])
    total = render_size(sum(each.size for each in pruned))
    click.echo(f"{verb} the backups of {counted(len(pruned), 'run')}: {total}")
