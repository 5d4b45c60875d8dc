"""`remit recover`."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import click

from remit.browser.checkpoint import RequestOutcome
from remit.browser.recovery import read_state
from remit.cli.common.options import json_option, show_json, show_table, workspace_option
from remit.cli.plans.render import render_final_state
from remit.contracts.base import Contract
from remit.contracts.browser.browser import ActionResult
from remit.contracts.browser.errors import KernelError
from remit.contracts.calls.call import CallResult
from remit.contracts.goals.dispatch import SimulationOutcome
from remit.contracts.goals.goal import AgentExecutionOutcome
from remit.contracts.plans.outcome import PlanOutcome, RollbackOutcome
from remit.contracts.plans.report import ExecutionReport
from remit.contracts.tasks.result import ExecutionResult
from remit.core.errors import Reason, RefusedError
from remit.execution.recovery import Recovered
from remit.plans.apply.abandoned import is_of_unknown_effect
from remit.store.claims import unfinished
from remit.workspace.workspace import Workspace

SCOPES: Final = ("task", "plan", "rollback", "browser", "browser_request", "call", "simulation")
_ID_FIELDS: Final = {
    "plan": "envelope_id",
    "rollback": "order_id",
    "browser": "action_id",
    "browser_request": "request_id",
    "call": "call_id",
    "simulation": "idempotency_key",
    "goal": "correlation_id",
}


@click.command()
@click.option(
    "--dead",
    "presumed_dead",
    multiple=True,
    metavar="ID",
    help=(
        "The id of a task, envelope, rollback or dispatch whose process is certainly dead: it ran on another machine or"
        " before a reboot. May be repeated."
    ),
)
@click.option(
    "--abandon",
    "abandoned",
    multiple=True,
    metavar="ID",
    help="An id that cannot be recovered. It is closed as a failure with unknown effect. May be repeated.",
)
@workspace_option
@json_option
@click.pass_context
def recover(
    ctx: click.Context, presumed_dead: tuple[str, ...], abandoned: tuple[str, ...], directory: Path, as_json: bool
) -> None:
    """Finish or undo what a crash interrupted, and record the outcome.

    It recovers tasks, plans, rollbacks, browser actions, calls and goals. The work of running processes is not touched.
    A goal with several steps is continued until it ends or waits for a person. One that waits already is not listed.

    The exit code is 0 if nothing is left unfinished, and 1 if something could not be recovered. Then the table says
    what to do.
    """
    with Workspace.open(directory) as workspace:
        kinds = _unfinished(workspace)
        _require_unfinished(kinds, (*presumed_dead, *abandoned))
        reports = workspace.recover(presumed_dead=presumed_dead, abandoned=abandoned)
    if as_json:
        show_json([_as_document(report, report.kind or kinds.get(report.key, "")) for report in reports])
    elif not reports:
        click.echo("Nothing was left unfinished.")
    else:
        rows = [
            (
                each.kind or kinds.get(each.key, ""),
                each.key,
                each.began_at[:19].replace("T", " "),
                describe_recovery(each),
                describe_outcome(each),
            )
            for each in reports
        ]
        show_table(("kind", "id", "begun", "state", "what"), rows, prose=("what",))
    ctx.exit(1 if any(report.problem for report in reports) else 0)


def _unfinished(workspace: Workspace) -> dict[str, str]:
    """Return the kind of every request without an outcome, by its id."""
    with workspace.store.reading() as connection:
        return {claimed.key.key: scope for scope in SCOPES for claimed in unfinished(connection, scope)}


def _require_unfinished(recoverable: Collection[str], named: Collection[str]) -> None:
    """Refuse an id without unfinished work, so that a mistyped id does not look like recovered work."""
    for name in named:
        if name not in recoverable:
            raise RefusedError(
                Reason.STATE_MISSING,
                "no unfinished task, plan or rollback has this id; nothing was done",
                where=f"--dead {name}",
                next_step="`remit recover` without options lists the work that it cannot recover by itself.",
            )


def describe_recovery(report: Recovered[Any]) -> str:
    if report.outcome is None:
        return "unsettled"
    if report.unknown:
        return "abandoned"
    if isinstance(report.outcome, AgentExecutionOutcome):
        return "continued" if report.took_effect else "waiting"
    if isinstance(report.outcome, RequestOutcome):
        return "unknown"
    if isinstance(report.outcome, ActionResult):
        return read_state(report.outcome)
    if isinstance(report.outcome, CallResult):
        return "cleared" if report.outcome.effect == "none" else report.outcome.effect
    return "finished" if report.took_effect else "cleared"


def describe_outcome(report: Recovered[Any]) -> str:
    if isinstance(report.outcome, AgentExecutionOutcome):
        return f"{report.outcome.reason_code}: {report.outcome.user_visible_text}"
    return str(report.problem) if report.problem is not None else _describe_result(report.outcome)


def _describe_result(outcome: Contract | None) -> str:
    match outcome:
        case ExecutionResult(error=error):
            return f"{outcome.capability_id}: {error.message if error else 'had taken effect; its result is recorded'}"
        case PlanOutcome():
            return _describe_plan(outcome.report)
        case RollbackOutcome():
            return f"{outcome.envelope_id}: {outcome.status}"
        case ActionResult(reason=reason, error=error):
            return error.message if isinstance(error, KernelError) else reason or ""
        case RequestOutcome(problem=problem):
            return problem or ""
        case CallResult(error=error):
            return f"{outcome.function}: {error.what if error else ''}"
        case SimulationOutcome():
            return f"{outcome.reason_code}: {', '.join(outcome.audit_refs) or 'nothing was run'}"
        case _:
            return ""


def _describe_plan(report: ExecutionReport) -> str:
    if is_of_unknown_effect(report):
        return f"{report.plan_id}: {'. '.join(report.warnings[:-1])}."  # the last one repeats why it failed
    return f"{report.plan_id}: {render_final_state(report) or 'had taken effect; its outcome is recorded'}"


def _as_document(report: Recovered[Any], kind: str) -> dict[str, Any]:
    outcome = report.outcome
    return {
        "kind": kind,
        _ID_FIELDS.get(kind, "task_id"): report.key,
        "begun_at": report.began_at,
        "state": describe_recovery(report),
        "result": _as_tree(outcome),
        "problem": report.problem.as_json() if report.problem else None,
    }


def _as_tree(outcome: Contract | None) -> dict[str, Any] | None:
    """Return the outcome as JSON. For a plan, it is the signed status, because the report is in its folder."""
    if isinstance(outcome, PlanOutcome):
        return outcome.status.tree()
    return outcome.tree() if outcome else None
