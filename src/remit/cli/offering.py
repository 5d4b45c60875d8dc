"""What the Tab key offers around the browser: questions that wait, tokens that count. Whatever goes wrong: nothing."""

from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from remit.approval.people import person_at_terminal
from remit.cli.table import shortened
from remit.errors import RemitError
from remit.ids import render_time
from remit.printable import printable
from remit.workspace import Workspace

OFFERED: Final = 50
HELP: Final = 80
ANSWERING: Final = frozenset({"approve", "deny"})


def complete_question(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """To answer, those that wait; to look at, the newest of all. None to an agent, who may not look either."""
    try:
        with Workspace.open(ctx.params.get("directory") or Path()) as workspace:
            person_at_terminal(workspace.environ)
            listed = workspace.approvals.listed
            found = listed("PENDING") if ctx.info_name in ANSWERING else listed()
    except (RemitError, OSError):
        return []
    fitting = [each for each in found if each.approval_id.startswith(incomplete)]
    return [
        CompletionItem(each.approval_id, help=_help(f"{each.agent_id}: {each.preview.estimated_effect}"))
        for each in fitting[:OFFERED]
    ]


def complete_token(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Those that still count, or will."""
    try:
        with Workspace.open(ctx.params.get("directory") or Path()) as workspace:
            now = render_time(workspace.clock())
            found = [row for row in workspace.tokens.listed() if not row.revoked_at and row.expires_at > now]
    except (RemitError, OSError):
        return []
    fitting = [row for row in found if row.jti.startswith(incomplete)]
    return [CompletionItem(row.jti, help=_help(f"of {row.sub}")) for row in fitting[:OFFERED]]


def _help(text: str) -> str:
    return shortened(printable(text), HELP)
