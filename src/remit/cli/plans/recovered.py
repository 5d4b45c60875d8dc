"""Reports of interrupted operations that a command recovers before its own work."""

from collections.abc import Sequence
from typing import Any, Literal

import click

from remit.cli.common.bidi import display_name
from remit.cli.plans.render import render_final_state
from remit.contracts.plans.outcome import PlanOutcome, RollbackOutcome
from remit.execution.recovery import Recovered

State = Literal["unsettled", "finished", "cleared"]


class RecoveryReports:
    """The callback `on_settled`. It prints each report for a person at once, and collects them for `--json`."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self.reports: list[Recovered[Any]] = []

    def __call__(self, reports: Sequence[Recovered[Any]]) -> None:
        self.reports += reports
        for report in () if self._quiet else reports:
            click.echo(render_sentence(report), err=True)

    def tree(self) -> list[dict[str, Any]]:
        return [_as_document(report) for report in self.reports]


def recovered_state(report: Recovered[Any]) -> State:
    if report.outcome is None:
        return "unsettled"
    return "finished" if report.took_effect else "cleared"


def render_sentence(report: Recovered[Any]) -> str:
    """Render one line about an operation that was interrupted before this command started."""
    match report.outcome:
        case PlanOutcome() as outcome:
            name = f"plan {display_name(outcome.report.plan_id)} (envelope {outcome.status.envelope_id})"
            end = render_final_state(outcome.report) or "It had taken effect; it is finished and recorded now."
            return f"Interrupted before: {name}. {end}"
        case RollbackOutcome() as outcome:
            end = "finished and recorded now" if outcome.status in {"EXECUTED", "PARTIAL"} else "undone again"
            return f"Interrupted before: the rollback of envelope {outcome.envelope_id}. It was {end}."
    why = display_name(str(report.problem)) if report.problem else "the reason is not known"
    return f"Interrupted before, and not recovered: {display_name(report.key)}: {why}"


def _as_document(report: Recovered[Any]) -> dict[str, Any]:
    outcome = report.outcome
    status = outcome.status.status if isinstance(outcome, PlanOutcome) else outcome.status if outcome else None
    return {
        "id": report.key,
        "kind": "rollback" if isinstance(outcome, RollbackOutcome) else "plan" if outcome else None,
        "state": recovered_state(report),
        "status": status,
        "problem": report.problem.as_json() if report.problem else None,
    }
