"""`remit ledger replay`: makes the decisions about a goal again from their stored inputs, and compares them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from remit.cli.common.bidi import display_name
from remit.cli.common.completion import complete_goal
from remit.cli.common.options import counted, json_option, show_json, show_table, workspace_option
from remit.cli.common.progress import showing_progress
from remit.cli.common.tenants import choose_tenant, goals_tenant_option, tenant_of_goal
from remit.core.errors import RemitError
from remit.goals.replay import REPLAY_CODE, ReplayedDecision, replay_goal
from remit.goals.rules import PastRules
from remit.ledger.goal_queries import goals_of
from remit.workspace.workspace import Workspace

SHOWN: Final = 100
"""The most goals that disagree in the table for people. `--json` has all of them."""


class GoalReplayed(NamedTuple):
    """The replayed decisions about one goal. `problem` says why they could not be read, if they could not."""

    correlation_id: str
    decisions: tuple[ReplayedDecision, ...]
    problem: str = ""

    @property
    def agrees(self) -> bool:
        return not self.problem and bool(self.decisions) and all(each.agrees for each in self.decisions)

    def tree(self) -> dict[str, Any]:
        return {
            "correlation_id": self.correlation_id,
            "agrees": self.agrees,
            "code": None if self.agrees else REPLAY_CODE,
            "problem": self.problem or None,
            "decisions": [_tree(each) for each in self.decisions],
        }


@click.command()
@click.argument("correlation_id", metavar="[CORRELATION]", required=False, shell_complete=complete_goal)
@click.option("--all", "everything", is_flag=True, help="Replay every goal of the tenant.")
@goals_tenant_option
@workspace_option
@json_option
@click.pass_context
def replay(
    ctx: click.Context,
    correlation_id: str | None,
    everything: bool,
    tenant_id: str | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Make the decisions about a goal again, and compare the results.

    A goal is a request of a user in plain words (`remit ask`). Remit makes each decision again from its stored inputs,
    with the rules of that time, so a later change of a policy has no influence. The exit code is 0 if all results are
    the same, and 1 if one differs or its stored inputs are lost. For a goal with several steps, Remit also checks that
    each step, attempt and rollback follows from the events before it.
    """
    if (correlation_id is None) != everything:
        raise click.UsageError("Give either the CORRELATION of a goal or --all.", ctx)
    with Workspace.open(directory) as workspace:
        if correlation_id is not None:
            tenant = tenant_of_goal(workspace, tenant_id, correlation_id)
            whole = _replay_goal(workspace, tenant, correlation_id, PastRules())
            _show_one(tenant, whole, as_json=as_json)
            ctx.exit(0 if whole.agrees else 1)
        tenant = choose_tenant(workspace, tenant_id)
        ctx.exit(_replay_all(workspace, tenant, as_json=as_json))


def _replay_all(workspace: Workspace, tenant: str, *, as_json: bool) -> int:
    goals = decisions = 0
    differing: list[GoalReplayed] = []
    for each in _replay_goals(workspace, tenant, quiet=as_json):
        goals += 1
        decisions += len(each.decisions)
        if not each.agrees:
            differing.append(each)
    if as_json:
        counts = {"tenant_id": tenant, "goals": goals, "decisions": decisions, "disagree": len(differing)}
        code = REPLAY_CODE if differing else None
        show_json({**counts, "code": code, "disagreeing": [each.tree() for each in differing]})
        return 1 if differing else 0
    summary = f"{counted(decisions, 'decision')} about {counted(goals, 'goal')} of {display_name(tenant)}"
    if not differing:
        click.echo(f"{click.style('agrees', fg='green', bold=True)}: {summary}")
        return 0
    click.echo(f"{_disagrees()}: {counted(len(differing), 'goal')}; {summary}")
    rows = [(each.correlation_id, _render_why(each)) for each in differing[:SHOWN]]
    show_table(("goal", "why"), rows, prose=("why",))
    if len(differing) > SHOWN:
        click.echo(f"... and {counted(len(differing) - SHOWN, 'more goal')}: --json lists all")
    return 1


def _replay_goals(workspace: Workspace, tenant: str, *, quiet: bool) -> Iterator[GoalReplayed]:
    """Replay all goals of a tenant, one after the other. A goal that disagrees does not stop the others.

    Snapshots that several goals share are built once.
    """
    past = PastRules()
    with workspace.store.reading() as connection:
        names = list(goals_of(connection, tenant))
    with showing_progress(quiet=quiet) as progress:
        for number, name in enumerate(names, start=1):
            yield _replay_goal(workspace, tenant, name, past)
            progress("replaying", number, len(names), "")


def _replay_goal(workspace: Workspace, tenant: str, correlation_id: str, past: PastRules) -> GoalReplayed:
    try:
        with workspace.store.reading() as connection:
            made = tuple(replay_goal(connection, lambda: workspace.keyring, past, tenant, correlation_id))
    except RemitError as problem:
        return GoalReplayed(correlation_id, (), str(problem))
    return GoalReplayed(correlation_id, made, "" if made else "no decision about it is recorded")


def _show_one(tenant: str, whole: GoalReplayed, *, as_json: bool) -> None:
    if as_json:
        show_json({"tenant_id": tenant, **whole.tree()})
        return
    has_steps = any(each.step_id is not None for each in whole.decisions)
    rows = [
        (
            each.at[:19].replace("T", " "),
            *((each.step or each.step_id or "",) if has_steps else ()),
            each.event,
            each.reason_code,
            "yes" if each.dispatched else "no",
            "yes" if each.agrees else f"no: {each.why}",
        )
        for each in whole.decisions
    ]
    if rows:
        steps = ("step",) if has_steps else ()
        show_table(("at", *steps, "event", "reason", "dispatched", "agrees"), rows, prose=("agrees",))
    if whole.agrees:
        click.echo(f"{click.style('agrees', fg='green', bold=True)}: {counted(len(rows), 'decision')} replayed")
        return
    click.echo(f"{_disagrees()}: {display_name(whole.problem or _render_why(whole))}")
    click.echo("  next:  Keep the database as it is, and run: remit ledger verify")


def _disagrees() -> str:
    return f"{click.style('disagrees', fg='red', bold=True)} ({REPLAY_CODE})"


def _render_why(each: GoalReplayed) -> str:
    return each.problem or next((one.why for one in each.decisions if not one.agrees), "")


def _tree(each: ReplayedDecision) -> dict[str, Any]:
    return {
        "event_id": each.event_id,
        "at": each.at,
        "event": each.event,
        "reason_code": each.reason_code,
        "dispatched": each.dispatched,
        "decision_ref": each.decision_ref,
        "agrees": each.agrees,
        "why": each.why or None,
        "because": each.because or None,
        **({"step_id": each.step_id, "step": each.step} if each.step_id is not None else {}),
    }
