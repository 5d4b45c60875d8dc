"""The later goal that changed a file, for a person whose rollback was refused because of that change."""

from typing import Final

from remit.contracts.goals.simulation import UNDOES
from remit.core.errors import RemitError
from remit.goals.actions.runner import action_id_of
from remit.goals.service import Reply
from remit.ledger.goal_queries import newest_goals, step_events
from remit.services.base.drift import detect_drift, find_later_run
from remit.services.base.run_list import list_runs, shorten_run_id
from remit.workspace.workspace import Workspace

MAX_SEARCHED: Final = 200
"""The most goals of the tenant that are searched for the one of a run."""


def name_later_goal(workspace: Workspace, reply: Reply) -> str:
    """Return a sentence that names the later goal, and the command that overwrites. Empty if the run is not found."""
    tenant, original = reply.goal.tenant_id, getattr(reply.goal.sim_finder_packet, "fields", {}).get(UNDOES)
    try:
        envelope_id = _find_envelope(workspace, tenant, original) if isinstance(original, str) else None
        if envelope_id is None:
            return ""
        later = find_later_run(workspace, detect_drift(workspace, envelope_id, ()))
        goal = _find_goal(workspace, tenant, later.plan_id) if later is not None else None
    except RemitError:  # a hint must not hide the refusal
        return ""
    changed = f"The later goal is {goal}. " if goal else ""
    return (
        f"{changed}A person can overwrite the change: remit rollback {shorten_run_id(envelope_id)} --force. The current"
        " version is kept among the backups."
    )


def _find_envelope(workspace: Workspace, tenant: str, correlation_id: str) -> str | None:
    plan_ids = _plan_ids_of(workspace, tenant, correlation_id)
    found = (run for run in list_runs(workspace) if run.what == "plan" and run.plan_id in plan_ids)
    return next((run.envelope_id for run in found), None)


def _find_goal(workspace: Workspace, tenant: str, plan_id: str) -> str | None:
    with workspace.store.reading() as connection:
        names = [name for name, _, _ in newest_goals(connection, tenant, MAX_SEARCHED)]
    return next((name for name in names if plan_id in _plan_ids_of(workspace, tenant, name)), None)


def _plan_ids_of(workspace: Workspace, tenant: str, correlation_id: str) -> tuple[str, ...]:
    """Return the ids of the plans that a goal ran: one, or one for each attempt of its steps. Others are not plans."""
    with workspace.store.reading() as connection:
        steps = [one.row for one in step_events(connection, tenant, correlation_id)]
    started = (row.simulation_entry_ref for row in steps if row.event in {"DISPATCHED", "RETRIED"})
    return tuple(action_id_of(tenant, ref.removeprefix("simulation/")) for ref in started if ref)
