"""`remit ledger trace`: shows the history of one goal as a tree."""

import shlex
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from remit.cli.common.bidi import display_name, display_text
from remit.cli.common.completion import complete_goal
from remit.cli.common.options import counted, json_option, show_json, speaks_unicode, terminal_width, workspace_option
from remit.cli.common.tenants import find_tenant, goals_tenant_option
from remit.core.errors import Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT
from remit.core.text import printable
from remit.goals.history_nodes import HistoryNode
from remit.goals.trace import trace_goal
from remit.services.base.entry_text import render_meaning, short_refs
from remit.workspace.workspace import Workspace

_LEAST: Final = 40
_LABELS: Final = {"approval_requested": "waits", "step_rollback": "rollback"}
_GUIDES: Final = ("├─ ", "└─ ", "│  ", "   ")
_PLAIN_GUIDES: Final = ("|- ", "`- ", "|  ", "   ")
MAX_VALUE: Final = 200


@click.command()
@click.argument("correlation_id", metavar="CORRELATION", shell_complete=complete_goal)
@goals_tenant_option
@workspace_option
@json_option
@click.pass_context
def trace(ctx: click.Context, correlation_id: str, tenant_id: str | None, directory: Path, as_json: bool) -> None:
    """Show the history of one goal as a tree.

    A goal is a request of a user in plain words (`remit ask`). The tree begins with these words, and ends with the
    effect and its rollback. For the correlation id of anything else, such as a task, the command lists the entries. It
    marks each missing or wrong part in its place. The exit code is 0 if no part is missing or wrong, and 1 otherwise.
    """
    with Workspace.open(directory) as workspace:
        tenant = find_tenant(workspace, tenant_id, correlation_id) or DEFAULT_TENANT
        with workspace.store.reading() as connection:
            found = trace_goal(connection, lambda: workspace.keyring, tenant, correlation_id)
    if found is None:
        raise RefusedError(
            Reason.STATE_MISSING,
            "the ledger has no entry with this correlation id",
            where=f"tenant {tenant}, correlation {correlation_id}",
            next_step="To list the entries: remit ledger show --tenant TENANT",
        )
    problems = list(found.problems())
    if as_json:
        whole = {"tenant_id": tenant, "correlation_id": correlation_id, "holds": not problems, "problems": problems}
        show_json({**whole, "trace": found.tree()})
    else:
        for line in render_trace(found):
            click.echo(line)
        if problems:
            again = f"remit ledger replay {shlex.quote(printable(correlation_id))} --tenant {shlex.quote(tenant)}"
            note = f"{counted(len(problems), 'finding')}; see also: remit ledger verify, {again}"
            click.echo(click.style(note, fg="red"))
    ctx.exit(1 if problems else 0)


def render_trace(root: HistoryNode) -> Iterator[str]:
    guides = _GUIDES if speaks_unicode() else _PLAIN_GUIDES
    yield from _lines(root, "", "", root.tenant_id, 0)
    yield from _render_children(root, "", guides)


def _render_children(node: HistoryNode, indent: str, guides: tuple[str, ...]) -> Iterator[str]:
    branch, last, on, off = guides
    widest = max((len(_label(child)) for child in node.children), default=0)
    for number, child in enumerate(node.children, start=1):
        ends = number == len(node.children)
        under = indent + (off if ends else on)
        yield from _lines(child, indent + (last if ends else branch), under, node.tenant_id, widest)
        yield from _render_children(child, under, guides)


def _label(node: HistoryNode) -> str:
    return _LABELS.get(node.kind, node.kind)


def _lines(node: HistoryNode, first: str, rest: str, chain: str | None, widest: int) -> Iterator[str]:
    """Render a node, wrapped between words and indented. Names the chain if it differs from that of the parent."""
    label = _label(node).ljust(widest)
    position = f"#{node.seq}" if node.seq is not None else ""
    at = node.at[:19].replace("T", " ") if node.at else ""
    other = f"(in the chain of {display_name(node.tenant_id or '')})" if node.tenant_id not in {None, chain} else ""
    description = " ".join(filter(None, (position, at, _describe(node), other)))
    more = rest + ("│  " if node.children and speaks_unicode() else "|  " if node.children else "   ")
    width = max(terminal_width() - len(first), _LEAST)
    lines = textwrap.wrap(f"{label}  {description}", width, break_long_words=False, break_on_hyphens=False) or [label]
    head = lines[0].removeprefix(label)
    # Right-to-left text gets its marks after wrapping, so that both marks of a run are on the same line.
    yield first + click.style(label, bold=True) + display_text(head)
    for line in lines[1:]:
        yield more + display_text(line)
    if node.problem:
        for line in textwrap.wrap(f"! {display_name(node.problem)}", width):
            yield more + click.style(line, fg="red")


def _describe(node: HistoryNode) -> str:
    if node.entry is not None:
        return f"{display_name(node.entry.kind)}: {display_name(render_meaning(node.entry))}"
    render = _RENDER.get(node.kind)
    return render(node.facts) if render is not None else ""


