"""Approval of a browser request or a call, as it was shown here or as its digest names it."""

from remit.cli.approvals.render import kind_of, render_approval
from remit.cli.common.terminal import NoTerminalError, Screen, ask, find_screen
from remit.contracts.browser.browser import Approval
from remit.core.errors import Reason, RefusedError
from remit.identity.person import Person
from remit.workspace.workspace import Workspace


def approve_request(
    workspace: Workspace, approval_id: str, digest: str | None, who: Person, reason: str | None, *, as_json: bool
) -> Approval:
    """Approve a request. For one that is decided or expired already, the error says so without a question."""
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
            "the digest does not match the request; nothing was approved",
            where=f"--digest, request {found.approval_id}",
            next_step=f"Read the request, and give the digest that it shows: remit approvals show {found.approval_id}",
        )


def _require_screen(found: Approval, *, as_json: bool) -> Screen:
    screen = find_screen(as_json=as_json)
    if screen is None:
        raise NoTerminalError(
            Reason.APPROVAL_PENDING,
            "a request can only be approved as it was shown, and there is no terminal to show it; nothing was approved",
            where=f"request {found.approval_id}",
            next_step=f"Read it: remit approvals show {found.approval_id}; then, if you want it:"
            f" remit approvals approve {found.approval_id} --digest {found.request_digest}",
        )
    return screen


def _require_confirmation(screen: Screen, found: Approval) -> None:
    if not ask(screen, kind_of(found).question):
        raise NoTerminalError(
            Reason.CANCELLED,
            "not approved and not denied; the request is still pending",
            where=f"request {found.approval_id}",
            next_step=f"To deny it: remit approvals deny {found.approval_id}",
        )
