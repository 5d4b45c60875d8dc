"""Shell completion of ids: pending approval requests, goals and valid tokens. On any error it offers nothing."""

from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from remit.core.errors import RemitError
from remit.core.ids import DEFAULT_TENANT, render_time
from remit.core.text import printable, shortened
from remit.identity.person import person_at_terminal
from remit.ledger.goal_queries import newest_goals
from remit.workspace.workspace import Workspace

MAX_OFFERED: Final = 50
MAX_HELP_LENGTH: Final = 80
MAX_MASKED: Final = 500
EVENTS_BY_OPTION: Final = {
    "continued": frozenset({"CONFIRMATION_REQUESTED", "APPROVAL_REQUESTED"}),
    "reply_to": frozenset({"CLARIFIED"}),
    "undone": frozenset({"SUCCEEDED", "FAILED", "COMPLETED", "ABORTED_PARTIAL"}),
}
"""The last event that a goal must have for the option to make sense."""
ANSWER_COMMANDS: Final = frozenset({"approve", "deny"})


def complete_question(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer pending approval requests to decide, or the newest of all to show. None to an agent."""
    from remit.services.goals.approvals import list_waiting_goals  # noqa: PLC0415 - most commands complete nothing

    try:
        with Workspace.open(ctx.params.get("directory") or Path()) as workspace:
            person_at_terminal(workspace.environ)
            listed = workspace.approvals.listed
            found = listed("PENDING") if ctx.info_name in ANSWER_COMMANDS else listed()
            goals = [each for each in list_waiting_goals(workspace) if each.correlation_id.startswith(incomplete)]
            plans = [each for each in workspace.proposals.pending() if each.proposal_id.startswith(incomplete)]
    except (RemitError, OSError):
        return []
    matching = [each for each in found if each.approval_id.startswith(incomplete)]
    return [
        *(
            CompletionItem(each.correlation_id, help=_help(f"{each.user_id}: {each.title}"))
            for each in goals[:MAX_OFFERED]
        ),
        *(
            CompletionItem(each.proposal_id, help=_help(f"{each.proposed_by}: {each.title}"))
            for each in plans[:MAX_OFFERED]
        ),
        *(
            CompletionItem(each.approval_id, help=_help(f"{each.agent_id}: {each.preview.estimated_effect}"))
            for each in matching[:MAX_OFFERED]
        ),
    ]


def complete_goal(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the newest goals. To continue, reply to or undo one, offer those that allow it. None to an agent."""
    wanted = EVENTS_BY_OPTION.get(parameter.name or "")
    try:
        with (
            Workspace.open(ctx.params.get("directory") or Path()) as workspace,
            workspace.store.reading() as connection,
        ):
            person_at_terminal(workspace.environ)
            named = ctx.params.get("tenant_id")
            tenants = [named] if named else sorted({*workspace.config.tenants, DEFAULT_TENANT})
            found = [each[:2] for tenant in tenants for each in newest_goals(connection, tenant, MAX_MASKED)]
    except (RemitError, OSError):
        return []
    matching = [(name, event) for name, event in found if name.startswith(incomplete) and event in (wanted or {event})]
    return [CompletionItem(name, help=event) for name, event in matching[:MAX_OFFERED]]


def complete_token(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the tokens that are valid now or will be. None to an agent."""
    try:
        with Workspace.open(ctx.params.get("directory") or Path()) as workspace:
            person_at_terminal(workspace.environ)
            now = render_time(workspace.clock())
            found = [row for row in workspace.tokens.listed() if not row.revoked_at and row.expires_at > now]
    except (RemitError, OSError):
        return []
    matching = [row for row in found if row.jti.startswith(incomplete)]
    return [CompletionItem(row.jti, help=_help(f"of {row.sub}")) for row in matching[:MAX_OFFERED]]


def _help(text: str) -> str:
    return shortened(printable(text), MAX_HELP_LENGTH)
