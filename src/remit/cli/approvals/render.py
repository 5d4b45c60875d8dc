"""An approval request as text for a terminal: what exactly would be sent, who asks for it, and how to decide.

All of it is rendered from the request itself, and none from a description by an agent. It is untrusted text.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import click

from remit.approvals.errors import STATE_LABELS
from remit.cli.common.bidi import display_name
from remit.cli.common.suggest import LocationOptions, joined
from remit.contracts.browser.browser import Approval, HTTPPreview
from remit.contracts.calls.call import CallPreview

LABEL: Final = 10
MINUTE: Final = 60
HOUR: Final = 3_600
_HERE: Final = Path()


class ApprovalKind(NamedTuple):
    """The words for one kind of approval request."""

    label: str
    subject: str
    question: str
    if_approved: str
    if_denied: str


_MESSAGE: Final = ApprovalKind(
    "message to", "the WebSocket message", "Send this message?", "is sent, once", "is not sent; the WebSocket is closed"
)
_TYPING: Final = ApprovalKind(
    "typing at",
    "the typing",
    "Type the secret?",
    "continues: the secret is put into that field, which alone sends nothing",
    "is not done",
)
_CALL: Final = ApprovalKind(
    "call", "the call", "Make this call?", "is made, once, when its agent asks again", "is not made"
)


def kind_of(approval: Approval) -> ApprovalKind:
    """Return the kind. A request without a method is a WebSocket message, or the typing of a secret into a page."""
    if isinstance(approval.preview, CallPreview):
        return _CALL._replace(subject=f"the {display_name(approval.preview.headline)}")
    if approval.preview.method is not None:
        return ApprovalKind(approval.preview.method, "the request", "Send it?", "is sent, once", "is not sent")
    return _MESSAGE if approval.preview.url.startswith(("ws://", "wss://")) else _TYPING


def render_approval(approval: Approval, seconds_left: float, directory: Path = _HERE) -> str:
    return "\n".join(_lines(approval, seconds_left, directory))


def render_state(approval: Approval) -> str:
    """Return the decision, the approver and what followed, such as `approved by os:ada, then used`."""
    state_label = STATE_LABELS[approval.state]
    if not approval.decided_by:
        return state_label
    if approval.state in {"APPROVED", "DENIED"}:
        return f"{state_label} by {approval.decided_by}"
    return f"approved by {approval.decided_by}, then {state_label}"


def render_time_left(seconds: float) -> str:
    whole = int(seconds)
    if whole >= HOUR:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"
    return f"{whole // MINUTE} min {whole % MINUTE} s" if whole >= MINUTE else f"{whole} s"


def render_url(url: str) -> str:
    """Return the URL with an international host name in its ASCII form, because such names can look alike."""
    with contextlib.suppress(ValueError, UnicodeError):
        host = urlsplit(url).hostname or ""
        if not host.isascii():
            return display_name(url.replace(host, host.encode("idna").decode("ascii"), 1))
    return display_name(url)


def render_request(approval: Approval) -> str:
    """Return a short form, such as `POST https://shop.example/pay` or `call crm.set_discount`."""
    if isinstance(approval.preview, CallPreview):
        return approval.preview.headline
    return f"{kind_of(approval).label} {approval.preview.url}"


def _lines(approval: Approval, seconds_left: float, directory: Path) -> Iterator[str]:
    preview = approval.preview
    yield click.style(f"Approval request {approval.approval_id}", bold=True) + f", by {display_name(approval.agent_id)}"
    if isinstance(preview, CallPreview):
        yield from _call_lines(preview)
    else:
        yield from _request_lines(preview, kind_of(approval).label)
    if approval.screenshot:
        yield _render_labelled("picture", display_name(approval.screenshot))
    yield _render_labelled("action", display_name(approval.action_id))
    yield _render_labelled("token", display_name(approval.token_jti))
    yield _render_labelled("digest", approval.request_digest)
    if approval.state == "PENDING":
        yield _render_labelled("time", f"{render_time_left(seconds_left)} left, until {approval.expires[:19]}Z")
        for label, verb, more in (
            ("answer", "approve", ("--digest", approval.request_digest)),
            ("", "deny", ()),
        ):
            where = LocationOptions(directory).directory_arguments
            yield _render_labelled(label, joined(("remit", "approvals", verb, *where, approval.approval_id, *more)))
        return
    answered = f" (decided at {approval.decided_at[:19]}Z)" if approval.decided_at else ""
    yield _render_labelled("state", display_name(render_state(approval)) + answered)
    if approval.reason:
        yield _render_labelled("reason", display_name(approval.reason))


def _request_lines(preview: HTTPPreview, label: str) -> Iterator[str]:
    yield _render_labelled("request", f"{label} {render_url(preview.url)}")
    yield _render_labelled("effect", display_name(preview.estimated_effect))
    yield from _fields("body", preview.body.preview)
    yield from _fields("masked", preview.body.masked)
    yield from _fields("headers", preview.headers)


def _call_lines(preview: CallPreview) -> Iterator[str]:
    yield _render_labelled("request", preview.headline)
    yield _render_labelled("effect", display_name(preview.estimated_effect))
    yield from _fields("arguments", preview.arguments)
    yield _render_labelled("risk", preview.risk.lower())
    yield _render_labelled("undo", display_name(preview.way_back))


def _fields(label: str, fields: Mapping[str, str]) -> Iterator[str]:
    for name, value in fields.items():
        yield _render_labelled(label, f"{display_name(name)}: {display_name(value)}")
        label = ""


def _render_labelled(label: str, text: str) -> str:
    return f"  {label.ljust(LABEL)}{text}"
