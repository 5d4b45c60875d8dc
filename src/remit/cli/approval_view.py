"""One question to a person, for a terminal: what exactly would be sent, by whose wish, and how to answer.

Everything in it is somebody else's text, rendered from the request itself and from nothing that an agent says about it.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

import click

from remit.contracts.browser import Approval
from remit.printable import printable

LABEL: Final = 10
MINUTE: Final = 60


def render_approval(approval: Approval, seconds_left: float) -> str:
    return "\n".join(_lines(approval, seconds_left))


def render_left(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // MINUTE} min {whole % MINUTE} s" if whole >= MINUTE else f"{whole} s"


def render_url(url: str) -> str:
    """A host in another script as it is registered: two that look alike are not the same."""
    with contextlib.suppress(ValueError, UnicodeError):
        host = urlsplit(url).hostname or ""
        if not host.isascii():
            return printable(url.replace(host, host.encode("idna").decode("ascii"), 1))
    return printable(url)


def _lines(approval: Approval, seconds_left: float) -> Iterator[str]:
    preview = approval.preview
    yield click.style(f"Question {approval.approval_id}", bold=True) + f", asked by {printable(approval.agent_id)}"
    yield _labelled("request", f"{preview.method or 'none'} {render_url(preview.url)}")
    yield _labelled("effect", printable(preview.estimated_effect))
    yield from _fields("body", preview.body.preview)
    yield from _fields("masked", preview.body.masked)
    yield from _fields("headers", preview.headers)
    if approval.screenshot:
        yield _labelled("page", printable(approval.screenshot))
    yield _labelled("action", printable(approval.action_id))
    yield _labelled("token", printable(approval.token_jti))
    yield _labelled("digest", approval.request_digest)
    if approval.state == "PENDING":
        yield _labelled("time", f"{render_left(seconds_left)} left, until {approval.expires[:19]}Z")
        yield _labelled("answer", f"remit approvals approve {approval.approval_id}")
        yield _labelled("", f"remit approvals deny {approval.approval_id}")
        return
    decided = f" by {printable(approval.decided_by or '')} at {(approval.decided_at or '')[:19]}Z"
    yield _labelled("state", approval.state + (decided if approval.decided_by else ""))
    if approval.reason:
        yield _labelled("reason", printable(approval.reason))


def _fields(label: str, fields: Mapping[str, str]) -> Iterator[str]:
    for name, value in fields.items():
        yield _labelled(label, f"{printable(name)}: {printable(value)}")
        label = ""


def _labelled(label: str, text: str) -> str:
    return f"  {label.ljust(LABEL)}{text}"
