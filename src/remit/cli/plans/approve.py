"""Approval of a plan in a terminal: show the preview, ask, and sign exactly what was shown."""

import os
import stat
from datetime import timedelta
from typing import IO

from remit.cli.common.identity import resolve_actor
from remit.cli.common.terminal import FullText, NoTerminalError, Screen, ask, find_screen
from remit.cli.plans.allow_options import Allowance, repeat_command
from remit.cli.plans.preview_notes import render_changes
from remit.cli.plans.render import count_hidden_lines, render_preview
from remit.contracts.plans.envelope import Envelope
from remit.contracts.plans.plan import Plan
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.core.errors import Reason, RefusedError
from remit.parsing import read_bounded
from remit.workspace.workspace import Workspace


def require_screen(plan: IO[bytes], *, as_json: bool) -> Screen:
    screen = None if is_stdin(plan) else find_screen(as_json=as_json)
    if screen is None:
        raise NoTerminalError(
            Reason.APPROVAL_PENDING,
            "`remit approve` shows the preview and asks a person, but there is no terminal; nothing was signed",
            where=plan.name,
            next_step="Read the plan with `remit preview`, and pass the digest that it prints:"
            f" {repeat_command('--digest', 'sha256:...')}",
        )
    return screen


def no_terminal_error(document: PlanPreviewDocument) -> NoTerminalError:
    return NoTerminalError(
        Reason.APPROVAL_PENDING,
        "this plan needs an approval, and there is no terminal to ask in; nothing was done",
        where=f"plan {document.plan_id}",
        next_step="Run the command in a terminal. Or read the plan with `remit preview`, then run it with --yes.",
    )


def ask_approval(
    screen: Screen,
    question: str,
    plan: IO[bytes],
    raw: bytes,
    document: PlanPreviewDocument,
    allowed: Allowance,
    max_lines: int | None,
) -> bool:
    """Ask whether to approve the plan on the screen. Refuse if the file of the plan has changed meanwhile."""

    def render_full_text() -> FullText:
        lines = render_preview(document, allowed.names, max_lines=None, idle=idle_actions(raw, document))
        return FullText("\n".join(lines), count_hidden_lines(document, None))

    if not ask(screen, question, hidden=count_hidden_lines(document, max_lines), full_text=render_full_text):
        return False
    _require_same_file(plan, raw)
    return True


def _require_same_file(plan: IO[bytes], raw: bytes) -> None:
    """Refuse if the file no longer contains the plan that was shown.

    Only the plan that was shown would be signed anyway. But the person could believe that it is the new content.
    """
    try:
        if not stat.S_ISREG(os.fstat(plan.fileno()).st_mode):
            return
        with open(plan.name, "rb") as now:
            is_same = read_bounded(now, Plan.bounds, source=plan.name) == raw
    except OSError:
        is_same = False
    if not is_same:
        raise RefusedError(
            Reason.BINDING_MISMATCH,
            "the plan's file changed while its preview was shown; nothing was signed and nothing was done",
            where=plan.name,
            next_step="Run the command again and read the new preview.",
        )


def approve_as_shown(
    workspace: Workspace,
    raw: bytes,
    document: PlanPreviewDocument,
    allowed: Allowance,
    *,
    life: timedelta | None = None,
) -> Envelope:
    """Sign exactly what was shown. Raise if something changed since."""
    try:
        return workspace.approve(
            raw, **allowed.everything, life=life, actor=resolve_actor(workspace), as_seen=document.preview_digest
        )
    except RefusedError as problem:
        if problem.reason is not Reason.HASH_MISMATCH:
            raise
        now = workspace.preview(raw).document
        changes = render_changes(document, now)
        if not changes and now.preview_digest == document.preview_digest:  # a hash that the plan itself names is wrong
            raise
        raise RefusedError(
            Reason.BINDING_MISMATCH,
            f"something changed while the preview was shown{f': {changes}' if changes else ''}; nothing was signed and"
            " nothing was done",
            where=f"plan {document.plan_id}",
            next_step="Run the command again and read the new preview.",
        ) from None


def idle_actions(plan: bytes, document: PlanPreviewDocument) -> list[str]:
    """Return the actions that would change nothing, because the result exists already."""
    effective = {file.action_id for file in document.files} | {each.details.action_id for each in document.problems}
    effective |= {each.action_id for each in document.sql} | {each.action_id for each in document.pipelines}
    return [action.action_id for action in Plan.parse(plan).action_plan if action.action_id not in effective]


def is_stdin(plan: IO[bytes]) -> bool:
    return plan.name in {"-", "<stdin>"}
