"""Goals that policy lets through only once somebody else has approved them, among the questions for people.

What a person is shown is made from the catalogue, the packet and the policy's answer, as they were recorded: an agent
words none of it.
"""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from remit.agent.gates import Waited
from remit.agent.standing import WaitingGoal, waiting_goal, waiting_goals
from remit.approval.people import Person
from remit.cli.direction import shown_words
from remit.cli.shown import show_json, show_table
from remit.cli.suggested import Wheres, argument, joined
from remit.cli.tenants import find_tenant
from remit.errors import Reason, Refused
from remit.ids import DEFAULT_TENANT, render_time
from remit.printable import printable
from remit.workspace import Workspace

LABEL: Final = 10


def all_waiting(workspace: Workspace, tenant_id: str | None = None) -> list[WaitingGoal]:
    """Of one tenant, or of all; the newest first; without those whose time is over, which nobody can approve."""
    tenants = [tenant_id] if tenant_id is not None else sorted({*workspace.config.tenants, DEFAULT_TENANT})
    with workspace.store.reading() as connection:
        found = [each for one in tenants for each in waiting_goals(connection, lambda: workspace.keyring, one)]
    now = render_time(workspace.clock())
    in_time = [each for each in found if not Waited(each.asked_at, None, now).is_over]
    return sorted(in_time, key=lambda each: each.asked_at, reverse=True)


def show_goals(found: Sequence[WaitingGoal], *, as_json: bool) -> None:
    if as_json:
        show_json({"goals": [goal_tree(each) for each in found]})
        return
    if not found:
        click.echo("No goal waits for an approval.")
        return
    rows = [
        (each.correlation_id, each.tenant_id, each.user_id, each.asked_at[:19].replace("T", " "), _wanted(each))
        for each in found
    ]
    show_table(("goal", "tenant", "user", "asked", "wants"), rows, prose=("wants",))


def goal_named(workspace: Workspace, given: str, tenant_id: str | None) -> str | None:
    """The tenant whose goal this id is, or None if it is a question's. Refused if it could be either.

    Whoever asks for a goal chooses its id, and must not have an answer that was meant for another question.
    """
    tenant = find_tenant(workspace, tenant_id, given)
    if tenant is None or tenant_id is not None:
        return tenant
    try:
        workspace.approvals.show(given)
    except Refused:
        return tenant
    raise Refused(
        Reason.MALFORMED,
        "both a question of the browser and a goal go by this id; nothing was answered",
        where=given,
        next_step=f"For the goal add --tenant {shlex.quote(tenant)}; for the question give more of its id.",
    )


def require_waiting(workspace: Workspace, tenant: str, correlation_id: str) -> WaitingGoal:
    with workspace.store.reading() as connection:
        found = waiting_goal(connection, lambda: workspace.keyring, tenant, correlation_id)
    if found is None:
        raise Refused(
            Reason.TRANSITION_INVALID,
            "this goal does not wait for an approval, or has its answer",
            where=f"tenant {tenant}, correlation {correlation_id}",
            next_step="See where it stands: "
            f"remit ledger trace {shlex.quote(correlation_id)} --tenant {shlex.quote(tenant)}",
        )
    return found


def decide_goal(
    workspace: Workspace, tenant: str, correlation_id: str, *, approved: bool, who: Person, reason: str | None
) -> WaitingGoal:
    """What was answered, so that it can be told. The door itself says whether this person may."""
    found = require_waiting(workspace, tenant, correlation_id)
    if approved and found.problem:
        raise Refused(
            Reason.STATE_MISSING,
            f"nobody can see what he would approve: {found.problem}",
            where=f"correlation {correlation_id}",
            next_step="Deny it, and let the user ask again.",
        )
    told = printable(reason.strip()) if reason else ""
    workspace.goals.approve(correlation_id, tenant=tenant, who=who, approved=approved, reason=told)
    return found


def tell_decided(found: WaitingGoal, who: Person, directory: Path, *, approved: bool, as_json: bool) -> None:
    if as_json:
        show_json({"goal": goal_tree(found), "approved": approved, "by": who.signature})
        return
    word = "Approved" if approved else "Denied"
    click.echo(f"{word}: {shown_words(_wanted(found))}, asked for by {printable(found.user_id)}")
    where = Wheres(directory, found.tenant_id).tenant
    command = joined(("remit", "ask", *where, "--continue", found.correlation_id))
    click.echo(f"  {'next:' if approved else 'closes:'} {command}")


def render_goal(found: WaitingGoal, directory: Path) -> Iterator[str]:
    name = shlex.quote(printable(found.correlation_id))
    who = f"{printable(found.user_id)} of {printable(found.tenant_id)}"
    yield click.style(f"Goal {name}", bold=True) + f", asked for by {who}"
    yield _labelled("wants", shown_words(_wanted(found)))
    yield _labelled("words", f"{shown_words(found.utterance)} ({printable(found.language_tag)})")
    yield _labelled("impact", f"{printable(found.impact)}, risk {printable(found.risk)}")
    yield _labelled("policy", ", ".join(map(printable, found.policies)) or "none")
    yield _labelled("asked at", f"{found.asked_at[:19]}Z")
    if found.problem:
        yield _labelled("note", click.style(found.problem, fg="red"))
    for label, word in (("answer", "approve"), ("", "deny")):
        where = Wheres(directory, found.tenant_id).tenant
        yield _labelled(label, joined(("remit", "approvals", word, *where, *argument(found.correlation_id))))


def goal_tree(found: WaitingGoal) -> dict[str, Any]:
    tree = {**found._asdict(), "fields": dict(found.fields), "policies": list(found.policies)}
    return {**tree, "problem": found.problem or None}


def _wanted(found: WaitingGoal) -> str:
    filled = ", ".join(f"{name} = {value}" for name, value in sorted(found.fields.items()))
    title = f"{found.title} ({found.simulation_id} {found.version})" if found.title else found.simulation_id
    return f"{title}: {filled}" if filled else title


def _labelled(label: str, text: str) -> str:
    return f"  {label.ljust(LABEL)}{text}"