def _goal(facts: Mapping[str, Any]) -> str:
    who = f"{_text(facts, 'user_id')}, {_text(facts, 'language_tag')}: “{_text(facts, 'utterance')}”"
    asked = int(facts.get("attempt_counter") or 0)
    after = f", after {counted(asked, 'question')}" if asked else ""
    return f"{_text(facts, 'correlation_id')} of {who}{after}, state {_text(facts, 'stands')}"


def _packet(facts: Mapping[str, Any]) -> str:
    kind = f"{_text(facts, 'packet_type')} by {_text(facts, 'finder_version')}"
    ranked = facts.get("candidates") or []
    chosen = ", ".join(
        f"{each.get('simulation_id')} ({each.get('score')})" for each in ranked if isinstance(each, dict)
    )
    fields = facts.get("fields") or {}
    filled = ", ".join(f"{name} = {_short(value)}" for name, value in sorted(fields.items()))
    phrase = _text(facts, "question") or _text(facts, "intent") or _text(facts, "reason_code")
    undoes = f"rolls back {_text(facts, 'takes_back')}" if facts.get("takes_back") else ""
    return f"{kind}: " + "; ".join(filter(None, (chosen, phrase, undoes or filled)))


def _plan(facts: Mapping[str, Any]) -> str:
    undo = _text(facts, "rollback_plan_ref").partition("@")[0]
    parts = (
        f"{_text(facts, 'simulation_id')}, {_text(facts, 'step_id')}",
        f"risk {_text(facts, 'risk_level')}" if facts.get("risk_level") else "",
        f"rollback {undo}" if undo else "no rollback",
    )
    return ", ".join(filter(None, parts))


def _confirmation(facts: Mapping[str, Any]) -> str:
    token = f"by “{_text(facts, 'accepted_token')}”" if facts.get("accepted_token") else f"“{_text(facts, 'answer')}”"
    description = f"{_text(facts, 'verdict')} {token}, {_text(facts, 'language_tag')}"
    return f"{description}, {short_refs(_text(facts, 'confirm_lexicon_version_ref'))}"


def _access(facts: Mapping[str, Any]) -> str:
    policies = ", ".join(str(each) for each in facts.get("policies") or []) or "no policy"
    verdict = f"{_text(facts, 'verdict')} by {policies}: {_text(facts, 'access_action')}"
    return f"{verdict}, policies {short_refs(_text(facts, 'policy_snapshot_ref'))}"


def _approval(facts: Mapping[str, Any]) -> str:
    verdict = "APPROVED" if facts.get("approved") is True else "DENIED"
    reason = f": {_text(facts, 'reason')}" if facts.get("reason") else ""
    return f"{verdict} by {_text(facts, 'by')}{reason}"


def _event(facts: Mapping[str, Any]) -> str:
    decision = short_refs(_text(facts, "dispatch_decision_hash"))
    code = _text(facts, "reason_code")
    parts = (
        _text(facts, "event"),
        code if code != _text(facts, "event") else "",
        decision and f"decision {decision}",
    )
    why = f": {_text(facts, 'why')}" if facts.get("why") else ""
    return ", ".join(filter(None, parts)) + why


def _dispatch(facts: Mapping[str, Any]) -> str:
    attempt = f", attempt {_text(facts, 'attempt')}" if facts.get("attempt") else ""
    return f"{_text(facts, 'simulation_id')}{attempt}, key {short_refs(_text(facts, 'idempotency_key'))}"


def _rollback(facts: Mapping[str, Any]) -> str:
    return f"ROLLED_BACK by goal {_text(facts, 'by')}" if facts.get("by") else "ROLLED_BACK"


def _step(facts: Mapping[str, Any]) -> str:
    attempts = int(facts.get("attempts") or 0)
    parts = (
        f"{facts.get('place')}. {_text(facts, 'name')}" if facts.get("name") else _text(facts, "step_id"),
        _text(facts, "simulation_id"),
        _text(facts, "state"),
        f"{attempts} attempts" if attempts > 1 else "",
    )
    return ", ".join(filter(None, parts))


def _action(facts: Mapping[str, Any]) -> str:
    return f"{_text(facts, 'action')}, {_text(facts, 'state')}" if facts else ""


_RENDER: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
    "goal": _goal,
    "correlation": lambda facts: _text(facts, "correlation_id"),
    "packet": _packet,
    "plan": _plan,
    "question": _event,
    "confirmation": _confirmation,
    "confirmed": _event,
    "access": _access,
    "approval_requested": _event,
    "approval": _approval,
    "decision": _event,
    "dispatch": _dispatch,
    "action": _action,
    "outcome": _event,
    "rollback": _rollback,
    "row": _event,
    "begin": _event,
    "step": _step,
    "step_rollback": _step,
    "undo": _step,
    "more": lambda facts: f"{facts.get('entries'):,} more entries",
}


def _text(facts: Mapping[str, Any], name: str) -> str:
    return _short(facts.get(name))


def _short(value: Any) -> str:
    text = display_name(str(value)) if value is not None else ""
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}..."
