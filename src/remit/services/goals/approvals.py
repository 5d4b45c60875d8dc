"""Goals that wait for a person: for the approval of another person, or for the confirmation of the user.

The text for the person is made from the recorded catalogue, packet and policy decision. An agent writes none of it.
"""

import shlex
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from remit.core.errors import Reason, RefusedError
from remit.core.ids import CLOCK_TOLERANCE, DEFAULT_TENANT, parse_time, render_time
from remit.core.text import printable
from remit.goals.gates import ANSWER_LIFE, APPROVAL_LIFE
from remit.goals.history import APPROVAL as DECIDED
from remit.goals.history_nodes import as_tree
from remit.goals.service import self_approval_error
from remit.goals.status import (
    DecidedGoal,
    GoalStatus,
    WaitingGoal,
    read_decided_goal,
    read_goal_awaiting_approval,
    read_goal_status,
)
from remit.identity.callers import PersonCaller
from remit.identity.own_requests import require_other_person
from remit.ledger.cursor import tenants_in
from remit.ledger.entry import Entry
from remit.ledger.goal_queries import goals_waiting_since, goals_with_event_since
from remit.ledger.search import SearchFilter, find_entries, not_before_newest
from remit.services.base.ownership import GOAL_REQUESTED, find_requester
from remit.workspace.workspace import Workspace

MAX_CONFIRMATIONS: Final = 200
MAX_WAITING_PER_AGENT: Final = 20
"""The most goals of one agent that may wait for a person."""
CONFIRMATION: Final = "CONFIRMATION_REQUESTED"
APPROVAL: Final = "APPROVAL_REQUESTED"


def list_waiting_goals(workspace: Workspace, tenant_id: str | None = None) -> list[WaitingGoal]:
    """List the goals of one tenant, or of all, that wait for an approval and are not expired. The newest come first."""
    now = workspace.clock()
    since = render_time(now - APPROVAL_LIFE)
    with workspace.store.reading() as connection:
        # The tenants of the ledger, because the configuration in a long-lived process may be older.
        tenants = [tenant_id] if tenant_id is not None else list(tenants_in(connection))
        found = [
            read_goal_awaiting_approval(connection, lambda: workspace.keyring, tenant, correlation_id)
            for tenant in tenants
            for correlation_id in goals_with_event_since(connection, tenant, APPROVAL, since)
        ]
        # A goal with a later time than its chain was requested while the clock was ahead. It cannot be approved.
        latest = {tenant: not_before_newest(connection, tenant, now) + CLOCK_TOLERANCE for tenant in tenants}
    return _newest_first(each for each in found if each is not None and _is_in_time(each, since, latest))


def _is_in_time(goal: WaitingGoal, since: str, latest: Mapping[str, datetime]) -> bool:
    return since <= goal.asked_at <= render_time(latest[goal.tenant_id])


def list_decided_goals(workspace: Workspace, most: int) -> list[DecidedGoal]:
    """List the goals of all tenants that a person approved or denied last, the newest first."""
    decided = SearchFilter(kind=DECIDED)
    with workspace.store.reading() as connection:
        found = [
            read_decided_goal(connection, lambda: workspace.keyring, tenant, entry.correlation_id, _decision_in(entry))
            for tenant in tenants_in(connection)
            for entry in find_entries(connection, tenant, decided, None, most).entries
        ]
    goals = sorted((each for each in found if each is not None), key=lambda each: each.decided_at, reverse=True)
    return goals[:most]


def _decision_in(entry: Entry) -> str | None:
    """Return the decision that a person answered. Several steps of a goal may have asked for one."""
    ref = as_tree(entry).get("decision")
    return ref if isinstance(ref, str) else None


def find_decided_goal(workspace: Workspace, tenant: str, correlation_id: str) -> DecidedGoal | None:
    with workspace.store.reading() as connection:
        return read_decided_goal(connection, lambda: workspace.keyring, tenant, correlation_id)


def list_unconfirmed_goals(workspace: Workspace, tenant_id: str, user_id: str) -> list[tuple[str, GoalStatus]]:
    """List the goals that wait for the confirmation of this user: the correlation and the status of each.

    Goals that the user requested come before those of agents, so that many goals of agents cannot hide them.
    """
    since = render_time(workspace.clock() - ANSWER_LIFE)
    found: list[tuple[str, GoalStatus]] = []
    with workspace.store.reading() as connection:
        waiting = goals_waiting_since(connection, tenant_id, CONFIRMATION, since, GOAL_REQUESTED)
        for correlation_id, _ in sorted(waiting.items(), key=lambda each: (each[1] or "").startswith("agent:")):
            now = read_goal_status(connection, lambda: workspace.keyring, tenant_id, correlation_id)
            if now is not None and now.event == CONFIRMATION and now.user_id == user_id:
                found.append((correlation_id, now))
            if len(found) == MAX_CONFIRMATIONS:
                break
    return found


