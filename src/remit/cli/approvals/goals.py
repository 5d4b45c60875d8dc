"""Approval requests for goals: policy allows these goals only after another person has approved them.

The text for the person is made from the recorded catalogue, packet and policy decision. No part of it is text of an
agent.
"""

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from remit.cli.approvals.watch import ApprovalPrompt, PromptText
from remit.cli.common.bidi import display_name, display_text
from remit.cli.common.identity import as_admin
from remit.cli.common.options import show_json, show_table
from remit.cli.common.suggest import LocationOptions, joined, quote_argument
from remit.cli.common.tenants import find_tenant
from remit.cli.common.terminal import NoTerminalError, ask, find_screen
from remit.core.canonical import digest_bytes
from remit.core.errors import Reason, RefusedError
from remit.core.text import printable
from remit.goals.gates import APPROVAL_LIFE
from remit.goals.status import WaitingGoal
from remit.identity.person import Person
from remit.services.goals.approvals import decide_goal, describe_goal, expires_at, list_waiting_goals, require_waiting
from remit.workspace.workspace import Workspace

LABEL: Final = 10


def show_goals(found: Sequence[WaitingGoal], *, as_json: bool) -> None:
    if as_json:
        show_json({"goals": [goal_tree(each) for each in found]})
        return
    if not found:
        click.echo("No goal is waiting for an approval.")
        return
    rows = [
        (each.correlation_id, each.tenant_id, each.user_id, each.asked_at[:19].replace("T", " "), describe_goal(each))
        for each in found
    ]
    show_table(("goal", "tenant", "user", "asked", "wants"), rows, prose=("wants",))


def find_goal_id(workspace: Workspace, name_or_id: str, tenant_id: str | None) -> str | None:
    """Return the tenant of the goal with this id, or None if it is another request's. Refuse an ambiguous id.

    The caller who asks for a goal chooses its id. An approval that is meant for another request must not reach it.
    """
    tenant = find_tenant(workspace, tenant_id, name_or_id)
    if tenant is None or tenant_id is not None:
        return tenant
    if not _is_other_kind(workspace, name_or_id):
        return tenant
    raise RefusedError(
        Reason.MALFORMED,
        "both a goal and another approval request have this id; nothing was decided",
        where=name_or_id,
        next_step=f"For the goal, add --tenant {shlex.quote(tenant)}. For the other request, give more of its id.",
    )


def _is_other_kind(workspace: Workspace, name_or_id: str) -> bool:
    """Return whether a browser request, a call or a proposed plan has this id too."""
    for find in (workspace.approvals.show, workspace.proposals.find_by_name):
        try:
            find(name_or_id)
        except RefusedError as problem:
            if problem.reason is Reason.STATE_MISSING:
                continue
        return True
    return False


def require_shown(
    workspace: Workspace, tenant: str, name: str, digest: str | None, directory: Path, *, as_json: bool
) -> WaitingGoal:
    """Require that the person saw the goal, and return it as they saw it.

    In a terminal, show it and ask. Otherwise `digest` names what they read.
    """
    shown = require_waiting(workspace, tenant, name)
    if digest is not None:
        _require_same(shown, digest, directory)
        return shown
    screen = find_screen(as_json=as_json)
    if screen is None:
        raise NoTerminalError(
            Reason.APPROVAL_PENDING,
            "a goal can only be approved as it was shown, and there is no terminal to show it; nothing was approved",
            where=f"goal {printable(name)}",
            next_step=f"Read it: {_command('show', shown, directory)}; then, if you want it:"
            f" {_command('approve', shown, directory)}",
        )
    screen.show_and_print("\n".join(render_goal(shown, directory)))
    if not ask(screen, "Approve this goal?"):
        raise NoTerminalError(
            Reason.CANCELLED,
            "not approved and not denied; the request is still pending",
            where=f"goal {name}",
            next_step=f"To deny it: remit approvals deny {shlex.quote(name)}",
        )
    if goal_tree(require_waiting(workspace, tenant, name)) != goal_tree(shown):
        raise RefusedError(
            Reason.BINDING_MISMATCH,
            "the goal changed while it was shown; nothing was approved",
            where=f"goal {name}",
            next_step="Run the command again, and read the goal again.",
        )
    return shown


def _require_same(found: WaitingGoal, digest: str, directory: Path) -> None:
    if digest != goal_digest(found):
        raise RefusedError(
            Reason.HASH_MISMATCH,
            "the digest does not match the goal; nothing was approved",
            where=f"--digest, goal {printable(found.correlation_id)}",
            next_step=f"Read the goal, and give the digest that it shows: {_command('show', found, directory)}",
        )


