"""A yes to a held request or a call: to what was shown, here and now or by its digest."""

from remit.cli.approvals.render import kind_of, render_approval
from remit.cli.common.terminal import NoTerminalError, Screen, ask, find_screen
from remit.contracts.browser.browser import Approval
from remit.core.errors import Reason, RefusedError
from remit.identity.person import Person
from remit.workspace.workspace import Workspace


def approve_request(
    workspace: Workspace, approval_id: str, digest: str | None, who: Person, reason: str | None, *, as_json: bool
) -> Approval:
    """Of one that is closed already the answer says what became of it; nobody is asked about that."""
    found = workspace.approvals.show(approval_id)
    if digest is not None:
        _require_same(found, digest)
    elif found.state == "PENDING":
        screen = _require_screen(found, as_json=as_json)
        screen.show_and_print(render_approval(found, workspace.approvals.seconds_left(found)))
        _require_confirmation(screen, found)
    return workspace.approvals.decide(found.approval_id, approved=True, who=who, reason=reason)


def _require_same(found: Approval, digest: str) -> None:
    if digest != found.request_digest:
        raise RefusedError(
            Reason.HASH_MISMATCH,
            "this digest is not that of the question; nothing was approved",
            where=f"--digest, question {found.approval_id}",
            next_step=f"Look at it, and give the digest that it shows: remit approvals show {found.approval_id}",
        )


def _require_screen(found: Approval, *, as_json: bool) -> Screen:
    screen = find_screen(as_json=as_json)
    if screen is None:
        raise NoTerminalError(
            Reason.MISUSE,
            "a question is approved as it was shown, and there is no terminal to show it in; nothing was approved",
            where=f"question {found.approval_id}",
            next_step=f"Look at it: remit approvals show {found.approval_id}; then, if it is as you want it:"
            f" remit approvals approve {found.approval_id} --digest {found.request_digest}",
        )
    return screen


def _require_confirmation(screen: Screen, found: Approval) -> None:
    if not ask(screen, kind_of(found).question):
        raise NoTerminalError(
            Reason.CANCELLED,
            "not approved, and not denied either: it waits",
            where=f"question {found.approval_id}",
            next_step=f"To say no for good: remit approvals deny {found.approval_id}",
        )