def require_goal_capacity(workspace: Workspace, tenant_id: str, requester: str, under_way: int) -> None:
    """Refuse one more goal of an agent if too many wait for a person or are in progress (`under_way`).

    Users who are asked too often stop reading.
    """
    since = render_time(workspace.clock() - max(ANSWER_LIFE, APPROVAL_LIFE))
    with workspace.store.reading() as connection:
        found = [
            goals_waiting_since(connection, tenant_id, event, since, GOAL_REQUESTED)
            for event in (CONFIRMATION, APPROVAL)
        ]
    if under_way + sum(by == requester for waiting in found for by in waiting.values()) >= MAX_WAITING_PER_AGENT:
        raise RefusedError(
            Reason.RESOURCE_EXHAUSTED,
            f"{MAX_WAITING_PER_AGENT} goals of this agent are already in progress or wait for a person",
            where=requester,
            next_step="Wait until people have answered some of them, or until some have expired.",
        )


def expires_at(asked_at: str, life: timedelta) -> str:
    return render_time(parse_time(asked_at) + life)


def require_waiting(workspace: Workspace, tenant: str, correlation_id: str) -> WaitingGoal:
    with workspace.store.reading() as connection:
        found = read_goal_awaiting_approval(connection, lambda: workspace.keyring, tenant, correlation_id)
    if found is None:
        raise RefusedError(
            Reason.TRANSITION_INVALID,
            "this goal does not wait for an approval, or was already approved or denied",
            where=f"tenant {tenant}, correlation {correlation_id}",
            next_step="To see its state: "
            f"remit ledger trace {shlex.quote(correlation_id)} --tenant {shlex.quote(tenant)}",
        )
    return found


def decide_goal(
    workspace: Workspace,
    tenant: str,
    correlation_id: str,
    *,
    approved: bool,
    caller: PersonCaller,
    reason: str | None,
    step: str | None = None,
) -> WaitingGoal:
    """Approve or deny a goal, and return it. With several steps, `step` names the one that the person decides about.

    The person cannot approve a goal of the user that they are (`GoalService.approve` checks this), nor decide a goal
    that they requested, with any role. Limit: an account of the operating system can decide a goal that it requested at
    the command line for a user; it can approve it only where people may approve what they requested themselves. The
    ledger names the account both times.
    """
    who = caller.person
    found = require_waiting(workspace, tenant, correlation_id)
    require_step_of(found, step)
    with workspace.store.reading_pooled() as connection:
        requester = find_requester(connection, tenant, correlation_id, GOAL_REQUESTED)
    # The command line believes `--user`, so the account of the operating system says nothing about the user.
    if requester == who.id and not who.id.startswith("os:"):
        raise self_approval_error(correlation_id)
    if approved and requester is not None:
        require_other_person(caller, requester, workspace.config, where=f"correlation {correlation_id}")
    if approved and found.problem:
        raise RefusedError(
            Reason.STATE_MISSING,
            f"the effect of this goal cannot be shown, so it cannot be approved: {found.problem}",
            where=f"correlation {correlation_id}",
            next_step="Deny it, and let the user ask again.",
        )
    reason_text = printable(reason.strip()) if reason else ""
    workspace.goals.approve(
        correlation_id,
        tenant=tenant,
        who=who,
        approved=approved,
        reason=reason_text,
        as_user=caller.user if caller.tenant == tenant else None,
        step=found.step_id or None,
    )
    workspace.approvals.change_signal.notify()
    return found


def require_step_of(found: WaitingGoal, step: str | None) -> None:
    """Refuse a decision that does not name the step which waits. A decision about one step never counts for another."""
    if step == (found.step_id or None) or (step is not None and not found.step_id):
        return
    waits = f"the step that waits is {found.step_id}"
    raise RefusedError(
        Reason.MALFORMED if step is None else Reason.TRANSITION_INVALID,
        f"this goal has several steps, and the decision does not say for which it is; {waits}"
        if step is None
        else f"this step does not wait for an approval; {waits}",
        where=f"step, correlation {found.correlation_id}",
        next_step="Read the request again, and decide about the step that it names.",
    )


def describe_goal(found: WaitingGoal) -> str:
    """Describe the effect of a goal in one line. Of a goal with several steps, the step that waits."""
    filled = ", ".join(f"{name} = {value}" for name, value in sorted(found.fields.items()))
    title = f"{found.title} ({found.simulation_id} {found.version})" if found.title else found.simulation_id
    where = f"Step {found.place} of “{found.whole_title}”, {found.step}: " if found.place else ""
    return f"{where}{title}: {filled}" if filled else f"{where}{title}"


def tenants_of(workspace: Workspace) -> list[str]:
    return sorted({*workspace.config.tenants, DEFAULT_TENANT})


def _newest_first(found: Iterable[WaitingGoal]) -> list[WaitingGoal]:
    return sorted(found, key=lambda each: each.asked_at, reverse=True)