def print_decided_goal(found: WaitingGoal, who: Person, directory: Path, *, approved: bool, as_json: bool) -> None:
    if as_json:
        show_json({"goal": goal_tree(found), "approved": approved, "by": who.signature})
        return
    click.echo("\n".join(_render_decided(found, directory, approved=approved)))


def _render_decided(found: WaitingGoal, directory: Path, *, approved: bool) -> Iterator[str]:
    decision = "Approved" if approved else "Denied"
    yield f"{decision}: {display_text(describe_goal(found))}, asked for by {display_name(found.user_id)}"
    where = LocationOptions(directory, found.tenant_id).arguments
    command = joined(("remit", "ask", *where, "--continue", found.correlation_id))
    yield f"  {'next:' if approved else 'closes:'} {command}"


def list_goal_prompts(workspace: Workspace, who: Person, directory: Path) -> Iterator[ApprovalPrompt]:
    """Return the prompts of the goals that wait for an approval, for `remit approvals --wait`."""
    return (_make_prompt(workspace, found, who, directory) for found in list_waiting_goals(workspace))


def _make_prompt(workspace: Workspace, found: WaitingGoal, who: Person, directory: Path) -> ApprovalPrompt:
    tenant, name = found.tenant_id, found.correlation_id

    def decide(approved: bool, reason: str | None) -> str:
        step = found.step_id or None
        goal = decide_goal(workspace, tenant, name, approved=approved, caller=as_admin(who), reason=reason, step=step)
        return "\n".join(_render_decided(goal, directory, approved=approved))

    return ApprovalPrompt(
        found.asked_at,
        ("goal", tenant, name, found.step_id),
        lambda: PromptText("\n".join(render_goal(found, directory))),
        "Approve this goal?",
        f"open until {expires_at(found.asked_at, APPROVAL_LIFE)[:19]}Z: {_command('show', found, directory)}",
        decide,
    )


def render_goal(found: WaitingGoal, directory: Path) -> Iterator[str]:
    name = shlex.quote(printable(found.correlation_id))
    who = f"{display_name(found.user_id)} of {display_name(found.tenant_id)}"
    yield click.style(f"Goal {name}", bold=True) + f", asked for by {who}"
    yield _render_labelled("wants", display_text(describe_goal(found)))
    if found.place:
        yield _render_labelled("step", f"{display_name(found.step)}, {found.place} ({display_name(found.step_id)})")
    yield _render_labelled("words", f"{display_text(found.utterance)} ({display_name(found.language_tag)})")
    yield _render_labelled("impact", f"{display_name(found.impact)}, risk {display_name(found.risk)}")
    for number, policy in enumerate(found.policies or ("none",)):
        reason = found.policy_reasons.get(policy)
        shown = f"{display_name(policy)}: {display_text(reason)}" if reason else display_name(policy)
        yield _render_labelled("" if number else "policy", shown)
    yield _render_labelled("asked at", f"{found.asked_at[:19]}Z")
    until = expires_at(found.asked_at, APPROVAL_LIFE)[:19]
    yield _render_labelled("until", f"{until}Z, for the decision and until the user has continued it")
    if found.problem:
        yield _render_labelled("note", click.style(found.problem, fg="red"))
    yield _render_labelled("digest", goal_digest(found))
    for label, verb in (("answer", "approve"), ("", "deny")):
        yield _render_labelled(label, _command(verb, found, directory))


def _command(verb: str, found: WaitingGoal, directory: Path) -> str:
    where = LocationOptions(directory, found.tenant_id).arguments
    digest = ("--digest", goal_digest(found)) if verb == "approve" else ()
    return joined(("remit", "approvals", verb, *where, *digest, *quote_argument(found.correlation_id)))


def goal_digest(found: WaitingGoal) -> str:
    """Return the digest of all that is shown of the goal. Its correlation id is a part of that."""
    return digest_bytes(json.dumps(_shown_tree(found), sort_keys=True).encode())


def goal_tree(found: WaitingGoal) -> dict[str, Any]:
    return {**_shown_tree(found), "digest": goal_digest(found)}


def _shown_tree(found: WaitingGoal) -> dict[str, Any]:
    tree = {**found._asdict(), "fields": dict(found.fields), "policies": list(found.policies)}
    reasons = {"policy_reasons": dict(found.policy_reasons), "expires_at": expires_at(found.asked_at, APPROVAL_LIFE)}
    return {**tree, **reasons, "problem": found.problem or None}


def _render_labelled(label: str, text: str) -> str:
    return f"  {label.ljust(LABEL)}{text}"
